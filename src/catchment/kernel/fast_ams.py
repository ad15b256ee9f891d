"""Loops of the Fast-AMS sketch: one signed counter a row for each key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["add_signed", "look_up_signed"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_32 = np.uint64(32)


@kernel
def add_signed(cells: I64, rows: U64, hashes: U64, weights: I64) -> None:
    """`weights` has one entry for each key, or a single one for all."""
    width = np.uint64(cells.shape[1])
    step = 0 if weights.size == 1 else 1
    for row in range(cells.shape[0]):
        counters = cells[row]
        draw = rows[row]
        for i in range(hashes.size):
            x = mixed(hashes[i], draw)
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            counters[((x >> _32) * width) >> _32] += sign * weights[i * step]


@kernel
def look_up_signed(cells: I64, rows: U64, hashes: U64, out: I64) -> None:
    """Each row's estimate of each key: `out` has shape (depth, keys)."""
    width = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        for i in range(hashes.size):
            x = mixed(hashes[i], rows[row])
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            out[row, i] = sign * cells[row, ((x >> _32) * width) >> _32]
