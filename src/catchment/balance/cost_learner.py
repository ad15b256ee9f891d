"""CostLearner: what an operator learns about the cost of its own tuples, and when that is stable enough to tell.

    state          on                                        does                                     next
    ─────────────  ────────────────────────────────────────  ───────────────────────────────────────  ───────────
    start          the window is full                        takes a snapshot of the mean costs       stabilizing
    stabilizing    full again, moved more than `tolerance`   takes a new snapshot                     stabilizing
    stabilizing    full again, moved no more than that       tells the matrices, and empties them     start
    any            `first` tuples, or twice as many as at    tells the matrices, keeps them           the same
                   the last time, and never stable so far

LAS's operator is this machine (thesis, Figure 8.2, Listing 8.3); OSG's instances, with marks and other rules of
stability, are their own (`scheduler.instance`). The last line is ours: without it a shedder knows nothing until some
2,000 tuples are done, which under heavy load is too late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.stored import Stored, read_costs, read_floats, write_costs
from catchment.errors import DamagedBytesError, ParameterError, WeightError
from catchment.kernel.cost_learning import (
    LEARNER_SIZE,
    NEXT_EARLY,
    NOTHING,
    PHASE,
    PUBLISHED,
    SEEN,
    STABLE,
    learn_batch,
)
from catchment.sketch.checks import as_integers, check_fraction, check_mass, check_whole
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["CostLearner"]

F64 = NDArray[np.float64]

STATES = ("start", "stabilizing")
_WINDOW_LIMIT = 2**31


class CostLearner(Stored):
    """The operator's side of OSG and LAS: give it what was executed, it gives what is worth telling.

    Parameters
    ----------
    window
        How many tuples lie between two looks at the matrices.
    tolerance
        The relative change of the mean costs between two looks (η̄) at which they count as stable.
    epsilon, delta, seed
        Of the `ValueEstimator`; the receiver's must be the same.
    first
        Tell after so many tuples, and at every doubling, until the matrices were stable once. 0: never, as printed in
        the thesis.

    Examples
    --------
    >>> learner = CostLearner(window=4, first=0)
    >>> told = learner.observe(["a", "b"] * 4, [10, 30] * 4)
    >>> [costs.estimate("b").value for costs in told], learner.state
    ([30.0], 'start')

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, sections 7.2.1, 8.1.
    """

    family = 48

    def __init__(
        self,
        *,
        window: int = 1024,
        tolerance: float = 0.05,
        epsilon: float = 0.05,
        delta: float = 0.1,
        seed: int = 0,
        first: int = 1,
    ) -> None:
        self._set(window, tolerance, first, ValueEstimator(epsilon, delta, seed=seed))
        self._learner = np.zeros(LEARNER_SIZE, dtype=np.int64)
        self._learner[NEXT_EARLY] = self.first
        self._snapshot: F64 = np.zeros((self._matrices.depth, self._matrices.width))

    @classmethod
    def sized(
        cls, *, width: int, depth: int, seed: int = 0, window: int = 1024, tolerance: float = 0.05, first: int = 1
    ) -> CostLearner:
        """Built from sizes of the matrices; one cell knows the mean cost and no keys."""
        learner = cls(window=window, tolerance=tolerance, first=first)
        learner._matrices = ValueEstimator.sized(width=width, depth=depth, seed=seed)
        learner._snapshot = np.zeros((depth, width))
        return learner

    def _set(self, window: int, tolerance: float, first: int, matrices: ValueEstimator) -> None:
        self.window = check_whole("window", window, 1, _WINDOW_LIMIT)
        self.tolerance = check_fraction("tolerance", tolerance)
        self.first = check_whole("first", first, 0, _WINDOW_LIMIT)
        self._matrices = matrices

    @property
    def state(self) -> str:
        return STATES[int(self._learner[PHASE])]

    @property
    def stable(self) -> int:
        """How often the matrices were stable."""
        return int(self._learner[PUBLISHED])

    @property
    def seen(self) -> int:
        """Tuples since the matrices were empty."""
        return int(self._learner[SEEN])

    @property
    def costs(self) -> ValueEstimator:
        """The matrices as they stand; a copy."""
        return self._matrices.copy()

    def observe(self, keys: Any, costs: Any) -> list[ValueEstimator]:
        """Take in executed tuples in order; what is to be told, in order. Costs are whole numbers, say microseconds."""
        return [told for _, told in self.observed(keys, costs)]

    def observed(self, keys: Any, costs: Any) -> list[tuple[int, ValueEstimator]]:
        """As `observe`, with the number of this batch's tuples that are behind each."""
        hashes, _ = hash_keys(keys)
        amounts = as_integers("costs", costs, hashes.size)
        if amounts.size and int(amounts.min()) < 0:
            raise WeightError(f"a cost of {amounts.min()}", "costs are times: give none below 0")
        check_mass("costs", self._matrices._mass, amounts)
        found: list[tuple[int, ValueEstimator]] = []
        done, told = 0, STABLE
        while done < hashes.size:
            matrices = self._matrices
            before = done
            done, told = learn_batch(
                self._learner, self._snapshot, matrices._counts._cells, matrices._sums, matrices._counts._rows,
                hashes, amounts, self.window, self.tolerance, done,
            )  # fmt: skip
            _account(matrices, amounts[before:done])
            if told != NOTHING:
                found.append((done, matrices.copy()))
            if told == STABLE:
                self._matrices = ValueEstimator.sized(**matrices.parameters)
        return found

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Everything that was learnt, for a checkpoint."""
        parameters = Writer()
        parameters.numbers("IdI", self.window, self.tolerance, self.first)
        payload = Writer()
        write_costs(payload, self._matrices)
        payload.integers(self._learner)
        payload.raw(np.ascontiguousarray(self._snapshot, dtype="<f8"))
        return self._seal(parameters.getvalue(), payload.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> CostLearner:
        """The learner that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        learner = cls.__new__(cls)
        window, tolerance, first = parameters.numbers("IdI")
        parameters.finish()
        matrices = read_costs(payload)
        state = payload.integers(LEARNER_SIZE, np.int64, low=0, high=2**62)
        cells = matrices.depth * matrices.width
        snapshot = read_floats(payload, cells)
        payload.finish()
        try:
            learner._set(window, tolerance, first, matrices)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
        if not bool(np.all((snapshot >= 0) & (snapshot < 2**62))):
            raise DamagedBytesError(f"mean costs from {snapshot.min()} to {snapshot.max()}")
        if state[PHASE] > 1 or state[SEEN] != matrices.total().value:
            raise DamagedBytesError(f"state {state[PHASE]} after {state[SEEN]} tuples")
        learner._learner = state
        learner._snapshot = snapshot.reshape(matrices.depth, matrices.width)
        return learner


def _account(matrices: ValueEstimator, costs: NDArray[np.int64]) -> None:
    """Bring the estimator's own totals up to what a kernel has put into its matrices."""
    matrices._counts._total += costs.size
    matrices._counts._slack = None
    matrices._mass += int(costs.sum())
    matrices._least = int(costs.min(initial=matrices._least))
    matrices._most = int(costs.max(initial=matrices._most))
