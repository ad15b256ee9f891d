"""Answers as Spark sees them: the Arrow shape is the one Spark wants, and nothing is invented for what is not there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from catchment.answer import Answer, Ranking
from catchment.spark.answers import (
    ANSWER_TYPE,
    ARROW_ANSWER_TYPE,
    ARROW_RANKING_TYPE,
    RANKING_TYPE,
    answers_to_arrow,
    rankings_to_arrow,
)

pytestmark = pytest.mark.spark

SCALAR = ArrowUDFType.SCALAR
PARTIAL = Answer(7, 5, math.inf, 0.99, 0.1, window=(-60, 0), sites=("north", "süd"), missing=("east",))
PLAIN = Answer(math.nan, -math.inf, 2.5, 1.0, 0.0)
PAIR = Answer(np.array([3, 4]), np.array([2, 3]), np.array([3.0, math.inf]), 0.95, 0.2, window=(1, 2), sites=("a",))


def test_the_arrow_types_are_the_ones_that_spark_makes() -> None:
    assert to_arrow_type(ANSWER_TYPE) == ARROW_ANSWER_TYPE
    assert to_arrow_type(RANKING_TYPE) == ARROW_RANKING_TYPE


def test_open_ends_and_no_value_become_null() -> None:
    rows = answers_to_arrow([PARTIAL, None, PLAIN])
    assert rows.type == ARROW_ANSWER_TYPE
    partial, nothing, plain = rows.to_pylist()
    assert partial == {
        "value": 7.0, "low": 5.0, "high": None, "confidence": 0.99, "epsilon": 0.1, "window_start": -60,
        "window_end": 0, "sites": ["north", "süd"], "missing": ["east"],
    }  # fmt: skip
    assert nothing is None
    assert (plain["value"], plain["low"], plain["high"]) == (None, None, 2.5)
    assert (plain["window_start"], plain["window_end"], plain["sites"], plain["missing"]) == (None, None, [], [])


def test_an_answer_to_many_keys_has_a_row_for_each() -> None:
    assert answers_to_arrow(PAIR).to_pylist() == answers_to_arrow(list(PAIR)).to_pylist()
    assert len(answers_to_arrow([])) == 0


def test_rankings() -> None:
    nobody = Ranking((), PAIR[0:0], note="nothing was seen")
    rows = rankings_to_arrow([Ranking(("x", 2), PAIR), None, nobody, Ranking((b"\xff",), PAIR[1:])])
    assert rows.type == ARROW_RANKING_TYPE
    both, nothing, empty, one = rows.to_pylist()
    assert [row["item"] for row in both] == ["x", "2"]
    assert [row["value"] for row in both] == [3.0, 4.0]
    assert both[1]["high"] is None
    assert both[1]["sites"] == ["a"]
    assert nothing is None
    assert empty == []
    assert one[0]["item"] == "\\xff"
    assert len(rankings_to_arrow([])) == 0


def test_they_cross_into_spark(spark: Any) -> None:
    answer = arrow_udf(lambda ids: answers_to_arrow([PARTIAL if i.as_py() else None for i in ids]), ANSWER_TYPE, SCALAR)
    ranking = arrow_udf(lambda ids: rankings_to_arrow([Ranking((i.as_py(), "b"), PAIR) for i in ids]), RANKING_TYPE, SCALAR)
    nothing, found = spark.range(2).select(answer("id").alias("a"), ranking("id").alias("r")).orderBy("r").collect()
    assert nothing.a is None
    assert found.a.asDict() == answers_to_arrow([PARTIAL]).to_pylist()[0]
    assert [row.item for row in found.r] == ["1", "b"]
    assert found.r[1].low == 3.0
