"""State by key in parts of equal load: exact over restarts, in one place, and moved when the map changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sql

from catchment.balance import Partitioner, hash_map, imbalance
from catchment.errors import DamagedBytesError, KeyTypeError, NameNotFoundError, ParameterError, UnknownFormatError
from catchment.spark.keyed_state import balanced_state, read_keyed_states, read_learnt, reconsider_state
from catchment.spark.savepoint import read_offsets
from catchment.spark.source import register_sources
from catchment.spark.source.recipe import Recipe
from catchment.testing.streams import zipf

pytestmark = pytest.mark.spark

PARTS = 3
SCHEMA = "number bigint, total bigint, task int"


def counted(key: tuple[Any, ...], rows: pd.DataFrame, state: bytes | None) -> tuple[pd.DataFrame, bytes | None]:
    """How often a key came, and in which task; a key that came 13 times in all is forgotten."""
    total = len(rows) + (int.from_bytes(state, "little") if state else 0)
    context = TaskContext.get()
    assert context is not None
    out = pd.DataFrame({"number": [key[0]], "total": [total], "task": [context.partitionId()]})
    return out, None if total == 13 else total.to_bytes(8, "little")


@pytest.fixture(autouse=True)
def _as_many_partitions(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", PARTS)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


class Stream:
    """Files that come one after the other, a query over them, and what came out of it."""

    def __init__(self, spark: Any, folder: Path, name: str) -> None:
        self.spark, self.folder, self.name = spark, folder, name

    def add(self, keys: Any) -> None:
        self.source.mkdir(exist_ok=True)
        number = len(list(self.source.glob("*.parquet")))
        pq.write_table(pa.table({"number": pa.array(keys, pa.int64())}), self.source / f"{number:03}.parquet")

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}-in"

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"{self.name}-checkpoint"

    def read(self) -> Any:
        stream = self.spark.readStream.schema("number bigint").option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.source))

    def run(self, partitioner: Any, initial: Any = None) -> None:
        rows = balanced_state(self.read(), "number", counted, schema=SCHEMA, partitioner=partitioner, initial=initial)
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start(str(self.folder / f"{self.name}-out")).awaitTermination()

    def out(self) -> list[Any]:
        return list(self.spark.read.parquet(str(self.folder / f"{self.name}-out")).collect())

    def states(self) -> dict[int | None, int]:
        rows = read_keyed_states(self.spark, self.checkpoint).collect()
        found = {row["number"]: int.from_bytes(row["state"], "little") for row in rows}
        assert len(found) == len(rows), "a key's state is in two places"
        return found


def exact(*batches: Any) -> dict[int | None, int]:
    """The same by counting."""
    states: Counter[int | None] = Counter()
    for batch in batches:
        for key, count in Counter(list(batch)).items():
            states[key] += count
            if states[key] == 13:
                del states[key]
    return dict(states)


@pytest.mark.long("crashes")
def test_states_are_exact_balanced_and_survive_restart_and_a_change_of_the_map(spark: Any, tmp_path: Path) -> None:
    keys = zipf(4_000, seed=1, skew=1.2, universe=60).keys
    large = 2**60 + 1  # a float would not hold it
    batches = [[*keys[:2_000].tolist(), None, None, large], [*keys[2_000:].tolist(), None, large]]
    partitioner = Partitioner(PARTS)
    partitioner.learn(keys)
    partitioner.build()
    first = Stream(spark, tmp_path, "first")
    first.add(batches[0])
    first.run(partitioner)
    assert first.states() == exact(batches[0])
    again = (keys * 7 + 11) % 60  # other keys are heavy from here on
    first.add(batches[1])
    first.add(again.tolist())
    first.run(Partitioner.from_bytes(partitioner.to_bytes()))
    before = first.states()
    assert before == exact(*batches, again.tolist())
    tasks = {(row["number"], row["task"]) for row in first.out()}
    placed = dict(zip(np.unique(keys).tolist(), partitioner.place(np.unique(keys)).tolist(), strict=True))
    assert {number: task for number, task in tasks if number in placed} == placed
    assert len(tasks) == len({number for number, _ in tasks})
    learner = read_learnt(spark, first.checkpoint)
    assert learner.total == learner.events == 8_005
    assert learner.heavy_keys().keys[0] == Counter([*keys.tolist(), *again.tolist()]).most_common(1)[0][0]

    first.add([1, 2, 3])
    with pytest.raises(StreamingQueryException, match="another map"):
        first.run(hash_map(PARTS, seed=9))
    assert first.states() == before

    dear = Partitioner.from_bytes(partitioner.to_bytes())
    assert not reconsider_state(spark, first.checkpoint, dear, horizon=1, key_cost=9).changed
    assert dear.map == partitioner.map
    found = reconsider_state(spark, first.checkpoint, partitioner, horizon=100_000, key_cost=1)
    assert found.changed
    assert found.after < found.before
    moved = Stream(spark, tmp_path, "moved")
    moved.add(again[:1_000].tolist())
    moved.run(partitioner, initial=read_keyed_states(spark, first.checkpoint))
    assert moved.states() == exact(*batches, again.tolist(), again[:1_000].tolist())
    loads = Counter(partitioner.place(np.concatenate([keys, again])).tolist())
    assert imbalance([loads[part] for part in range(PARTS)]) < 3
    homes = {(row["number"], row["task"]) for row in moved.out()}
    assert homes == {(number, int(partitioner.place([number])[0])) for number, _ in homes}
    assert "new map" in str(partitioner.report())


@pytest.mark.long("crashes")
def test_a_stream_whose_map_changes_goes_on_where_its_source_was(spark: Any, tmp_path: Path) -> None:
    """Each event is counted once, of those before the change and of those after it."""
    register_sources(spark)
    recipe: dict[str, Any] = {"seed": 4, "keys": 40, "nulls": 0.01}
    keys = Recipe(**recipe).batch(0, 900).column("key").to_pylist()

    def run(name: str, partitioner: Any, *, events: int, first: int = 0, initial: Any = None) -> str:
        source = spark.readStream.format("catchment_events").options(**recipe, events=events)
        stream = source.option("first", first).load().select(sql.col("key").alias("number"))
        rows = balanced_state(stream, "number", counted, schema=SCHEMA, partitioner=partitioner, initial=initial)
        checkpoint = str(tmp_path / name)
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return checkpoint

    old = run("old", hash_map(PARTS), events=600)
    (offset,) = read_offsets(spark, old)
    assert offset == {"events": 600}
    (planned := tmp_path / "old" / "offsets" / "9").write_text("v1\n{}\n{}")  # a batch that was never committed
    assert read_offsets(spark, f"file://{old}") == [offset]
    planned.unlink()
    new = run(
        "new", hash_map(PARTS, seed=9), events=300, first=offset["events"], initial=read_keyed_states(spark, old)
    )  # fmt: skip
    assert read_offsets(spark, new) == [{"events": 900}]
    rows = read_keyed_states(spark, new).collect()
    found = {row["number"]: int.from_bytes(row["state"], "little") for row in rows}
    assert found == exact(keys[:600], keys[600:])
    assert sum(found.values()) > 800  # 900, but for keys that were forgotten


def test_offsets_that_cannot_be_read_are_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no committed batch"):
        read_offsets(spark, tmp_path)
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "commits" / "3").write_text("v1\n{}")
    with pytest.raises(OSError, match="offsets/3 could not be read"):
        read_offsets(spark, tmp_path)
    file = tmp_path / "offsets" / "3"
    file.write_text('v1\n{}\n{"events": 5}\n-')
    (tmp_path / "offsets" / "4").write_text('v1\n{}\n{"events": 9}\n-')  # begun, and in no state
    assert read_offsets(spark, tmp_path) == [{"events": 5}, None]
    for text, error in (
        ("", DamagedBytesError),
        ("v1", DamagedBytesError),
        ('v1\n{}\n{"events": ', DamagedBytesError),
        ("v9\n{}\n{}", UnknownFormatError),
    ):
        file.write_text(text)
        with pytest.raises(error, match=r"offsets/3: .*give the checkpointLocation"):
            read_offsets(spark, tmp_path)


def test_keys_of_several_columns_have_their_states(spark: Any, tmp_path: Path) -> None:
    def joined(key: tuple[Any, ...], rows: pd.DataFrame, state: bytes | None) -> tuple[None, bytes]:
        return None, (state or b"") + repr((key, len(rows))).encode()

    table = pa.table({"site": ["a", "b", None, "a"], "item": pa.array([1, 1, 2, 1], pa.int32())})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    stream = spark.readStream.schema("site string, item int").parquet(str(tmp_path / "in"))
    rows = balanced_state(stream, ["site", "item"], joined, schema="x int", partitioner=hash_map(PARTS))
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = {(row[0], row[1]): bytes(row[2]) for row in read_keyed_states(spark, tmp_path / "checkpoint").collect()}
    assert found == {
        key: repr((key, count)).encode() for key, count in {("a", 1): 2, ("b", 1): 1, (None, 2): 1}.items()
    }


def test_what_cannot_be_is_refused_before_the_stream_starts(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("number bigint, share double").parquet(str(tmp_path / "in"))
    split = Partitioner(PARTS, split=0.5)
    split.learn(np.zeros(100, dtype=np.int64))
    split.build()

    def start(df: Any = stream, key: str = "number", partitioner: Any = hash_map(PARTS)) -> None:  # noqa: B008
        balanced_state(df, key, counted, schema=SCHEMA, partitioner=partitioner)

    for wrong, error, named in (
        ({"df": spark.range(3).withColumnRenamed("id", "number")}, ParameterError, "not a stream"),
        ({"key": "gone"}, ParameterError, "gone"),
        ({"key": "share"}, KeyTypeError, "share is of type double"),
        ({"partitioner": hash_map(PARTS + 1)}, ParameterError, "shuffle.partitions is 3"),
        ({"partitioner": split}, ParameterError, "splits keys"),
        ({"partitioner": 3}, ParameterError, "learn_partitioner"),
        ({"df": stream.withColumn("catchment_slot", sql.lit(1))}, ParameterError, "catchment_slot"),
    ):
        with pytest.raises(error, match=named):
            start(**wrong)
