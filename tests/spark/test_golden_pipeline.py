"""A pipeline goes on where one of the first version stopped: in its folder, and from its savepoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from catchment import Sketch
from catchment.spark.pipeline import Pipeline, Run, parse_pipeline, resumed
from catchment.spark.savepoint import export_savepoint, list_savepoint
from catchment.spark.source import read_dead_letters
from tests.golden.archives import names_in, unpack
from tests.golden.checkpoint import relocate
from tests.golden.pipelines import EVENTS, SAVEPOINT, SITES, TARGET, described, exact, good, happened, in_ticks

pytestmark = pytest.mark.spark


def check_snapshots(pipeline: Pipeline, out: Path) -> None:
    """Each has exactly the events up to its time, and the last ones are of the last stretch that is over."""
    events = good(happened())
    newest: dict[tuple[str, str], int] = {}
    for file in (out / "snapshots").glob("*/part.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            site, name, at = row["site"], row["name"], int(row["at"].timestamp())
            assert Sketch.from_bytes(row["sketch"]) == exact(pipeline, name, site, events, until=at), (site, name, at)
            newest[site, name] = max(at, newest.get((site, name), 0))
    for site in SITES:
        over = in_ticks(events.filter(pc.equal(events["site"], site))).max() - 5 - 1
        assert {newest[site, each.name] for each in pipeline.sketches} == {over // 20 * 20}


def told(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def schemas(files: Iterator[Path]) -> set[str]:
    """The columns of Parquet files and their types, in order, each once."""
    return {pq.read_schema(file).remove_metadata().to_string() for file in files}


def test_a_pipeline_goes_on_in_a_golden_folder(spark: Any, tmp_path: Path) -> None:
    out = unpack(TARGET, tmp_path / "out")
    relocate(out / "checkpoint", str(out / "checkpoint"))
    about = json.loads((out / "pipeline.json").read_text())
    names = {name for name in names_in(out) if not name.startswith("checkpoint/")}
    files = {kind: schemas((out / kind).rglob("*.parquet")) for kind in ("snapshots", "dead_letters")}
    lines = told(out)
    batches = {path.name for path in (out / "snapshots").iterdir()}

    pipeline = parse_pipeline(described(), folder=tmp_path)
    Run(pipeline, spark, once=True).start()

    check_snapshots(pipeline, out)
    more = told(out)[len(lines) :]
    numbers = [line["batch"] for line in lines + more]
    assert numbers == list(range(len(numbers)))
    usable = good(happened()).num_rows
    assert lines[-1]["all_events"] + more[-1]["all_events"] == usable
    letters = read_dead_letters(spark, str(out / "dead_letters")).collect()
    assert len(letters) == EVENTS - usable == lines[-1]["all_dead_letters"] + more[-1]["all_dead_letters"]
    assert {row["reason"] for row in letters} == {"null key", "null time"}

    # What was written now lies where it lay, is called the same, and has the same columns.
    assert not {path.name for path in (out / "snapshots").iterdir()} <= batches
    assert {name for name in names_in(out) if not name.startswith("checkpoint/")} == names
    for kind, before in files.items():
        assert len(before) == 1
        assert schemas((out / kind).rglob("*.parquet")) == before
    assert {tuple(line) for line in more} == {tuple(line) for line in lines}
    now = json.loads((out / "pipeline.json").read_text())
    assert [*now] == [*about]
    assert [[*sketch] for sketch in now.pop("sketches")] == [[*sketch] for sketch in about.pop("sketches")]
    assert now == about

    # So does a savepoint of it.
    export_savepoint(spark, out / "checkpoint", tmp_path / "savepoint")
    one, other = (pq.read_table(file) for file in (SAVEPOINT, tmp_path / "savepoint"))
    assert one.schema.remove_metadata() == other.schema.remove_metadata()
    assert {**one.schema.metadata}.keys() == {**other.schema.metadata}.keys()
    assert {group for group, _ in list_savepoint(tmp_path / "savepoint")} == {
        f"site={site}, name={each.name}" for site in SITES for each in pipeline.sketches
    }


def test_a_pipeline_starts_from_a_golden_savepoint(spark: Any, tmp_path: Path) -> None:
    pipeline = parse_pipeline(described(dead_letters=False), folder=tmp_path)
    moved = resumed(pipeline, SAVEPOINT)
    assert int(moved.source.options["first"]) + int(moved.source.options["events"]) == EVENTS
    Run(moved, spark, savepoint=SAVEPOINT, once=True).start()
    check_snapshots(pipeline, tmp_path / "out")
