"""The loop of a site that looks for heavy hitters: count, and notice whoever is heavy at its own arrival."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["count_and_notice", "remember"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]


@kernel
def _place(known: U64, used: U8, hash_: np.uint64) -> int:
    """Where a hash stands in the open-addressed set, or the empty place where it would go."""
    mask = np.int64(known.size - 1)
    at = np.int64(hash_ >> np.uint64(32)) & mask
    while used[at] and known[at] != hash_:
        at = (at + 1) & mask
    return at


@kernel
def remember(known: U64, used: U8, hashes: U64) -> None:
    """Put hashes into the set, which has room for them."""
    for i in range(hashes.size):
        at = _place(known, used, hashes[i])
        known[at] = hashes[i]
        used[at] = 1


@kernel
def count_and_notice(
    cells: I64, rows: U64, hashes: U64, before: int, share: float, known: U64, used: U8, places: I64
) -> tuple[int, int]:
    """Count events until `places` is full; returns how many were counted and how many places were written.

    An event is noticed when, with it counted, the estimate of its key is at least `share` of all events so far, of
    which there were `before`; its key's first place in the batch is written unless the set knows it.
    """
    width = np.uint64(cells.shape[1])
    noted = 0
    for i in range(hashes.size):
        if noted == places.size:
            return i, noted
        hash_ = hashes[i]
        smallest = np.int64(0x7FFFFFFFFFFFFFFF)
        for row in range(cells.shape[0]):
            at = column_of(hash_, rows[row, 0], rows[row, 1], rows[row, 2], width)
            count = cells[row, at] + 1
            cells[row, at] = count
            smallest = min(smallest, count)
        if smallest >= share * (before + i + 1):
            slot = _place(known, used, hash_)
            if not used[slot]:
                known[slot] = hash_
                used[slot] = 1
                places[noted] = i
                noted += 1
    return hashes.size, noted
