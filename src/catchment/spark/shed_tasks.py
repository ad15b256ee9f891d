"""What shedding does in Spark's Python workers: marks rows by the driver's decision, and meters the operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.spark.row_identity import RowPlaces

__all__ = ["LANE", "MADE", "METER", "ORDER", "ROW", "Mark", "Meter", "Operator"]

Operator = Callable[[dict[str, Any]], dict[str, Any] | list[dict[str, Any]] | None]

ROW, LANE, ORDER = "_shed_row", "_shed_lane", "_shed_order"
"""Columns that rows carry on their way: the hash of the row, its lane (-1: shed), and its place in time."""

MADE = "_shed_made"
METER = ("_shed_order_done", "_shed_cost", "_shed_started")
"""Columns beside the results: whether there is one, and for each row its place, cost and start, in microseconds."""


class Mark:
    """Adds the decision to each row, found by what is in the row: the same in any order, and after any retry."""

    def __init__(self, places: RowPlaces, lanes: NDArray[np.int32], schema: pa.Schema) -> None:
        self._places, self._lanes, self._schema = places, lanes, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self._places.of_task()
        for batch in batches:
            places = rows.take(batch.column(batch.schema.get_field_index(ROW)).to_numpy())
            columns = [
                pa.array(self._lanes[places]) if field.name == LANE
                else pa.array(places) if field.name == ORDER
                else batch.column(batch.schema.get_field_index(field.name))
                for field in self._schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        rows.finish()


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
