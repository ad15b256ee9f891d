"""The side of OSG that decides: which instance executes a tuple (thesis, Listing 7.18 and Figure 7.19).

    state         event                                  next         what is done
    ROUND ROBIN   a tuple                                the same     instances in turn
    ROUND ROBIN   matrices, some instance still unknown  the same     keep them                                      (A)
    ROUND ROBIN   matrices, all instances known          SEND ALL     a new epoch                                    (B)
    SEND ALL      a tuple, not yet k marks               the same     to the instance whose turn it is, with a mark
    SEND ALL      a tuple, the k-th mark                 WAIT ALL     to the instance whose turn it is, with a mark  (C)
    SEND ALL      a reply of this epoch                  the same     keep its delta
    WAIT ALL      a reply of this epoch, not the last    the same     keep its delta                                 (D)
    WAIT ALL      the last reply of this epoch           RUN          add each delta to its load                     (E)
    WAIT ALL, RUN a tuple                                the same     to the least loaded instance, whose load rises
    not ROUND R.  matrices                               SEND ALL     replace them, a new epoch                      (F)
    RUN           a tuple, after `resync` others         SEND ALL     a new epoch, in which it gets the first mark   (G)
    any           matrices not newer than those known    the same     nothing
    any           a reply of another epoch               the same     nothing

A mark or reply that is lost leaves the scheduler in WAIT ALL, which schedules as RUN does, until matrices come again.
The thesis collects replies in WAIT ALL alone, though an instance with an empty queue answers before the k-th mark is
out, and has no (G): `resync` 0. (G) does not happen in WAIT ALL: with queues longer than `resync` no epoch would end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.decision_reports import ScheduleReport
from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.scheduler.settings import SchedulerSettings
from catchment.balance.stored import Stored, read_floats
from catchment.errors import DamagedBytesError, InputError, MergeError, ParameterError, TimeError
from catchment.kernel.scheduling import schedule_tuples
from catchment.sketch.checks import check_whole
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["Assignment", "Scheduler"]

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = "ROUND ROBIN", "SEND ALL", "WAIT ALL", "RUN"
_STATES = (ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN)
_HEAD = "IBQIII"

I32 = NDArray[np.int32]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The instance of each tuple, and the marks that some must carry, by position."""

    instances: I32
    marks: tuple[tuple[int, Mark], ...] = ()


