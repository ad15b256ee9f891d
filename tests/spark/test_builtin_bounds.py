"""Spark's own sketches over 200 streams in one query each: the bounds hold as often as they say, merged as well."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from catchment.errors import ParameterError, QueryError
from catchment.spark.builtin import (
    SparkCountMin,
    approx_top_k_accumulate,
    approx_top_k_combine,
    hll_answer,
    items_ranking,
    kll_quantile_answer,
    kll_rank_answer,
    theta_answer,
    tuple_answer,
)
from catchment.testing.streams import zipf
from catchment.testing.trials import failures_allowed
from tests.amounts import one_in

pytestmark = pytest.mark.spark

STREAMS, EVENTS = 200, 2000
PARTS = 4
DELTAS = (0.32, 0.05, 0.01)
RANKS = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@pytest.fixture(scope="module")
def streams() -> list[Any]:
    """Zipf streams, the keys of each its own, so that fixed hash functions are new ones to it."""
    rng = np.random.default_rng(11)
    names = rng.integers(0, 2**62, (STREAMS, 4000))
    return [names[seed][zipf(EVENTS, seed=seed, skew=0.9, universe=4000).keys] for seed in range(STREAMS)]


@pytest.fixture(scope="module")
def frame(spark: Any, streams: list[Any]) -> Any:
    keys = np.concatenate(streams)
    places = np.arange(keys.size)
    table = pa.table({"stream": places // EVENTS, "part": places % PARTS, "key": keys, "number": keys / 7.0})
    frame = spark.createDataFrame(table).cache()
    yield frame
    frame.unpersist()


def whole(frame: Any, sketch: Any) -> list[Any]:
    """The sketch of each stream, in order, from its rows."""
    rows = frame.groupBy("stream").agg(sketch.alias("sketch")).orderBy("stream").collect()
    return [row.sketch for row in rows]


def merged(frame: Any, sketch: Any, union: Any) -> list[Any]:
    """The same from the sketches of four parts."""
    parts = frame.groupBy("stream", "part").agg(sketch.alias("sketch"))
    return [row.u for row in parts.groupBy("stream").agg(union.alias("u")).orderBy("stream").collect()]


def both(frame: Any, sketch: Any, union: Any) -> dict[str, list[Any]]:
    return {"whole": whole(frame, sketch), "merged": merged(frame, sketch, union)}


@pytest.mark.parametrize("size", one_in(2, [7, 10], "fuzz"))
def test_hll(frame: Any, streams: list[Any], size: int) -> None:
    for way, blobs in both(frame, F.hll_sketch_agg("key", size), F.hll_union_agg("sketch")).items():
        for delta in DELTAS:
            answers = [hll_answer(bytes(blob), delta=delta) for blob in blobs]
            missed = sum(not answer.holds(np.unique(keys).size) for answer, keys in zip(answers, streams, strict=True))
            assert missed <= failures_allowed(STREAMS, delta), (way, delta)
            assert {answer.confidence for answer in answers} == {1 - delta}
            off = [abs(a.value / np.unique(keys).size - 1) for a, keys in zip(answers, streams, strict=True)]
            assert np.mean(np.array(off) > answers[0].epsilon) <= delta + 0.1, "epsilon is the relative error"


def test_hll_in_its_sparse_modes_and_without_rows(spark: Any) -> None:
    for rows in (0, 1, 8, 9, 100, 300):
        blob = bytes(spark.range(rows).agg(F.hll_sketch_agg("id", 12)).first()[0])
        assert hll_answer(blob).holds(rows), rows
        assert hll_answer(blob).high - rows < 0.01 * rows + 1e-9


def test_theta(frame: Any, streams: list[Any]) -> None:
    for way, blobs in both(frame, F.theta_sketch_agg("key", 6), F.theta_union_agg("sketch", 6)).items():
        for delta in DELTAS:
            answers = [theta_answer(bytes(blob), delta=delta) for blob in blobs]
            missed = sum(not answer.holds(np.unique(keys).size) for answer, keys in zip(answers, streams, strict=True))
            assert missed <= failures_allowed(STREAMS, delta), (way, delta)
            assert all(answer.low < answer.value < answer.high for answer in answers)


def test_theta_is_exact_while_it_can_be(frame: Any, streams: list[Any]) -> None:
    for blob, keys in zip(whole(frame, F.theta_sketch_agg("key", 12)), streams, strict=True):
        answer = theta_answer(bytes(blob))
        assert answer.low == answer.value == answer.high == np.unique(keys).size
        assert answer.epsilon == 0


@pytest.mark.parametrize("kind", one_in(2, ["double", "integer"], "fuzz"))
def test_tuple_sketches_answer_as_the_theta_sketch_of_their_keys(frame: Any, kind: str) -> None:
    summary = "number" if kind == "double" else "CAST(part AS INT)"
    for size in (5, 12):
        tuples = whole(frame, F.expr(f"tuple_sketch_agg_{kind}(key, {summary}, {size})"))
        thetas = whole(frame, F.theta_sketch_agg("key", size))
        for one, other in zip(tuples, thetas, strict=True):
            assert tuple_answer(bytes(one), kind=kind) == theta_answer(bytes(other))
    nothing = frame.limit(0).agg(F.expr(f"tuple_sketch_agg_{kind}(key, {summary})")).first()[0]
    assert tuple_answer(bytes(nothing), kind=kind).value == 0


KLL = {"bigint": ("key", np.int64), "double": ("number", np.float64), "float": ("CAST(number AS FLOAT)", np.float32)}


@pytest.mark.parametrize("kind", KLL)
def test_kll(frame: Any, streams: list[Any], kind: str) -> None:
    column, dtype = KLL[kind]
    truths = [np.sort((keys if kind == "bigint" else keys / 7.0).astype(dtype)) for keys in streams]
    sketch, union = F.expr(f"kll_sketch_agg_{kind}({column}, 20)"), F.expr(f"kll_merge_agg_{kind}(sketch)")
    for way, blobs in both(frame, sketch, union).items():
        quantiles_missed = ranks_missed = 0
        for blob, truth in zip(blobs, truths, strict=True):
            at_ranks = [truth[max(math.ceil(rank * EVENTS) - 1, 0)].item() for rank in RANKS]
            quantiles = [kll_quantile_answer(bytes(blob), rank, kind=kind) for rank in RANKS]
            ranks = [kll_rank_answer(bytes(blob), value, kind=kind) for value in at_ranks]
            shares = [np.searchsorted(truth, value, side="right") / EVENTS for value in at_ranks]
            quantiles_missed += not all(map(lambda a, t: a.holds(t), quantiles, at_ranks))
            ranks_missed += not all(map(lambda a, t: a.holds(t), ranks, shares))
            assert quantiles[0].value == truth[0]
            assert quantiles[-1].value == truth[-1]
            assert {answer.confidence for answer in quantiles} == {0.99}
        assert quantiles_missed <= failures_allowed(STREAMS, 0.01), way
        assert ranks_missed <= failures_allowed(STREAMS, 0.01), way


@pytest.mark.parametrize("kind", KLL)
def test_kll_gives_the_values_that_spark_gives(frame: Any, kind: str) -> None:
    column, _ = KLL[kind]
    wanted = ", ".join(f"kll_sketch_get_quantile_{kind}(sketch, {rank}D)" for rank in RANKS)
    rows = frame.groupBy("stream").agg(F.expr(f"kll_sketch_agg_{kind}({column})").alias("sketch")).limit(30)
    for row in rows.selectExpr("sketch", f"array({wanted}) AS quantiles").collect():
        ours = [kll_quantile_answer(bytes(row.sketch), rank, kind=kind).value for rank in RANKS]
        assert ours == row.quantiles


def test_small_kll_sketches_are_exact(spark: Any) -> None:
    for rows in (1, 2, 150):
        blob = bytes(spark.range(rows).agg(F.kll_sketch_agg_bigint("id")).first()[0])
        median, rank = kll_quantile_answer(blob, 0.5, kind="bigint"), kll_rank_answer(blob, 0, kind="bigint")
        assert median.low == median.value == median.high == math.ceil(rows / 2) - 1
        assert rank.low == rank.value == rank.high == 1 / rows
        assert (median.confidence, rank.confidence) == (1.0, 1.0)
    empty = bytes(spark.range(0).agg(F.kll_sketch_agg_bigint("id")).first()[0])
    with pytest.raises(QueryError, match="leave out groups"):
        kll_quantile_answer(empty, 0.5, kind="bigint")


@pytest.mark.parametrize("tracked", one_in(2, [20, 200], "fuzz"))
def test_items(frame: Any, streams: list[Any], tracked: int) -> None:
    sketch = approx_top_k_accumulate("key", tracked)
    for states in both(frame, sketch, approx_top_k_combine("sketch")).values():
        for state, keys in zip(states, streams, strict=True):
            truth = Counter(keys.tolist())
            ranking = items_ranking(state, k=10**6)
            tracked_keys = set(ranking.keys)
            unseen = np.asarray(ranking.answers.high) - ranking.answers.low
            for key, answer in ranking:
                assert answer.holds(truth[key])
            most = max((count for key, count in truth.items() if key not in tracked_keys), default=0)
            assert most <= unseen.max()
            assert unseen.max() <= ranking.answers.epsilon * EVENTS


def test_spark_forgets_a_partial_sketch_that_was_just_emptied(spark: Any) -> None:
    # The limit that `items_ranking` documents: 13 different items in a sketch for 12, and all 13 are gone.
    rows = spark.range(13).coalesce(1).agg(approx_top_k_accumulate("id", 10)).first()[0]
    assert len(items_ranking(rows)) == 0
    assert items_ranking(rows).note == "only 0 items are tracked"


@pytest.mark.parametrize("text", [False, True])
def test_count_min(frame: Any, streams: list[Any], text: bool) -> None:
    column = F.col("key").cast("string") if text else F.col("key")
    sketches = whole(frame, F.count_min_sketch(column, F.lit(0.02), F.lit(0.9), F.lit(5)))
    missed = 0
    for blob, keys in zip(sketches, streams, strict=True):
        names, counts = np.unique(keys, return_counts=True)
        sketch = SparkCountMin.from_bytes(bytes(blob))
        answers = sketch.estimate([str(name) for name in names] if text else names)
        assert np.all(counts <= answers.high), "never too low"
        assert sketch.total == EVENTS
        missed += not answers[0].holds(counts[0])
        assert np.any(answers.low < answers.high)
    assert missed <= failures_allowed(STREAMS, 1 - sketch.confidence)


def test_confidence_that_no_sketch_of_spark_has() -> None:
    for answer in (hll_answer, theta_answer, tuple_answer):
        with pytest.raises(ParameterError, match=r"0\.0027"):
            answer(b"", delta=0.001)
    with pytest.raises(ParameterError, match=r"0\.99"):
        kll_quantile_answer(b"", 0.5, delta=0.001)
    with pytest.raises(QueryError, match="from 0 to 1"):
        kll_quantile_answer(b"", 1.5)
