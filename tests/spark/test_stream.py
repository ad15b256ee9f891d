"""Streams give the bytes of one go, however they are cut, restarted or moved."""

from __future__ import annotations

import datetime
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException

from catchment import ECMSketch, Panes, SpaceSaving, UltraLogLog, Wave
from catchment.errors import DamagedBytesError, NameNotFoundError, ParameterError, PipelineError
from catchment.spark import SketchOf, sketch, sketch_stream
from catchment.spark.pipeline import Run, parse_pipeline, resumed
from catchment.spark.savepoint import (
    export_savepoint,
    list_savepoint,
    read_savepoint,
    read_states,
    savepoint_offsets,
)
from catchment.spark.source import register_sources
from catchment.spark.source.recipe import Recipe
from catchment.window.gather import build
from catchment.window.stream_state import StreamState
from tests.golden.checkpoint import relocate

pytestmark = pytest.mark.spark

EVENTS = 12_000
RECIPE: dict[str, Any] = {"seed": 4, "sites": 3, "keys": 300, "density": 40, "late": 0.2, "late_by": 8, "nulls": 0.01}
GOLDEN = Path(__file__).parents[1] / "golden"


def using() -> dict[str, SketchOf]:
    """A sketch of each way in which events wait."""
    return {
        "hits": SketchOf(ECMSketch(0.1, 0.1, window=120), keys="key"),
        "top": SketchOf(Panes(SpaceSaving(0.05), window=120, panes=6), keys="key"),
        "distinct": SketchOf(Panes(UltraLogLog(0.1), window=120, panes=6), keys="key"),
    }


@pytest.fixture(scope="module")
def source(spark: Any) -> Any:
    register_sources(spark)

    def read(per_batch: int, **more: Any) -> Any:
        stream = spark.readStream.format("catchment_events")
        for name, value in {**RECIPE, "events": EVENTS, "per_batch": per_batch, **more}.items():
            stream = stream.option(name, value)
        return stream.load()

    return read


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    """Key and second of every event that has both, by site."""
    table = Recipe(**RECIPE).batch(0, EVENTS)
    rows: dict[str, list[tuple[int, int]]] = {}
    for site, time, key in zip(*(table.column(name).to_pylist() for name in ("site", "time", "key")), strict=True):
        if time is not None and key is not None:
            rows.setdefault(site, []).append((key, int(time.timestamp())))
    return {site: np.array(events).T for site, events in rows.items()}


def run(stream: Any, checkpoint: Path, name: str | None = None, **given: Any) -> Any:
    """Run the query to the end of the source; what it gave, if it has a name."""
    sketches = sketch_stream(stream, **{"using": using(), "time": "time", "by": "site", **given})
    writer = sketches.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = (writer.format("memory").queryName(name) if name else writer.format("noop")).start()
    query.awaitTermination(240)
    assert not query.isActive, "the query takes too long"
    return stream.sparkSession.table(name).collect() if name else []


def states(spark: Any, checkpoint: Path) -> dict[tuple[str, str], bytes]:
    rows = read_states(spark, checkpoint).collect()
    return {(row["site"], row["name"]): bytes(row["state"]) for row in rows}


