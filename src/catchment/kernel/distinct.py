"""Loops of the duplicate-insensitive counters: FM bitmaps, the L smallest hashes, UltraLogLog registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.bits import leading_zeros, trailing_zeros
from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["collect_below", "merge_ultraloglog", "set_bitmap_bits", "split_by_sign", "update_ultraloglog"]

U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]

_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_4 = np.uint64(4)
_62 = np.uint64(62)
_63 = np.uint64(63)
_64 = np.uint64(64)


@kernel
def set_bitmap_bits(bitmaps: U64, rows: U64, hashes: U64) -> None:
    """Set bit h of every bitmap with probability 2^-(h+1), by that bitmap's own hash function."""
    for row in range(bitmaps.size):
        bits = bitmaps[row]
        for i in range(hashes.size):
            bits |= _1 << min(trailing_zeros(mixed(hashes[i], rows[row])), _63)
        bitmaps[row] = bits


@kernel
def collect_below(hashes: U64, start: int, draw: np.uint64, limit: np.uint64, out: U64, used: int) -> tuple[int, int]:
    """Append values below `limit` to `out` until it is full; return the next place in `hashes` and in `out`."""
    i = start
    while i < hashes.size and used < out.size:
        value = mixed(hashes[i], draw)
        if value < limit:
            out[used] = value
            used += 1
        i += 1
    return i, used


@kernel
def _unpacked(register: np.uint8) -> np.uint64:
    """The set of update values that a register stands for: bit u+1 is set when u was seen."""
    if register == 0:
        return np.uint64(0)
    r = np.uint64(register)
    return (_4 | (r & _3)) << ((r >> _2) - _2)


@kernel
def _packed(seen: np.uint64) -> np.uint8:
    """The largest value seen and whether the two below it were: six bits and two."""
    zeros = leading_zeros(seen)
    return np.uint8(((_63 - zeros) << _2) | ((seen << (zeros + _1)) >> _62))


@kernel
def update_ultraloglog(registers: U8, precision: int, draw: np.uint64, hashes: U64) -> None:
    p = np.uint64(precision)
    for i in range(hashes.size):
        x = mixed(hashes[i], draw)
        at = x >> (_64 - p)
        zeros = min(leading_zeros(x << p), _64 - p)
        register = registers[at]
        # Values more than two below the top leave no trace: most of a long stream ends here.
        if np.uint64(register >> 2) <= zeros + _4:
            # Values are shifted up by two so that both lower bits always have a place.
            registers[at] = _packed(_unpacked(register) | (_4 << zeros))


@kernel
def merge_ultraloglog(registers: U8, other: U8) -> None:
    for i in range(registers.size):
        if other[i] != 0:
            registers[i] = _packed(_unpacked(registers[i]) | _unpacked(other[i]))


@kernel
def split_by_sign(items: U64, hashes: U64, draw: np.uint64, positive: U64, negative: U64) -> tuple[int, int]:
    """Deal the hashes out by the sign that the item's own hash gives; return how many went each way."""
    p = 0
    n = 0
    for i in range(hashes.size):
        if mixed(items[i], draw) & _1:
            positive[p] = hashes[i]
            p += 1
        else:
            negative[n] = hashes[i]
            n += 1
    return p, n
