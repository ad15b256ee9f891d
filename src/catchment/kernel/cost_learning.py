"""What an operator learns about the costs of its tuples, one tuple at a time, and when that is worth telling.

Counts and sums of costs stand in two matrices of shape (depth, width), as in VALES; `cost_matrices` reads them.
`learner` is a small array that holds where the machine is; a tuple moves it by `learn_one`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.cost_matrices import change_of_means, note_means
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
    "learn_batch",
    "learn_one",
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
        hits, spent, means = counts.reshape(-1), sums.reshape(-1), snapshot.reshape(-1)
        if learner[PHASE] == 1 and change_of_means(hits, spent, means, False) <= tolerance:
            learner[PHASE] = 0
            learner[SEEN] = 0
            learner[PUBLISHED] += 1
            learner[NEXT_EARLY] = 0
            return STABLE
        note_means(hits, spent, means, 0.0)
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
