"""What shedding does in Spark's Python workers: marks rows by the driver's decision, and meters the operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["LANE", "MADE", "METER", "ORDER", "ROW", "Mark", "Meter", "Operator"]

Operator = Callable[[dict[str, Any]], dict[str, Any] | list[dict[str, Any]] | None]

ROW, LANE, ORDER = "_shed_row", "_shed_lane", "_shed_order"
"""Columns that rows carry on their way: Spark's number of the row, its lane (-1: shed), and its place in time."""

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
    """Calls the operator row by row, and measures each call: what it took stands beside the call's first result."""

    def __init__(self, function: Operator, schema: pa.Schema) -> None:
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
                results = result if isinstance(result, list) else [] if result is None else [result]
                columns[MADE] += [True] * len(results) or [False]
                for name, value in zip(METER, (place, cost, started), strict=True):
                    columns[name] += [value, *[None] * (len(results) - 1)]
                for name in names:
                    columns[name] += [one.get(name) for one in results] or [None]
            yield pa.RecordBatch.from_arrays(
                [pa.array(columns[field.name], type=field.type) for field in self._schema], schema=self._schema
            )
