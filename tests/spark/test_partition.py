"""Balanced partitions on Spark: the JVM places as the kernel does, every key in one place, results exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as sql

from catchment.balance import Partitioner, build_map, hash_map, imbalance
from catchment.errors import ParameterError, QueryError, WeightError
from catchment.sketch.keys import hash_keys
from catchment.spark import partition
from catchment.spark.partition import balanced_repartition, learn_partitioner, measured_loads, part_of
from catchment.testing.streams import zipf

pytestmark = pytest.mark.spark

ROWS = 40_000
KEYS = zipf(ROWS, seed=3, skew=1.3, universe=2_000).keys


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    table = pa.table(
        {
            "number": KEYS,
            "text": [f"käse {key}" for key in KEYS.tolist()],
            "blob": pa.array([key.to_bytes(3, "big") for key in KEYS.tolist()], pa.binary()),
            "small": pa.array(KEYS.astype(np.int16)),
            "value": np.arange(ROWS),
        }
    )
    return spark.createDataFrame(table).cache()


def placed(df: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


@pytest.mark.parametrize("key", ["number", "text", "blob", "small"])
def test_the_jvm_places_as_the_kernel_does(rows: Any, key: str) -> None:
    partitioner = learn_partitioner(rows, key, 7, seed=11)
    exact = Partitioner(7, seed=11)
    values = rows.select(key).toArrow().column(0)
    exact.learn(values)
    assert partitioner.learnt.total == ROWS
    assert np.array_equal(partitioner.learnt.bucket_loads, exact.learner.bucket_loads)
    assert set(partitioner.learnt.heavy_keys().keys) == set(exact.learner.heavy_keys().keys)
    found = rows.select(part_of(rows, key, partitioner.map).alias("part")).toArrow().column(0).to_numpy()
    assert np.array_equal(found, partitioner.map.place(values))
    assert imbalance(np.bincount(found, minlength=7)) <= imbalance(exact_loads(values, 7)) + 1
    plain = rows.select(part_of(rows, key, hash_map(7, seed=5)).alias("part")).toArrow().column(0).to_numpy()
    assert np.array_equal(plain, hash_map(7, seed=5).place(values))


def exact_loads(values: Any, parts: int) -> Any:
    from catchment.balance import full_knowledge

    return full_knowledge(np.array(list(Counter(values.to_pylist()).values())), parts)


def test_each_row_is_in_the_partition_of_its_part_and_none_is_lost(rows: Any) -> None:
    seen = Observation("parts")
    sent = balanced_repartition(rows, "number", 6, part="part", metrics=seen)
    assert sent.columns == [*rows.columns, "part"]
    found = placed(sent.select("number", "value", "part", sql.spark_partition_id()))
    assert sorted((number, value) for number, value, _, _ in found) == sorted(
        zip(KEYS.tolist(), range(ROWS), strict=True)
    )
    assert all(part == partition for _, _, part, partition in found)
    homes = {(number, part) for number, _, part, _ in found}
    assert len(homes) == len({number for number, _ in homes}) == len(np.unique(KEYS))
    counts = Counter(part for _, _, part, _ in found)
    assert measured_loads(seen).tolist() == [counts[part] for part in range(6)]
    assert sent.rdd.getNumPartitions() == 6


def test_a_python_operator_gives_exact_results_split_or_not(rows: Any) -> None:
    def add_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums: Counter[int] = Counter()
        for batch in batches:
            for number, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                sums[number] += value
        yield pa.RecordBatch.from_pydict({"number": list(sums), "total": list(sums.values())})

    exact = {int(key): int(np.arange(ROWS)[key == KEYS].sum()) for key in np.unique(KEYS)}
    pairs = rows.select("number", "value")
    whole = balanced_repartition(pairs, "number", 5).mapInArrow(add_up, "number bigint, total bigint")
    assert dict(placed(whole)) == exact
    assert whole.count() == len(exact)
    seen = Observation("split")
    cut = balanced_repartition(pairs, "number", 5, split=0.5, metrics=seen).mapInArrow(
        add_up, "number bigint, total bigint"
    )
    partial = placed(cut)
    assert len(partial) > len(exact)
    merged: Counter[int] = Counter()
    for number, total in partial:
        merged[number] += total
    assert merged == exact
    assert imbalance(measured_loads(seen)) < 4 < imbalance(exact_loads(pa.array(KEYS), 5))


def test_split_rows_go_where_the_kernel_says(rows: Any) -> None:
    partitioner = learn_partitioner(rows, "number", 5, split=0.25)
    column = part_of(rows, "number", partitioner.map, spread="value")
    found = rows.select(column.alias("part")).toArrow().column(0).to_numpy()
    salts = hash_keys(np.arange(ROWS))[0]
    assert np.array_equal(found, partitioner.map.place(KEYS, salts=salts))
    alone = rows.select("number")
    numbered = alone.select(part_of(alone, "number", partitioner.map).alias("part")).toArrow().column(0).to_numpy()
    assert imbalance(np.bincount(numbered, minlength=5)) < 4


def test_weights_and_samples_are_learnt(rows: Any) -> None:
    weighed = rows.withColumn("cost", sql.when(sql.col("number") >= 1_000, 100).otherwise(1))
    partitioner = learn_partitioner(weighed, "number", 4, weight="cost")
    costs = np.where(KEYS >= 1_000, 100, 1)
    assert partitioner.learnt.total == costs.sum()
    assert imbalance(np.bincount(partitioner.place(KEYS), weights=costs, minlength=4)) < 1
    sampled = learn_partitioner(rows, "number", 4, sample=0.25, seed=1)
    assert 8_000 < sampled.learnt.total < 12_000
    assert imbalance(np.bincount(sampled.place(KEYS), minlength=4)) < imbalance(exact_loads(pa.array(KEYS), 4)) + 6
    assert "keys with a place of their own" in str(sampled.report())


def test_of_many_rows_some_stand_for_the_others(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert learn_partitioner(rows, "number", 4).learnt.events == ROWS
    monkeypatch.setattr(partition, "FIRST", 1_000)
    found = learn_partitioner(rows, "number", 4, seed=2).learnt
    tasks = rows.rdd.getNumPartitions()
    assert found.events == pytest.approx(1_000 * tasks + (ROWS - 1_000 * tasks) / 20, abs=250)
    assert found.total == pytest.approx(ROWS, rel=0.12)
    share = np.bincount(KEYS)[0] / ROWS
    assert found.heavy_keys().loads[0] / found.total == pytest.approx(share, abs=0.05)


def test_nulls_and_keys_of_other_types_and_of_several_columns_have_one_place(spark: Any) -> None:
    data = [(None if n % 3 == 0 else n % 50, Decimal(n % 5), float(n % 4), n) for n in range(3_000)]
    df = spark.createDataFrame(data, "a int, b decimal(5,2), c double, n int")
    for key in ("a", "b", ["c", "n"]):
        names = [key] if isinstance(key, str) else key
        sent = balanced_repartition(df, key, 4, part="p")
        homes = placed(sent.select(*names, "p").distinct())
        assert len({home[:-1] for home in homes}) == len(homes)
    partitioner = learn_partitioner(df, "a", 4)
    assert partitioner.learnt.heavy_keys().keys[0] == "null"
    assert partitioner.learnt.heavy_keys().loads[0] == 1_000
    loads = np.array([row[1] for row in placed(balanced_repartition(df, "a", 4, part="p").groupBy("p").count())])
    assert imbalance(loads) < 100 / 3 + 1


def test_a_stream_is_sent_to_the_same_parts_batch_by_batch(spark: Any, rows: Any, tmp_path: Path) -> None:
    partitioner = learn_partitioner(rows, "number", 3)
    rows.select("number", "value").repartition(4).write.parquet(str(tmp_path / "in"))
    stream = (
        spark.readStream.schema("number bigint, value bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
    )
    with pytest.raises(ParameterError, match="stream without partitioner"):
        balanced_repartition(stream, "number", 3)
    with pytest.raises(ParameterError, match="stream to learn from"):
        learn_partitioner(stream, "number", 3)
    sent = balanced_repartition(stream, "number", 3, partitioner=partitioner, metrics="parts")
    seen = sent.withColumn("partition", sql.spark_partition_id())
    query = (
        seen.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert len(query.recentProgress) >= 4
    counted = [measured_loads(each.observedMetrics["parts"]) for each in query.recentProgress if each.numInputRows]
    loads = np.sum(counted, axis=0)
    assert loads.sum() == ROWS
    assert np.array_equal(loads, np.bincount(partitioner.place(KEYS), minlength=3))
    out = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert np.array_equal(out.column("partition").to_numpy(), partitioner.place(out.column("number")))


def test_what_cannot_be_is_refused_before_any_task_runs(rows: Any) -> None:
    learnt = Partitioner(4)
    for wrong, error, named in (
        ({"key": "gone"}, ParameterError, "gone"),
        ({"key": []}, ParameterError, "key="),
        ({"parts": 0}, ParameterError, "parts=0"),
        ({"weight": "text"}, WeightError, "weight='text'"),
        ({"sample": 0}, ParameterError, "sample=0"),
        ({"split": 7}, ParameterError, "split=7"),
        ({"part": "value"}, ParameterError, "already"),
        ({"partitioner": learnt}, ParameterError, "4 parts for parts=3"),
        ({"partitioner": learnt, "parts": 4, "sample": 0.5}, ParameterError, "leave them out"),
        ({"partitioner": "x"}, ParameterError, "learn_partitioner"),
        ({"partitioner": hash_map(300), "parts": 300, "metrics": "m"}, ParameterError, "at most 256"),
    ):
        with pytest.raises(error, match=named):
            balanced_repartition(rows, **{"key": "number", "parts": 3} | wrong)  # type: ignore[arg-type]
    split = build_map(learn_partitioner(rows, "number", 3).learnt, 3, split=0.1)
    with pytest.raises(ParameterError, match="spread"):
        balanced_repartition(rows, "number", 3, partitioner=split, spread="gone")
    with pytest.raises(QueryError, match="no parts"):
        measured_loads({"rows": 3})
