"""LoadShedder: drops what would have to wait too long, and as little as it can (LAS, thesis, chapter 8).

    state   on                         does                                                          next
    ──────  ─────────────────────────  ────────────────────────────────────────────────────────────  ─────
    nop     an arrival                 lets it through: nothing is known of costs                    nop
    any     `Learnt`                   takes the operator's matrices                                 send
    send    an arrival that passes     lets it through with a `Mark`: when it will be done           run
    run     an arrival that passes     lets it through, and adds its cost to the estimated backlog   run
    run     `ask_every` let through,   (as `send`, with the next that passes)                        run
            and no request is open
    send,   an arrival that does not   drops it                                                      same
    run     pass
    any     the `Reply` to the open    corrects the backlog by Δ, the waits by the measured ones     same
            request

An arrival passes when the constraint will still hold with its estimated wait: CHECK of Listing 8.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.decision_reports import ShedderReport
from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.shed_operator import decay_of
from catchment.balance.stored import Stored, read_costs, write_costs
from catchment.errors import DamagedBytesError, MergeError, ParameterError, TimeError
from catchment.kernel import shedding as places
from catchment.kernel.cost_matrices import price_batch
from catchment.kernel.shedding import hear_costs, offer_batch, settle
from catchment.sketch.checks import as_integers, check_choice, check_whole
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["ABSOLUTE", "AVERAGE", "CONSTRAINTS", "STATES", "Decision", "LoadShedder", "shed_rules"]

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

STATES = ("nop", "send", "run")
AVERAGE, ABSOLUTE = "average", "absolute"
CONSTRAINTS = (AVERAGE, ABSOLUTE)

_LONGEST = 2**50
_MEMORY_LIMIT = 2**40
_FURTHEST = 2**53  # a float64 holds no more microseconds one by one


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What became of a batch: which were let through, what wait was expected of each (NaN where nothing was known), and
    the mark that one of them must carry, by position, if any.
    """

    kept: Bools
    waits: F64
    marks: tuple[tuple[int, Mark], ...] = ()

    @property
    def dropped(self) -> int:
        return int(self.kept.size - np.count_nonzero(self.kept))


def shed_rules(
    target: int, *, constraint: str = AVERAGE, memory: int | None = None, margin: float = 1.0, ask_every: int = 8,
    accounts: bool = True,
) -> F64:  # fmt: skip
    """What a shedder is asked for, checked, in the form in which the kernels take it; see `LoadShedder`."""
    rules = np.zeros(places.RULES_SIZE)
    rules[places.TARGET] = check_whole("target", target, 0, _LONGEST)
    rules[places.AVERAGE] = check_choice("constraint", constraint, CONSTRAINTS) == AVERAGE
    rules[places.DECAY] = decay_of(None if memory is None else check_whole("memory", memory, 2, _MEMORY_LIMIT))
    if not (isinstance(margin, (int, float)) and 0.1 <= margin <= 10):
        raise ParameterError(f"margin={margin!r}", "give a factor from 0.1 to 10; 1 takes costs as they are estimated")
    rules[places.MARGIN] = margin
    rules[places.ASK_EVERY] = check_whole("ask_every", ask_every, 0, _MEMORY_LIMIT)
    rules[places.ACCOUNTS] = bool(accounts)
    return rules


