"""Items as batches of keys: their one order, their Python values, their bytes.

Items of one question are of one type. Their order, by which ties are broken at every site alike, is that of the
numbers for integers, and that of the bytes for text and bytes: for text that is the order of its characters.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import BINARY, INTEGER, TEXT, KeyBatch, is_utf8

__all__ = ["NO_ITEMS", "order_of", "read_items", "values_of", "write_items"]

I64 = NDArray[np.int64]

NO_ITEMS = KeyBatch.of_integers(np.zeros(0, dtype=np.int64))


def values_of(keys: KeyBatch) -> list[Any]:
    """The items as Python values.

    >>> values_of(KeyBatch.of_integers(np.array([3, -1])))
    [3, -1]
    """
    if keys.kind == INTEGER:
        numbers: list[Any] = keys.data.view(np.int64).tolist()
        return numbers
    ends = keys.offsets.tolist()
    whole = keys.data.tobytes()
    parts = [whole[start:stop] for start, stop in pairwise(ends)]
    return [part.decode() for part in parts] if keys.kind == TEXT else parts


def order_of(keys: KeyBatch) -> I64:
    """The rank of each item in the order of items.

    >>> order_of(KeyBatch.of_integers(np.array([30, -1, 7]))).tolist()
    [2, 0, 1]
    """
    if keys.kind == INTEGER:
        places = np.argsort(keys.data.view(np.int64))
    else:
        values = values_of(keys)
        places = np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    ranks = np.empty(places.size, dtype=np.int64)
    ranks[places] = np.arange(places.size)
    return ranks


def write_items(writer: Writer, keys: KeyBatch) -> None:
    """The items in their order; the reader must know how many there are."""
    writer.numbers("B", keys.kind)
    if keys.kind == INTEGER:
        writer.integers(keys.data.view(np.int64))
    else:
        writer.integers(np.diff(keys.offsets))
        writer.raw(keys.data[int(keys.offsets[0]) : int(keys.offsets[-1])])


def read_items(reader: Reader, count: int) -> KeyBatch:
    """What `write_items` wrote, or a `BytesError`."""
    (kind,) = reader.numbers("B")
    if kind not in (INTEGER, TEXT, BINARY):
        raise DamagedBytesError(f"items of kind {kind}")
    if kind == INTEGER:
        return KeyBatch.of_integers(reader.integers(count, np.int64, low=-(2**63), high=2**63 - 1))
    lengths = reader.integers(count, np.int64, low=0, high=reader.left)
    # In floating point first: many lengths could wrap around to a sum that looks right.
    size = float(lengths.sum(dtype=np.float64))
    data = np.frombuffer(reader.raw(int(min(size, 2.0**62))), dtype=np.uint8)
    keys = KeyBatch(kind, scalar=False, data=data, offsets=np.concatenate([[0], np.cumsum(lengths)]))
    if kind == TEXT and not is_utf8(keys):
        raise DamagedBytesError("a text item that is not UTF-8")
    return keys
