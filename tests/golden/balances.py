"""What balance keeps on Spark, of streams that were stopped half-way, for every later version to go on with.

`python -m tests.golden.balances` made `balance-v1.tar.gz`; it is never made again. It has a folder for each kind of
stream, each with its checkpoint:

- `shed`: batches 0 and 1 are through, and batch 2 was decided, by another target, when its sink failed;
- `mapped`: of `balanced_map`, two batches;
- `keyed`: of `balanced_state`, two batches, with the partitioner that it was started with.

Streams of an earlier life had used the folders of the first two: they left `last-life` and `base`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from catchment.balance import Partitioner
from catchment.spark.balanced_map import balanced_map
from catchment.spark.keyed_state import balanced_state
from catchment.spark.partition import learn_partitioner
from catchment.spark.session import session
from catchment.spark.shed import ShedStream, shed
from catchment.spark.source import register_sources
from catchment.spark.source.options import Options
from catchment.spark.source.recipe import Recipe
from tests.golden.archives import pack, refuse_again
from tests.golden.checkpoint import relocate

__all__ = ["DEAR", "PARTS", "PER_BATCH", "TARGET", "Row", "happened", "is_stale", "keyed", "mapped", "shedding"]

TARGET = Path(__file__).with_name("balance-v1.tar.gz")
PER_BATCH = 60
BATCHES = 2
"""That are through in each of the folders."""
PARTS = 2
DEAR = "key-00"
"""The key whose rows take long in `mapped`."""
_RECIPE = {
    "seed": 3, "sites": 2, "keys": 12, "key_type": "text", "values": 9, "nulls": 0.05, "start": "2001-01-01T00:00:00Z",
}  # fmt: skip

Row = dict[str, Any]
Write = Callable[[DataFrame, int], None]


def happened(batch: int) -> list[Row]:
    """The events of a batch, by the recipe itself."""
    options = {name: str(value) for name, value in _RECIPE.items()}
    rows: list[Row] = Recipe.from_options(Options(options)).batch(batch * PER_BATCH, PER_BATCH).to_pylist()
    return rows


def is_stale(row: Row) -> bool:
    """Whether a row came long ago for `shedding`; the others come just now, as do those without a time."""
    return row["value"] % 3 == 0 and row["time"] is not None


def source(spark: SparkSession, batches: int) -> DataFrame:
    """The stream of so many batches."""
    register_sources(spark)
    options: dict[str, Any] = {**_RECIPE, "events": batches * PER_BATCH, "per_batch": PER_BATCH}
    return spark.readStream.format("catchment_events").options(**options).load()


def shedding(spark: SparkSession, place: Path, batches: int, into: Write, **options: Any) -> ShedStream:
    """A stream that sheds what came long ago."""
    given: dict[str, Any] = {
        "schema": "key string, value bigint", "arrival": "at", "target": "10 minutes", "into": into, "tasks": 2,
        "checkpoint": place / "checkpoint", "expected_cost": "1 ms", "record_key": "key", "record_weight": "value",
        "window": 32, "epsilon": 0.2, "delta": 0.2,
    }  # fmt: skip
    at = "IF(value % 3 = 0, time, TIMESTAMP '2200-01-01 00:00:00Z') AS at"
    return shed(source(spark, batches).selectExpr("key", "value", at), _operate, "key", **given | options)


def _operate(row: Row) -> Row:
    return {"key": row["key"], "value": row["value"]}


def mapped(spark: SparkSession, place: Path, batches: int, into: Write, **options: Any) -> DataStreamWriter:
    """A stream of an operator to which one key is dear."""
    given: dict[str, Any] = {
        "schema": "key string, doubled bigint", "into": into, "checkpoint": place / "checkpoint", "tasks": 2,
        "epsilon": 0.1, "delta": 0.2, "pane": 100, "panes": 3,
    }  # fmt: skip
    writer = balanced_map(source(spark, batches), _work, "key", **given | options)
    assert isinstance(writer, DataStreamWriter)
    return writer


def _work(row: Row) -> Row:
    if row["key"] == DEAR:
        time.sleep(0.005)
    return {"key": row["key"], "doubled": 2 * row["value"]}


def keyed(spark: SparkSession, place: Path, batches: int, partitioner: Partitioner) -> DataStreamWriter:
    """A stream of sums by site and key."""
    rows = balanced_state(source(spark, batches), ["site", "key"], _summed, schema="x int", partitioner=partitioner)
    return rows.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint"))


def _summed(_key: tuple[Any, ...], rows: pd.DataFrame, state: bytes | None) -> tuple[None, bytes]:
    return None, (int(rows["value"].sum()) + int.from_bytes(state or b"", "little")).to_bytes(8, "little")


def main() -> None:
    refuse_again(TARGET)
    spark = session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "balance"
        _make_shed(spark, folder / "shed", Path(name) / "before-shed")
        _make_mapped(spark, folder / "mapped", Path(name) / "before-mapped")
        _make_keyed(spark, folder / "keyed")
        pack(folder, TARGET)
    spark.stop()


def _make_shed(spark: SparkSession, folder: Path, before: Path) -> None:
    learnt = folder / "checkpoint" / "shedding"
    for place, batches in ((before, 2), (folder, BATCHES)):
        shedding(spark, place, batches, _counted, folder=learnt).start(availableNow=True).awaitTermination()

    def failing(_results: DataFrame, _number: int) -> None:
        raise RuntimeError("the sink is full")

    # Without a target everything is kept, and so it was decided for this batch.
    with suppress(StreamingQueryException):
        flow = shedding(spark, folder, BATCHES + 1, failing, target=None)
        flow.start(availableNow=True).awaitTermination()


def _make_mapped(spark: SparkSession, folder: Path, before: Path) -> None:
    learnt = folder / "checkpoint" / "learnt"
    for place, batches in ((before, 2), (folder, BATCHES)):
        writer = mapped(spark, place, batches, _counted, learnt=learnt)
        writer.trigger(availableNow=True).start().awaitTermination()


def _make_keyed(spark: SparkSession, folder: Path) -> None:
    rows = spark.createDataFrame([(row["site"], row["key"]) for row in happened(0)], "site string, key string")
    partitioner = learn_partitioner(rows, ["site", "key"], PARTS)
    keyed(spark, folder, BATCHES, partitioner).trigger(availableNow=True).start().awaitTermination()
    (folder / "partitioner").write_bytes(partitioner.to_bytes())
    relocate(folder / "checkpoint", "/golden/checkpoint")


def _counted(results: DataFrame, _number: int) -> None:
    results.count()


if __name__ == "__main__":
    main()
