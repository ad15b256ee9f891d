"""SQL and columns answer as the library does on the same bytes."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as sf

from catchment import (
    BloomFilter,
    BottomK,
    CountMin,
    DyadicECM,
    ECMSketch,
    FastAMS,
    FMSketch,
    Panes,
    PerfectCountMin,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
    Wave,
)
from catchment.answer import Answer
from catchment.spark import functions as cf
from catchment.spark.functions.questions import BOUNDS, QUESTIONS, Question
from catchment.window.base import WindowSketch

pytestmark = pytest.mark.spark

RNG = np.random.default_rng(8)
KEYS = RNG.zipf(1.5, 5000) % 200
TIMES = np.sort(RNG.integers(0, 2000, 5000))
VALUES = RNG.integers(1, 50, 5000)

SAMPLES: dict[str, list[Sketch]] = {
    "ecm": [ECMSketch(0.05, 0.1, window=1000), ECMSketch(0.1, 0.1, window=1000, counter="eh")],
    "dyadic": [DyadicECM(0.1, 0.1, window=1000, bits=10)],
    "windowed_count_min": [PerfectCountMin(0.1, 0.1, window=1000)],
    "counter": [Wave(0.1, window=1000)],
    "count_min": [CountMin(0.02, 0.1), Panes(CountMin(0.02, 0.1), 1000, panes=7)],
    "fast_ams": [FastAMS(0.2, 0.1), Panes(FastAMS(0.2, 0.1), 1000, panes=7)],
    "top_k": [SpaceSaving(0.02), Panes(SpaceSaving(0.02), 1000, panes=7)],
    "distinct": [UltraLogLog(0.1), BottomK(0.1), FMSketch(0.2), Panes(UltraLogLog(0.1), 1000, panes=7)],
    "bloom": [BloomFilter(capacity=300), Panes(BloomFilter(capacity=300), 1000, panes=7)],
    "value": [ValueEstimator(), Panes(ValueEstimator(), 1000, panes=7)],
    "tug_of_war": [TugOfWar.sized(dimensions=8, counter="bottom_k", counter_size=40)],
}


def fed(sketch: Sketch, part: slice = slice(None)) -> Any:
    columns = {"keys": KEYS, "at": TIMES, "values": VALUES, "attributes": VALUES}
    sketch = sketch.copy()
    sketch.update(**{name: columns[name][part] for name in sketch.inputs})
    return sketch


def in_library(question: Question, sketch: Sketch, key: int, last: int | None) -> Any:
    """The library's own answer, asked for one row."""
    own = {"k": 5, "phi": 0.2, "rank": 0.3, "low": 3, "high": 60, "key": key}
    arguments: list[Any] = [own[argument.name] for argument in question.own]
    if question.sketches == 2:
        arguments = [sketch, *arguments]
    range_ = {"last": last} if isinstance(sketch, WindowSketch) else {}
    if isinstance(sketch, Panes):
        more: dict[str, Any] = (
            {"count": None, "mode": "no_false_negatives"} if question.method == "heavy_hitters" else {}
        )
        return sketch.ask(question.method, *arguments, **range_, **more)
    return getattr(sketch, question.method)(*arguments, **range_)


def as_spark_shows(question: Question, found: Any) -> Any:
    if question.output == BOUNDS:
        ends = found.window or (None, None)
        return (found.value, found.low, found.high, found.confidence, found.epsilon, *ends, [], [])
    if question.output == "ranking":
        return [(str(item), answer.value, answer.low, answer.high) for item, answer in found], found.note
    value: Any = found.value if isinstance(found, Answer) else found
    return round(value) if question.output == "count" else value


@pytest.mark.parametrize("prefix", SAMPLES)
def test_every_question_is_answered_as_the_library_answers_it(spark: Any, prefix: str) -> None:
    sketches = [fed(sample) for sample in SAMPLES[prefix]]
    rows = [
        (place, key, 400 if isinstance(sketch, WindowSketch) else None)
        for place, sketch in enumerate(sketches)
        for key in (1, 2, 5, 150)
    ]
    table = pa.table(
        {
            "place": [place for place, _, _ in rows],
            "sketch": pa.array([sketches[place].to_bytes() for place, _, _ in rows], pa.binary()),
            "key": pa.array([key for _, key, _ in rows], pa.int64()),
            "last": pa.array([last for *_, last in rows], pa.int64()),
        }
    )
    frame = spark.createDataFrame(table)
    questions = [question for question in QUESTIONS.values() if question.kind.prefix == prefix]
    given = {"k": sf.lit(5), "phi": sf.lit(0.2), "rank": sf.lit(0.3), "low": sf.lit(3), "high": sf.lit(60)}
    selected = [
        getattr(cf, question.name)(
            *["sketch"] * question.sketches,
            *(given.get(argument.name, sf.col(argument.name)) for argument in question.own),
            last="last",
        ).alias(question.name)
        for question in questions
    ]
    found = frame.select("place", "key", "last", *selected).collect()
    assert len(found) == len(rows)
    for row in found:
        for question in questions:
            expected = as_spark_shows(question, in_library(question, sketches[row["place"]], row["key"], row["last"]))
            shown = row[question.name]
            if question.output == "ranking":
                items = [(each["item"], each["value"], each["low"], each["high"]) for each in shown["items"]]
                shown = items, shown["note"]
            elif question.output == BOUNDS:
                shown = tuple(shown)
                expected = tuple(
                    None if isinstance(value, float) and not math.isfinite(value) else value for value in expected
                )
            elif expected != expected:
                expected = None
            assert shown == expected, question.name


