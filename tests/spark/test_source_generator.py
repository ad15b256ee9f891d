"""The format `catchment_events`: the same rows by batch, by stream and after a restart, shaped as its options say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.errors import ParameterError
from catchment.spark.source import register_sources
from catchment.spark.source.generator import BATCH_ROWS, EventStreamReader, Plan
from catchment.spark.source.options import Options
from catchment.spark.source.recipe import Recipe

pytestmark = pytest.mark.spark

SHAPE = {
    "seed": 11, "sites": 12, "keys": 500, "skew": 1.0, "density": 50, "diurnal": 0.5, "bursts": 0.3, "burst_every": 600,
    "burst_for": 60, "late": 0.1, "late_by": 30, "nulls": 0.02, "bad": 0.02, "key_type": "text",
}  # fmt: skip
DAY = 86_400_000_000


def loaded(spark: Any, **options: Any) -> Any:
    register_sources(spark)
    return spark.read.format("catchment_events").options(**options).load()


def streamed(spark: Any, **options: Any) -> Any:
    register_sources(spark)
    return spark.readStream.format("catchment_events").options(**options).load()


def recipe(**options: Any) -> Recipe:
    return Recipe.from_options(Options({name: str(value) for name, value in options.items()}))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in an order of their own, because partitions come in any."""
    return sorted(table.to_pylist(), key=lambda row: tuple(str(value) for value in row.values()))


def column(made: pa.RecordBatch, name: str) -> Any:
    kind = pa.int64() if name == "time" else made.schema.field(name).type
    return made.column(name).cast(kind).to_numpy(zero_copy_only=False)


# -- replay ---------------------------------------------------------------------------------------------------


def test_a_batch_is_the_recipe_however_many_partitions(spark: Any) -> None:
    whole = rows(pa.Table.from_batches([recipe(**SHAPE).batch(0, 5000)]))
    for partitions in (1, 3):
        frame = loaded(spark, **SHAPE, events=5000, partitions=partitions)
        assert frame.rdd.getNumPartitions() == partitions
        assert rows(frame.toArrow()) == whole
    assert rows(loaded(spark, **SHAPE, first=1000, events=300).toArrow()) == rows(
        pa.Table.from_batches([recipe(**SHAPE).batch(1000, 300)])
    )
    assert rows(loaded(spark, **SHAPE | {"seed": 12}, events=5000).toArrow()) != whole


def test_more_than_one_arrow_batch_a_partition(spark: Any) -> None:
    count = 2 * BATCH_ROWS + 17
    frame = loaded(spark, events=count, partitions=1)
    expected = recipe().batch(0, count)
    (found,) = frame.selectExpr("count(*)", "sum(key)", "sum(value)", "max(time)", "count(distinct time)").collect()
    assert found[0] == count
    assert found[1:3] == (np.sum(column(expected, "key")), np.sum(column(expected, "value")))
    assert found[4] == len(np.unique(column(expected, "time")))


def test_no_events_are_no_rows(spark: Any) -> None:
    assert loaded(spark, events=0).count() == 0


@pytest.mark.parametrize("key_type", ["integer", "text"])
def test_the_columns_are_as_promised(spark: Any, key_type: str) -> None:
    kinds = dict(loaded(spark, events=1, key_type=key_type).dtypes)
    key = "string" if key_type == "text" else "bigint"
    assert kinds == {"site": "string", "time": "timestamp", "key": key, "value": "bigint"}


def test_a_stream_gives_the_rows_of_a_batch_and_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    def run(events: int) -> list[dict[str, Any]]:
        frame = streamed(spark, **SHAPE, events=events, per_batch=400)
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    first = run(1000)
    assert [progress["numInputRows"] for progress in first] == [400, 400, 200]
    assert first[-1]["sources"][0]["endOffset"] == '{"events": 1000}'
    second = run(1500)
    assert [progress["sources"][0]["startOffset"] for progress in second] == ['{"events": 1000}', '{"events": 1400}']
    assert run(1500) == []
    written = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert rows(written) == rows(loaded(spark, **SHAPE, events=1500).toArrow())


def test_a_micro_batch_that_failed_is_given_again(spark: Any, tmp_path: Path) -> None:
    taken: list[tuple[int, list[dict[str, Any]]]] = []

    def take(frame: Any, batch_id: int) -> None:
        taken.append((batch_id, rows(frame.toArrow())))
        if len(taken) == 2:
            raise RuntimeError("the power went")

    def start() -> Any:
        writer = streamed(spark, **SHAPE, events=200, per_batch=100).writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    with pytest.raises(Exception, match="the power went"):
        start().awaitTermination(120)
    assert start().awaitTermination(120)
    assert [number for number, _ in taken] == [0, 1, 1]
    assert taken[1] == taken[2]


def test_a_rate_is_kept_by_the_clock(spark: Any, tmp_path: Path) -> None:
    began = time.monotonic()
    query = (
        streamed(spark, rate=2000)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="300 milliseconds")
        .start()
    )
    try:
        while sum(progress["numInputRows"] for progress in query.recentProgress) < 2000:
            assert time.monotonic() < began + 300, query.recentProgress
            assert query.exception() is None
            time.sleep(0.1)
    finally:
        query.stop()
    given = sum(progress["numInputRows"] for progress in query.recentProgress)
    assert given <= 2000 * (time.monotonic() - began)


