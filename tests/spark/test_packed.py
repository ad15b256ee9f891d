"""Rows that the JVM packs give what `mapInArrow` gives, of any type, and nothing runs before an action does."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as sql

from catchment import CountMin, SpaceSaving
from catchment.spark import batch, sketch
from catchment.spark.packed import packed

pytestmark = pytest.mark.spark

LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"
GROUPS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-1, 1],
    "date": [datetime.date(1600, 2, 28), datetime.date(2026, 3, 29)],
    "timestamp": [
        datetime.datetime(1883, 11, 18, 12, 3, 57, 999_999, tzinfo=datetime.UTC),
        datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.UTC),
    ],
    "timestamp_ntz": [datetime.datetime(1582, 10, 4), datetime.datetime(2026, 3, 29, 2, 30, 0, 1)],
    "decimal(20,3)": [Decimal("12345678901234567.125"), Decimal("-0.001")],
    "string": ["", "smörgås 𝛿"],
    "binary": [b"", b"\x00\xff"],
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_groups_of_any_type_are_those_of_the_other_way(
    spark: Any, monkeypatch: pytest.MonkeyPatch, kind: str, zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        values = [*GROUPS[kind], None]
        rows = [(values[number % 3], number % 5) for number in range(60)]
        df = spark.createDataFrame(rows, f"place {kind}, key long").withColumn("key", sql.col("key") + 1)
        found = [_sketches(df)]
        assert packed(df, short=True) is not None
        monkeypatch.setattr(batch, "packed", lambda *_, **__: None)
        found.append(_sketches(df))
        assert found[0] == found[1]
        assert len(found[0]) == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def _sketches(df: Any) -> dict[Any, bytes]:
    using = CountMin(0.1, 0.1)
    # As text, since Python shows a time in the zone of the machine.
    rows = sketch(df, using=using, keys="key", by="place", lane="rows").select(
        sql.when(sql.typeof("place") == "binary", sql.hex("place")).otherwise(sql.col("place").cast("string")), "sketch"
    )
    return {place: bytes(blob) for place, blob in rows.collect()}


def test_text_in_arrow_s_large_types_is_read_as_such(spark: Any) -> None:
    df = spark.createDataFrame([("oslo", f"key {number % 5}") for number in range(60)], "place string, key string")
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    found = []
    for large in ("false", "true"):
        spark.conf.set(setting, large)
        try:
            rows = sketch(df, using=SpaceSaving(0.1), keys="key", by="place", lane="rows")
        finally:
            spark.conf.set(setting, "false")  # what tasks give back is in the ordinary types
        found.append({place: bytes(blob) for place, blob in rows.collect()})
    assert found[0] == found[1]
    assert SpaceSaving.from_bytes(found[0]["oslo"]).estimate("key 3").value == 12


def test_a_plan_with_a_shuffle_is_left_to_spark(spark: Any) -> None:
    df = spark.range(100).groupBy((sql.col("id") % 7).alias("key")).count()
    assert packed(df, short=True) is None
    (row,) = sketch(df, using=CountMin(0.1, 0.1), keys="key", lane="rows").collect()
    assert CountMin.from_bytes(row["sketch"]).total().value == 7


def test_nothing_runs_before_an_action_and_settings_stay(spark: Any) -> None:
    seen = spark.sparkContext.accumulator(0)

    def looked(batches: Any) -> Any:
        for rows in batches:
            seen.add(rows.num_rows)
            yield rows

    before = spark.conf.get(LIMIT)
    df = spark.range(50).mapInArrow(looked, "id long")
    sketches = sketch(df, using=CountMin(0.1, 0.1), keys="id", lane="rows")
    assert seen.value == 0
    assert spark.conf.get(LIMIT) == before
    (row,) = sketches.collect()
    assert seen.value == 50
    assert CountMin.from_bytes(row["sketch"]).total().value == 50
