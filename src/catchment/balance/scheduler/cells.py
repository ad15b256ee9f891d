"""Where keys lie in the matrices of a value estimator, for kernels that read many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.count_min import place_cells
from catchment.kernel.hashing import column_draws

__all__ = ["cells_of"]


def cells_of(hashes: NDArray[np.uint64], *, width: int, depth: int, seed: int) -> NDArray[np.int32]:
    """The cell of each key in each row, numbered through: shape (depth, keys)."""
    out = np.empty((depth, hashes.size), dtype=np.int32)
    place_cells(hashes, column_draws(seed, depth), width, out)
    return out
