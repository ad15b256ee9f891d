"""Loops of a table of cells that are seen or not: a key falls into one cell, the higher its level the less likely."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.bits import trailing_zeros
from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["newest_in_cells", "see_cells"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
BOOL = NDArray[np.bool_]

_LOW = np.uint64(0xFFFF_FFFF)
_32 = np.uint64(32)


@kernel
def _cell(hash_: np.uint64, draw: np.uint64, levels: int, width: int) -> int:
    """Level l with probability 2^-(l+1), the last with what is left; the column from the other half of the bits."""
    value = mixed(hash_, draw)
    column = ((value & _LOW) * np.uint64(width)) >> _32
    level = min(np.int64(trailing_zeros(value >> _32)), levels - 1)
    return level * width + np.int64(column)


@kernel
def see_cells(seen: BOOL, levels: int, width: int, draw: np.uint64, hashes: U64, fresh: I64) -> int:
    """Mark the keys' cells; write the places of those that were not marked before, and return how many."""
    count = 0
    for i in range(hashes.size):
        place = _cell(hashes[i], draw, levels, width)
        if not seen[place]:
            seen[place] = True
            fresh[count] = place
            count += 1
    return count


@kernel
def newest_in_cells(newest: I64, levels: int, width: int, draw: np.uint64, hashes: U64, times: I64) -> None:
    """The newest time of a key in each cell."""
    for i in range(hashes.size):
        place = _cell(hashes[i], draw, levels, width)
        newest[place] = max(newest[place], times[i])
