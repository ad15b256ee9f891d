"""How a change of a vector is written: as the difference of every cell, or as the keys that made it, the shorter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.sketch.codec import Reader, Writer

__all__ = ["pack_cells", "pack_updates", "unpack_cells", "unpack_updates"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

LARGEST = 2**62


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
    """Distinct hashes in ascending order, as distances, and their weights.

    >>> hashes, weights = unpack_updates(pack_updates(np.array([3, 9], dtype=np.uint64), np.array([1, -2])))
    >>> hashes.tolist(), weights.tolist()
    ([3, 9], [1, -2])
    """
    writer = Writer()
    writer.numbers("I", hashes.size)
    writer.integers(np.diff(hashes, prepend=np.uint64(0)))
    writer.integers(weights)
    return writer.getvalue()


def unpack_updates(data: bytes) -> tuple[U64, I64]:
    reader = Reader(memoryview(data))
    (count,) = reader.numbers("I")
    if count > 8 * reader.left:  # each distance but the first is at least 1, so at least a bit
        raise DamagedBytesError(f"{count} updates in {reader.left} bytes")
    distances: NDArray[Any] = reader.integers(count, np.uint64, low=0, high=2**64 - 1)
    weights = reader.integers(count, np.int64, low=-LARGEST, high=LARGEST)
    reader.finish()
    hashes = np.cumsum(distances, dtype=np.uint64)
    if bool(np.any(hashes[1:] <= hashes[:-1])):
        raise DamagedBytesError("updates that are not in order")
    return hashes, weights
