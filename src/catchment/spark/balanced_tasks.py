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

__all__ = ["COSTS", "COSTS_TYPE", "HASH", "TASK", "Dealer", "Runner"]

HASH, TASK, COSTS = "catchment_hash", "catchment_task", "catchment_costs"
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
    """Gives each row the number of its task, by the row's place in its partition.

    The hashes that the driver saw come along. Should a partition that was lost have been computed anew in another
    order, they do not match, and its rows are dealt by their hash: a row always gets one task; only balance suffers.
    """

    def __init__(self, dealt: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]], tasks: int) -> None:
        self.dealt, self.tasks = dict(dealt), tasks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        hashes, tasks = self.dealt.get(-1 if context is None else context.partitionId(), nothing)
        at = 0
        for batch in batches:
            seen = batch.column(HASH).to_numpy()
            stop = at + len(seen)
            expected = stop <= len(hashes) and np.array_equal(seen, hashes[at:stop])
            chosen = tasks[at:stop] if expected else (seen % self.tasks).astype(np.int32)
            at = stop
            yield batch.append_column(TASK, pa.array(chosen, type=pa.int32()))


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
