"""How a change of a vector is written: as the difference of every cell, or as the keys that made it, the shorter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.sketch.codec import Reader, Writer

__all__ = ["KEY_BITS", "LARGEST_LISTED", "pack_cells", "pack_updates", "unpack_cells", "unpack_updates"]

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

LARGEST = 2**62
KEY_BITS = 40
"""A key in a list is so much of its hash."""
LARGEST_LISTED = 2**60
"""A weight in a list is at most so large, either way."""


def pack_cells(cells: I64) -> bytes:
    """Every cell, in the fewest bits.

    >>> unpack_cells(pack_cells(np.array([[0, -3], [7, 0]])), (2, 2)).tolist()
    [[0, -3], [7, 0]]
    """
    writer = Writer()
    writer.integers(cells)
    return writer.getvalue()


def unpack_cells(data: bytes, shape: tuple[int, ...]) -> I64:
    reader = Reader(memoryview(data))
    cells = reader.integers(int(np.prod(shape)), np.int64, low=-LARGEST, high=LARGEST)
    reader.finish()
    return cells.reshape(shape)


def pack_updates(hashes: U64, weights: I64) -> bytes:
    """Distinct hashes below 2^40 in ascending order, and their weights, none of them 0.

    One string of bits: every distance between hashes with its high part in unary, every weight's length in unary, then
    the distances' low parts, then the weights' bits (Rice 1979 and Elias 1975, with the unary parts put first, so that
    arrays of bits can be cut and joined without a loop). A key costs about 42 - log2(keys) bits, a weight of one a bit.

    >>> packed = pack_updates(np.array([3, 9], dtype=np.uint64), np.array([1, -2]))
    >>> hashes, weights = unpack_updates(packed)
    >>> hashes.tolist(), weights.tolist()
    ([3, 9], [1, -2])
    """
    if not hashes.size:
        return b""
    gaps = np.diff(hashes, prepend=np.uint64(0)).astype(np.int64)
    low = max(int(gaps.mean()).bit_length() - 1, 0)
    signed = bool(weights.min() < 0)
    sizes = np.where(weights > 0, 2 * weights - 1, -2 * weights) if signed else weights
    lengths = np.frexp(sizes.astype(np.float64))[1].astype(np.int64) - 1
    lengths += (sizes >> np.minimum(lengths + 1, 62)) > 0  # a float may round up to the next power of two, or not
    lengths -= (sizes >> np.maximum(lengths, 0)) == 0
    jumps = np.concatenate((gaps >> low, lengths)) + 1
    unary = np.zeros(int(jumps.sum()), dtype=np.uint8)
    unary[np.cumsum(jumps) - 1] = 1
    bits = np.concatenate((unary, _bits(gaps, np.full(gaps.size, low)), _bits(sizes, lengths)))
    return bytes([low | signed << 7]) + _count(hashes.size) + np.packbits(bits).tobytes()


def unpack_updates(data: bytes | memoryview) -> tuple[U64, I64]:
    if not len(data):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    low, signed = data[0] & 127, data[0] > 127
    count, start = _read_count(data)
    if low > KEY_BITS or not 0 < count <= 4 * (len(data) - start):  # two bits at least for each
        raise DamagedBytesError(f"{count} updates in {len(data)} bytes")
    bits = np.unpackbits(np.frombuffer(data[start:], dtype=np.uint8))
    ends = np.flatnonzero(bits)[: 2 * count]
    if ends.size < 2 * count:
        raise DamagedBytesError(f"{count} updates in {len(data)} bytes")
    jumps = np.diff(ends, prepend=-1) - 1
    high, lengths = jumps[:count], jumps[count:]
    middle = int(ends[-1]) + 1
    needed = middle + count * low + int(lengths.sum())
    if int(lengths.max()) > 62 or int(high.max()) >= 2 ** (KEY_BITS + 1) >> low:
        raise DamagedBytesError("a key or a weight that is too large")
    if -(-needed // 8) != len(data) - start or bool(bits[needed:].any()):
        raise DamagedBytesError(f"{len(data)} bytes where {start + -(-needed // 8)} are needed")
    gaps = (high << low) + _numbers(bits[middle : middle + count * low], np.full(count, low))
    sizes = (np.int64(1) << lengths) + _numbers(bits[middle + count * low : needed], lengths)
    if bool(np.any(gaps[1:] <= 0)) or int(gaps.sum()) >= 2**KEY_BITS:
        raise DamagedBytesError("updates that are not in order")
    weights = np.where(sizes & 1, (sizes + 1) >> 1, -(sizes >> 1)) if signed else sizes
    if bool(np.any(np.abs(weights) > LARGEST_LISTED)):
        raise DamagedBytesError("a weight that is too large")
    return np.cumsum(gaps).astype(np.uint64), weights


def _bits(values: I64, lengths: I64) -> U8:
    """The last bits of each value, as many as its length, the highest first, one value after the other."""
    place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shifts = np.repeat(lengths, lengths) - 1 - place
    found: U8 = ((np.repeat(values, lengths) >> shifts) & 1).astype(np.uint8)
    return found


def _numbers(bits: U8, lengths: I64) -> I64:
    place = np.arange(bits.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    worth = bits.astype(np.int64) << (np.repeat(lengths, lengths) - 1 - place)
    sums = np.concatenate(([0], np.cumsum(worth)))  # may wrap around: differences are right all the same
    ends = np.cumsum(lengths)
    found: I64 = sums[ends] - sums[ends - lengths]
    return found


def _count(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_count(data: bytes | memoryview) -> tuple[int, int]:
    """The number after the first byte, and where it ends."""
    value = 0
    for place in range(1, min(len(data), 6)):
        value |= (data[place] & 127) << 7 * (place - 1)
        if data[place] < 128:
            return value, place + 1
    raise DamagedBytesError("a number of updates that does not end")
