"""What an operator learns about the costs of its tuples, one tuple at a time, and when that is worth telling.

Counts and sums of costs stand in two matrices of shape (depth, width), as in VALES. `learner` is a small array that
holds where the machine is; a tuple moves it by `learn_one`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = [
    "EARLY",
    "LEARNER_SIZE",
    "NEXT_EARLY",
    "NOTHING",
    "PHASE",
    "PUBLISHED",
    "SEEN",
    "STABLE",
    "cost_of",
    "instability",
    "learn_batch",
    "learn_one",
    "price_batch",
]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

SEEN, PHASE, PUBLISHED, NEXT_EARLY = 0, 1, 2, 3
"""Places in `learner`: tuples since the matrices were empty, the state (0 start, 1 stabilizing), how often the matrices
were stable, and at how many tuples to tell early for the next time."""

LEARNER_SIZE = 4

NOTHING, EARLY, STABLE = 0, 1, 2


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
    return total / fewest if fewest > 0 else otherwise


@kernel
def price_batch(counts: I64, sums: I64, rows: U64, hashes: U64, otherwise: float, out: F64) -> None:
    for i in range(hashes.size):
        out[i] = cost_of(counts, sums, rows, hashes[i], otherwise)


@kernel
def instability(counts: I64, sums: I64, snapshot: F64) -> float:
    """How far the cells' mean costs are from the snapshot, relative to it (Eq. 7.1 and 8.1 of the thesis)."""
    moved = 0.0
    whole = 0.0
    for row in range(counts.shape[0]):
        for at in range(counts.shape[1]):
            mean = sums[row, at] / counts[row, at] if counts[row, at] > 0 else 0.0
            moved += abs(snapshot[row, at] - mean)
            whole += snapshot[row, at]
    return moved / whole if whole > 0 else (0.0 if moved == 0 else np.inf)


@kernel
def _photograph(counts: I64, sums: I64, snapshot: F64) -> None:
    for row in range(counts.shape[0]):
        for at in range(counts.shape[1]):
            snapshot[row, at] = sums[row, at] / counts[row, at] if counts[row, at] > 0 else 0.0


@kernel
def learn_one(
    learner: I64, snapshot: F64, counts: I64, sums: I64, rows: U64, hash_: np.uint64, cost: int, window: int,
    tolerance: float,
) -> int:  # fmt: skip
    """Take in one tuple; whether the matrices are to be told, and as what.

    After STABLE the caller empties the matrices, once it has taken its copy; after EARLY it does not.
    """
    width = np.uint64(counts.shape[1])
    for row in range(counts.shape[0]):
        at = column_of(hash_, rows[row, 0], rows[row, 1], rows[row, 2], width)
        counts[row, at] += 1
        sums[row, at] += cost
    learner[SEEN] += 1
    if learner[SEEN] % window == 0:
        if learner[PHASE] == 1 and instability(counts, sums, snapshot) <= tolerance:
            learner[PHASE] = 0
            learner[SEEN] = 0
            learner[PUBLISHED] += 1
            learner[NEXT_EARLY] = 0
            return STABLE
        _photograph(counts, sums, snapshot)
        learner[PHASE] = 1
    if learner[SEEN] == learner[NEXT_EARLY]:
        learner[NEXT_EARLY] *= 2
        return EARLY
    return NOTHING


@kernel
def learn_batch(
    learner: I64, snapshot: F64, counts: I64, sums: I64, rows: U64, hashes: U64, costs: I64, window: int,
    tolerance: float, start: int,
) -> tuple[int, int]:  # fmt: skip
    """Tuples from `start` on, until something is to be told: how many are behind it then, and what it is."""
    for i in range(start, hashes.size):
        told = learn_one(learner, snapshot, counts, sums, rows, hashes[i], costs[i], window, tolerance)
        if told != NOTHING:
            return i + 1, told
    return hashes.size, NOTHING
