"""Savepoints: the states of a streaming query taken out of its checkpoint, in a file that any version can read.

A checkpoint belongs to one query, one Spark version and one place. A savepoint is a Parquet file: a row for each group
with the bytes of its `StreamState`, and in the file's metadata how far the sources had been read. It serves to move a
stream to another cluster, another Spark or another number of partitions, and to look at what a stream knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from catchment.errors import DamagedBytesError, NameNotFoundError, UnknownFormatError
from catchment.spark.folder import Folder
from catchment.spark.stream import STATE
from catchment.window.stream_state import StreamState

__all__ = [
    "committed_batch",
    "export_savepoint",
    "list_savepoint",
    "read_offsets",
    "read_savepoint",
    "read_states",
    "savepoint_offsets",
]

_OFFSETS = b"catchment.offsets"


def read_states(spark: SparkSession, checkpoint: str | Path) -> DataFrame:
    """The states in a checkpoint as of its last committed batch: the columns of the group, and `state`."""
    committed_batch(spark, checkpoint)
    rows = spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", STATE).load()
    return rows.select("key.*", sql.col(f"value.{STATE}").alias(STATE))


def export_savepoint(spark: SparkSession, checkpoint: str | Path, path: str | Path) -> int:
    """Write the states of a checkpoint, whose query must not be running, to a file; how many there are.

    Every state is read first, so that a savepoint that was written can be read. It replaces an older file at once.
    """
    table = read_states(spark, checkpoint).toArrow()
    for blob in table.column(STATE).to_pylist():
        StreamState.from_bytes(blob)
    offsets = json.dumps(read_offsets(spark, checkpoint))
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _OFFSETS: offsets.encode()})
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.unfinished")
    pq.write_table(table, unfinished)
    unfinished.replace(target)
    return int(table.num_rows)


def read_savepoint(spark: SparkSession, path: str | Path) -> DataFrame:
    """The states of a savepoint, to be given to `sketch_stream` as `initial`."""
    table = _table(path)
    for blob in table.column(STATE).to_pylist():
        StreamState.from_bytes(blob)
    return spark.createDataFrame(table.replace_schema_metadata(None))


def list_savepoint(path: str | Path) -> Iterator[tuple[str, StreamState]]:
    """Each group by its values, and its state."""
    table = _table(path)
    names = [name for name in table.column_names if name != STATE]
    for row in table.to_pylist():
        yield ", ".join(f"{name}={row[name]}" for name in names) or "all", StreamState.from_bytes(row[STATE])


def savepoint_offsets(path: str | Path) -> list[Any]:
    """How far each source had been read: what Spark writes into a checkpoint, in the order of the sources.

    A new query must read on from there, or events are counted twice: see `read_offsets`.
    """
    metadata: Mapping[bytes, bytes] = _table(path).schema.metadata or {}
    offsets: list[Any] = json.loads(metadata.get(_OFFSETS, b"[]"))
    return offsets


def _table(path: str | Path) -> pa.Table:
    if not Path(path).exists():
        raise NameNotFoundError(f"no savepoint {path}", "write one with export_savepoint")
    try:
        table = pq.read_table(path)
    except pa.ArrowException as problem:
        raise DamagedBytesError(f"{path} is no savepoint: {problem}", "give what export_savepoint wrote") from None
    if STATE not in table.column_names:
        raise DamagedBytesError(f"{path} has no column {STATE}", "give what export_savepoint wrote")
    return table


def read_offsets(spark: SparkSession, checkpoint: str | Path) -> list[Any]:
    """How far each source of a query has been read, in their order: as of the last committed batch, as its states are.

    For a new checkpoint with the states of this one: its sources must read on from here, or events are taken in twice,
    or never. A source that has given nothing yet is None. What Spark keeps of a source, and how to tell a new query:

        Kafka           {"topic": {"0": 17}}    .option("startingOffsets", json.dumps(offset))
        the generator   {"events": 7000}        .option("first", offset["events"])
        Delta Lake      {"reservoirVersion": …} .option("startingVersion", …), see there
        files           {"logOffset": 3}        cannot be told: name a folder with only the files still to be read

    Parameters
    ----------
    spark
        A classic session.
    checkpoint
        The `checkpointLocation` of a query that is not running, on any file system that Spark can reach.

    Raises
    ------
    NameNotFoundError
        if no batch was committed there.
    BytesError
        if what Spark wrote there is of another version, or damaged.
    """
    number = committed_batch(spark, checkpoint)
    return Folder(spark, f"{checkpoint}/offsets").load(
        str(number), _offsets, "give the checkpointLocation of a query that this version of Spark has run"
    )


def _offsets(blob: bytes) -> list[Any]:
    """After the version and the metadata there is a line for each source."""
    try:
        version, _, *lines = blob.decode().splitlines()
        offsets = [None if line == "-" else json.loads(line) for line in lines]
    except ValueError as problem:
        raise DamagedBytesError(f"no offsets: {problem}") from None
    if version != "v1":
        raise UnknownFormatError(f"offsets of version {version[:20]!r}", "upgrade catchment: it reads v1")
    return offsets


def committed_batch(spark: SparkSession, checkpoint: str | Path) -> int:
    """The number of the last batch that is in the state."""
    numbers = [int(name) for name in Folder(spark, f"{checkpoint}/commits").names() if name.isdigit()]
    if not numbers:
        raise NameNotFoundError(
            f"no committed batch in {checkpoint}", "give the checkpointLocation of a query that has run"
        )
    return max(numbers)
