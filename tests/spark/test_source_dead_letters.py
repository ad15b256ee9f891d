"""Every row is good or a dead letter, each for the reason it has."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import ParameterError
from catchment.spark.source import (
    REASONS,
    Checks,
    count_reasons,
    read_dead_letters,
    register_sources,
    split_bad,
    write_dead_letters,
)

pytestmark = pytest.mark.spark

NOW = datetime.now(UTC)
SCHEMA = "key STRING, time TIMESTAMP, value BIGINT"
ALL = Checks(weight="value", ahead=600)
ROWS = [
    ("a", NOW, 1),
    (None, NOW, 1),
    ("b", None, 1),
    ("c", NOW + timedelta(seconds=300), 1),
    ("d", NOW + timedelta(days=1), 1),
    ("e", NOW, -1),
    ("f", NOW, None),
    (None, None, -5),
    ("g", NOW, 0),
]
EXPECTED = {"null key": 2, "negative weight": 1, "null time": 1, "null weight": 1, "time in the future": 1}


def letters(bad: Any) -> list[tuple[str, Any]]:
    """Reason and key of each dead letter."""
    return sorted(((row["reason"], json.loads(row["record"]).get("key")) for row in bad.collect()), key=str)


def test_each_reason_is_found_and_rows_are_in_one_part(spark: Any) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    good, bad = split_bad(frame, ALL)
    assert good.schema == frame.schema
    assert sorted(row["key"] for row in good.collect()) == ["a", "c", "g"]
    assert letters(bad) == [
        ("negative weight", "e"), ("null key", None), ("null key", None), ("null time", "b"), ("null weight", "f"),
        ("time in the future", "d"),
    ]  # fmt: skip
    assert bad.dtypes == [("reason", "string"), ("record", "string"), ("seen", "timestamp")]
    assert count_reasons(bad) == EXPECTED
    assert next(iter(count_reasons(bad))) == "null key"
    (record,) = (json.loads(row["record"]) for row in bad.where("reason = 'null weight'").collect())
    assert set(record) == {"key", "time", "value"}, "nulls are part of the record"
    (seen,) = bad.select("seen").distinct().collect()
    assert abs((seen[0] - datetime.now(UTC).replace(tzinfo=None)).total_seconds()) < 300
    assert set(EXPECTED) < set(REASONS)


def test_what_is_not_asked_for_is_not_bad(spark: Any) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    assert split_bad(frame)[1].count() == 3
    assert count_reasons(split_bad(frame, Checks(key=("key", "value"), time=None))[1]) == {"null key": 3}
    assert split_bad(frame, Checks(key=None, time=None, weight="value"))[0].count() == 6


def test_times_as_text_are_parsed_and_kept_where_they_do_not(spark: Any) -> None:
    rows = [("a", "2026-01-01T10:00:00Z"), ("b", "soon"), ("c", None), ("d", "9999-01-01 00:00:00"), ("e", "")]
    good, bad = split_bad(spark.createDataFrame(rows, "key STRING, time STRING"), Checks(ahead=0))
    assert letters(bad) == [
        ("null time", "c"), ("time in the future", "d"), ("unparseable time", "b"), ("unparseable time", "e"),
    ]  # fmt: skip
    assert dict(good.dtypes)["time"] == "timestamp"
    assert [tuple(row) for row in good.collect()] == [("a", datetime(2026, 1, 1, 10))]
    frame = spark.createDataFrame([("a", "31.01.2026"), ("b", "2026-01-31")], "key STRING, time STRING")
    good, bad = split_bad(frame, Checks(time_format="dd.MM.yyyy"))
    assert good.collect()[0]["time"] == datetime(2026, 1, 31)
    assert letters(bad) == [("unparseable time", "b")]


def test_names_that_look_like_paths_are_names(spark: Any) -> None:
    frame = spark.createDataFrame([(None, 5), ("x", 6)], "`a.key` STRING, `a``time` BIGINT")
    good, bad = split_bad(frame, Checks(key="a.key", time="a`time"))
    assert (good.count(), bad.count()) == (1, 1)


def test_json_lines(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text(
        '{"key": "a", "time": "2026-01-01T00:00:00Z", "value": 3}\n'
        '{"key": "b", "time": "2026-01-01T00:00:00Z", "value": -3}\n'
        '{"key": "c", "time": "2026-01-01T00:00:00Z", "value": "three"}\n'
        '{"key": "d", "time": \n'
        '{"time": "2026-01-01T00:00:00Z", "value": 3}\n'
    )
    frame = spark.read.schema(SCHEMA + ", _corrupt_record STRING").json(str(tmp_path))
    good, bad = split_bad(frame, Checks(weight="value", corrupt="_corrupt_record"))
    assert [row["key"] for row in good.collect()] == ["a"]
    assert good.columns == ["key", "time", "value"]
    assert good.select("key").count() == good.count() == 1
    assert count_reasons(bad) == {"corrupt record": 2, "negative weight": 1, "null key": 1}
    corrupt = [json.loads(row["record"])["_corrupt_record"] for row in bad.where("reason = 'corrupt record'").collect()]
    assert '{"key": "d", "time": ' in corrupt
    good, bad = split_bad(frame, Checks(key=None, time=None, corrupt="_corrupt_record"))
    assert (good.count(), bad.count()) == (3, 2)
    assert [row["key"] for row in good.select("key").orderBy("key").collect()] == [None, "a", "b"]


def test_parquet(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(ROWS, SCHEMA).write.parquet(str(tmp_path / "events"))
    good, bad = split_bad(spark.read.parquet(str(tmp_path / "events")), ALL)
    assert (good.count(), count_reasons(bad)) == (3, EXPECTED)


def test_a_value_as_kafka_has_it(spark: Any) -> None:
    values = [b'{"key": "a", "time": "2026-01-01T00:00:00Z", "value": 1}', b"\xff\xfe{", b'{"key": null}']
    raw = spark.createDataFrame([(bytearray(value),) for value in values], "value BINARY")
    raw.createOrReplaceTempView("raw")
    parsed = spark.sql(
        f"SELECT from_json(CAST(value AS STRING), '{SCHEMA}, _corrupt_record STRING', "
        "map('columnNameOfCorruptRecord', '_corrupt_record')) AS event FROM raw"
    ).select("event.*")
    good, bad = split_bad(parsed, Checks(corrupt="_corrupt_record"))
    assert [row["key"] for row in good.collect()] == ["a"]
    assert count_reasons(bad) == {"corrupt record": 1, "null key": 1}


def test_micro_batches_write_their_dead_letters_once(spark: Any, tmp_path: Path) -> None:
    register_sources(spark)
    options = {"events": 3000, "per_batch": 1000, "nulls": 0.1, "bad": 0.1, "start": "2024-01-01"}
    stream = spark.readStream.format("catchment_events").options(**options).load()
    path, counts, kept = str(tmp_path / "dead"), [], []

    def take(rows: Any, batch_id: int) -> None:
        good, bad = split_bad(rows, Checks(weight="value"))
        counts.append(write_dead_letters(bad, path, batch_id))
        assert write_dead_letters(bad, path, batch_id) == counts[-1], "a repeated micro-batch"
        kept.append(good.count())

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = read_dead_letters(spark, path)
    assert written.columns == ["batch", "reason", "record", "seen"]
    assert [row["batch"] for row in written.select("batch").distinct().orderBy("batch").collect()] == [0, 1, 2]
    assert written.count() + sum(kept) == 3000
    assert set(counts[0]) == {"null key", "null time", "negative weight"}
    for reason, count in count_reasons(written).items():
        assert count == sum(batch[reason] for batch in counts)


def test_a_micro_batch_without_dead_letters_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    _, bad = split_bad(spark.createDataFrame(ROWS, SCHEMA), ALL)
    path = str(tmp_path / "dead")
    assert write_dead_letters(bad, path, 4) == EXPECTED
    assert write_dead_letters(bad.where("false"), path, 5) == {}
    assert read_dead_letters(spark, path).where("batch = 5").count() == 0
    assert not list((tmp_path / "dead/batch=5").rglob("*.parquet"))
    assert write_dead_letters(bad.where("false"), path, 4) == {}, "written anew, also with nothing"
    with pytest.raises(ParameterError, match="batch_id=-1"):
        write_dead_letters(bad, path, -1)


def test_a_streaming_frame_can_be_split_as_it_is(spark: Any, tmp_path: Path) -> None:
    register_sources(spark)
    options = {"events": 1000, "bad": 0.2, "start": "2024-01-01", "density": 100}
    stream = spark.readStream.format("catchment_events").options(**options).load()
    _, bad = split_bad(stream, Checks(weight="value", ahead=3600))
    query = (
        bad.writeStream.format("parquet")
        .option("path", str(tmp_path / "dead"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = count_reasons(spark.read.parquet(str(tmp_path / "dead")))
    batch = split_bad(spark.read.format("catchment_events").options(**options).load(), Checks(weight="value"))[1]
    assert written == count_reasons(batch)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        (Checks(key="user"), "no column for key='user': name one of key, time, value"),
        (Checks(weight="bytes"), "no column for weight='bytes'"),
        (Checks(key=None, time=None), "nothing to check"),
        (Checks(ahead=-1), "ahead=-1"),
        (Checks(time="value", ahead=5), "ticks are not compared with the clock"),
        (Checks(time=None, ahead=5), "name a column of timestamps"),
    ],
)
def test_checks_that_cannot_be_made_are_refused(spark: Any, checks: Checks, message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        split_bad(spark.createDataFrame(ROWS, SCHEMA), checks)
    assert message in str(refused.value)
