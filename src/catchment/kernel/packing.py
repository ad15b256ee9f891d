"""Integers in the fewest bits: patched frame of reference.

Every value is written as its distance from the smallest in `width` bits; the few that need more are patched in
afterwards (Zukowski et al., ICDE 2006; Lemire and Boytsov, SPE 2015). One scheme serves the counters of a skewed
Count-Min, the near-equal registers of an UltraLogLog and the mostly empty arrays of a young sketch. Unlike a
general compressor its output is a function of the values alone, for ever, so equal sketches have equal bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.bits import leading_zeros
from catchment.kernel.compile import kernel

__all__ = ["count_bit_lengths", "pack_bits", "patch_values", "unpack_bits"]

U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]

_EIGHT = np.uint64(8)
_BYTE = np.uint64(0xFF)


@kernel
def count_bit_lengths(values: U64, out: NDArray[np.int64]) -> None:
    """How many values need 0, 1, … 64 bits."""
    for i in range(values.size):
        out[np.int64(64) - np.int64(leading_zeros(values[i]))] += 1


@kernel
def pack_bits(values: U64, width: int, out: U8) -> None:
    """Write the low `width` bits of each value, one after the other, little-endian, into zeroed `out`."""
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) if width == 64 else (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    bit = 0
    for i in range(values.size):
        rest = values[i] & mask
        left = width
        while left > 0:
            shift = bit & 7
            out[bit >> 3] |= np.uint8((rest << np.uint64(shift)) & _BYTE)
            taken = min(8 - shift, left)
            rest >>= np.uint64(taken)
            bit += taken
            left -= taken


@kernel
def unpack_bits(data: U8, width: int, base: np.uint64, out: NDArray[np.generic]) -> np.uint64:
    """Read what `pack_bits` wrote, add `base` to each, and return the largest distance that was there."""
    furthest = np.uint64(0)
    bit = 0
    for i in range(out.size):
        value = np.uint64(0)
        done = 0
        while done < width:
            shift = bit & 7
            taken = min(8 - shift, width - done)
            piece = (np.uint64(data[bit >> 3]) >> np.uint64(shift)) & (
                (np.uint64(1) << np.uint64(taken)) - np.uint64(1)
            )
            value |= piece << np.uint64(done)
            done += taken
            bit += taken
        furthest = max(furthest, value)
        out[i] = base + value
    return furthest


@kernel
def patch_values(values: U64, width: int, positions: NDArray[np.uint32], patches: U64) -> None:
    """Collect where and what the values are that do not fit in `width` bits."""
    found = 0
    for i in range(values.size):
        if np.int64(64) - np.int64(leading_zeros(values[i])) > width:
            positions[found] = i
            patches[found] = values[i]
            found += 1
