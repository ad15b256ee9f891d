"""ShedOperator: the operator's side of LAS: measures what it executes, tells what it learns, answers marks.

on                                does                                                        tells
────────────────────────────────  ──────────────────────────────────────────────────────────  ────────
a tuple is executed               adds its wait to the sums, its cost to the matrices
… and it carried a mark           compares the time it was done with the time in the mark     `Reply`
… and the matrices are worth it   (see `cost_learner`)                                        `Learnt`
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from catchment.balance.cost_learner import CostLearner
from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.stored import Stored
from catchment.errors import DamagedBytesError, InputError, TimeError
from catchment.kernel.shedding import fade_sums
from catchment.sketch.checks import as_integers
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys

__all__ = ["ShedOperator"]


class ShedOperator(Stored):
    """What stands beside an operator whose input is shed; give it every executed tuple, in order.

    Parameters
    ----------
    learner
        A `CostLearner`, with the epsilon, delta and seed of the shedder.
    memory
        That of the shedder: over how many tuples its average is taken, None for all.

    Examples
    --------
    >>> operator = ShedOperator(CostLearner())
    >>> (learnt,) = operator.executed(["a"], costs=[1000], waits=[0], finished=[5000])
    >>> learnt.executed, learnt.costs.estimate("a").value
    (1, 1000.0)
    >>> operator.executed(["a"], costs=[1000], waits=[200], finished=[6000], marks=[(0, Mark(1, 5900.0))])[0]
    Reply(number=1, delta=100.0, waited=200.0, served=2.0, instance=0)
    """

    family = 49

    def __init__(self, learner: CostLearner | None = None, *, memory: int | None = None) -> None:
        self.learner = CostLearner() if learner is None else learner
        self._decay = decay_of(memory)
        self._sums = np.zeros(2)
        self._executed = 0
        self._finished = -math.inf

    @property
    def waits(self) -> tuple[float, float]:
        """The sum of the waits of what was executed, and their number, older ones faded."""
        return float(self._sums[0]), float(self._sums[1])

    @property
    def finished(self) -> int:
        """When the last one was; 0 before the first."""
        return 0 if self._finished == -math.inf else math.ceil(self._finished)

    def learns_like(self, other: ShedOperator) -> bool:
        """Whether both were built with the same parameters."""
        mine, theirs = self.learner, other.learner
        return (self._decay, mine.window, mine.tolerance, mine.first, mine.costs.parameters) == (
            other._decay, theirs.window, theirs.tolerance, theirs.first, theirs.costs.parameters
        )  # fmt: skip

    @property
    def count(self) -> int:
        """How many tuples were executed."""
        return self._executed

    def executed(
        self, keys: Any, costs: Any, *, waits: Any, finished: Any, marks: Iterable[tuple[int, Mark]] = ()
    ) -> list[Reply | Learnt]:
        """Tuples in the order in which they were executed; what is to be told, in order.

        Parameters
        ----------
        keys, costs
            What drives the cost, and how long it took.
        waits
            How long each waited from its arrival to its start.
        finished
            When each was done, on the shedder's clock.
        marks
            Those that came with a tuple, by its place in the batch.
        """
        hashes, _ = hash_keys(keys)
        count = hashes.size
        amounts = as_integers("costs", costs, count)
        waited = as_integers("waits", waits, count).astype(np.float64)
        done = as_integers("finished", finished, count)
        wanted = sorted(marks, key=lambda entry: entry[0])
        if count and (float(waited.min()) < 0 or bool(np.any(np.diff(done) < 0)) or done[0] < self._finished):
            raise TimeError("tuples out of order, or a wait below 0", "give executed tuples in the order of their ends")
        if wanted and not 0 <= wanted[0][0] <= wanted[-1][0] < count:
            raise InputError(f"a mark on tuple {wanted[-1][0]} of {count}", "give its position among these keys")
        told = self.learner.observed(keys, amounts)
        news: list[tuple[int, int, Mark | Any]] = [
            *((place, 0, mark) for place, mark in wanted),
            *((behind - 1, 1, costs_then) for behind, costs_then in told),
        ]
        found: list[Reply | Learnt] = []
        at = 0
        for place, _, what in sorted(news, key=lambda one: one[:2]):
            fade_sums(self._sums, waited, self._decay, place + 1, at)
            at = place + 1
            total, number = float(self._sums[0]), float(self._sums[1])
            if isinstance(what, Mark):
                found.append(Reply(what.number, float(done[place]) - what.load, total, number))
            else:
                found.append(Learnt(what, self._executed + at, float(done[place]), total, number))
        fade_sums(self._sums, waited, self._decay, count, at)
        self._executed += count
        self._finished = float(done[-1]) if count else self._finished
        return found

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        writer = Writer()
        blob = self.learner.to_bytes()
        writer.numbers("dddqdI", self._decay, *self._sums, self._executed, self._finished, len(blob))
        writer.raw(blob)
        return self._seal(b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> ShedOperator:
        """The operator that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        parameters.finish()
        decay, waited, served, executed, finished, size = payload.numbers("dddqdI")
        learner = CostLearner.from_bytes(payload.raw(size))
        payload.finish()
        if not (0 < decay <= 1 and 0 <= waited < math.inf and 0 <= served < math.inf and 0 <= executed < 2**62):
            raise DamagedBytesError(f"waits of {waited} by {served} of {executed} tuples, faded by {decay}")
        if not finished < math.inf:
            raise DamagedBytesError(f"the end of the last tuple is {finished}")
        operator = cls(learner)
        operator._decay, operator._executed, operator._finished = decay, executed, finished
        operator._sums = np.array([waited, served])
        return operator


def decay_of(memory: int | None) -> float:
    """What a wait still counts after one more, when the average is over the last `memory`."""
    return 1.0 if memory is None else 1.0 - 1.0 / memory
