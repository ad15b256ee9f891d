"""Sketches of DataFrames equal those of the same events in one go, by either lane, and refuse what is wrong early."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

from catchment import (
    BottomK,
    CountMin,
    DyadicECM,
    ECMSketch,
    FastAMS,
    Panes,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
    Wave,
)
from catchment.errors import InputError, KeyTypeError, ParameterError, TimeError, WeightError
from catchment.sketch.base import Sketch
from catchment.spark import SketchOf, scan, sketch
from catchment.spark.plan import Plan
from catchment.spark.scan import Scan, plain_scan
from catchment.testing.exact import ExactWindow
from catchment.window.gather import build

pytestmark = pytest.mark.spark

SITES = ["oslo", "rome", None]
COUNT = 6000
WINDOW = 300


def events() -> pa.Table:
    """Some events in no order, with nulls in every column."""
    rng = np.random.default_rng(11)
    keys = rng.zipf(1.4, COUNT) % 300
    return pa.table(
        {
            "site": pa.array(SITES).take(pa.array(rng.integers(0, 3, COUNT))),
            "host": pa.array(rng.integers(0, 2, COUNT), pa.int32()),
            "at": pa.array(
                1_700_000_000_000_000 + rng.integers(0, 400_000_000, COUNT),
                pa.timestamp("us", "UTC"),
                mask=rng.random(COUNT) < 0.01,
            ),
            "tick": pa.array(rng.integers(0, 400, COUNT), pa.int32()),
            "number": pa.array(keys, pa.int32(), mask=rng.random(COUNT) < 0.01),
            "url": pa.array([f"/page/{key}" for key in keys.tolist()], mask=rng.random(COUNT) < 0.01),
            "blob": pa.array([f"{key}".encode() for key in keys.tolist()], pa.binary()),
            "size": pa.array(rng.integers(0, 2000, COUNT), pa.int64()),
            "cost": pa.array(rng.random(COUNT) * 100),
            "user": pa.array([f"user {user}" for user in rng.integers(0, 900, COUNT).tolist()]),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return events()


@pytest.fixture(scope="module")
def df(spark: Any, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("events with a space")
    for number in range(3):
        part = table.slice(number * COUNT // 3, COUNT // 3)
        pq.write_table(part, folder / f"part {number}.parquet", row_group_size=700)
    return spark.read.parquet(str(folder))


def chosen(table: pa.Table, mask: Any, *names: str) -> list[Any]:
    """Columns of some rows, without those that have a null among them."""
    part = table.filter(pa.array(mask)).select(list(dict.fromkeys(names))).drop_null()
    return [part.column(name) for name in names]


def seconds(times: Any) -> Any:
    return times.cast(pa.int64()).to_numpy() // 1_000_000


USING: dict[str, tuple[Callable[[], Sketch], dict[str, str]]] = {
    "ecm of integers": (lambda: ECMSketch(0.1, 0.1, window=WINDOW), {"keys": "number"}),
    "ecm of text": (lambda: ECMSketch(0.1, 0.1, window=WINDOW), {"keys": "url"}),
    "ecm of binary, weighted": (lambda: ECMSketch(0.1, 0.1, window=WINDOW), {"keys": "blob", "weights": "size"}),
    "ecm of panes": (lambda: ECMSketch(0.1, 0.1, window=WINDOW, counter="panes"), {"keys": "url"}),
    "ecm of histograms": (lambda: ECMSketch(0.1, 0.1, window=WINDOW, counter="eh"), {"keys": "url"}),
    "dyadic": (lambda: DyadicECM(0.2, 0.2, window=WINDOW, bits=11), {"keys": "size"}),
    "dyadic of fractions": (lambda: DyadicECM(0.3, 0.3, window=WINDOW, order="float"), {"keys": "cost"}),
    "wave": (lambda: Wave(0.1, window=WINDOW), {}),
    "distinct": (lambda: Panes(UltraLogLog(0.1), window=WINDOW, panes=10), {"keys": "user"}),
    "count-min": (lambda: CountMin(0.05, 0.05), {"keys": "url"}),
    "bottom-k of pairs": (lambda: BottomK(0.1, by="pair"), {"keys": "url", "attributes": "user"}),
    "tug of war": (lambda: TugOfWar(0.3, 0.3), {"keys": "url", "attributes": "user"}),
    "fast-ams": (lambda: FastAMS(0.2, 0.2), {"keys": "number", "weights": "size"}),
    "values": (lambda: ValueEstimator(0.1, 0.1), {"keys": "url", "values": "size"}),
}


def test_all_kinds_at_once_by_both_lanes_have_the_bytes_of_one_go(df: Any, table: pa.Table) -> None:
    using = {name: SketchOf(make(), **columns) for name, (make, columns) in USING.items()}
    rows = {lane: sketch(df, using=using, time="at", by="site", lane=lane).collect() for lane in ("rows", "scan")}
    found = {lane: {(row["site"], row["name"]): bytes(row["sketch"]) for row in rows[lane]} for lane in rows}
    assert found["rows"].keys() == {(site, name) for site in SITES for name in USING}
    for site in SITES:
        mask = [value == site for value in table.column("site").to_pylist()]
        for name, (make, columns) in USING.items():
            at, *arrays = chosen(table, mask, "at", *columns.values())
            given = dict(zip(columns, arrays, strict=True))
            for role in ("weights", "values"):
                if role in given:
                    given[role] = given[role].to_numpy()
            if name.startswith("dyadic"):
                given["keys"] = given["keys"].to_numpy()
            expected = build(make(), at=seconds(at), **given).to_bytes()
            assert found["rows"][site, name] == expected, f"{name} by rows at {site}"
            assert found["scan"][site, name] == expected, f"{name} by scan at {site}"


@pytest.mark.parametrize("lane", ["rows", "scan"])
def test_rankings_keep_their_guarantee(df: Any, table: pa.Table, lane: str) -> None:
    using = Panes(SpaceSaving(0.02), window=WINDOW, panes=10)
    rows = sketch(df, using=using, keys="url", time="at", by=["site", "host"], lane=lane).collect()
    assert len(rows) == 6
    for row in rows:
        mask = [
            (site, host) == (row["site"], row["host"])
            for site, host in zip(table.column("site").to_pylist(), table.column("host").to_pylist(), strict=True)
        ]
        at, urls = chosen(table, mask, "at", "url")
        exact = ExactWindow()
        exact.update(urls.to_pylist(), at=seconds(at).tolist())
        found: Any = Sketch.from_bytes(row["sketch"])
        assert found.newest == int(seconds(at).max())
        truth = exact.over(found.newest - 120, found.newest)
        ranking = found.top(5, last=120)
        assert len(ranking) == 5
        for key, answer in ranking:
            assert answer.holds(truth.frequency(key))


def test_integer_times_are_ticks_and_other_ticks_are_possible(df: Any, table: pa.Table) -> None:
    using = ECMSketch(0.1, 0.1, window=100)
    (row,) = sketch(df, using=using, keys="number", time="tick").collect()
    ticks, keys = chosen(table, [True] * COUNT, "tick", "number")
    assert bytes(row["sketch"]) == build(using, keys, at=ticks.to_numpy()).to_bytes()
    (row,) = sketch(df, using=using, keys="number", time="at", tick="7 seconds").collect()
    at, keys = chosen(table, [True] * COUNT, "at", "number")
    assert bytes(row["sketch"]) == build(using, keys, at=seconds(at) // 7).to_bytes()


def test_the_fast_lane_is_taken_by_plain_scans_only(spark: Any, df: Any, tmp_path: Path) -> None:
    def lane(frame: Any, **more: Any) -> Scan | str:
        given = {"keys": "url", "time": "at", "by": "site", **more}
        plan, _ = Plan.of(frame, ECMSketch(0.1, 0.1, window=60), **given)
        return plain_scan(frame, plan)

    assert isinstance(lane(df), Scan)
    assert isinstance(lane(df.select("url", "at", "site")), Scan)
    assert "Filter" in str(lane(df.where("size > 5")))
    assert "computed" in str(lane(df.selectExpr("upper(url) AS url", "at", "site")))
    assert "computed" in str(lane(df.withColumnRenamed("url", "link"), keys="link"))
    assert "InMemoryRelation" in str(lane(df.limit(10).cache()))
    df.write.partitionBy("host").parquet(str(tmp_path / "split"))
    assert "folders" in str(lane(spark.read.parquet(str(tmp_path / "split"))))
    df.select("url", "site", "at").write.json(str(tmp_path / "json"))
    assert "not Parquet" in str(lane(spark.read.schema(df.schema).json(str(tmp_path / "json"))))
    with pytest.raises(ParameterError, match="not a scan"):
        sketch(df.where("size > 5"), using=ECMSketch(0.1, 0.1, window=60), keys="url", time="at", lane="scan")


def test_without_groups_there_is_a_sketch_even_of_nothing(df: Any, tmp_path: Path, spark: Any) -> None:
    using = {"a": CountMin(0.1, 0.1), "b": UltraLogLog(0.1)}
    for frame in (df.limit(0), df.where("url IS NULL")):
        rows = sketch(frame, using=using, keys="url").collect()
        assert {row["name"]: bytes(row["sketch"]) for row in rows} == {
            name: each.to_bytes() for name, each in using.items()
        }
    assert sketch(df.limit(0), using=CountMin(0.1, 0.1), keys="url", by="site").collect() == []
    pq.write_table(events().slice(0, 0), tmp_path / "empty.parquet")
    empty = spark.read.parquet(str(tmp_path / "empty.parquet"))
    assert sketch(empty, using=CountMin(0.1, 0.1), keys="url", by="site", lane="scan").collect() == []


def test_a_time_in_the_future_is_a_time_like_any_other_in_a_batch(spark: Any) -> None:
    frame = spark.sql(
        "SELECT 'a' AS key, timestamp '2999-01-01 00:00:00' AS at UNION ALL SELECT 'b', timestamp '2024-01-01'"
    )
    (row,) = sketch(frame, using=ECMSketch(0.1, 0.1, window=60), keys="key", time="at").collect()
    found: Any = Sketch.from_bytes(row["sketch"])
    assert (found.total().value, found.late, found.estimate("a").value) == (1, 0, 1)


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        (ParameterError, "by='town' is no column: there are site", {"by": "town"}),
        (ParameterError, "keys='link' is no column", {"keys": "link"}),
        (ParameterError, "time='when' is no column", {"time": "when"}),
        (ParameterError, "tick='soon'", {"tick": "soon"}),
        (ParameterError, "lane='fast'", {"lane": "fast"}),
        (ParameterError, "window of arrivals", {"using": ECMSketch(0.1, 0.1, arrivals=10)}),
        (ParameterError, "using='ecm'", {"using": "ecm"}),
        (ParameterError, "no sketches", {"using": {}}),
        (KeyTypeError, "cost is of type double.*cast it", {"keys": "cost"}),
        (KeyTypeError, "of type string.*takes integers", {"keys": "url", "using": DyadicECM(0.1, 0.1, window=9)}),
        (TimeError, "no time", {"time": None}),
        (TimeError, "url is of type string.*to_timestamp", {"time": "url"}),
        (WeightError, "cost is of type double", {"weights": "cost"}),
        (InputError, "values='size'.*takes", {"values": "size"}),
        (InputError, "no keys", {"keys": None}),
        (InputError, "no values", {"using": ValueEstimator(0.1, 0.1)}),
        (InputError, "sketch: no attributes", {"using": BottomK(0.1, by="pair")}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_when_the_query_is_built(
    df: Any, error: Any, message: str, given: dict[str, Any]
) -> None:
    right = {"using": ECMSketch(0.1, 0.1, window=60), "keys": "url", "time": "at", "by": "site"}
    with pytest.raises(error, match=message):
        sketch(df, **{**right, **given})


def test_a_sketch_with_events_is_no_prototype(df: Any) -> None:
    used = CountMin(0.1, 0.1)
    used.update([1])
    with pytest.raises(ParameterError, match="has events in it"):
        sketch(df, using=used, keys="url")


@pytest.mark.parametrize("name", ["a.b", "a`b", "50%", "a:b", "newest", "name"])
def test_columns_of_any_name_are_keys_and_groups(spark: Any, name: str) -> None:
    frame = spark.createDataFrame([("x", 1), ("y", 2), ("x", 3)], "key string, tick long")
    hits = ECMSketch(0.1, 0.1, window=60)
    named = frame.withColumnRenamed("key", name)
    rows = sketch(named, using=hits, keys=name, time="tick", by=name).collect()
    assert {row[name]: bytes(row["sketch"]) for row in rows} == {
        "x": build(hits, ["x", "x"], at=[1, 3]).to_bytes(),
        "y": build(hits, ["y"], at=[2]).to_bytes(),
    }


@pytest.mark.parametrize("name", ["part", "Sketch", "time:", "raw:tick"])
def test_names_that_are_taken_are_refused(spark: Any, name: str) -> None:
    frame = spark.createDataFrame([("x", 1)], "key string, tick long").withColumnRenamed("key", name)
    with pytest.raises(ParameterError, match="rename"):
        sketch(frame, using=Wave(0.1, window=60), time="tick", by=name)


@pytest.mark.parametrize("kind", ["struct<x: int>", "array<int>", "map<int, int>"])
def test_groups_that_cannot_be_told_apart_are_refused(spark: Any, kind: str) -> None:
    frame = spark.sql(f"SELECT 1L AS tick, CAST(NULL AS {kind}) AS town")
    with pytest.raises(ParameterError, match=r"town.*cast it to string"):
        sketch(frame, using=Wave(0.1, window=60), time="tick", by="town")


def test_the_fast_lane_reads_what_spark_reads(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = ECMSketch(0.1, 0.1, window=60)

    def both(frame: Any, fast: bool) -> bytes:
        """The sketch by either lane; whether the fast one is taken."""
        given: Any = {"using": hits, "keys": "key", "time": "at"}
        plan, _ = Plan.of(frame, **given)
        assert isinstance(plain_scan(frame, plan), Scan) == fast
        found: list[Any] = [sketch(frame, lane=lane, **given).first() for lane in ("rows", "auto")]
        rows, auto = found
        assert bytes(rows["sketch"]) == bytes(auto["sketch"])
        return bytes(auto["sketch"])

    file = tmp_path / "events.parquet"
    pq.write_table(pa.table({"key": [1, 2], "at": [10, 20]}), file)
    twice = both(spark.read.parquet(str(file), str(file)), fast=False)
    assert twice == build(hits, [1, 1, 2, 2], at=[10, 10, 20, 20]).to_bytes()
    (tmp_path / "with empty").mkdir()
    pq.write_table(pa.table({"key": [1, 2], "at": [10, 20]}), tmp_path / "with empty" / "events.parquet")
    (tmp_path / "with empty" / "nothing.parquet").touch()
    both(spark.read.schema("key long, at long").parquet(str(tmp_path / "with empty")), fast=False)
    # The oldest timestamps of Parquet, of a year beyond what 64 bits of nanoseconds can hold.
    end = datetime.datetime(9999, 12, 31)
    pq.write_table(
        pa.table({"key": [1], "at": pa.array([end], pa.timestamp("us"))}),
        tmp_path / "int96.parquet",
        use_deprecated_int96_timestamps=True,
    )
    at_the_end: Any = Sketch.from_bytes(both(spark.read.parquet(str(tmp_path / "int96.parquet")), fast=True))
    assert at_the_end.newest == (end - datetime.datetime(1970, 1, 1)).total_seconds()
    # Files of several schemas, where there are too many to look into.
    (tmp_path / "many").mkdir()
    pq.write_table(pa.table({"key": [1, 2], "at": [10, 20]}), tmp_path / "many" / "1.parquet")
    pq.write_table(pa.table({"at": [30]}), tmp_path / "many" / "2.parquet")
    monkeypatch.setattr(scan, "_MANY_FILES", 1)
    both(spark.read.schema("key long, at long").parquet(str(tmp_path / "many")), fast=False)


def test_times_out_of_range_are_told_by_name(spark: Any) -> None:
    frame = spark.sql("SELECT 1L AS key, 1L << 61 AS tick")
    with pytest.raises(PythonException, match=r"TimeError.*2\^60"):
        sketch(frame, using=ECMSketch(0.1, 0.1, window=60), keys="key", time="tick").collect()
