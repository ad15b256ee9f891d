"""The bounds of Spark's sketches as functions of columns and of SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

from catchment.errors import ParameterError
from catchment.spark.answers import ANSWER_TYPE, RANKING_TYPE, answers_to_arrow, rankings_to_arrow
from catchment.spark.builtin import (
    SparkCountMin,
    approx_top_k,
    approx_top_k_accumulate,
    approx_top_k_combine,
    approx_top_k_estimate,
    approx_top_k_estimate_with_error_bounds,
    count_min_sketch_estimate,
    count_min_sketch_estimate_with_error_bounds,
    count_min_sketch_union_agg,
    hll_answer,
    hll_sketch_estimate_with_error_bounds,
    items_ranking,
    kll_quantile_answer,
    kll_rank_answer,
    kll_sketch_get_quantile_with_error_bounds,
    kll_sketch_get_rank_with_error_bounds,
    register_builtin,
    theta_answer,
    theta_sketch_estimate_with_error_bounds,
    tuple_answer,
    tuple_sketch_estimate_with_error_bounds,
)

pytestmark = pytest.mark.spark

AGGREGATES = """
    hll_sketch_agg(id, 6) AS hll, theta_sketch_agg(id, 5) AS theta,
    tuple_sketch_agg_double(id, 1.0D, 5) AS tuple_double, tuple_sketch_agg_integer(id, 1, 5) AS tuple_integer,
    kll_sketch_agg_bigint(id, 20) AS kll, approx_top_k_accumulate(id % 50, 20) AS items
