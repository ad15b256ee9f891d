"""The side of OSG that learns: one for each instance of the operator (thesis, Listing 7.16 and Figure 7.17).

    state         event                      condition     next          what is done
    START         `window` tuples executed   always        STABILIZING   take a snapshot of the cells' mean costs   (A)
    STABILIZING   `window` tuples executed   change > tol  STABILIZING   take a snapshot                            (B)
    STABILIZING   `window` tuples executed   change ≤ tol  START         send the matrices, forget them             (C)
    STABILIZING   the `patience`-th window   always        START         the same: it will not get stable           (C')
    any           a marked tuple executed    always        the same      reply with true work less the mark's load

With sliding windows (C) forgets only the oldest window and stays in STABILIZING: there is a snapshot to compare with.
A reply about a tuple comes before matrices that the same tuple made stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.scheduler.settings import SchedulerSettings
from catchment.balance.stored import Stored, read_floats
from catchment.errors import DamagedBytesError, InputError, WeightError
from catchment.kernel.cost_matrices import change_of_means, note_means
from catchment.sketch.checks import MASS_LIMIT, as_integers, check_mass, check_whole
from catchment.sketch.codec import Writer
from catchment.sketch.keys import KeyBatch, as_keys
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["OperatorInstance"]

START, STABILIZING = "START", "STABILIZING"
_STATES = (START, STABILIZING)
_HEAD = "IQQIQBQ"


class OperatorInstance(Stored):
    """Measures what tuples cost on one instance, and tells the scheduler when it knows.

    Parameters
    ----------
    number
        Which instance this is, from 0.
    settings
        The same as the scheduler's.
    life
        Larger than in any life before that ended without `to_bytes`; one that is read back from bytes goes on.

    Examples
    --------
    >>> instance = OperatorInstance(0, SchedulerSettings(window=4))
    >>> instance.executed(["read", "write"] * 2, [10, 900] * 2)
    []
    >>> [message] = instance.executed(["read", "write"] * 2, [10, 900] * 2)
    >>> message.costs.estimate("write").value, instance.state
    (900.0, 'START')

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, section 7.2.1.
    """

    family = 44

    def __init__(self, number: int = 0, settings: SchedulerSettings | None = None, *, life: int = 0) -> None:
        self.number = check_whole("number", number, 0, 2**16)
        self.settings = settings or SchedulerSettings()
        self.life = check_whole("life", life, 0, 2**63)
        self.state = START
        self.sent = 0
        self.work = 0
        self._filled = 0
        self._waited = 0
        self._panes = [self.settings.blank()]
        self._snapshot = np.zeros(self.settings.depth * self.settings.width)

    @property
    def costs(self) -> ValueEstimator:
        """What is known now, of the window so far."""
        return ValueEstimator.merge(self._panes)

    def executed(self, keys: Any, costs: Any, *, marks: Iterable[tuple[int, Mark]] = ()) -> list[Reply | Learnt]:
        """Tuples were executed, in this order, and took so long; `marks` are those they carried, by position.

        Costs are whole numbers of one unit, such as microseconds. What comes back is for the scheduler, in order.
        """
        batch = as_keys(keys)
        amounts = as_integers("costs", costs, len(batch))
        if amounts.size and int(amounts.min()) < 0:
            raise WeightError(f"the cost {amounts.min()}", "give durations; take the clock that never goes back")
        check_mass("costs", self.work, amounts)
        waiting = sorted(marks, key=lambda entry: entry[0])
        if waiting and not 0 <= waiting[0][0] <= waiting[-1][0] < len(batch):
            raise InputError(f"a mark on tuple {waiting[-1][0]} of {len(batch)}", "give its position among these keys")
        messages: list[Reply | Learnt] = []
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + self.settings.window - self._filled)
            part = amounts[start:stop]
            for at, mark in waiting:
                if start <= at < stop:
                    delta = self.work + int(part[: at - start + 1].sum()) - mark.load
                    messages.append(Reply(mark.number, delta, instance=self.number))
            self._learn(batch.part(start, stop), part)
            if self._filled == self.settings.window:
                messages += self._window_over()
            start = stop
        return messages

    def _learn(self, keys: KeyBatch, costs: NDArray[np.int64]) -> None:
        self._panes[-1].update(keys, values=costs)
        self.work += int(costs.sum())
        self._filled += len(keys)

    def _window_over(self) -> list[Learnt]:
        self._filled = 0
        costs = self.costs
        counts, sums = costs.matrices
        hits, spent, weighted = counts.reshape(-1), sums.reshape(-1), self.settings.stability == "tuples"
        change = change_of_means(hits, spent, self._snapshot, weighted)
        note_means(hits, spent, self._snapshot, -1.0)
        self._waited += 1
        tired = 0 < self.settings.patience <= self._waited
        send = self.state == STABILIZING and (change <= self.settings.tolerance or tired)
        if self.settings.windows == "sliding":
            self.state = STABILIZING
            self._panes = [*self._panes, self.settings.blank()][-self.settings.span :]
        elif send:
            self.state = START
            self._panes = [self.settings.blank()]
        else:
            self.state = STABILIZING
        if not send:
            return []
        self._waited = 0
        self.sent += 1
        return [Learnt(costs, instance=self.number, life=self.life, number=self.sent)]

    def to_bytes(self) -> bytes:
        """Everything, for a restart: work, windows and the number of matrices sent go on where they were."""
        writer = Writer()
        self.settings.write(writer)
        state = _STATES.index(self.state)
        writer.numbers(_HEAD, self.number, self.life, self.sent, self._filled, self.work, state, self._waited)
        writer.raw(self._snapshot.astype("<f8"))
        writer.numbers("B", len(self._panes))
        for pane in self._panes:
            pane._write(writer)
        return self._seal(b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> OperatorInstance:
        """The instance that gave these bytes; raise a `BytesError`, and nothing else, for any others."""
        parameters, payload = cls._open(blob)
        parameters.finish()
        settings = SchedulerSettings.read(payload)
        number, life, sent, filled, work, state, waited = payload.numbers(_HEAD)
        if number > 2**16 or filled >= settings.window or state > 1:
            raise DamagedBytesError(f"instance {number} in state {state} with {filled} tuples")
        if max(life, sent, waited) > 2**63 or work >= MASS_LIMIT:
            raise DamagedBytesError(f"life {life}, {sent} matrices sent, {waited} windows and a work of {work}")
        instance = cls(number, settings, life=life)
        instance.sent, instance._filled, instance.work, instance.state = sent, filled, work, _STATES[state]
        instance._waited = waited
        instance._snapshot = read_floats(payload, settings.depth * settings.width)
        (panes,) = payload.numbers("B")
        if not 1 <= panes <= (settings.span if settings.windows == "sliding" else 1):
            raise DamagedBytesError(f"{panes} windows")
        blank = settings.blank().parameters
        instance._panes = [ValueEstimator._from_payload(blank, payload) for _ in range(panes)]
        payload.finish()
        return instance
