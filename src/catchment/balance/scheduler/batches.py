"""OSG where work comes in batches and a batch ends with its slowest task: what rows cost, and how to deal them.

Between two batches all tasks are idle, so no load is left to keep in step with, and the whole batch is there to be
looked at: no marks, no replies, and the dearest rows first (Graham's LPT rule) instead of in the order in which they
came. What rows cost is learnt as on an operator's instance, in matrices that merge, over a window of panes that slides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.stored import Stored
from catchment.balance.unevenness import peak_over_mean
from catchment.errors import DamagedBytesError, InputError, MergeError
from catchment.kernel.cost_matrices import price_batch
from catchment.kernel.scheduling import deal_longest_first
from catchment.sketch.checks import check_whole
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["CostModel", "Deal", "deal"]

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """The task of each row, and what the tasks are estimated to take."""

    tasks: I32
    loads: F64

    @property
    def peak_over_mean(self) -> float:
        """The largest load over the mean; 1 is even."""
        return peak_over_mean(self.loads)


def deal(costs: Any, tasks: int) -> Deal:
    """Deal rows of these costs to tasks so that the slowest is done early: at most 4/3 - 1/(3 tasks) of the best.

    Rows of equal cost go round in their order: where nothing is known, tasks get equal counts.

    >>> deal([5, 1, 1, 1, 1, 1], 2).tasks.tolist(), deal([2, 2, 2], 2).tasks.tolist()
    ([0, 1, 1, 1, 1, 1], [0, 1, 0])

    R. L. Graham: Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969.
    """
    check_whole("tasks", tasks, 1, 2**20)
    values = np.ascontiguousarray(costs, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values.size and values.min() < 0):
        raise InputError(f"costs of shape {values.shape}", "give one finite cost for each row, not below 0")
    # Where all cost nothing each row still counts, or the first task would get them all.
    values = np.maximum(values, 1e-9 * values.max(initial=0.0) or 1.0)
    chosen = np.empty(values.size, dtype=np.int32)
    loads = np.zeros(tasks)
    deal_longest_first(np.argsort(-values, kind="stable"), values, loads, chosen)
    return Deal(chosen, loads)


class CostModel(Stored):
    """What rows cost by their key, over the newest rows: VALES in panes, the oldest forgotten whole.

    **Guarantee.** Nothing is counted twice or in part: at any moment the model is the `ValueEstimator` of the newest
    panes, `panes` of at least `pane` rows and one that fills. The estimate of a key is the mean cost of what shares its
    least crowded cell, and the mean of all rows for a key that was certainly not there.

    **Where a simpler one wins.** With some hundred keys that never change, a table of means is exact.

    Parameters
    ----------
    epsilon, delta, seed
        As in `ValueEstimator`. epsilon is a tenth of what streams take: the rows of such batches are dear, and a few
        kilobytes more are not.
    pane, panes
        How many rows are forgotten together, and how many such panes are kept.

    Examples
    --------
    >>> model = CostModel()
    >>> part = model.blank()
    >>> part.update(["short", "long"], values=[1_000, 900_000])
    >>> model.learn(part)
    >>> model.estimate(["long", "short", "never seen"]).tolist()
    [900000.0, 1000.0, 450500.0]
    """

    family = 46

    def __init__(
        self, epsilon: float = 0.005, delta: float = 0.1, *, seed: int = 0, pane: int = 4096, panes: int = 4
    ) -> None:
        self._blank = ValueEstimator(epsilon, delta, seed=seed)
        self.pane = check_whole("pane", pane, 1, 2**40)
        self.panes = check_whole("panes", panes, 1, 64)
        self._kept = [self.blank()]
        self._merged: ValueEstimator | None = None

    def blank(self) -> ValueEstimator:
        """An empty pair of matrices, for a task to fill."""
        return self._blank.copy()

    def learn(self, costs: ValueEstimator) -> None:
        """Take in what tasks have measured: merge their matrices first, or give them one by one."""
        if costs.parameters != self._blank.parameters:
            raise MergeError(f"matrices of {costs!r}", f"fill those of blank(): {self._blank!r}")
        self._kept[-1] = ValueEstimator.merge([self._kept[-1], costs])
        if int(self._kept[-1].total().value) >= self.pane:
            self._kept = [*self._kept[-self.panes :], self.blank()]
        self._merged = None

    @property
    def costs(self) -> ValueEstimator:
        """All that is remembered, as one sketch: its answers have bounds."""
        if self._merged is None:
            self._merged = ValueEstimator.merge(self._kept)
        return self._merged

    @property
    def rows(self) -> int:
        """How many rows are remembered."""
        return int(self.costs.total().value)

    @property
    def mean(self) -> float:
        """What a row costs on average, 0 where none is known."""
        _, sums = self.costs.matrices
        return int(sums[0].sum()) / self.rows if self.rows else 0.0

    def estimate(self, keys: Any) -> F64:
        """What a row of each key is likely to cost."""
        hashes, _ = hash_keys(keys)
        counts, sums = self.costs.matrices
        out = np.empty(hashes.size)
        price_batch(counts, sums, self.costs._counts._rows, hashes, self.mean, out)
        return out

    def to_bytes(self) -> bytes:
        """What was learnt: the same rows in the same panes, the same bytes."""
        writer = Writer()
        writer.numbers("QBB", self.pane, self.panes, len(self._kept))
        for pane in self._kept:
            pane._write(writer)
        return self._seal(self._blank._pack_parameters(), writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> CostModel:
        """The model that gave these bytes; raise a `BytesError`, and nothing else, for any others."""
        parameters, payload = cls._open(blob)
        sizes = ValueEstimator._unpack_parameters(parameters)
        pane, panes, kept = payload.numbers("QBB")
        if not (1 <= pane <= 2**40 and 1 <= panes <= 64 and 1 <= kept <= panes + 1):
            raise DamagedBytesError(f"{kept} panes of {pane} rows where {panes} are kept")
        model = cls.__new__(cls)
        model.pane, model.panes = pane, panes
        model._kept = [ValueEstimator._from_payload(sizes, payload) for _ in range(kept)]
        payload.finish()
        model._blank = ValueEstimator.sized(**sizes)
        model._merged = None
        return model
