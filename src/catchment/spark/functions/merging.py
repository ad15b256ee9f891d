"""Unions: two sketches of a row, or all of a group, made one; all at once, so that a merge adds its error once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from catchment.sketch.base import Sketch
from catchment.spark.functions.kinds import KINDS

__all__ = ["union_batches", "union_group", "union_rows"]


def union_rows(prefix: str, one: pa.Array, other: pa.Array) -> pa.Array:
    """The union of both sketches of each row; null where one of them is."""
    read = KINDS[prefix].read
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return pa.array(
        [
            None if left is None or right is None else Sketch.merge([read(left), read(right)]).to_bytes()
            for left, right in pairs
        ],
        pa.binary(),
    )


def union_group(prefix: str, sketches: pa.Array) -> bytes | None:
    """The union of a group's sketches; nulls are left out, and nothing but nulls gives null."""
    return _united(prefix, sketches.to_pylist())


def union_batches(prefix: str, batches: Iterator[pa.Array]) -> bytes | None:
    """The same of a group that comes in batches: no more than one of them is held as bytes."""
    return _united(prefix, chain.from_iterable(batch.to_pylist() for batch in batches))


def _united(prefix: str, blobs: Iterable[bytes | None]) -> bytes | None:
    read = KINDS[prefix].read
    parts = [read(blob) for blob in blobs if blob is not None]
    return Sketch.merge(parts).to_bytes() if parts else None
