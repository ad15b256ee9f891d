"""Spark's `count_min_sketch` outside the JVM: its bytes, questions with bounds, and the merge that SQL lacks."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, MergeError, UnknownFormatError
from catchment.kernel.spark_count_min import look_up_bytes, look_up_int64s
from catchment.sketch.keys import INTEGER, as_keys

__all__ = ["SparkCountMin"]

I64 = NDArray[np.int64]

_HEADER = struct.Struct(">iqii")  # version, total, depth, width
_VERSION = 1
_FACTOR_LIMIT = 2**31 - 1
_TOTAL_LIMIT = 2**63


class SparkCountMin:
    """A sketch that `count_min_sketch(column, eps, confidence, seed)` wrote.

    **Guarantee.** Let N be the number of rows that the sketch counted and f the true count of a key. The estimate is
    never below f. It exceeds f by more than `epsilon * N`, where epsilon = 2 / width, with probability at most
    2^-depth: `confidence` is one minus that, and both are what Spark itself states for a sketch of this shape. They are
    for keys that do not depend on the seed. Spark's rows are weaker than those of `catchment.CountMin`: integers are
    multiplied without an addend (0 is in column 0 of every row), and strings go through two 32-bit hashes for all rows.

    Keys are integers (any width: Spark widens them to 64 bits), strings or bytes, one or an array, as everywhere here.
    `eps` and `confidence` as given in SQL are rounded by Spark to the shape, so the ones here may be a little better.

    **Bytes.** Version 1 of `CountMinSketch.writeTo`, big-endian: version int32, total int64, depth int32, width int32,
    a factor int64 for each row, the counters int64 row by row. There is no checksum, but each row must add up to the
    total, which finds most damage. `to_bytes` gives what the JVM would write.

    Examples
    --------
    In Spark: `blob = frame.select(count_min_sketch("key", lit(0.01), lit(0.99), lit(42))).first()[0]`, and then

    >>> blob = _HEADER.pack(1, 7, 1, 2) + np.array([12345, 3, 4], dtype=">i8").tobytes()
    >>> sketch = SparkCountMin.from_bytes(blob)
    >>> print(sketch.estimate(0))
    3 in [0, 3] with confidence 0.5
    >>> SparkCountMin.merge([sketch, sketch]).total
    14

    References
    ----------
    G. Cormode, S. Muthukrishnan. An improved data stream summary: the Count-Min sketch and its applications. J.
    Algorithms 55(1), 2005.
    """

    __slots__ = ("_factors", "_table", "_total")

    def __init__(self, total: int, factors: I64, table: I64) -> None:
        self._total, self._factors, self._table = total, factors, table

    @property
    def total(self) -> int:
        """How many rows were counted."""
        return self._total

    @property
    def depth(self) -> int:
        return int(self._table.shape[0])

    @property
    def width(self) -> int:
        return int(self._table.shape[1])

    @property
    def epsilon(self) -> float:
        return 2.0 / self.width

    @property
    def confidence(self) -> float:
        return 1.0 - 0.5**self.depth

    def estimate(self, keys: Any) -> Answer:
        """How often each key was counted: never too few; at most epsilon * total too many with `confidence`."""
        batch = as_keys(keys)
        found = np.empty(len(batch), dtype=np.int64)
        if batch.kind == INTEGER:
            look_up_int64s(batch.data.view(np.int64), self._factors, self._table, found)
        else:
            look_up_bytes(batch.data, batch.offsets, self._table, found)
        slack = int(self.epsilon * self._total)  # counts are whole: what is above the bound is above its floor
        low = np.maximum(found - slack, 0)
        answer = Answer(found, low, found, self.confidence, self.epsilon)
        return answer[0] if batch.scalar else answer

    @classmethod
    def merge(cls, sketches: Iterable[SparkCountMin]) -> SparkCountMin:
        """The sketch of all rows together; depth, width and seed must be the same."""
        parts = iter(sketches)
        first = next(parts, None)
        if first is None:
            raise MergeError("no sketch to merge", "give at least one")
        total, table = first._total, first._table.copy()
        for place, part in enumerate(parts, 1):
            if part._table.shape != table.shape:
                raise MergeError(
                    f"sketch {place} has {part.depth} rows of {part.width} and sketch 0 has {first.depth} rows of "
                    f"{first.width}",
                    "make both with the same eps and confidence",
                )
            if not np.array_equal(part._factors, first._factors):
                raise MergeError(f"sketch {place} has another seed than sketch 0", "make both with the same seed")
            total += part._total
            if total >= _TOTAL_LIMIT:
                raise MergeError(f"together they count {total} rows", "keep the total below 2^63")
            table += part._table
        return cls(total, first._factors, table)

    def to_bytes(self) -> bytes:
        """The bytes that the JVM would write."""
        header = _HEADER.pack(_VERSION, self._total, self.depth, self.width)
        return header + self._factors.astype(">i8").tobytes() + self._table.astype(">i8").tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> SparkCountMin:
        """Read what Spark wrote; anything else is a `BytesError`, before memory is taken."""
        if len(blob) < _HEADER.size:
            raise DamagedBytesError(f"{len(blob)} bytes, and the header alone of a Count-Min sketch has {_HEADER.size}")
        version, total, depth, width = _HEADER.unpack_from(blob)
        if version != _VERSION:
            raise UnknownFormatError(
                f"these bytes begin with {bytes(blob[:4])!r}, not with version {_VERSION} of Spark's Count-Min sketch",
                "give the column that count_min_sketch made; sketches of catchment have functions of their own",
            )
        size = _HEADER.size + 8 * depth * (1 + width)
        if depth < 1 or width < 1 or total < 0 or len(blob) != size:
            raise DamagedBytesError(
                f"{len(blob)} bytes for {depth} rows of {width} counters and a total of {total}, which take {size}"
            )
        numbers = np.frombuffer(blob, dtype=">i8", offset=_HEADER.size)
        factors, table = numbers[:depth].astype(np.int64), numbers[depth:].astype(np.int64).reshape(depth, width)
        if int(factors.min()) < 0 or int(factors.max()) >= _FACTOR_LIMIT:
            raise DamagedBytesError("a factor outside 31 bits")
        # Wrapped sums could agree by chance only: no counter may be above the total.
        if int(table.min()) < 0 or int(table.max()) > total or np.any(table.sum(axis=1) != total):
            raise DamagedBytesError(f"rows that do not add up to the total of {total}")
        return cls(total, factors, table)
