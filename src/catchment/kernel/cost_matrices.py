"""Mean costs by cell, from two matrices: how often a cell was hit (F of the thesis) and what that cost in all (W).

Whatever OSG and LAS read from their matrices is read here: what a key is likely to cost, how far the means have moved.
Matrices are of shape (depth, width), or the same flat; a key is given by its hash, or where many are looked up again
and again by its cells, `cells[row, i]` being key i's cell in that row, numbered through as `place_cells` does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["change_of_means", "cost_in", "cost_of", "mean_cost", "note_means", "price_batch"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]


@kernel
def _mean(total: np.int64, hits: np.int64, otherwise: float) -> float:
    return total / hits if hits > 0 else otherwise


@kernel
def cost_of(counts: I64, sums: I64, rows: U64, hash_: np.uint64, otherwise: float) -> float:
    """The mean cost in the cell that the key shares least; `otherwise` for a key that was certainly never seen."""
    width = np.uint64(counts.shape[1])
    fewest = np.int64(0x7FFFFFFFFFFFFFFF)
    total = np.int64(0)
    for row in range(counts.shape[0]):
        at = column_of(hash_, rows[row, 0], rows[row, 1], rows[row, 2], width)
        if counts[row, at] < fewest:
            fewest = counts[row, at]
            total = sums[row, at]
    return _mean(total, fewest, otherwise)


@kernel
def cost_in(counts: I64, sums: I64, cells: I32, i: int, otherwise: float) -> float:
    """The same from flat matrices, for the key with the cells `cells[:, i]`."""
    best = cells[0, i]
    for row in range(1, cells.shape[0]):
        at = cells[row, i]
        if counts[at] < counts[best]:
            best = at
    return _mean(sums[best], counts[best], otherwise)


@kernel
def price_batch(counts: I64, sums: I64, rows: U64, hashes: U64, otherwise: float, out: F64) -> None:
    for i in range(hashes.size):
        out[i] = cost_of(counts, sums, rows, hashes[i], otherwise)


@kernel
def mean_cost(counts: I64, sums: I64, width: int) -> float:
    """The mean over everything that flat matrices have seen, by their first row; 0 where that is nothing."""
    return _mean(sums[:width].sum(), counts[:width].sum(), 0.0)


@kernel
def change_of_means(counts: I64, sums: I64, snapshot: F64, weighted: bool) -> float:
    """How far the flat matrices' mean costs are from the snapshot, over the snapshot (Eq. 7.1 and 8.1 of the thesis).

    Weighted, a cell counts as often as it was hit, and not at all where it was not hit before the snapshot: it is then
    the change for a tuple, not for a cell, and a key that is new is no change. Below 0 in the snapshot is a cell that
    was never hit; where nothing is weighted 0 will do as well.
    """
    change = 0.0
    total = 0.0
    for at in range(snapshot.size):
        before = snapshot[at]
        weight = 1.0
        if weighted:
            weight = float(counts[at]) if before >= 0.0 else 0.0
        change += weight * abs(max(before, 0.0) - _mean(sums[at], counts[at], 0.0))
        total += weight * max(before, 0.0)
    if total > 0.0:
        return change / total
    return 0.0 if change == 0.0 else np.inf


@kernel
def note_means(counts: I64, sums: I64, snapshot: F64, never: float) -> None:
    """Take a snapshot of the flat matrices' mean costs; `never` stands for a cell that was never hit."""
    for at in range(snapshot.size):
        snapshot[at] = _mean(sums[at], counts[at], never)
