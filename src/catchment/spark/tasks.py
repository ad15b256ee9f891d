"""What runs in Spark's Python workers: rows in Arrow batches become events, and events become sketches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catchment.sketch.base import Sketch
from catchment.sketch.keys import KeyBatch, as_keys
from catchment.spark.plan import Measure, Plan
from catchment.window.clock import check_times
from catchment.window.events import Arrivals, Events
from catchment.window.gather import kind_of

__all__ = ["ROWS_AT_ONCE", "Gathering", "Groups", "big_batches", "parts_of"]

ROWS_AT_ONCE = 1 << 17
"""Rows that are looked at together: small enough for the cache, large enough that a batch costs nothing."""

BYTES_AT_ONCE = 64 << 20
"""As many bytes of them, where rows are long."""


def big_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Arrow batches joined until there are enough rows; Spark sends 10,000 at a time unless told otherwise."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_AT_ONCE or (rows and size >= BYTES_AT_ONCE):
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


class Groups:
    """Numbers the groups that a task meets, in the order in which it meets them."""

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.values: list[tuple[Any, ...]] = []

    def number(self, table: pa.Table) -> NDArray[np.int32]:
        """The number of each row's group."""
        if not self._columns:
            self._number(())
            return np.zeros(table.num_rows, dtype=np.int32)
        places, distinct = _encoded(table.column(self._columns[0]))
        rows: list[tuple[Any, ...]] = [(value,) for value in distinct]
        for name in self._columns[1:]:
            more, others = _encoded(table.column(name))
            both, places = np.unique(places.astype(np.int64) * len(others) + more, return_inverse=True)
            rows = [(*rows[pair // len(others)], others[pair % len(others)]) for pair in both.tolist()]
        numbers = np.array([self._number(row) for row in rows], dtype=np.int32)
        return numbers[places] if numbers.size else np.zeros(0, dtype=np.int32)

    def _number(self, row: tuple[Any, ...]) -> int:
        # A NaN is not equal to itself, and yet one group.
        key = tuple("NaN" if isinstance(value, float) and value != value else (value,) for value in row)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(row)
        return self._numbers[key]


def _encoded(column: pa.ChunkedArray) -> tuple[NDArray[Any], list[Any]]:
    """Each row's place among the distinct values, null among them."""
    encoded = _whole(column)
    if not pa.types.is_dictionary(encoded.type):
        encoded = pc.dictionary_encode(encoded)
    values, places = encoded.dictionary.to_pylist(), encoded.indices
    if places.null_count:
        places, values = places.cast(pa.int32()).fill_null(len(values)), [*values, None]
    return places.to_numpy(zero_copy_only=False), values


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Gathering:
    """One task's rows on their way to parts: `(group values, measure, events)`."""

    def __init__(self, plan: Plan, *, every: int = 0, merging: bool = False) -> None:
        self.plan = plan
        self.groups = Groups([field.name for field in plan.groups])
        self._gatherers = [
            (measure, using, kind_of(using, merging=merging).gatherer(using, every))
            for measure in plan.measures
            for using in [measure.using]
        ]

    def add(self, table: pa.Table) -> Iterator[tuple[int, Measure, Events]]:
        """Take rows in; what comes out had to make room."""
        groups = self.groups.number(table)
        for measure, using, gatherer in self._gatherers:
            arrivals = arrivals_of(self.plan, measure, using, groups, table)
            yield from ((group, measure, events) for group, events in gatherer.add(arrivals))

    def flush(self) -> Iterator[tuple[int, Measure, Events]]:
        for measure, _, gatherer in self._gatherers:
            yield from ((group, measure, events) for group, events in gatherer.flush())


def arrivals_of(plan: Plan, measure: Measure, using: Sketch, groups: NDArray[np.int32], table: pa.Table) -> Arrivals:
    """The rows that are events of this measure: those with a null among their columns are none."""
    columns = {role: table.column(place) for role, place in measure.inputs}
    times = table.column("time:") if plan.time is not None else None
    present = [column for column in (*columns.values(), times) if column is not None and column.null_count]
    if present:
        whole = present[0].is_valid()
        for column in present[1:]:
            whole = pc.and_(whole, column.is_valid())
        columns = {role: column.filter(whole) for role, column in columns.items()}
        times = None if times is None else times.filter(whole)
        groups = groups[whole.to_numpy()]
    read = {role: _column(using, measure, role, column) for role, column in columns.items()}
    return Arrivals(groups, _ticks(plan, times, groups.size), read)


def _ticks(plan: Plan, times: pa.ChunkedArray | None, count: int) -> NDArray[np.int64]:
    if times is None:
        return np.zeros(count, dtype=np.int64)
    numbers = times.cast(pa.int64()).to_numpy()
    ticks = numbers if plan.counted else numbers // plan.tick
    ticks = np.ascontiguousarray(ticks, dtype=np.int64)
    check_times(ticks)
    return ticks


def _column(using: Sketch, measure: Measure, role: str, column: pa.ChunkedArray) -> Any:
    if role == "keys":
        if measure.hashed:
            return KeyBatch.of_hashes(np.ascontiguousarray(column.to_numpy()).view(np.uint64))
        if pa.types.is_dictionary(column.type) and not using.names_keys:
            # Read from a file that names each key once: so each is hashed once.
            encoded = _whole(column)
            places = encoded.indices.to_numpy(zero_copy_only=False)
            return KeyBatch.of_hashes(as_keys(encoded.dictionary).hashes()[places])
        return using.read_keys(column if not using.names_keys or not _is_number(column) else column.to_numpy())
    return as_keys(column) if role == "attributes" else np.ascontiguousarray(column.to_numpy(), dtype=np.int64)


def _is_number(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def parts_of(
    plan: Plan, groups: Groups, parts: Iterator[tuple[int, Measure, Events]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Parts as rows, some at a time, so that no batch of them grows beyond what Arrow holds."""
    held: list[tuple[int, Measure, bytes]] = []
    size = 0
    for group, measure, events in parts:
        blob = events.to_bytes()
        held.append((group, measure, blob))
        size += len(blob)
        if size > 32 << 20 or len(held) >= 1000:
            yield _part_rows(plan, groups, held, schema)
            held, size = [], 0
    if held:
        yield _part_rows(plan, groups, held, schema)


def _part_rows(plan: Plan, groups: Groups, held: list[tuple[int, Measure, bytes]], schema: pa.Schema) -> pa.RecordBatch:
    columns: list[list[Any]] = [[groups.values[part[0]][place] for part in held] for place in range(len(plan.by))]
    if plan.named:
        columns.append([measure.name for _, measure, _ in held])
    columns.append([blob for _, _, blob in held])
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
