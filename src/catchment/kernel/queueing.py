"""An operator of several instances on a virtual clock: queues, first come first served, and who is sent where.

A tuple's end is known when it is assigned, max(arrival, when the instance is free) + cost, so a run is one loop over
the arrivals: what has ended by then is taken in first, in the order of time, and nobody waits for a clock.

`operate_online` holds the state machines of `balance.scheduler` once more, of all instances and the scheduler in one
loop. Tests hold it to the classes, tuple by tuple.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.cost_matrices import change_of_means, cost_in, mean_cost, note_means
from catchment.kernel.scheduling import least_loaded

__all__ = ["FIRST_RUN", "LEARNT", "LOGGED", "REPLIED", "operate_assigned", "operate_knowing", "operate_online"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

LEARNT, REPLIED, FIRST_RUN, LOGGED = 0, 1, 2, 3
"""Places in `counters`: matrices received, replies received, the tuple at which RUN came first, lines in `log`."""

_ROUND_ROBIN, _SEND_ALL, _WAIT_ALL, _RUN = 0, 1, 2, 3


@kernel
def _cost_on(cost: np.int64, factor: float) -> np.int64:
    return np.int64(np.rint(cost * factor))


@kernel
def operate_assigned(arrivals: I64, costs: I64, phases: I64, factors: F64, chosen: I32, ends: I64) -> None:
    """When each tuple ends, sent where `chosen` says."""
    free = np.zeros(factors.shape[1], dtype=np.int64)
    for i in range(arrivals.size):
        place = chosen[i]
        free[place] = max(free[place], arrivals[i]) + _cost_on(costs[i], factors[phases[i], place])
        ends[i] = free[place]


@kernel
def operate_knowing(arrivals: I64, costs: I64, phases: I64, factors: F64, timed: bool, chosen: I32, ends: I64) -> None:
    """Greedy scheduling by the true cost of each tuple on each instance."""
    instances = factors.shape[1]
    loads = np.zeros(instances, dtype=np.float64)
    free = np.zeros(instances, dtype=np.int64)
    turn = 0
    for i in range(arrivals.size):
        now = float(arrivals[i]) if timed else -np.inf
        place = least_loaded(loads, now, turn)
        cost = _cost_on(costs[i], factors[phases[i], place])
        loads[place] = max(loads[place], now) + cost
        free[place] = max(free[place], arrivals[i]) + cost
        chosen[i] = place
        ends[i] = free[place]
        turn = place + 1 if place + 1 < instances else 0


@kernel
def _next_to_end(heads: I64, ends: I64) -> int:
    """The instance whose oldest tuple ends first, the lowest of several; -1 where all queues are empty."""
    best = -1
    for place in range(heads.size):
        if heads[place] >= 0 and (best < 0 or ends[heads[place]] < ends[heads[best]]):
            best = place
    return best


@kernel
def operate_online(
    arrivals: I64,
    keys: I64,
    costs: I64,
    phases: I64,
    factors: F64,
    cells: I32,
    width: int,
    window: int,
    tolerance: float,
    span: int,
    patience: int,
    weighted: bool,
    timed: bool,
    resync: int,
    latency: int,
    chosen: I32,
    ends: I64,
    counters: I64,
    log: I64,
) -> None:
    """OSG. `span` is 0 for jumping windows; `latency` is how long a message takes to the scheduler.

    `log` takes a line (tuple, instance) for each pair of matrices received, as long as there is room; instance -1 is
    the scheduler getting into RUN.
    """
    instances = factors.shape[1]
    size = cells.shape[0] * width
    # The instances.
    counts = np.zeros((instances, size), dtype=np.int64)
    sums = np.zeros((instances, size), dtype=np.int64)
    pane_counts = np.zeros((instances, span, size), dtype=np.int64)
    pane_sums = np.zeros((instances, span, size), dtype=np.int64)
    pane = np.zeros(instances, dtype=np.int64)
    snapshot = np.zeros((instances, size), dtype=np.float64)
    stabilizing = np.zeros(instances, dtype=np.bool_)
    filled = np.zeros(instances, dtype=np.int64)
    waited = np.zeros(instances, dtype=np.int64)
    work = np.zeros(instances, dtype=np.int64)
    free = np.zeros(instances, dtype=np.int64)
    # Their queues.
    heads = np.full(instances, -1, dtype=np.int64)
    tails = np.full(instances, -1, dtype=np.int64)
    behind = np.full(arrivals.size, -1, dtype=np.int64)
    marked_in = np.zeros(arrivals.size, dtype=np.int64)
    # The scheduler.
    known_counts = np.zeros((instances, size), dtype=np.int64)
    known_sums = np.zeros((instances, size), dtype=np.int64)
    means = np.zeros(instances, dtype=np.float64)
    known = np.zeros(instances, dtype=np.bool_)
    loads = np.zeros(instances, dtype=np.float64)
    marks = np.zeros(instances, dtype=np.float64)
    deltas = np.zeros(instances, dtype=np.float64)
    replied = np.zeros(instances, dtype=np.bool_)
    state, epoch, sent, turn, since = _ROUND_ROBIN, 0, 0, 0, 0
    counters[FIRST_RUN] = -1

    for i in range(arrivals.size):
        while True:
            place = _next_to_end(heads, ends)
            if place < 0 or ends[heads[place]] + latency > arrivals[i]:
                break
            done = heads[place]
            heads[place] = behind[done]
            key = keys[done]
            cost = _cost_on(costs[done], factors[phases[done], place])
            work[place] += cost
            for row in range(cells.shape[0]):
                at = cells[row, key]
                counts[place, at] += 1
                sums[place, at] += cost
                if span > 0:
                    pane_counts[place, pane[place], at] += 1
                    pane_sums[place, pane[place], at] += cost
            filled[place] += 1

            if marked_in[done] > 0 and marked_in[done] == epoch and not replied[place]:
                counters[REPLIED] += 1
                reached = float(ends[done] + latency) if timed else float(work[place])
                deltas[place] = reached - marks[place]
                replied[place] = True
                if state == _WAIT_ALL and replied.all():
                    loads += deltas
                    state, since = _RUN, 0
                    if counters[FIRST_RUN] < 0:
                        counters[FIRST_RUN] = i
                    if counters[LOGGED] < log.shape[0]:
                        log[counters[LOGGED], 0] = i
                        log[counters[LOGGED], 1] = -1
                        counters[LOGGED] += 1

            if filled[place] == window:
                filled[place] = 0
                waited[place] += 1
                change = change_of_means(counts[place], sums[place], snapshot[place], weighted)
                note_means(counts[place], sums[place], snapshot[place], -1.0)
                send = stabilizing[place] and (change <= tolerance or 0 < patience <= waited[place])
                if send:
                    waited[place] = 0
                    known_counts[place] = counts[place]
                    known_sums[place] = sums[place]
                    means[place] = mean_cost(counts[place], sums[place], width)
                    known[place] = True
                    counters[LEARNT] += 1
                    if counters[LOGGED] < log.shape[0]:
                        log[counters[LOGGED], 0] = i
                        log[counters[LOGGED], 1] = place
                        counters[LOGGED] += 1
                    if state != _ROUND_ROBIN or known.all():
                        state, sent = _SEND_ALL, 0
                        epoch += 1
                        replied[:] = False
                if span > 0:
                    stabilizing[place] = True
                    pane[place] = (pane[place] + 1) % span
                    counts[place] -= pane_counts[place, pane[place]]
                    sums[place] -= pane_sums[place, pane[place]]
                    pane_counts[place, pane[place]] = 0
                    pane_sums[place, pane[place]] = 0
                else:
                    stabilizing[place] = not send
                    if send:
                        counts[place] = 0
                        sums[place] = 0

        if state == _RUN:
            if resync > 0 and since >= resync:
                state, sent = _SEND_ALL, 0
                epoch += 1
                replied[:] = False
            since += 1
        now = float(arrivals[i]) if timed else -np.inf
        if state == _ROUND_ROBIN:
            place = turn
        else:
            place = turn if state == _SEND_ALL else least_loaded(loads, now, turn)
            estimate = cost_in(known_counts[place], known_sums[place], cells, keys[i], means[place])
            loads[place] = max(loads[place], now) + estimate
        if state == _SEND_ALL:
            marks[place] = loads[place]
            marked_in[i] = epoch
            sent += 1
            if sent == instances:
                state = _WAIT_ALL
        turn = place + 1 if place + 1 < instances else 0

        free[place] = max(free[place], arrivals[i]) + _cost_on(costs[i], factors[phases[i], place])
        ends[i] = free[place]
        chosen[i] = place
        if heads[place] < 0:
            heads[place] = i
        else:
            behind[tails[place]] = i
        tails[place] = i
