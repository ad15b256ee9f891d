"""Which row is which, by what is in it: the same whatever order a partition is computed in again.

The driver looks at the rows of a micro-batch and decides something for each; tasks must then find that decision. Spark
promises that a partition which is computed again holds the same rows, not that they come in the same order: after a
shuffle they come as they are fetched. So a row's number in its partition is no identity. Here it is the hash of all its
columns and, among rows that are equal, how many of them came before. Equal rows are interchangeable, so what a
task gives is the same rows with the same decisions in any order, and a retried task loses and doubles nothing.

Hashes have 64 bits: that two different rows of n in a partition share one has a probability of n²/2⁶⁵, and only their
order would then tell them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, MapType, StringType, StructType, VariantType

from catchment.errors import InputError
from catchment.spark.partition import quoted

__all__ = ["RowPlaces", "RowsOfTask", "content_hash"]

I64 = NDArray[np.int64]


def content_hash(df: DataFrame) -> Column:
    """A hash of everything in a row, where it is null included: Spark's own hash passes nulls over."""
    columns: list[Column] = []
    for field in df.schema:
        column = quoted(field.name)
        if isinstance(field.dataType, StringType):
            column = column.cast("binary")  # a collation may take different texts for equal
        elif isinstance(field.dataType, ArrayType | MapType | StructType | VariantType):
            column = sql.to_json(sql.struct(column.alias("value")), {"ignoreNullFields": "false"})
        columns.append(column)
    nulls = [quoted(field.name).isNull() for field in df.schema if field.nullable]
    return sql.xxhash64(*columns, *nulls)


class RowPlaces:
    """The places of rows, 0 and up in the order in which the driver has them, to be found again in their tasks."""

    def __init__(self, partitions: NDArray[Any], hashes: I64) -> None:
        order = np.lexsort((np.arange(hashes.size), hashes, partitions))
        numbers, firsts = np.unique(partitions[order], return_index=True)
        parts = np.split(order, firsts[1:]) if numbers.size else []
        self._parts = {int(number): (hashes[part], part) for number, part in zip(numbers, parts, strict=True)}

    def of_task(self) -> RowsOfTask:
        """Those of the partition that this task has."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        nothing = np.zeros(0, dtype=np.int64)
        return RowsOfTask(partition, *self._parts.get(partition, (nothing, nothing)))


class RowsOfTask:
    """The rows that a task must find in its partition, each once."""

    def __init__(self, partition: int, hashes: I64, places: I64) -> None:
        self._partition, self._hashes, self._places = partition, hashes, places
        self._taken = np.zeros(hashes.size + 1, dtype=np.int64)  # of the equal rows that start here

    def take(self, seen: I64) -> I64:
        """The places of the next rows; an `InputError` if the driver has not seen them in this partition."""
        order = np.argsort(seen, kind="stable")
        sorted_ = seen[order]
        first = np.searchsorted(self._hashes, sorted_)
        among_equals = np.arange(seen.size) - np.searchsorted(sorted_, sorted_)
        at = first + self._taken[first] + among_equals
        known = at < self._hashes.size
        known[known] = self._hashes[at[known]] == sorted_[known]
        if not known.all():
            raise self._changed(f"{np.count_nonzero(~known)} rows that were not there")
        np.add.at(self._taken, first, 1)
        places = np.empty(seen.size, dtype=np.int64)
        places[order] = self._places[at]
        return places

    def finish(self) -> None:
        """No more rows come: an `InputError` if some are missing."""
        missing = self._hashes.size - int(self._taken.sum())
        if missing:
            raise self._changed(f"{missing} rows fewer")

    def _changed(self, how: str) -> InputError:
        return InputError(
            f"partition {self._partition} was computed again and has {how} when the batch was decided upon",
            "let what is before it give the same rows each time: no rand() or uuid(), no source that forgets",
        )
