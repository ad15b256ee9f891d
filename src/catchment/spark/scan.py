"""The fast lane: where a DataFrame is nothing but a scan of Parquet files, tasks read the row groups themselves.

Rows that pass from the JVM to Python cost several times what sketching them does. A plain scan needs nothing that
the JVM knows: Spark schedules the tasks, and Arrow reads the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from catchment.spark.plan import Plan, plain, unplain
from catchment.spark.tasks import ROWS_AT_ONCE

__all__ = ["Scan", "plain_scan"]

TASKS_A_CORE = 4
TASK_ROWS = 5_000_000
"""Rows for which another task is worth the twentieth of a second that it takes to begin."""
_MANY_FILES = 512
_READ = (IntegralType, StringType, BinaryType, TimestampType, TimestampNTZType, DoubleType, FloatType)
_NOT_BY = (TimestampType, TimestampNTZType, DoubleType, FloatType)
"""Types whose values Spark and Arrow may take for equal, or show, in different ways."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Row groups for each task, and the columns to read: from the name in the file to the name in the plan."""

    tasks: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    columns: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]
    """Columns of text, which are read as the dictionaries that the files mostly keep: a third of the time."""

    def parts(self, spark: SparkSession, gather: Callable[..., Iterator[pa.RecordBatch]]) -> DataFrame:
        """What the tasks make of what they read."""
        numbers = spark.range(0, len(self.tasks), 1, max(len(self.tasks), 1))
        return numbers.mapInArrow(gather, gather.plan.parts_schema())  # type: ignore[attr-defined]

    def read(self, task: int) -> Iterator[pa.Table]:
        """The rows of one task, some at a time."""
        names = list(dict.fromkeys(name for name, _ in self.columns))
        for path, groups in self.tasks[task]:
            with _opened(path, pre_buffer=True, read_dictionary=list(self.texts)) as file:
                for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=names, use_threads=False):
                    yield self._projected(pa.Table.from_batches([batch]))

    def _projected(self, table: pa.Table) -> pa.Table:
        columns = [
            _micros(table.column(name)) if place == "time:" else table.column(name) for name, place in self.columns
        ]
        return pa.Table.from_arrays(columns, names=[place for _, place in self.columns])


def _opened(path: str, **options: Any) -> pq.ParquetFile:
    """A file whose oldest kind of timestamps, INT96, are read as Spark does: nanoseconds would end in 2262."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", **options)


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(times.type):
        return times
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())


def plain_scan(df: DataFrame, plan: Plan) -> Scan | str:
    """How tasks can read this DataFrame's files themselves, or why they can not."""
    relation = _relation(df)
    if isinstance(relation, str):
        return relation
    paths = []
    for name in relation.location().inputFiles():  # with repeats, which df.inputFiles() leaves out
        uri = df.sparkSession._jvm.java.net.URI(name)  # type: ignore[union-attr]
        if uri.getScheme() not in ("file", None):
            return f"{uri.getScheme()}: files are read by Spark"
        paths.append(uri.getPath())
    if len(set(paths)) < len(paths):
        return "some files are to be read more than once"
    if len(paths) > _MANY_FILES:
        return f"{len(paths)} files are too many to see first whether each is as the schema says"
    columns = {plain(field.name): field.name for field in plan.by}
    if plan.time is not None:
        columns["time:"] = plan.time
    for measure in plan.unhashed().measures:
        columns |= {place: unplain(place.split(":", 1)[1]) for _, place in measure.inputs}
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    for name in columns.values():
        kind = df.schema[name].dataType
        if isinstance(kind, TimestampNTZType) and zone != "UTC":
            return f"{name} has times without a zone, in the session's {zone}"
        if not isinstance(kind, _READ):
            return f"{name} is of type {kind.simpleString()}"
        if isinstance(kind, _NOT_BY) and name in {field.name for field in plan.by}:
            return f"{name} groups by {kind.simpleString()}"
    units = _units(paths, tuple(dict.fromkeys(columns.values())), df)
    if isinstance(units, str):
        return units
    cores = df.sparkSession.sparkContext.defaultParallelism
    texts = [name for name in dict.fromkeys(columns.values()) if isinstance(df.schema[name].dataType, StringType)]
    places = tuple((name, place) for place, name in columns.items())
    rounds = -(-sum(rows for _, _, rows in units) // (TASK_ROWS * cores))
    return Scan(_shared_out(units, min(max(rounds, 1), TASKS_A_CORE) * cores), places, tuple(texts))


def _relation(df: DataFrame) -> Any:
    """The JVM's relation of a plan that is a scan of Parquet files and nothing more, or why it is not."""
    if not hasattr(df, "_jdf"):
        return "Spark Connect keeps the plan to itself"
    node = df._jdf.queryExecution().optimizedPlan()
    while _kind(node) == "Project":
        if any(
            _kind(node.projectList().apply(place)) != "AttributeReference" for place in range(node.projectList().size())
        ):
            return "columns are computed"
        node = node.child()
    if _kind(node) != "LogicalRelation" or _kind(node.relation()) != "HadoopFsRelation":
        return f"it is a {_kind(node)}, not a scan of files"
    relation = node.relation()
    if _kind(relation.fileFormat()) != "ParquetFileFormat":
        return f"the files are read by {_kind(relation.fileFormat())}, not Parquet"
    if relation.partitionSchema().size():
        return "the files' folders hold columns"
    return relation


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name.removesuffix("$")


Unit = tuple[str, tuple[int, ...], int]


def _units(paths: list[str], names: tuple[str, ...], df: DataFrame) -> list[Unit] | str:
    """What can be read by itself: (file, row groups, weight); and why not, where a file differs from the schema."""
    units: list[Unit] = []
    for path in paths:
        try:
            file = _opened(path)
        except (pa.ArrowException, OSError) as problem:
            return f"{path} cannot be read by itself: {problem}"  # Spark may pass over it, as over empty files
        with file:
            schema = file.schema_arrow
            for name in names:
                if name not in schema.names or not _fits(schema.field(name).type, df.schema[name].dataType):
                    return f"column {name} in {path} is not as the schema says"
            metadata = file.metadata
            units += [(path, (group,), metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return units


def _fits(stored: pa.DataType, kind: Any) -> bool:
    if isinstance(kind, IntegralType):
        return bool(pa.types.is_integer(stored))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return bool(pa.types.is_timestamp(stored))
    if isinstance(kind, DoubleType | FloatType):
        return bool(pa.types.is_floating(stored))
    if isinstance(kind, StringType):
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_dictionary(stored))
    return bool(pa.types.is_binary(stored) or pa.types.is_large_binary(stored))


def _shared_out(units: list[Unit], tasks: int) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]:
    """Neighbours together, about as many rows in each task: rows near in a file are mostly near in time."""
    total = sum(weight for _, _, weight in units)
    shares: list[list[Unit]] = [[] for _ in range(max(1, min(tasks, len(units))))]
    before = 0
    for unit in units:
        place = (before + unit[2] / 2) * len(shares) / max(total, 1)
        shares[min(int(place), len(shares) - 1)].append(unit)
        before += unit[2]
    return tuple(_joined(share) for share in shares if share)


def _joined(share: list[Unit]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Row groups of one file read in one go."""
    files: dict[str, list[int]] = {}
    for path, groups, _ in share:
        files.setdefault(path, []).extend(groups)
    return tuple((path, tuple(groups)) for path, groups in files.items())