class LoadShedder(Stored):
    """Stands in front of an operator with a queue, and keeps the time in that queue within a target.

    **Guarantee.** With costs that are exact and replies that have come, the estimated wait of each arrival is its wait,
    no constraint is ever violated, and nothing is dropped that the constraint would allow (thesis, Theorem 8.5). With
    estimated costs the estimate of the queue is off by the sum of the errors since the tuple of the last reply.

    **Where a simpler one wins.** Where all tuples cost the same, or the replies come at every few tuples, the mean cost
    serves as well as the matrices; where the decision may wait until a tuple is at the head of the queue, its wait is
    known and needs no estimate.

    Parameters
    ----------
    target
        The queueing time that is allowed, in microseconds.
    constraint
        "average": the mean of all waits, at every moment. "absolute": each wait.
    memory
        The average is over about so many of the last tuples, older ones fading. None: over all since the start, as in
        the thesis; a long calm then pays for a burst, and a burst is paid for by long dropping.
    margin
        Estimated costs are multiplied by this. The thesis has 1 + epsilon, which drops too much by that share of the
        load; with frequent replies it is not needed.
    ask_every
        Ask the operator how far off the estimate is when so many were let through since the last request and it was
        answered. 0: only when new matrices come, as in the thesis.
    accounts
        Take the measured waits from replies, and what waits at the operator from the first matrices.
    epsilon, delta, seed
        Of the matrices: the same as the operator's.

    Examples
    --------
    >>> from catchment.balance.cost_learner import CostLearner
    >>> from catchment.balance.shed_operator import ShedOperator
    >>> shedder, operator = LoadShedder(target=2000, constraint="absolute"), ShedOperator(CostLearner())
    >>> shedder.shed(["a"], at=[0]).kept.tolist(), shedder.state
    ([True], 'nop')
    >>> for news in operator.executed(["a"], costs=[1000], waits=[0], finished=[1000]):
    ...     shedder.hear(news)
    >>> decision = shedder.shed(["a"] * 5, at=[1000] * 5)
    >>> decision.kept.tolist(), decision.waits.tolist()
    ([True, True, True, False, False], [0.0, 1000.0, 2000.0, 3000.0, 3000.0])
    >>> decision.marks
    ((0, Mark(number=1, load=2000.0)),)

    References
    ----------
    N. Rivetti, Y. Busnel, L. Querzoni: Load-aware shedding in stream processing systems, DEBS 2016.
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, section 8.1.
    """

    family = 50

    def __init__(
        self,
        target: int,
        *,
        constraint: str = AVERAGE,
        memory: int | None = None,
        margin: float = 1.0,
        ask_every: int = 8,
        accounts: bool = True,
        epsilon: float = 0.05,
        delta: float = 0.1,
        seed: int = 0,
    ) -> None:
        self._rules = shed_rules(
            target, constraint=constraint, memory=memory, margin=margin, ask_every=ask_every, accounts=accounts
        )
        self._state = np.zeros(places.STATE_SIZE)
        self._state[places.FADE] = 1.0
        self._newest = -_FURTHEST
        self._take(ValueEstimator(epsilon, delta, seed=seed))

    @classmethod
    def thesis(cls, target: int, *, epsilon: float = 0.05, delta: float = 0.1, seed: int = 0) -> LoadShedder:
        """As in Listing 8.5: costs times 1 + epsilon, a request only with new matrices, waits never corrected.

        The operator's learner is then `CostLearner(first=0)`.
        """
        return cls(
            target, margin=1 + epsilon, ask_every=0, accounts=False, epsilon=epsilon, delta=delta, seed=seed
        )  # fmt: skip

    def _take(self, costs: ValueEstimator) -> None:
        self._costs = costs
        total = costs._counts._total
        self._mean = costs._mass / total if total else 0.0

    # -- what it knows ----------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return STATES[int(self._state[places.MODE])]

    @property
    def target(self) -> int:
        return int(self._rules[places.TARGET])

    @property
    def admitted(self) -> int:
        """How many were let through."""
        return int(self._state[places.ADMITTED])

    @property
    def dropped(self) -> int:
        return int(self._state[places.DROPPED])

    @property
    def busy_until(self) -> float:
        """When the operator will have done all that was let through, as far as is known."""
        return float(self._state[places.BUSY])

    @property
    def average(self) -> float:
        """The average wait of what was let through, as far as is known."""
        served = float(self._state[places.SERVED])
        return float(self._state[places.WAITED]) / served if served else 0.0

    @property
    def costs(self) -> ValueEstimator:
        """The matrices that it goes by; a copy."""
        return self._costs.copy()

    def price(self, keys: Any) -> F64:
        """The cost that it expects of each key: the mean of all for one that was never seen."""
        hashes, _ = hash_keys(keys)
        out = np.empty(hashes.size)
        costs = self._costs
        price_batch(costs._counts._cells, costs._sums, costs._counts._rows, hashes, self._mean, out)
        return out

    # -- what happens to it -----------------------------------------------------------------------------------

    def shed(self, keys: Any, at: Any) -> Decision:
        """Arrivals in order of time; which are let through. Times are microseconds, and never go back."""
        hashes, _ = hash_keys(keys)
        times = as_integers("at", at, hashes.size)
        if times.size and (bool(np.any(np.diff(times) < 0)) or times[0] < self._newest or times[-1] > _FURTHEST):
            raise TimeError(
                f"arrivals from {times[0]} to {times[-1]} after {self._newest}",
                "give microseconds up to 2^53, in order of time",
            )
        kept, waits = np.empty(hashes.size, dtype=np.bool_), np.empty(hashes.size)
        costs = self._costs
        carrier = offer_batch(
            self._state, self._rules, costs._counts._cells, costs._sums, costs._counts._rows, self._mean, hashes, times,
            kept, waits,
        )  # fmt: skip
        self._newest = int(times[-1]) if times.size else self._newest
        number, until = int(self._state[places.NUMBER]), float(self._state[places.ANCHOR])
        return Decision(kept, waits, ((int(carrier), Mark(number, until)),) if carrier >= 0 else ())

    def queued(self, keys: Any, arrived: Any, *, free: int, share: float = 1.0) -> Decision:
        """A micro-batch: what has come already and waits, in this order, for an operator that will be free at `free`.

        Nothing that was let through before is left then, so that `free` is all that there is to know of the backlog: no
        request is needed. `share` multiplies costs: with four servers that take turns, a quarter.
        """
        hashes, _ = hash_keys(keys)
        times = as_integers("arrived", arrived, hashes.size)
        if times.size and (int(times.max()) > free or free > _FURTHEST):
            raise TimeError(f"arrivals up to {times.max()} of a batch that starts at {free}", "give microseconds")
        rules = self._rules.copy()
        rules[places.MARGIN] *= share
        rules[places.ASK_EVERY] = 0
        self._state[places.BUSY] = free
        kept, waits = np.empty(hashes.size, dtype=np.bool_), np.empty(hashes.size)
        costs = self._costs
        offer_batch(
            self._state, rules, costs._counts._cells, costs._sums, costs._counts._rows, self._mean, hashes, times, kept,
            waits,
        )  # fmt: skip
        self._state[places.OPEN] = 0.0
        return Decision(kept, waits)

    def assume(self, cost: int) -> None:
        """Before anything is learnt: take each tuple to cost so much."""
        if self.state == STATES[0]:
            self._mean = float(check_whole("cost", cost, 0, _LONGEST))
            self._state[places.MODE] = places.RUN

    def ask_for(self, other: LoadShedder) -> None:
        """From now on what the other is asked for: its target, its constraint; what was learnt stays."""
        self._rules = other._rules.copy()
        if other._costs.parameters != self._costs.parameters:
            self._take(other.costs)

    def measured(self, waited: float, served: float) -> None:
        """The waits of all that was let through, when all of it is executed: what the estimates are replaced by."""
        self._state[places.WAITED], self._state[places.SERVED] = waited, served

    def hear(self, news: Learnt | Reply) -> None:
        """What the operator tells. The reply to an older request is no news, nor is one that was heard before."""
        if isinstance(news, Reply):
            if self._state[places.OPEN] and news.number == self._state[places.NUMBER]:
                settle(self._state, self._rules, news.delta, news.waited, news.served)
            return
        if news.costs.parameters != self._costs.parameters:
            raise MergeError(f"matrices of {news.costs!r}", f"build the operator's learner as {self._costs!r}")
        self._take(news.costs)
        hear_costs(
            self._state, self._rules, news.finished, news.executed, self._mean, news.waited, news.served
        )  # fmt: skip

    def report(self) -> ShedderReport:
        """What was learnt and done."""
        return ShedderReport(self.state, self.target, self.admitted, self.dropped, self.average, self._mean)

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """All that it knows, for a checkpoint."""
        writer = Writer()
        writer.raw(np.ascontiguousarray(self._rules, dtype="<f8"))
        writer.raw(np.ascontiguousarray(self._state, dtype="<f8"))
        writer.numbers("qd", self._newest, self._mean)
        write_costs(writer, self._costs)
        return self._seal(b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> LoadShedder:
        """The shedder that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        parameters.finish()
        rules = np.frombuffer(payload.raw(8 * places.RULES_SIZE), dtype="<f8").astype(np.float64)
        state = np.frombuffer(payload.raw(8 * places.STATE_SIZE), dtype="<f8").astype(np.float64)
        newest, mean = payload.numbers("qd")
        costs = read_costs(payload)
        payload.finish()
        _check_rules(rules)
        _check_state(state)
        if abs(newest) > _FURTHEST or not 0 <= mean <= _LONGEST:
            raise DamagedBytesError(f"the newest arrival is at {newest}, the mean cost {mean}")
        shedder = cls(0)
        shedder._rules, shedder._state, shedder._newest = rules, state, newest
        shedder._take(costs)
        if not costs._counts._total:
            shedder._mean = mean  # as it was assumed
        elif mean != shedder._mean:
            raise DamagedBytesError(f"a mean cost of {mean} where costs have {shedder._mean}")
        return shedder


def _check_rules(rules: F64) -> None:
    limits = {
        places.TARGET: (0, _LONGEST), places.AVERAGE: (0, 1), places.DECAY: (0.5, 1), places.MARGIN: (0.1, 10),
        places.ASK_EVERY: (0, _MEMORY_LIMIT), places.ACCOUNTS: (0, 1),
    }  # fmt: skip
    for place, (low, high) in limits.items():
        if not low <= rules[place] <= high:
            raise DamagedBytesError(f"rule {place} is {rules[place]}")


def _check_state(state: F64) -> None:
    never_negative = [places.WAITED, places.SERVED, places.ADMITTED, places.DROPPED, places.UNASKED, places.NUMBER]
    if bool(np.any(np.isnan(state))) or bool(np.any(state == math.inf)) or bool(np.any(state[never_negative] < 0)):
        raise DamagedBytesError(f"a state of {state.tolist()}")
    if state[places.MODE] not in (0, 1, 2) or not {state[places.OPEN], state[places.SETTLED]} <= {0.0, 1.0}:
        raise DamagedBytesError(f"a shedder in state {state[places.MODE]}")