"""


@pytest.fixture(scope="module")
def sketches(spark: Any) -> Any:
    """A row of sketches for each of three groups, and a row of nulls."""
    register_builtin(spark)
    groups = spark.sql(f"SELECT id % 3 AS g, {AGGREGATES} FROM range(3000) GROUP BY 1")
    empty = groups.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in groups.schema))
    frame = groups.union(empty.limit(1)).cache()
    frame.createOrReplaceTempView("sketches")
    yield frame
    frame.unpersist()


def test_columns_and_sql_give_the_answers_of_the_python_functions(spark: Any, sketches: Any) -> None:
    columns = {
        "hll": hll_sketch_estimate_with_error_bounds("hll", delta=0.01),
        "theta": theta_sketch_estimate_with_error_bounds(F.col("theta")),
        "double": tuple_sketch_estimate_with_error_bounds("tuple_double"),
        "integer": tuple_sketch_estimate_with_error_bounds("tuple_integer", kind="integer", delta=0.3),
        "quantile": kll_sketch_get_quantile_with_error_bounds("kll", 0.3, kind="bigint"),
        "rank": kll_sketch_get_rank_with_error_bounds("kll", F.lit(700), kind="bigint"),
        "items": approx_top_k_estimate_with_error_bounds("items", 4),
    }
    answered = sketches.select(F.struct(*sketches.columns).alias("s"), *(c.alias(n) for n, c in columns.items()))
    assert [answered.schema[name].dataType for name in columns] == [ANSWER_TYPE] * 6 + [RANKING_TYPE]
    in_sql = spark.sql("""
        SELECT struct(*) AS s, hll_sketch_estimate_with_error_bounds(hll, 0.01) AS hll,
            theta_sketch_estimate_with_error_bounds(theta) AS theta,
            tuple_sketch_estimate_double_with_error_bounds(tuple_double) AS double,
            tuple_sketch_estimate_integer_with_error_bounds(tuple_integer, 0.3) AS integer,
            kll_sketch_get_quantile_bigint_with_error_bounds(kll, 0.3) AS quantile,
            kll_sketch_get_rank_bigint_with_error_bounds(kll, 700) AS rank,
            approx_top_k_estimate_with_error_bounds(items, 4) AS items
        FROM sketches
    """)
    rows = answered.orderBy("s.g").collect()
    assert rows == in_sql.orderBy("s.g").collect()
    nothing, *held = rows
    assert [nothing[name] for name in columns] == [None] * len(columns)
    assert len(held) == 3
    for row in held:
        expected = [
            hll_answer(bytes(row.s.hll), delta=0.01),
            theta_answer(bytes(row.s.theta)),
            tuple_answer(bytes(row.s.tuple_double)),
            tuple_answer(bytes(row.s.tuple_integer), kind="integer", delta=0.3),
            kll_quantile_answer(bytes(row.s.kll), 0.3, kind="bigint"),
            kll_rank_answer(bytes(row.s.kll), 700, kind="bigint"),
        ]
        assert [row[name].asDict() for name in list(columns)[:-1]] == answers_to_arrow(expected).to_pylist()
        ranking = rankings_to_arrow([items_ranking(row.s["items"], 4)]).to_pylist()[0]
        assert [item.asDict() for item in row["items"]] == ranking


def test_a_kll_sketch_of_nothing_gives_null(spark: Any, sketches: Any) -> None:  # noqa: ARG001
    query = "SELECT kll_sketch_get_quantile_bigint_with_error_bounds(kll_sketch_agg_bigint(id), 0.5) FROM range(0)"
    assert spark.sql(query).first()[0] is None


@pytest.mark.parametrize("keys", ["id % 40", "concat('clé ', id % 40)", "CAST(CAST(id % 40 AS STRING) AS BINARY)"])
def test_count_min(spark: Any, keys: str) -> None:
    register_builtin(spark)
    frame = spark.range(3000).withColumn("key", F.expr(keys)).withColumn("g", F.col("id") % 5)
    parts = frame.groupBy("g").agg(F.count_min_sketch("key", F.lit(0.05), F.lit(0.9), F.lit(3)).alias("sketch"))
    united = parts.groupBy((F.col("g") % 2).alias("half")).agg(count_min_sketch_union_agg("sketch").alias("sketch"))
    asked = united.crossJoin(frame.select("key").distinct().union(spark.sql("SELECT NULL")))
    asked = asked.union(asked.limit(1).selectExpr("half", "NULL", "key"))
    rows = asked.select(
        "half", "sketch", "key",
        count_min_sketch_estimate("sketch", "key").alias("value"),
        count_min_sketch_estimate_with_error_bounds("sketch", "key").alias("answer"),
        F.expr("count_min_sketch_estimate_with_error_bounds(sketch, key)").alias("in_sql"),
    ).collect()  # fmt: skip
    halves = frame.groupBy((F.col("g") % 2).alias("half"), "key").count().collect()
    truth = {(row.half, row.key): row["count"] for row in halves}
    assert len(rows) == 2 * 41 + 1
    for row in rows:
        assert row.answer == row.in_sql
        if row.key is None or row.sketch is None:
            assert row.value is None
            assert row.answer is None
            continue
        key = bytes(row.key) if isinstance(row.key, bytearray) else row.key
        expected = SparkCountMin.from_bytes(bytes(row.sketch)).estimate(key)
        assert row.answer.asDict() == answers_to_arrow([expected]).to_pylist()[0]
        assert row.value == row.answer.value >= truth.get((row.half, row.key), 0)
    at_once = frame.groupBy((F.col("g") % 2).alias("half")).agg(
        F.count_min_sketch("key", F.lit(0.05), F.lit(0.9), F.lit(3)).alias("sketch")
    )
    assert {r.half: r.sketch for r in at_once.collect()} == {r.half: r.sketch for r in united.collect()}
    nothing = spark.sql("SELECT count_min_sketch_union_agg(CAST(NULL AS BINARY))")
    assert nothing.first()[0] is None


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("hll_sketch_estimate_with_error_bounds(b)", "give the column that hll_sketch_agg"),
        ("theta_sketch_estimate_with_error_bounds(b)", "give the column that theta_sketch_agg"),
        ("count_min_sketch_estimate(b, 5)", "give the column that count_min_sketch made"),
        ("count_min_sketch_union_agg(b)", "give the column that count_min_sketch made"),
    ],
)
def test_wrong_bytes_end_the_query_with_the_cure(spark: Any, call: str, cure: str) -> None:
    register_builtin(spark)
    with pytest.raises(PythonException, match=cure):
        spark.sql(f"SELECT {call} FROM (SELECT CAST('no sketch, but long enough to be one' AS BINARY) AS b)").collect()


def test_top_k_in_python_is_that_of_sql(spark: Any) -> None:
    frame = spark.range(1000).selectExpr("id % 10 * (id % 3) AS key", "id % 4 AS part")
    frame.createOrReplaceTempView("events")
    expected = spark.sql("SELECT approx_top_k(key, 3, 100) FROM events").first()[0]
    assert len(expected) == 3
    assert frame.agg(approx_top_k("key", 3, 100)).first()[0] == expected
    states = frame.groupBy("part").agg(approx_top_k_accumulate(F.col("key"), 100).alias("state"))
    for combined in (approx_top_k_combine("state"), approx_top_k_combine("state", 200)):
        one = states.agg(combined.alias("state"))
        assert one.select(approx_top_k_estimate("state", 3)).first()[0] == expected
        assert [a.value for _, a in items_ranking(one.first().state, 3)] == [row["count"] for row in expected]


def test_parameters_are_checked_when_the_column_is_built(spark: Any) -> None:  # noqa: ARG001
    builds: list[Callable[[], object]] = [
        lambda: approx_top_k("key", 0),
        lambda: approx_top_k("key", 10, 5),
        lambda: approx_top_k_accumulate("key", 1_000_001),
        lambda: approx_top_k_combine("state", 0),
        lambda: approx_top_k_estimate("state", -1),
        lambda: approx_top_k_estimate_with_error_bounds("state", 0),
        lambda: hll_sketch_estimate_with_error_bounds("hll", delta=0.0001),
        lambda: theta_sketch_estimate_with_error_bounds("theta", delta=2),
        lambda: tuple_sketch_estimate_with_error_bounds("tuple", kind="long"),
        lambda: kll_sketch_get_quantile_with_error_bounds("kll", 0.5, kind="int"),
        lambda: kll_sketch_get_rank_with_error_bounds("kll", 0.5, kind="decimal"),
    ]
    for build in builds:
        with pytest.raises(ParameterError):
            build()
