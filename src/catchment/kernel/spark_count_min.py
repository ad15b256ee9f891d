"""Spark's own Count-Min sketch, `org.apache.spark.util.sketch.CountMinSketchImpl`: where a key is, to the bit.

An integer is multiplied by a number of the row, folded to 31 bits and taken modulo the width; there is no addend, so
that 0 is in column 0 of every row. A string or binary is hashed twice by Spark's Murmur3, the second time with the
first hash as the seed, and row i takes column |h1 + i h2| mod width, in 32 bits that wrap around. Spark's Murmur3 feeds
each byte of the tail as a whole signed word, and so differs from the published one (A. Appleby, MurmurHash3_x86_32)
where the length is not a multiple of four.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["look_up_bytes", "look_up_int64s"]

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

_LOW = np.uint64(0xFFFFFFFF)
_C1, _C2, _C3 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_F1, _F2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_SIGN = np.uint64(0xFFFFFF00)
_TOP_BIT = np.uint64(0x80)
_1, _2, _3, _4, _5 = (np.uint64(n) for n in range(1, 6))
_8, _13, _15, _16, _24, _32 = (np.uint64(n) for n in (8, 13, 15, 16, 24, 32))
_PRIME = np.int64(2**31 - 1)
_HALF, _WHOLE = np.int64(2**31), np.int64(2**32)


@kernel
def _rotated(x: np.uint64, bits: np.uint64) -> np.uint64:
    return ((x << bits) | (x >> (_32 - bits))) & _LOW


@kernel
def _mixed(hash_: np.uint64, word: np.uint64) -> np.uint64:
    word = (_rotated((word * _C1) & _LOW, _15) * _C2) & _LOW
    return (_rotated(hash_ ^ word, _13) * _5 + _C3) & _LOW


@kernel
def _murmur3(data: U8, start: np.uint64, stop: np.uint64, seed: np.uint64) -> np.uint64:
    """32 bits, in a uint64."""
    h, at = seed, start
    while at + _4 <= stop:
        low = np.uint64(data[at]) | np.uint64(data[at + _1]) << _8
        h = _mixed(h, low | np.uint64(data[at + _2]) << _16 | np.uint64(data[at + _3]) << _24)
        at += _4
    while at < stop:
        byte = np.uint64(data[at])
        h = _mixed(h, byte | _SIGN if byte & _TOP_BIT else byte)
        at += _1
    h ^= (stop - start) & _LOW
    h = ((h ^ (h >> _16)) * _F1) & _LOW
    h = ((h ^ (h >> _13)) * _F2) & _LOW
    return h ^ (h >> _16)


@kernel
def _signed(word: np.uint64) -> np.int64:
    """32 bits as Java reads them."""
    value = np.int64(word & _LOW)
    return value - _WHOLE if value >= _HALF else value


@kernel
def look_up_int64s(keys: I64, factors: I64, table: I64, out: I64) -> None:
    """The smallest counter of each key over the rows of `table`, one factor for each row."""
    depth, width = table.shape
    for place in range(keys.size):
        smallest = np.int64(-1)
        for row in range(depth):
            product = factors[row] * keys[place]
            column = ((product + (product >> np.int64(32))) & _PRIME) % np.int64(width)
            counter = table[row, column]
            if row == 0 or counter < smallest:
                smallest = counter
        out[place] = smallest


@kernel
def look_up_bytes(data: U8, offsets: I64, table: I64, out: I64) -> None:
    """The same for strings and binaries: key i is `data[offsets[i]:offsets[i + 1]]`."""
    depth, width = table.shape
    for place in range(out.size):
        start, stop = np.uint64(offsets[place]), np.uint64(offsets[place + 1])
        first = _murmur3(data, start, stop, np.uint64(0))
        second = _murmur3(data, start, stop, first)
        smallest = np.int64(-1)
        for row in range(depth):
            column = abs(_signed(first + np.uint64(row) * second)) % np.int64(width)
            counter = table[row, column]
            if row == 0 or counter < smallest:
                smallest = counter
        out[place] = smallest