def test_admission_counts_rate_limit_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reader = EventStreamReader(Plan.from_options({"rate": "10", "per_batch": "25", "events": "100", "first": "7"}))
    limit = reader.getDefaultReadLimit()
    assert reader.initialOffset() == {"events": 7}
    assert reader.latestOffset({"events": 7}, limit) == {"events": 7}
    now = 51.55
    assert reader.latestOffset({"events": 7}, limit) == {"events": 22}
    now = 60.0
    assert reader.latestOffset({"events": 22}, limit) == {"events": 47}
    now = 1000.0
    assert reader.latestOffset({"events": 97}, limit) == {"events": 107}
    assert reader.latestOffset({"events": 107}, limit) == {"events": 107}
    restarted = EventStreamReader(reader.plan)
    assert restarted.latestOffset({"events": 60}, limit) == {"events": 60}, "time stopped is not made up for"


def test_without_end_every_micro_batch_is_full() -> None:
    reader = EventStreamReader(Plan.from_options({"per_batch": "25"}))
    assert reader.latestOffset({"events": 50}, reader.getDefaultReadLimit()) == {"events": 75}
    with pytest.raises(ParameterError, match="availableNow"):
        reader.prepareForTriggerAvailableNow()


# -- shape ----------------------------------------------------------------------------------------------------


def test_the_top_key_has_its_share_of_a_zipf(spark: Any) -> None:
    (top,) = loaded(spark, events=200_000, keys=1000, skew=1.2).where("key = 0").selectExpr("count(*)").first()
    odds = np.arange(1, 1001) ** -1.2
    share = odds[0] / odds.sum()
    assert abs(top / 200_000 - share) < 6 * np.sqrt(share * (1 - share) / 200_000)


def test_the_day_has_its_curve_from_any_hour_on() -> None:
    for start in ("2026-03-01T00:00:00Z", "2026-03-01T09:30:00Z", "1969-12-30T20:00:00Z"):
        times = column(recipe(start=start, density=2, diurnal=0.6).batch(0, 2 * 86_400 * 2), "time")
        assert np.all(np.diff(times) >= 0)
        assert times[-1] - times[0] == pytest.approx(2 * DAY, rel=1e-4)
        of_day = np.bincount(times % DAY * 24 // DAY, minlength=24)
        hours = np.arange(24) + 0.5
        expected = 2 * 2 * 3600 * (1 + 0.6 * np.cos((hours - 16) / 24 * 2 * np.pi))
        assert np.all(np.abs(of_day / expected - 1) < 0.02), start


def test_a_burst_takes_its_share() -> None:
    made = recipe(keys=100_000, skew=0, density=100, bursts=0.25, burst_every=3600, burst_for=600).batch(0, 360_000)
    inside = column(made, "time") % 3_600_000_000 < 600_000_000
    keys = column(made, "key")
    assert inside.sum() == 60_000
    top = np.bincount(keys[inside]).max() / 60_000
    assert abs(top - 0.25) < 6 * np.sqrt(0.19 / 60_000)
    assert np.bincount(keys[~inside]).max() < 30


def test_late_events_have_their_share() -> None:
    times = column(recipe(density=100, late=0.05, late_by=60).batch(0, 100_000), "time")
    newest = np.maximum.accumulate(times)
    behind = newest - times
    assert abs(np.mean(behind > 20_000) - 0.05) < 6 * np.sqrt(0.05 / 100_000)
    assert behind.max() <= 60_020_000


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sead": 1}, "no option 'sead': did you mean 'seed'"),
        ({"keys": 0}, "keys='0': give an integer from 1"),
        ({"keys": "many"}, "keys='many'"),
        ({"keys": 2.5}, "keys='2.5'"),
        ({"skew": -1}, "skew='-1'"),
        ({"skew": "nan"}, "skew='nan'"),
        ({"density": 0}, "density='0'"),
        ({"diurnal": 1}, "diurnal='1'"),
        ({"start": "yesterday"}, "start='yesterday': give a moment"),
        ({"key_type": "float"}, "key_type='float': give one of integer, text"),
        ({"late": 0.1}, "late=0.1 without late_by"),
        ({"bursts": 0.1, "burst_every": 10, "burst_for": 20}, "burst_for=20 is longer"),
        ({"nulls": 0.6, "bad": 0.6}, "more than all events"),
        ({"rate": 0}, "rate='0'"),
        ({"per_batch": 0}, "per_batch='0'"),
        ({"events": -1}, "events='-1'"),
        ({"first": -1}, "first='-1'"),
        ({"partitions": 0}, "partitions='0'"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Plan.from_options({name: str(value) for name, value in options.items()})
    assert message in str(refused.value)


def test_a_query_with_such_an_option_is_not_built(spark: Any) -> None:
    for build in (loaded, streamed):
        with pytest.raises(Exception, match="ParameterError: catchment_events has no option 'sead'"):
            build(spark, sead=1, events=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "a batch without events"), ({"events": 5, "rate": 5}, "rate=5 for a batch: leave rate out")],
)
def test_a_batch_with_the_options_of_a_stream_is_refused(spark: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        loaded(spark, **options).count()


def test_another_schema_is_refused(spark: Any) -> None:
    register_sources(spark)
    frame = spark.read.format("catchment_events").schema("key STRING").options(events=5).load()
    with pytest.raises(Exception, match="leave the schema out; it is site STRING"):
        frame.count()
