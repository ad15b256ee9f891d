"""Aggregates that build give what the library builds, whatever the order of rows; wrong ones fail with the query."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from catchment import (
    CountMin,
    DyadicECM,
    ECMSketch,
    MergeError,
    Panes,
    ParameterError,
    Sketch,
    SpaceSaving,
    UltraLogLog,
    UnknownFormatError,
)
from catchment.spark import functions as cf
from catchment.spark.functions.building import build_group_by_parameters
from catchment.spark.functions.merging import union_group
from catchment.window.gather import build

pytestmark = pytest.mark.spark

RNG = np.random.default_rng(9)
EVENTS = pa.table(
    {
        "site": pa.array(RNG.integers(0, 3, 4000)),
        "key": pa.array(RNG.zipf(1.5, 4000) % 100),
        "time": pa.array(RNG.integers(0, 5000, 4000)),
        "weight": pa.array(RNG.integers(1, 4, 4000)),
    }
)


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    cf.register(spark)
    frame = spark.createDataFrame(EVENTS).repartition(3)
    frame.createOrReplaceTempView("site_events")
    return frame


def of_site(site: int, name: str) -> Any:
    return EVENTS.filter(pa.compute.equal(EVENTS["site"], site))[name].to_numpy()


@pytest.mark.parametrize(
    ("name", "sql", "using"),
    [
        ("ecm_sketch_agg", "key, time, 0.1, 0.1, 1000", ECMSketch(0.1, 0.1, window=1000)),
        ("ecm_sketch_agg", "key, time, 0.1, 0.1, 1000, counter => 'eh', seed => 3",
         ECMSketch(0.1, 0.1, window=1000, counter="eh", seed=3)),
        ("dyadic_sketch_agg", "key, time, 0.1, 0.1, 1000, 10", DyadicECM(0.1, 0.1, window=1000, bits=10)),
        ("top_k_sketch_agg", "key, 0.02", SpaceSaving(0.02)),
        ("top_k_panes_agg", "key, time, 0.02, 1000, panes => 7", Panes(SpaceSaving(0.02), 1000, panes=7)),
        ("distinct_sketch_agg", "key, 0.1, 0.05", UltraLogLog(0.1, 0.05)),
        ("count_min_sketch_agg", "key, 0.1, 0.1, conservative => true", CountMin(0.1, 0.1, conservative=True)),
    ],
)  # fmt: skip
def test_sql_and_columns_build_the_bytes_that_the_library_builds(
    spark: Any, events: Any, name: str, sql: str, using: Sketch
) -> None:
    columns = [column for column in ("key", "time") if column in sql]
    in_sql = spark.sql(f"SELECT site, {name}({sql}) AS sketch FROM site_events GROUP BY site").collect()
    by_columns = events.groupBy("site").agg(getattr(cf, name)(*columns, using=using).alias("sketch")).collect()
    expected = {
        site: build(using, of_site(site, "key"), *(of_site(site, "time") for name in columns if name == "time"))
        for site in range(3)
    }
    for rows in (in_sql, by_columns):
        assert {row["site"]: Sketch.from_bytes(row["sketch"]) for row in rows} == expected


def test_weights_and_parameters_as_python_values(events: Any) -> None:
    call = cf.ecm_sketch_agg("key", "time", 0.1, 0.1, 1000, weight="weight", counter="panes")
    (row,) = events.where("site = 1").agg(call.alias("sketch")).collect()
    using = ECMSketch(0.1, 0.1, window=1000, counter="panes")
    whole = build(using, of_site(1, "key"), of_site(1, "time"), weights=of_site(1, "weight"))
    assert Sketch.from_bytes(row["sketch"]) == whole


@pytest.mark.usefixtures("events")
def test_two_aggregates_stand_in_one_select(spark: Any) -> None:
    (row,) = spark.sql(
        "SELECT ecm_sketch_total(ecm_sketch_agg(key, time, 0.1, 0.1, 6000)) AS n,"
        "       distinct_sketch_estimate(distinct_sketch_agg(key)) AS d FROM site_events"
    ).collect()
    distinct = len(set(EVENTS["key"].to_pylist()))
    assert row["n"] == 4000
    assert abs(row["d"] - distinct) <= 0.1 * distinct


def test_nulls_are_skipped_and_a_group_of_nothing_else_is_an_empty_sketch(spark: Any) -> None:
    cf.register(spark)
    rows = spark.sql(
        "SELECT g, ecm_sketch_agg(key, time, 0.1, 0.1, 1000) AS sketch FROM VALUES "
        "('some', 'a', 1), ('some', NULL, 2), ('some', 'b', NULL), ('none', NULL, 1) AS e(g, key, time) GROUP BY g"
    ).collect()
    found = {row["g"]: Sketch.from_bytes(row["sketch"]) for row in rows}
    empty = ECMSketch(0.1, 0.1, window=1000)
    assert found["none"] == empty
    assert found["some"] == build(empty, ["a"], [1])
    nothing = spark.sql("SELECT ecm_sketch_agg(id, id, 0.1, 0.1, 1000) FROM range(0)").collect()
    assert nothing == [], "no rows give no row, as with every Python aggregate of Spark"


def test_a_timestamp_is_the_second_that_it_is_in(spark: Any) -> None:
    moments = [datetime.datetime(1970, 1, 1, 0, 0, 5, 999_999), datetime.datetime(1969, 12, 31, 23, 59, 59, 1)]
    frame = spark.createDataFrame(pa.table({"key": ["a", "a"], "at": pa.array(moments, pa.timestamp("us", "UTC"))}))
    (row,) = frame.agg(cf.ecm_sketch_agg("key", "at", 0.1, 0.1, 100).alias("sketch")).collect()
    assert Sketch.from_bytes(row["sketch"]) == build(ECMSketch(0.1, 0.1, window=100), ["a", "a"], [-1, 5])


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("ecm_sketch_agg(key, time, -1, 0.1, 100)", "ParameterError: epsilon=-1: give"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, 0)", "window=0: give"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, 1.5)", "window=1.5: give"),
        ("ecm_sketch_agg(key, time, 'x', 0.1, 100)", "epsilon='x': give"),
        ("ecm_sketch_agg(key, time, true, 0.1, 100)", "epsilon=True: give"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, NULL)", "was given no window"),
        ("ecm_sketch_agg(key, time, weight, 0.1, 100)", "for epsilon: give a literal"),
        ("ecm_sketch_agg(CAST(key AS DOUBLE), time, 0.1, 0.1, 100)", "KeyTypeError: .* key of type DOUBLE: cast"),
        ("ecm_sketch_agg(key > 1, time, 0.1, 0.1, 100)", "key of type BOOLEAN: cast"),
        ("ecm_sketch_agg(key, DATE'2026-01-01', 0.1, 0.1, 100)", "TimeError: .* time of type DATE: cast"),
        ("ecm_sketch_agg(key, time)", "was given no epsilon: call ecm_sketch_agg"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, 100, windows => 3)", "was given windows, which it does not know"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, 100, key => 3)", "was given key twice"),
        ("ecm_sketch_agg(key, time, 0.1, 0.1, 100, 'heap')", "counter='heap': give one of"),
        ("top_k_panes_agg(key, time, 0.1, 100, panes => 0)", "panes=0: give"),
        ("count_min_sketch_agg(key, conservative => 3)", "conservative=3: give"),
        ("ecm_sketch_estimate(key, 'a')", "sketch of type BIGINT: cast it to BINARY"),
        ("ecm_sketch_estimate(X'00')", "was given no key: call ecm_sketch_estimate"),
        ("ecm_sketch_estimate(X'00', 'a', 1, 2, 3)", "was given 5 arguments: call"),
        ("top_k_sketch_estimate(X'00', 'ten')", "k of type STRING: cast"),
        ("ecm_union(X'00')", "was given no other: call"),
        ("ecm_union_agg(key)", "sketch of type BIGINT: cast it to BINARY"),
    ],
)
def test_a_wrong_call_fails_when_the_query_is_built(spark: Any, call: str, complaint: str) -> None:
    with pytest.raises(AnalysisException, match=complaint):
        spark.sql(f"SELECT {call} FROM site_events")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("table", "parameters", "complaint"),
    [
        ("SELECT key, time FROM site_events", "-1, 0.1, 100", "ParameterError: epsilon=-1: give"),
        ("SELECT key, time FROM site_events", "0.1, 0.1", "was given no window"),
        ("SELECT CAST(key AS DOUBLE) AS key, time FROM site_events", "0.1, 0.1, 100", "key of type DOUBLE: cast"),
        ("SELECT time FROM site_events", "0.1, 0.1, 100", "without a column key"),
    ],
)
def test_a_wrong_table_function_fails_when_the_query_is_built(
    spark: Any, table: str, parameters: str, complaint: str
) -> None:
    with pytest.raises(AnalysisException, match=complaint):
        spark.sql(f"SELECT * FROM ecm_sketch_partials(TABLE({table}), {parameters})")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: cf.ecm_sketch_agg("key", "time", epsilon=-1, delta=0.1, window=100), "epsilon=-1"),
        (lambda: cf.ecm_sketch_agg("key", "time", sf.col("e"), 0.1, 100), "epsilon is a column"),
        (lambda: cf.ecm_sketch_agg("key", "time", using=ECMSketch(0.1, 0.1, arrivals=10)), "window of arrivals"),
        (lambda: cf.ecm_sketch_agg("key", "time", using=build(CountMin(), ["a"])), "given a CountMin"),
        (lambda: cf.count_min_sketch_agg("key", using=build(CountMin(), ["a"])), "events in it"),
        (lambda: cf.top_k_sketch_agg("key", using=Panes(SpaceSaving(), 10)), "call top_k_panes_agg"),
        (lambda: cf.top_k_panes_agg("key", "time", using=SpaceSaving()), "call top_k_sketch_agg"),
        (lambda: cf.ecm_sketch_agg("key", using=ECMSketch(0.1, 0.1, window=10)), "was given no time"),
        (lambda: cf.ecm_sketch_agg("key", "time", using=3), "using=3"),
        (lambda: cf.ecm_sketch_total("sketch", using=CountMin()), "was given using"),
    ],
)
def test_a_wrong_column_function_fails_when_it_is_called(call: Any, complaint: str) -> None:
    with pytest.raises((ParameterError, UnknownFormatError), match=complaint):
        call()


def test_parameters_that_come_as_columns_are_checked_in_the_task() -> None:
    """As they do through Spark Connect, where nothing can look at the query."""
    keys, times = pa.array(["a", "b"]), pa.array([1, 2])

    def columns(epsilon: float) -> list[pa.Array]:
        return [pa.array([value] * 2) for value in (epsilon, 0.1, 100)]

    built = build_group_by_parameters("ecm_sketch_agg", keys, times, *columns(0.1))
    assert Sketch.from_bytes(built) == build(ECMSketch(0.1, 0.1, window=100), ["a", "b"], [1, 2])
    with pytest.raises(ParameterError, match="epsilon=-1"):
        build_group_by_parameters("ecm_sketch_agg", keys, times, *columns(-1.0))
    with pytest.raises(ParameterError, match="seed that differs from row to row"):
        build_group_by_parameters("ecm_sketch_agg", keys, times, *columns(0.1), seed=pa.array([1, 2]))


# -- unions -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("events")
def test_a_union_is_the_flat_merge_of_all_parts(spark: Any) -> None:
    using = ECMSketch(0.1, 0.1, window=1000)
    parts: list[Any] = [build(using, of_site(site, "key"), of_site(site, "time")) for site in range(3)]
    spark.sql(
        "SELECT site, ecm_sketch_agg(key, time, 0.1, 0.1, 1000) AS sketch FROM site_events GROUP BY site "
        "UNION ALL SELECT 9, CAST(NULL AS BINARY)"
    ).createOrReplaceTempView("parts")
    for name in ("ecm_union_agg", "ecm_union_agg_large"):
        (row,) = spark.sql(f"SELECT {name}(sketch) AS sketch FROM (SELECT * FROM parts ORDER BY site)").collect()
        merged = ECMSketch.merge(parts)
        found = ECMSketch.from_bytes(row["sketch"])
        assert found.parameters == merged.parameters
        assert found.epsilon == merged.epsilon, "merged all at once, the error is added once"
        assert found.total() == merged.total()
    (row,) = spark.sql(
        "SELECT ecm_union(a.sketch, b.sketch) AS sketch, ecm_union(a.sketch, CAST(NULL AS BINARY)) AS nothing "
        "FROM parts a, parts b WHERE a.site = 0 AND b.site = 1"
    ).collect()
    assert Sketch.from_bytes(row["sketch"]) == ECMSketch.merge(parts[:2])
    assert row["nothing"] is None


def test_a_union_of_nulls_is_null(spark: Any) -> None:
    cf.register(spark)
    (row,) = spark.sql("SELECT ecm_union_agg(CAST(NULL AS BINARY)) AS sketch FROM range(3)").collect()
    assert row["sketch"] is None


def test_a_union_of_what_does_not_fit_names_it() -> None:
    blobs = [sketch.to_bytes() for sketch in (ECMSketch(window=10), ECMSketch(window=20), CountMin())]
    with pytest.raises(UnknownFormatError, match="ecm functions were given a CountMin: give ECMSketch, or use"):
        union_group("ecm", pa.array([blobs[0], blobs[2]], pa.binary()))
    with pytest.raises(MergeError, match="window differs: 10 and 20"):
        union_group("ecm", pa.array(blobs[:2], pa.binary()))


@pytest.mark.usefixtures("events")
def test_partials_of_groups_and_their_union(spark: Any) -> None:
    rows = spark.sql(
        "SELECT site, count_min_union_agg(sketch) AS sketch "
        "FROM count_min_sketch_partials(TABLE(SELECT site, key, weight FROM site_events), 0.1, 0.1) GROUP BY site"
    ).collect()
    expected = {
        site: build(CountMin(0.1, 0.1), of_site(site, "key"), weights=of_site(site, "weight")) for site in range(3)
    }
    assert {row["site"]: Sketch.from_bytes(row["sketch"]) for row in rows} == expected
    empty = "count_min_sketch_partials(TABLE(SELECT key FROM site_events WHERE key < 0), 0.1, 0.1)"
    assert spark.sql(f"SELECT * FROM {empty}").collect() == []
