"""Load shedding, one arrival at a time: what is kept, and what the shedder believes about the operator's queue.

`state` is the shedder's, `rules` are what it was asked for, both flat arrays of float64 with the places named below.
Times are microseconds on one clock; a float64 holds them exactly until the year 2255. `simulate_shedding` is a whole
world: an operator with a queue, its learner, and a shedder in front of it, on a virtual clock.

**The estimated backlog.** `BUSY` is when the operator will have done all that was let through (Ŵ of the thesis, as a
moment instead of a duration). An arrival at `now` with cost w makes it max(BUSY, now) + w: never in the past, so the
backlog is never negative. All later values depend on an earlier one x by max(x + SINCE, FRESH), where SINCE is the
work let through since and FRESH is when that would be done if the operator had been idle: both by induction over
arrivals. So when the operator says that x was off by Δ, the present value is max(x + Δ + SINCE, FRESH): what a shedder
that had known x would believe now, exactly, also if there was an idle time in between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.cost_learning import LEARNER_SIZE, NEXT_EARLY, NOTHING, STABLE, learn_one
from catchment.kernel.cost_matrices import cost_of, mean_cost
from catchment.kernel.hashing import mixed

__all__ = [
    "ACCOUNTS",
    "ADMITTED",
    "ANCHOR",
    "ASK_EVERY",
    "AVERAGE",
    "BUSY",
    "DECAY",
    "DROPPED",
    "EVERYTHING",
    "FADE",
    "FRESH",
    "FULL_KNOWLEDGE",
    "LEARNT",
    "MARGIN",
    "MODE",
    "NOP",
    "NUMBER",
    "OPEN",
    "RANDOM",
    "RULES_SIZE",
    "RUN",
    "SEND",
    "SERVED",
    "SERVED_THEN",
    "SETTLED",
    "SINCE",
    "STATE_SIZE",
    "STRAW_MAN",
    "TARGET",
    "UNASKED",
    "WAITED",
    "WAITED_THEN",
    "deal",
    "fade_sums",
    "hear_costs",
    "offer",
    "offer_batch",
    "settle",
    "simulate_shedding",
]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

BUSY, WAITED, SERVED, ANCHOR, SINCE, FRESH, WAITED_THEN, SERVED_THEN, FADE = range(9)
ADMITTED, DROPPED, UNASKED, MODE, OPEN, NUMBER, SETTLED = range(9, 16)
STATE_SIZE = 16
"""`WAITED` and `SERVED` are the queueing times of what was let through and their number, faded where the average is of
the recent past. `…_THEN` are they at the last request, and `FADE` is what fading has left of that since. `OPEN` says
that a request waits for its reply, `NUMBER` which one it is, `SETTLED` that there was ever a reply."""

TARGET, AVERAGE, DECAY, MARGIN, ASK_EVERY, ACCOUNTS = range(6)
RULES_SIZE = 6

NOP, SEND, RUN = 0.0, 1.0, 2.0

EVERYTHING, RANDOM, STRAW_MAN, LEARNT, FULL_KNOWLEDGE = range(5)
"""What a simulated shedder goes by."""

_EAGERNESS = 4.0
_S11 = np.uint64(11)
_UNIT = 2.0**-53


@kernel
def _passes(state: F64, rules: F64, wait: float) -> bool:
    """CHECK of Listing 8.5, and what it leaves open: what to do when the average is over the target already.

    There the listing drops everything, and since what is dropped does not wait, the average stays where it is for ever.
    A wait below the target brings it down: the further it is over, the shorter the waits that pass; one of 0 always.
    """
    target = rules[TARGET]
    if rules[AVERAGE] == 0.0:
        return wait <= target
    over = state[WAITED] - target * state[SERVED]
    if over > 0.0:
        return wait <= max(target - _EAGERNESS * over / state[SERVED], 0.0)
    return state[WAITED] * rules[DECAY] + wait <= target * (state[SERVED] * rules[DECAY] + 1.0)


@kernel
def offer(state: F64, rules: F64, now: float, cost: float) -> int:
    """One arrival: 0 it is dropped, 1 it is let through, 2 it is let through and carries a request."""
    if state[MODE] == NOP:
        state[ADMITTED] += 1.0
        return 1
    wait = max(state[BUSY] - now, 0.0)
    if not _passes(state, rules, wait):
        state[DROPPED] += 1.0
        return 0
    work = cost * rules[MARGIN]
    state[BUSY] = max(state[BUSY], now) + work
    state[WAITED] = state[WAITED] * rules[DECAY] + wait
    state[SERVED] = state[SERVED] * rules[DECAY] + 1.0
    state[ADMITTED] += 1.0
    state[UNASKED] += 1.0
    if state[OPEN] == 1.0:
        state[SINCE] += work
        state[FRESH] = max(state[FRESH], now) + work
        state[FADE] *= rules[DECAY]
    elif rules[ASK_EVERY] > 0.0 and state[UNASKED] >= rules[ASK_EVERY]:
        state[MODE] = SEND
    if state[MODE] == SEND:
        state[MODE] = RUN
        state[OPEN] = 1.0
        state[NUMBER] += 1.0
        state[UNASKED] = 0.0
        state[ANCHOR] = state[BUSY]
        state[SINCE] = 0.0
        state[FRESH] = -np.inf
        state[WAITED_THEN] = state[WAITED]
        state[SERVED_THEN] = state[SERVED]
        state[FADE] = 1.0
        return 2
    return 1


@kernel
def settle(state: F64, rules: F64, delta: float, waited: float, served: float) -> None:
    """The reply to the open request: how far off BUSY was then, and what really was waited by how many."""
    state[BUSY] = max(state[ANCHOR] + delta + state[SINCE], state[FRESH])
    if rules[ACCOUNTS] == 1.0:
        state[WAITED] = max(state[WAITED] + state[FADE] * (waited - state[WAITED_THEN]), 0.0)
        state[SERVED] = max(state[SERVED] + state[FADE] * (served - state[SERVED_THEN]), 0.0)
    state[OPEN] = 0.0
    state[SETTLED] = 1.0


@kernel
def hear_costs(
    state: F64, rules: F64, finished: float, executed: float, mean: float, waited: float, served: float
) -> None:
    """New matrices have come, together with how far the operator was; the next to be let through asks.

    Before the first reply nothing else is known of what waits there: so many more let through than executed, each of
    the mean cost.
    """
    if state[SETTLED] == 0.0 and rules[ACCOUNTS] == 1.0:
        state[BUSY] = finished + max(state[ADMITTED] - executed, 0.0) * mean
        state[WAITED] = waited
        state[SERVED] = served
    state[MODE] = SEND
    state[OPEN] = 0.0


@kernel
def offer_batch(
    state: F64, rules: F64, counts: I64, sums: I64, rows: U64, mean: float, hashes: U64, arrivals: I64,
    kept: NDArray[np.bool_], waits: F64,
) -> int:  # fmt: skip
    """Arrivals in order; which are let through, how long each would wait; the one that carries a request, or -1."""
    carrier = -1
    for i in range(hashes.size):
        now = float(arrivals[i])
        waits[i] = max(state[BUSY] - now, 0.0) if state[MODE] != NOP else np.nan
        answer = offer(state, rules, now, cost_of(counts, sums, rows, hashes[i], mean))
        kept[i] = answer > 0
        if answer == 2:
            carrier = i
    return carrier


@kernel
def deal(costs: F64, kept: NDArray[np.bool_], lanes: int, out: NDArray[np.int32]) -> None:
    """Each kept tuple to the lane that has the least to do so far, in order; -1 for the others."""
    loads = np.zeros(lanes)
    for i in range(costs.size):
        out[i] = -1
        if kept[i]:
            lane = 0
            for other in range(1, lanes):
                if loads[other] < loads[lane]:
                    lane = other
            loads[lane] += costs[i]
            out[i] = lane


@kernel
def fade_sums(sums: F64, waits: F64, decay: float, stop: int, start: int) -> None:
    """Waits of executed tuples, and their number, into the operator's two faded sums."""
    for i in range(start, stop):
        sums[0] = sums[0] * decay + waits[i]
        sums[1] = sums[1] * decay + 1.0


