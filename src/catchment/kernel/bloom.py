"""Loops of the Bloom filter over 64-bit words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["look_up_bits", "set_bits"]

U64 = NDArray[np.uint64]

_63 = np.uint64(63)
_6 = np.uint64(6)
_1 = np.uint64(1)


@kernel
def set_bits(words: U64, bits: np.uint64, rows: U64, hashes: U64) -> None:
    for i in range(hashes.size):
        for row in range(rows.shape[0]):
            at = column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], bits)
            words[at >> _6] |= _1 << (at & _63)


@kernel
def look_up_bits(words: U64, bits: np.uint64, rows: U64, hashes: U64, out: NDArray[np.bool_]) -> None:
    for i in range(hashes.size):
        found = True
        for row in range(rows.shape[0]):
            at = column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], bits)
            if (words[at >> _6] >> (at & _63)) & _1 == np.uint64(0):
                found = False
                break
        out[i] = found
