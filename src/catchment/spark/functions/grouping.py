"""Rows that are the same in some columns, found without Python per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["groups_of_rows", "numbered"]

I64 = NDArray[np.int64]


def numbered(column: pa.Array) -> tuple[pa.Array, I64]:
    """The distinct values of a column, and for each row the number of its own; -1 for null."""
    encoded = column.dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def groups_of_rows(numbers: Sequence[I64], count: int) -> Iterator[I64]:
    """The places of rows with the same numbers in all columns, group by group; no columns are one group.

    >>> [group.tolist() for group in groups_of_rows([np.array([0, 1, 0]), np.array([5, 5, 5])], 3)]
    [[0, 2], [1]]
    """
    if not count:
        return
    combined = np.zeros(count, dtype=np.int64)
    for column in numbers:
        # Numbered anew after each column, so that products stay small.
        combined = np.unique(combined * (int(column.max()) + 2) + column + 1, return_inverse=True)[1]
    order = np.argsort(combined, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(combined[order])) + 1)
