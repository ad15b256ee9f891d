"""The Bloom filter of a join between clouds, on Spark itself, against exact sets of keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from catchment.federation.bloom import BloomShape, as_row, build_sql, false_positives, merge, probe_sql, shape_for

pytestmark = pytest.mark.spark

STRANGERS = 200_000


def filtered(spark: Any, built: list[str], probed: str, keys: list[str], shape: BloomShape, **types: Any) -> pa.Table:
    """What of `SELECT … FROM probed` a filter over the union of the `built` SELECTs lets through."""
    words = merge(shape, [spark.sql(build_sql(source, keys, shape, **types)).toArrow() for source in built])
    spark.createDataFrame(as_row(words)).createOrReplaceTempView("bloom_probe")
    return spark.sql(f"SELECT * FROM ({probed}) WHERE {probe_sql(keys, 'bloom_probe', shape, **types)}").toArrow()


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        ("id", 0.1),
        ("id", 0.01),
        ("CAST(id AS STRING)", 0.02),
        ("CAST(id AS DECIMAL(30,2))", 0.05),
        ("CAST(id AS DOUBLE) / 8", 0.3),
        ("date_add(DATE'1970-01-01', CAST(id AS INT))", 0.001),
        ("timestamp_micros(id * 1000003)", 0.03),
        ("CAST(CAST(id AS STRING) AS BINARY)", 0.2),
    ],
)
def test_no_key_is_lost_and_strangers_pass_at_the_stated_rate(spark: Any, key: str, rate: float) -> None:
    count = 5_000
    shape = shape_for(count, rate)
    halves = [f"SELECT {key} AS k FROM range({count}) WHERE id % 2 = {half}" for half in (0, 1)]
    both = f"SELECT {key} AS k, id FROM range({count + STRANGERS})"
    found = filtered(spark, halves, both, ["k"], shape)["id"].to_numpy()
    assert set(range(count)) <= set(found.tolist())
    strangers = len(found) - count
    expected = false_positives(count, shape)
    assert expected <= rate
    assert abs(strangers - expected * STRANGERS) < 6 * math.sqrt(STRANGERS * expected * 2) + 3


@pytest.mark.parametrize(("bits", "load"), [(1, 4.0), (2, 8.0), (3, 1.0), (5, 0.5), (5, 5.0)])
def test_the_formula_of_false_positives_is_that_of_the_filter(spark: Any, bits: int, load: float) -> None:
    shape = BloomShape(1_000, bits)
    count = int(1_000 * load)
    found = filtered(
        spark, [f"SELECT id AS k FROM range({count})"], f"SELECT -1 - id AS k FROM range({STRANGERS})", ["k"], shape
    )
    expected = false_positives(count, shape)
    # Twice the binomial variance: the fill of these thousand words is itself random.
    assert abs(found.num_rows / STRANGERS - expected) < 6 * math.sqrt(2 * expected / STRANGERS) + 0.06 * expected


def test_nulls_match_nothing_on_either_side(spark: Any) -> None:
    shape = shape_for(10, 0.01)
    rows = "SELECT * FROM VALUES (1, 'a'), (NULL, 'a'), (1, NULL), (NULL, NULL) AS t(a, b)"
    found = filtered(spark, [rows], rows, ["a", "b"], shape)
    assert found.to_pylist() == [{"a": 1, "b": "a"}]
    assert filtered(spark, ["SELECT CAST(NULL AS INT) AS a"], rows, ["a"], shape).num_rows == 0


def test_keys_of_several_columns_do_not_run_into_each_other(spark: Any) -> None:
    shape = shape_for(100, 0.001)
    built = "SELECT id AS a, 99 - id AS b FROM range(100)"
    probed = "SELECT l.id AS a, r.id AS b FROM range(100) l CROSS JOIN range(100) r"
    found = {(row["a"], row["b"]) for row in filtered(spark, [built], probed, ["a", "b"], shape).to_pylist()}
    truth = {(at, 99 - at) for at in range(100)}
    assert truth <= found
    assert len(found - truth) < 60


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("CAST(id AS INT)", "id", "bigint"),
        ("CAST(id AS DECIMAL(5,0))", "CAST(id AS DECIMAL(9,3))", "decimal(9,3)"),
        ("CAST(id AS INT)", "CAST(id AS DOUBLE)", "double"),
        ("CAST(id AS FLOAT)", "CAST(id AS DOUBLE)", "double"),
        ("date_add(DATE'2020-01-01', CAST(id AS INT))", "TIMESTAMP'2020-01-01' + id * INTERVAL '1' DAY", "timestamp"),
    ],
)
def test_sides_of_different_types_meet_in_the_type_of_the_join(spark: Any, left: str, right: str, common: str) -> None:
    shape = shape_for(300, 0.001)
    built, probed = f"SELECT {left} AS k FROM range(300)", f"SELECT {right} AS k, id FROM range(300)"
    assert filtered(spark, [built], probed, ["k"], shape, types=[common]).num_rows == 300
    assert filtered(spark, [built], probed, ["k"], shape).num_rows < 300  # so the cast is needed


def test_equal_doubles_of_different_bits_meet(spark: Any) -> None:
    shape = shape_for(3, 0.001)
    found = filtered(
        spark,
        ["SELECT explode(array(0D, double('NaN'))) AS k"],
        "SELECT explode(array(-0D, double('NaN'))) AS k",
        ["k"],
        shape,
    )
    assert found.num_rows == 2


def test_extreme_keys_raise_nothing_in_ansi_mode_or_out_of_it(spark: Any) -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), 2**31, -(2**31)]
    rows = "SELECT explode(array({})) AS k".format(", ".join(f"CAST('{value}' AS BIGINT)" for value in values))
    for shape in (BloomShape(1, 5), BloomShape(2**18 - 1, 5), BloomShape(7, 1)):
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            try:
                assert set(filtered(spark, [rows], rows, ["k"], shape)["k"].to_pylist()) == set(values)
            finally:
                spark.conf.unset("spark.sql.ansi.enabled")


def test_an_empty_filter_lets_nothing_through(spark: Any) -> None:
    shape = shape_for(0, 0.01)
    assert filtered(spark, ["SELECT 1 AS k WHERE false"], "SELECT id AS k FROM range(1000)", ["k"], shape).num_rows == 0
    spark.createDataFrame(as_row(merge(shape, []))).createOrReplaceTempView("bloom_probe")
    assert spark.sql(f"SELECT * FROM range(9) WHERE {probe_sql(['id'], 'bloom_probe', shape)}").count() == 0


def test_the_text_survives_a_parser_and_a_writer(spark: Any) -> None:
    """A planner may hold the pieces as trees: written again they must mean the same."""
    shape = shape_for(1_000, 0.01)

    def again(sql: str) -> str:
        return sqlglot.parse_one(sql, dialect="spark").sql(dialect="spark")

    built = spark.sql(again(build_sql("SELECT id AS k FROM range(1000)", ["k"], shape, ["bigint"]))).toArrow()
    direct = spark.sql(build_sql("SELECT id AS k FROM range(1000)", ["k"], shape)).toArrow()
    words = merge(shape, [built])
    assert np.array_equal(words, merge(shape, [direct]))
    spark.createDataFrame(as_row(words)).createOrReplaceTempView("bloom_probe")
    text = f"SELECT id FROM range(20000) WHERE {probe_sql(['id'], 'bloom_probe', shape)}"
    assert spark.sql(again(text)).toArrow().equals(spark.sql(text).toArrow())


def test_a_probe_is_generated_code_with_one_evaluation_of_the_filter(spark: Any) -> None:
    shape = shape_for(1_000, 0.01)
    spark.createDataFrame(as_row(merge(shape, []))).createOrReplaceTempView("bloom_probe")
    text = f"SELECT count(*) FROM range(20000) WHERE {probe_sql(['id'], 'bloom_probe', shape)}"
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # so that the plan is final before it runs
    try:
        plan = spark.sql(f"EXPLAIN FORMATTED {text}").collect()[0][0]
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert "Python" not in plan
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan
    assert "Filter [codegen id : 1]" in plan
