"""Loops of a monitor's drift: how far a sketch has moved since a moment, with its rows' norms kept up to date."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["drift_signed"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_32 = np.uint64(32)


@kernel
def drift_signed(change: I64, rows: U64, hashes: U64, weights: I64, norms: F64, dots: F64, reference: I64) -> None:
    """Add a batch to `change` as Fast-AMS adds it to its cells; keep each row's squared norm and its product.

    The product is that with the row of `reference`, which may be empty: then there is none. Sums of squares are exact
    up to 2^53, and beyond that to the last digits of a float.
    """
    width = np.uint64(change.shape[1])
    step = 0 if weights.size == 1 else 1
    known = reference.size > 0
    for row in range(change.shape[0]):
        counters = change[row]
        norm, dot = norms[row], dots[row]
        for i in range(hashes.size):
            x = mixed(hashes[i], rows[row])
            weight = weights[i * step]
            if x & np.uint64(1):
                weight = -weight
            column = ((x >> _32) * width) >> _32
            old = counters[column]
            counters[column] = old + weight
            norm += np.float64(weight) * np.float64(2 * old + weight)
            if known:
                dot += np.float64(weight) * np.float64(reference[row, column])
        norms[row], dots[row] = norm, dot