@kernel
def simulate_shedding(
    policy: int, hashes: U64, costs: I64, arrivals: I64, rows: U64, width: int, rules: F64, window: int,
    tolerance: float, first: int, latency: float, guess: float, odds: float, seed: np.uint64, waits: F64, told: I64,
) -> None:  # fmt: skip
    """One operator behind one shedder, over one stream; `waits` gets each tuple's queueing time, -1 if it was dropped.

    The operator takes tuples in order, one at a time. Whatever it tells arrives `latency` after the tuple that made
    it; of equal times the telling comes first. `guess` is the straw man's cost of every tuple, `odds` the share that
    random shedding drops. `told` gets how many matrices were told and how many requests answered.
    """
    size = hashes.size
    depth = rows.shape[0]
    state = np.zeros(STATE_SIZE)
    state[FADE] = 1.0
    learner = np.zeros(LEARNER_SIZE, dtype=np.int64)
    learner[NEXT_EARLY] = first
    counts = np.zeros((depth, width), dtype=np.int64)
    sums = np.zeros((depth, width), dtype=np.int64)
    snapshot = np.zeros((depth, width))
    known_counts = np.zeros((depth, width), dtype=np.int64)
    known_sums = np.zeros((depth, width), dtype=np.int64)
    mean = guess
    if policy in (STRAW_MAN, FULL_KNOWLEDGE):
        state[MODE] = RUN
    queue = np.empty(size, dtype=np.int64)
    finish = np.empty(size)
    asked = np.zeros(size, dtype=np.int64)
    promised = np.zeros(size)
    served_sums = np.zeros(2)
    heard = 0
    tail = 0
    free = 0.0
    told[0] = 0
    told[1] = 0
    for i in range(size):
        now = float(arrivals[i])
        while policy == LEARNT and heard < tail and finish[heard] + latency <= now:
            j = queue[heard]
            fade_sums(served_sums, waits, rules[DECAY], j + 1, j)
            if asked[heard] > 0 and asked[heard] == np.int64(state[NUMBER]) and state[OPEN] == 1.0:
                settle(state, rules, finish[heard] - promised[heard], served_sums[0], served_sums[1])
                told[1] += 1
            news = learn_one(learner, snapshot, counts, sums, rows, hashes[j], costs[j], window, tolerance)
            heard += 1
            if news != NOTHING:
                known_counts[:] = counts
                known_sums[:] = sums
                mean = mean_cost(counts.reshape(-1), sums.reshape(-1), width)
                hear_costs(state, rules, finish[heard - 1], float(heard), mean, served_sums[0], served_sums[1])
                told[0] += 1
            if news == STABLE:
                counts[:] = 0
                sums[:] = 0
        answer = 1
        if policy == RANDOM:
            answer = 0 if np.float64(mixed(np.uint64(i), seed) >> _S11) * _UNIT < odds else 1
        elif policy == STRAW_MAN:
            answer = offer(state, rules, now, guess)
        elif policy == LEARNT:
            answer = offer(state, rules, now, cost_of(known_counts, known_sums, rows, hashes[i], mean))
        elif policy == FULL_KNOWLEDGE:
            answer = offer(state, rules, now, float(costs[i]))
        if answer == 0:
            waits[i] = -1.0
            continue
        start = max(free, now)
        waits[i] = start - now
        free = start + float(costs[i])
        queue[tail] = i
        finish[tail] = free
        if answer == 2:
            asked[tail] = np.int64(state[NUMBER])
            promised[tail] = state[BUSY]
        tail += 1
