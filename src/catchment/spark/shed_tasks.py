"""What shedding does in Spark's Python workers: marks rows by the driver's decision, and meters the operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["LANE", "MADE", "METER", "ORDER", "ROW", "Mark", "Meter"]

ROW, LANE, ORDER = "_shed_row", "_shed_lane", "_shed_order"
"""Columns that rows carry on their way: Spark's number of the row, the lane it goes to (-1: shed), its place in time."""

MADE = "_shed_made"
METER = ("_shed_order_done", "_shed_cost", "_shed_started")
"""Columns beside the results: whether there is one, and for each row its place, cost and start, in microseconds."""

_POSITION = (1 << 33) - 1  # monotonically_increasing_id: 31 bits of partition above 33 of position in it


class Mark:
    """Adds the decision to each row. Rows are known by Spark's number, which a batch that is kept does not change."""

    def __init__(self, rows: NDArray[np.int64], lanes: NDArray[np.int32], schema: pa.Schema) -> None:
        self._rows, self._lanes, self._schema = rows, lanes, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_row = np.argsort(self._rows)
        rows = self._rows[by_row]
        for batch in batches:
            numbers = batch.column(batch.schema.get_field_index(ROW)).to_numpy()
            places = by_row[np.searchsorted(rows, numbers)]
            columns = [
                pa.array(self._lanes[places]) if field.name == LANE
                else pa.array(places.astype(np.int64)) if field.name == ORDER
                else batch.column(batch.schema.get_field_index(field.name))
                for field in self._schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


class Meter:
    """Calls the operator row by row, and measures each call."""

    def __init__(self, function: Callable[[dict[str, Any]], dict[str, Any] | None], schema: pa.Schema) -> None:
        self._function, self._schema = function, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [name for name in self._schema.names if name != MADE and name not in METER]
        for batch in batches:
            columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
            places = batch.column(batch.schema.get_field_index(ORDER)).to_pylist()
            given = batch.select([name for name in batch.schema.names if name not in (ROW, LANE, ORDER)])
            for place, row in zip(places, given.to_pylist(), strict=True):
                started = time.time_ns() // 1000
                clock = time.perf_counter_ns()
                result = self._function(row)
                cost = (time.perf_counter_ns() - clock) // 1000
                for name, value in zip((MADE, *METER), (result is not None, place, cost, started), strict=True):
                    columns[name].append(value)
                for name in names:
                    columns[name].append(None if result is None else result.get(name))
            yield pa.RecordBatch.from_arrays(
                [pa.array(columns[field.name], type=field.type) for field in self._schema], schema=self._schema
            )