def test_many_keys_of_many_sketches_in_a_join_are_few_calls(spark: Any) -> None:
    """A million rows of eight sketches, with bounds equal to the library's, in seconds."""
    sketches = [fed(ECMSketch(0.1, 0.1, window=1000), slice(place * 600, (place + 1) * 600)) for place in range(8)]
    blobs = pa.table({"site": pa.array(range(8)), "sketch": pa.array([s.to_bytes() for s in sketches], pa.binary())})
    spark.createDataFrame(blobs).createOrReplaceTempView("sketches")
    spark.range(1_000_000).selectExpr("id % 8 AS site", "id % 1000 AS key").createOrReplaceTempView("asked")
    cf.register(spark)
    started = time.perf_counter()
    found = spark.sql(
        "SELECT site, key, max(count) AS most, min(count) AS least FROM ("
        "  SELECT site, key, ecm_sketch_estimate(sketch, key) AS count FROM asked JOIN sketches USING (site)"
        ") GROUP BY site, key"
    ).collect()
    took = time.perf_counter() - started
    answers = [sketch.estimate(np.arange(1000)).value for sketch in sketches]
    assert len(found) == 1000
    assert all(row["most"] == row["least"] == answers[row["site"]][row["key"]] for row in found)
    assert took < 120, "far more than the few seconds that it takes on two idle cores"


@pytest.mark.parametrize("spark_type", ["TINYINT", "INT", "BIGINT", "STRING", "BINARY"])
def test_keys_of_every_type_are_the_library_s(spark: Any, spark_type: str) -> None:
    keys = {"STRING": ["1", "2", "1"], "BINARY": [b"1", b"2", b"1"]}.get(spark_type, [1, 2, 1])
    sketch = CountMin()
    sketch.update(keys)
    cf.register(spark)
    frame = spark.sql(f"SELECT CAST(k AS {spark_type}) AS key FROM VALUES ('1'), ('2'), ('3') AS keys(k)")
    found = frame.select(cf.count_min_sketch_estimate(sf.lit(sketch.to_bytes()), "key").alias("n")).collect()
    assert [row["n"] for row in found] == [2, 1, 0]


def test_nulls(spark: Any) -> None:
    blob = fed(ECMSketch(0.1, 0.1, window=1000)).to_bytes()
    table = pa.table(
        {
            "sketch": pa.array([blob, None, blob, blob], pa.binary()),
            "key": pa.array([1, 1, None, 1], pa.int64()),
            "last": pa.array([None, 5, 5, 400], pa.int64()),
        }
    )
    frame = spark.createDataFrame(table)
    plain = frame.select(cf.ecm_sketch_estimate("sketch", "key", "last").alias("n")).collect()
    whole = frame.select(cf.ecm_sketch_estimate_with_error_bounds("sketch", "key", "last").alias("n")).collect()
    sketch = fed(ECMSketch(0.1, 0.1, window=1000))
    expected = [sketch.estimate(1).value, None, None, sketch.estimate(1, last=400).value]
    assert [row["n"] for row in plain] == expected
    assert [row["n"] and row["n"]["value"] for row in whole] == expected
    nothing = frame.where("sketch IS NULL").select(
        cf.top_k_sketch_estimate("sketch", 3).alias("best"), cf.bloom_sketch_contains("sketch", "key").alias("in")
    )
    assert [tuple(row) for row in nothing.collect()] == [(None, None)]


def test_why_there_are_fewer_than_k(spark: Any) -> None:
    sketch = SpaceSaving(0.1)
    sketch.update(["x"])
    frame = spark.range(1).select(cf.top_k_sketch_estimate(sf.lit(sketch.to_bytes()), 3).alias("best"))
    (row,) = frame.collect()
    assert [item["item"] for item in row["best"]["items"]] == ["x"]
    assert row["best"]["note"] == sketch.top(3).note == "only 1 keys were seen"


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: cf.ecm_sketch_estimate("sketch", sf.lit(1), 1001), "QueryError: last=1001"),
        (lambda: cf.ecm_sketch_estimate("sketch", sf.lit(1.5)), "KeyTypeError: keys of type double"),
        (lambda: cf.count_min_sketch_total("sketch"), "UnknownFormatError: count_min functions were given a ECMSketch"),
        (lambda: cf.ecm_sketch_total(sf.lit(b"abc")), "UnknownFormatError"),
        (lambda: cf.ecm_sketch_total(sf.lit("abc")), "KeyTypeError: sketches of type string"),
        (lambda: cf.count_min_sketch_total(sf.lit(CountMin().to_bytes()), 5), "QueryError: count_min_sketch_total"),
    ],
)
def test_what_only_a_task_can_know_is_a_clear_error(spark: Any, call: Any, complaint: str) -> None:
    frame = spark.createDataFrame(pa.table({"sketch": [ECMSketch(0.1, 0.1, window=1000).to_bytes()]}))
    with pytest.raises(PythonException, match=complaint):
        frame.select(call()).collect()


def test_a_description_of_any_sketch(spark: Any) -> None:
    sketch = UltraLogLog(0.1)
    (row,) = spark.range(1).select(cf.sketch_describe(sf.lit(sketch.to_bytes())).alias("d")).collect()
    assert row["d"] == f"{sketch!r}: {sketch.guarantee}"