@pytest.fixture(scope="module")
def undisturbed(spark: Any, source: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The snapshots and the states of a run in few batches."""
    folder = tmp_path_factory.mktemp("undisturbed")
    rows = run(source(5000), folder / "checkpoint", "undisturbed", every="1 minute")
    return rows, states(spark, folder / "checkpoint")


def test_states_do_not_depend_on_the_batches_and_equal_one_go(
    spark: Any, source: Any, undisturbed: Any, truth: Any, tmp_path: Path
) -> None:
    _, expected = undisturbed
    run(source(1700, partitions=3), tmp_path / "checkpoint", every="1 minute")
    assert states(spark, tmp_path / "checkpoint") == expected
    assert expected.keys() == {(site, name) for site in truth for name in using()}
    for (site, name), blob in expected.items():
        state = StreamState.from_bytes(blob)
        keys, times = truth[site]
        assert (state.events, state.late) == (keys.size, 0)
        assert state.current() == build(using()[name].using, keys, at=times)


def test_snapshots_have_the_events_up_to_their_time_and_no_others(undisturbed: Any, truth: Any) -> None:
    rows, _ = undisturbed
    seen = {(row["site"], row["name"], row["at"]): bytes(row["sketch"]) for row in rows}
    assert len({at for *_, at in seen}) >= 4
    for (site, name, at), blob in seen.items():
        tick = int(at.replace(tzinfo=datetime.UTC).timestamp())
        assert tick % 60 == 0
        keys, times = truth[site]
        before = times <= tick
        assert blob == build(using()[name].using, keys[before], at=times[before]).to_bytes(), (
            f"{name} of {site} at {at}"
        )


def test_updates_have_all_events_so_far(source: Any, truth: Any, tmp_path: Path) -> None:
    hits = ECMSketch(0.1, 0.1, window=120)
    rows = run(source(4000), tmp_path / "checkpoint", "updates", using=hits, keys="key", output="updates")
    assert len(rows) == 9
    last = {row["site"]: row for row in sorted(rows, key=lambda row: row["events"])}
    for site, (keys, times) in truth.items():
        assert last[site]["events"] == keys.size
        assert bytes(last[site]["sketch"]) == build(hits, keys, at=times).to_bytes()


def test_a_stream_without_groups_equals_the_batch(spark: Any, source: Any, tmp_path: Path) -> None:
    hits = ECMSketch(0.1, 0.1, window=120)
    rows = run(source(6000), tmp_path / "c", "whole", using=hits, keys="key", by=(), output="updates", lateness=20)
    batch = spark.read.format("catchment_events")
    for name, value in {**RECIPE, "events": EVENTS}.items():
        batch = batch.option(name, value)
    (row,) = sketch(batch.load(), using=hits, keys="key", time="time").collect()
    assert bytes(max(rows, key=lambda each: each["events"])["sketch"]) == bytes(row["sketch"])
    assert set(rows[0].asDict()) == {"at", "sketch", "events", "late"}


def test_a_site_that_falls_silent_gives_its_last_snapshot_when_the_watermark_passes(spark: Any, tmp_path: Path) -> None:
    for number, seconds in enumerate([(5, 20), (200, 201), (300, 301)]):
        # Only the first batch has the quiet site.
        rows = [("busy", second, 1) for second in seconds] + ([("quiet", 7, 2)] if number == 0 else [])
        frame = spark.createDataFrame(rows, "site string, second bigint, key bigint")
        frame.selectExpr("site", "timestamp_seconds(second) AS time", "key").coalesce(1).write.parquet(
            str(tmp_path / "in"), mode="append"
        )
    stream = spark.readStream.schema("site string, time timestamp, key bigint").option("maxFilesPerTrigger", 1)
    hits = ECMSketch(0.1, 0.1, window=600)
    rows = run(stream.parquet(str(tmp_path / "in")), tmp_path / "checkpoint", "silent", using=hits, keys="key")
    quiet = [row for row in rows if row["site"] == "quiet"]
    assert [row["at"] for row in quiet] == [datetime.datetime(1970, 1, 1, 0, 1)]
    assert bytes(quiet[0]["sketch"]) == build(hits, [2], at=[7]).to_bytes()


def test_a_restart_goes_on_and_another_sketch_is_refused(
    spark: Any, source: Any, undisturbed: Any, tmp_path: Path
) -> None:
    run(source(3000, events=7000), tmp_path / "checkpoint", every="1 minute")
    run(source(3000), tmp_path / "checkpoint", every="1 minute")
    assert states(spark, tmp_path / "checkpoint") == undisturbed[1]
    other = {**using(), "hits": SketchOf(ECMSketch(0.2, 0.1, window=120), keys="key")}
    with pytest.raises(StreamingQueryException, match=r"the checkpoint keeps .*start a new checkpoint"):
        run(source(3000, events=EVENTS + 100), tmp_path / "checkpoint", using=other)


@pytest.mark.long("crashes")
def test_a_savepoint_moves_a_stream_to_a_new_checkpoint(
    spark: Any, source: Any, undisturbed: Any, tmp_path: Path
) -> None:
    run(source(3000, events=7000), tmp_path / "old", every="1 minute")
    assert export_savepoint(spark, tmp_path / "old", tmp_path / "savepoint.parquet") == 9
    shutil.rmtree(tmp_path / "old")
    assert savepoint_offsets(tmp_path / "savepoint.parquet") == [{"events": 7000}]
    initial = read_savepoint(spark, tmp_path / "savepoint.parquet")
    rest = source(3000, events=EVENTS - 7000, first=7000)
    run(rest, tmp_path / "new", every="1 minute", initial=initial)
    assert states(spark, tmp_path / "new") == undisturbed[1]


def test_what_is_no_savepoint_or_checkpoint_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no savepoint"):
        read_savepoint(spark, tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(DamagedBytesError, match="no savepoint"):
        read_savepoint(spark, tmp_path / "text.parquet")
    with pytest.raises(NameNotFoundError, match="no committed batch"):
        export_savepoint(spark, tmp_path, tmp_path / "savepoint.parquet")


def test_checkpoints_of_the_first_version_are_gone_on_with(
    spark: Any, source: Any, undisturbed: Any, tmp_path: Path
) -> None:
    """The golden checkpoint was made by `python -m tests.golden.checkpoint`; it must never be made again."""
    with tarfile.open(GOLDEN / "checkpoint-v1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    relocate(tmp_path / "checkpoint", str(tmp_path / "checkpoint"))
    old = states(spark, tmp_path / "checkpoint")
    assert {StreamState.from_bytes(blob).to_bytes() for blob in old.values()} == set(old.values())
    run(source(3000), tmp_path / "checkpoint", every="1 minute")
    assert states(spark, tmp_path / "checkpoint") == undisturbed[1]


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("output='all'", {"output": "all"}),
        ("lateness='soon'", {"lateness": "soon"}),
        ("every='0 seconds'", {"every": "0 seconds"}),
        ("not a whole number of ticks", {"every": "90 seconds", "tick": "1 minute"}),
        ("keys='url' is no column", {"using": ECMSketch(0.1, 0.1, window=60), "keys": "url"}),
    ],
)
def test_what_is_wrong_is_said_when_the_stream_is_built(source: Any, message: str, given: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=message):
        sketch_stream(source(100), **{"using": using(), "time": "time", "by": "site", **given})


def test_batches_and_other_state_stores_are_refused(spark: Any, source: Any) -> None:
    with pytest.raises(ParameterError, match="not a stream"):
        sketch_stream(spark.range(3), using=ECMSketch(0.1, 0.1, window=60), time="id", keys="id")
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    spark.conf.unset(name)
    try:
        with pytest.raises(ParameterError, match=r"HDFSBackedStateStoreProvider.*RocksDB"):
            sketch_stream(source(100), using=using(), time="time", by="site")
    finally:
        spark.conf.set(name, before)


def test_a_pipeline_goes_on_from_a_savepoint_where_its_source_was(spark: Any, tmp_path: Path) -> None:
    def pipeline(folder: str, events: int) -> Any:
        options = "\n".join(f"{name} = {value}" for name, value in RECIPE.items())
        text = f"""
[pipeline]
name = "moved"
[source]
format = "generator"
[source.options]
{options}
events = {events}
[columns]
time = "time"
site = "site"
[window]
length = "2 minutes"
[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
epsilon = 0.1
[output]
folder = "{tmp_path}/{folder}"
dead_letters = false
[spark]
trigger = "available now"
per_batch = 4000
"""
        return parse_pipeline(text, "moved.toml", tmp_path)

    Run(pipeline("old", 5000), spark).start()
    export_savepoint(spark, tmp_path / "old" / "checkpoint", tmp_path / "savepoint")
    assert len(list(list_savepoint(tmp_path / "savepoint"))) == 3
    with pytest.raises(PipelineError, match="is not new"):
        resumed(pipeline("old", EVENTS), tmp_path / "savepoint")
    moved = resumed(pipeline("new", EVENTS), tmp_path / "savepoint")
    Run(moved, spark, savepoint=tmp_path / "savepoint").start()
    Run(pipeline("whole", EVENTS), spark).start()
    found, expected = (states(spark, tmp_path / folder / "checkpoint") for folder in ("new", "whole"))
    assert found == expected
    assert sum(StreamState.from_bytes(blob).events for blob in found.values()) > 0.98 * EVENTS


def written(spark: Any, folder: Path, batches: list[list[tuple[str, int]]], name: str = "site") -> Any:
    """A stream of one file for each batch, of sites and seconds."""
    for rows in batches:
        frame = spark.createDataFrame(rows, "site string, second bigint")
        columns = f"site AS `{name}`", "timestamp_seconds(second) AS time", "second"
        frame.selectExpr(*columns).coalesce(1).write.parquet(str(folder), mode="append")
    schema = f"`{name}` string, time timestamp, second bigint"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def test_every_stretch_with_events_has_its_snapshot_also_in_silence(spark: Any, tmp_path: Path) -> None:
    """Two stretches that come at once and wait, one that is over before it ends, and one at the watermark itself."""
    batches = [
        [("busy", 5), ("quiet", 7), ("quiet", 65)],
        [("busy", 70)],
        [("quiet", 60)],
        [("busy", 300)],
        [("busy", 400)],
    ]
    hits, name = ECMSketch(0.1, 0.1, window=600), "site"
    stream = written(spark, tmp_path / "in", batches, name)
    given = {"using": hits, "keys": "second", "by": name, "lateness": 10}
    rows = run(stream, tmp_path / "checkpoint", "stretches", **given)
    found = {(row[name], int((row["at"] - datetime.datetime(1970, 1, 1)).total_seconds())): row for row in rows}
    assert set(found) == {("busy", 60), ("busy", 120), ("busy", 300), ("quiet", 60), ("quiet", 120)}
    for (site, at), row in found.items():
        times = [second for batch in batches for each, second in batch if each == site and second <= at]
        assert bytes(row["sketch"]) == build(hits, times, at=times).to_bytes(), (site, at)
    assert len(found) == len(rows)
    assert export_savepoint(spark, tmp_path / "checkpoint", tmp_path / "savepoint.parquet") == 2


def test_integers_in_another_unit_than_the_tick_are_told_by_name(spark: Any, tmp_path: Path) -> None:
    stream = written(spark, tmp_path / "in", [[("a", 1_700_000_000_000)]])
    with pytest.raises(StreamingQueryException, match=r"TimeError.*tick= the unit"):
        run(stream, tmp_path / "checkpoint", using=Wave(0.1, window=60), time="second")


@pytest.mark.parametrize("name", ["state", "clock", "at", "Late", "si.te"])
def test_names_that_are_taken_are_refused(spark: Any, tmp_path: Path, name: str) -> None:
    stream = written(spark, tmp_path / "in", [[("a", 1)]], name)
    with pytest.raises(ParameterError, match="rename"):
        sketch_stream(stream, using=Wave(0.1, window=60), time="second", by=name)


def test_a_stream_with_a_watermark_of_its_own_is_refused(source: Any) -> None:
    with pytest.raises(ParameterError, match="lateness="):
        sketch_stream(source(100).withWatermark("time", "1 minute"), using=using(), time="time", by="site")
