"""What runs in Spark's Python workers for `balanced_map`: rows get their task, the function its rows and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from catchment.errors import InputError
from catchment.sketch.keys import KeyBatch
from catchment.sketch.value_estimator import ValueEstimator
from catchment.spark.row_identity import RowPlaces

__all__ = ["COSTS", "COSTS_TYPE", "HASH", "ROW", "TASK", "Dealer", "Runner"]

HASH, ROW, TASK, COSTS = "catchment_hash", "catchment_row", "catchment_task", "catchment_costs"
"""Columns that pass through a batch and never out of it."""

COSTS_TYPE = StructType(
    [
        StructField("task", IntegerType(), False),
        StructField("rows", LongType(), False),
        StructField("micros", LongType(), False),
        StructField("overhead", LongType(), False),
        StructField("part", BinaryType(), False),
    ]
)
"""What one task has measured: its rows, their cost, what measuring took (µs), and the matrices of it."""

ROWS_AT_ONCE = 1000

Function = Callable[[dict[str, Any]], Any]


class Dealer:
    """Gives each row the number of its task: what was dealt to a row of this content, in whatever order they come.

    So a task that runs again deals its rows as before, and tasks behind the shuffle that have theirs already, and those
    that fetch them again, agree. Other rows than the driver saw are an error: some would be lost, or doubled.
    """

    def __init__(self, places: RowPlaces, tasks: NDArray[np.int32]) -> None:
        self.places, self.tasks = places, tasks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self.places.of_task()
        for batch in batches:
            chosen = self.tasks[rows.take(batch.column(ROW).to_numpy())]
            yield batch.append_column(TASK, pa.array(chosen, type=pa.int32()))
        rows.finish()


class Runner:
    """Calls the function row by row, and says at the end what the rows took."""

    def __init__(self, function: Function, columns: list[str], schema: pa.Schema, blank: bytes) -> None:
        self.function, self.columns, self.schema, self.blank = function, columns, schema, blank

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashes: list[NDArray[np.int64]] = []
        costs: list[int] = []
        out: list[dict[str, Any]] = []
        clock = time.perf_counter_ns
        for batch in batches:
            hashes.append(batch.column(HASH).to_numpy())
            for row in batch.select(self.columns).to_pylist():
                start = clock()
                result = self.function(row)
                costs.append((clock() - start) // 1000)
                out += _rows_of(result)
                if len(out) >= ROWS_AT_ONCE:
                    yield self._batch(out)
                    out = []
        if out:
            yield self._batch(out)
        if costs:
            yield self._measured(np.concatenate(hashes), np.array(costs, dtype=np.int64))

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pylist(rows, schema=self.schema)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            wanted = ", ".join(f"{field.name} {field.type}" for field in self.schema if field.name != COSTS)
            raise InputError(
                f"rows of the function that do not fit its schema ({problem})", f"give mappings with {wanted}"
            ) from problem

    def _measured(self, hashes: NDArray[np.int64], costs: NDArray[np.int64]) -> pa.RecordBatch:
        start = time.perf_counter_ns()
        part = ValueEstimator.from_bytes(self.blank)
        part.update(KeyBatch.of_hashes(hashes.view(np.uint64)), values=costs)
        context = TaskContext.get()
        blob = part.to_bytes()
        measured = {
            "task": 0 if context is None else context.partitionId(),
            "rows": len(costs),
            "micros": int(costs.sum()),
            "overhead": (time.perf_counter_ns() - start) // 1000,
            "part": blob,
        }
        return pa.RecordBatch.from_pylist([{COSTS: measured}], schema=self.schema)


def _rows_of(result: Any) -> list[dict[str, Any]]:
    """None is no row, a mapping one, a list as many as there are in it."""
    if result is None:
        return []
    rows = list(result) if isinstance(result, list | tuple) else [result]
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(f"the function gave a {type(row).__name__}", "return a mapping, a list of them, or None")
    return rows