class Scheduler(Stored):
    """Sends each tuple to the instance that is least loaded, as far as the instances' sketches tell.

    **Guarantee.** With exact costs and the measure "work" the makespan is at most 2 - 1/k of the best possible (Theorem
    7.7, Graham's bound); with estimates it is that of the estimated costs. No tuple waits for a message, and none is
    sent twice or nowhere, whatever becomes of messages.

    **What it costs.** O(k + log 1/delta) a tuple, some tens of nanoseconds; k pairs of matrices.

    **Where a simpler one wins.** Where all tuples cost about the same, or where k is large and queues are short,
    round-robin is as good. Where costs differ from tuple to tuple of one key, nothing is learnt from keys.

    Parameters
    ----------
    instances
        How many there are, k.
    settings
        The same as the instances'.

    Examples
    --------
    >>> settings = SchedulerSettings(window=2, measure="work")
    >>> scheduler = Scheduler(2, settings)
    >>> scheduler.assign(["slow", "fast", "slow", "fast"]).instances.tolist()
    [0, 1, 0, 1]
    >>> from catchment.balance.scheduler import OperatorInstance
    >>> for number in range(2):
    ...     for message in OperatorInstance(number, settings).executed(["slow", "fast"] * 2, [900, 10] * 2):
    ...         scheduler.hear(message)
    >>> scheduler.state
    'SEND ALL'
    >>> assignment = scheduler.assign(["slow", "fast", "fast", "fast", "slow"])
    >>> assignment.instances.tolist(), [mark.load for _, mark in assignment.marks]
    ([0, 1, 1, 1, 1], [900.0, 10.0])
    >>> [position for position, _ in assignment.marks]
    [0, 1]

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, section 7.2.
    R. L. Graham: Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969.
    """

    family = 45

    def __init__(self, instances: int, settings: SchedulerSettings | None = None) -> None:
        self.instances = check_whole("instances", instances, 1, 2**16)
        self.settings = settings or SchedulerSettings()
        size = self.settings.depth * self.settings.width
        if instances * size > 1 << 26:
            raise ParameterError(f"{instances} instances of {size} cells", "give fewer, or a larger epsilon or delta")
        self.state = ROUND_ROBIN
        self.epoch = 0
        self.loads: F64 = np.zeros(instances)
        self._turn = 0
        self._to_mark = 0
        self._since = 0
        self._costs: list[ValueEstimator | None] = [None] * instances
        self._newest = [(-1, 0)] * instances
        # Filled when all instances are known, so that bytes which know none take no memory.
        self._counts = self._sums = np.zeros((0, size), dtype=np.int64)
        self._means: F64 = np.zeros(instances)
        self._marks: F64 = np.zeros(instances)
        self._deltas: F64 = np.zeros(instances)
        self._replied = np.zeros(instances, dtype=np.bool_)

    def assign(self, keys: Any, at: Any = None) -> Assignment:
        """Decide about tuples that were submitted in this order; `at` is the moment of each, or one for all.

        `at` is for the measure "backlog", in the unit of the costs, and must never go back.
        """
        hashes, _ = hash_keys(keys)
        moments = self._moments(at, hashes.size)
        chosen = np.empty(hashes.size, dtype=np.int32)
        if self.state == ROUND_ROBIN:
            chosen[:] = (self._turn + np.arange(hashes.size)) % self.instances
            self._turn = (self._turn + hashes.size) % self.instances
            return Assignment(chosen)
        cells = self.settings.cells(hashes)
        marks: list[tuple[int, Mark]] = []
        start = 0
        while start < hashes.size:
            stop = self._run_until(start, hashes.size)
            marked = range(min(self._to_mark, stop - start))
            self._turn = schedule_tuples(
                cells[:, start:stop], moments[start:stop], self._counts, self._sums, self._means, self.loads,
                self._turn, self._to_mark, chosen[start:stop], self._marks,
            )  # fmt: skip
            marks += ((start + i, Mark(self.epoch, float(self._marks[chosen[start + i]]))) for i in marked)
            self._to_mark -= len(marked)
            if self.state == SEND_ALL and self._to_mark == 0:
                self.state = WAIT_ALL
            start = stop
        return Assignment(chosen, tuple(marks))

    def _run_until(self, start: int, stop: int) -> int:
        """How far the tuples from `start` on can be scheduled in one go; a new epoch begins here if it is due."""
        if self.state != RUN or not self.settings.resync:
            return stop
        if self._since >= self.settings.resync:
            self._new_epoch()
            return stop
        stop = min(stop, start + self.settings.resync - self._since)
        self._since += stop - start
        return stop

    def _new_epoch(self) -> None:
        self.state = SEND_ALL
        self.epoch += 1
        self._to_mark = self.instances
        self._replied[:] = False

    def _moments(self, at: Any, count: int) -> F64:
        if self.settings.measure == "work":
            return np.full(count, -np.inf)
        if at is None:
            raise TimeError("no moments", 'give at=, the moment of each tuple, or use measure="work"')
        moments = np.asarray(at, dtype=np.float64)
        if moments.shape not in ((), (count,)) or not np.isfinite(moments).all():
            raise TimeError(
                f"moments of shape {moments.shape} for {count} tuples, or not finite",
                "give the moment of each tuple, or one for all, in the unit of the costs",
            )
        return np.full(count, moments)

    def hear(self, message: Learnt | Reply, at: float | None = None) -> None:
        """Take in what an instance sent; `at` is when it came, for the measure "backlog"."""
        if not 0 <= message.instance < self.instances:
            raise InputError(f"instance {message.instance}", f"there are {self.instances}, from 0")
        if isinstance(message, Learnt):
            self._learn(message)
        elif message.number == self.epoch and self.state in (SEND_ALL, WAIT_ALL):
            self._reply(message, at)

    def _learn(self, message: Learnt) -> None:
        if message.costs.parameters != self.settings.blank().parameters:
            raise MergeError(f"matrices of {message.costs!r}", "give the scheduler and all instances one settings")
        if (message.life, message.number) <= self._newest[message.instance]:
            return
        self._newest[message.instance] = (message.life, message.number)
        self._costs[message.instance] = message.costs
        if self.state != ROUND_ROBIN or self._knows_all:
            self._lay_out()
            self._new_epoch()

    @property
    def _knows_all(self) -> bool:
        return all(costs is not None for costs in self._costs)

    def _lay_out(self) -> None:
        """The matrices of all instances side by side, for the kernel."""
        pairs = [costs.matrices for costs in self._costs if costs is not None]
        self._counts = np.stack([counts.reshape(-1) for counts, _ in pairs])
        self._sums = np.stack([sums.reshape(-1) for _, sums in pairs])
        hits, total = (np.array([part[0].sum() for part in parts]) for parts in zip(*pairs, strict=True))
        self._means = total / np.maximum(hits, 1)

    def _reply(self, reply: Reply, at: float | None) -> None:
        if self._replied[reply.instance]:
            return
        delta = reply.delta
        if self.settings.measure == "backlog":
            if at is None or not np.isfinite(at):
                raise TimeError(f"at={at!r}", "give the moment at which the reply came, in the unit of the costs")
            delta = float(at) - float(self._marks[reply.instance])
        if not np.isfinite(delta):
            raise InputError(f"the delta {reply.delta!r}", "give what OperatorInstance.executed returned")
        self._deltas[reply.instance] = delta
        self._replied[reply.instance] = True
        if self.state == WAIT_ALL and self._replied.all():
            self.loads += self._deltas
            self.state = RUN
            self._since = 0

    def report(self) -> ScheduleReport:
        """What was learnt and done."""
        known = sum(costs is not None for costs in self._costs)
        means = tuple(self._means.tolist()) if self._knows_all else ()
        return ScheduleReport(self.instances, self.state, self.epoch, known, means)

    def to_bytes(self) -> bytes:
        """Everything, for a restart."""
        writer = Writer()
        self.settings.write(writer)
        state = _STATES.index(self.state)
        writer.numbers(_HEAD, self.instances, state, self.epoch, self._turn, self._to_mark, self._since)
        for values in (self.loads, self._marks, self._deltas):
            writer.raw(values.astype("<f8"))
        for place, costs in enumerate(self._costs):
            writer.numbers("BBqQ", costs is not None, bool(self._replied[place]), *self._newest[place])
            if costs is not None:
                costs._write(writer)
        return self._seal(b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> Scheduler:
        """The scheduler that gave these bytes; raise a `BytesError`, and nothing else, for any others."""
        parameters, payload = cls._open(blob)
        parameters.finish()
        settings = SchedulerSettings.read(payload)
        instances, state, epoch, turn, to_mark, since = payload.numbers(_HEAD)
        # Every instance takes 42 bytes and more, so that no few bytes ask for much memory.
        if not 1 <= instances <= payload.left // 42 or state >= len(_STATES) or turn >= instances or epoch >= 2**63:
            raise DamagedBytesError(f"{instances} instances in state {state} of epoch {epoch}, turn {turn}")
        if (to_mark > 0) != (_STATES[state] == SEND_ALL) or to_mark > instances:
            raise DamagedBytesError(f"{to_mark} marks to send in state {_STATES[state]}")
        try:
            scheduler = cls(instances, settings)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
        scheduler.state, scheduler.epoch, scheduler._turn = _STATES[state], epoch, turn
        scheduler._to_mark, scheduler._since = to_mark, since
        scheduler.loads, scheduler._marks, scheduler._deltas = (read_floats(payload, instances) for _ in range(3))
        blank = settings.blank().parameters
        for place in range(instances):
            known, replied, life, number = payload.numbers("BBqQ")
            if known > 1 or replied > 1 or life < -1 or (life >= 0) != known or number > 2**63:
                raise DamagedBytesError(f"instance {place} with flags {known} and {replied}, life {life}")
            scheduler._replied[place] = bool(replied)
            scheduler._newest[place] = (life, number)
            if known:
                scheduler._costs[place] = ValueEstimator._from_payload(blank, payload)
        payload.finish()
        if scheduler._knows_all == (scheduler.state == ROUND_ROBIN):
            raise DamagedBytesError(f"state {scheduler.state}, and all instances known is {scheduler._knows_all}")
        if scheduler._knows_all:
            scheduler._lay_out()
        return scheduler
