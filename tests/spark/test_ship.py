"""A cluster whose Python has no package at all: everything that a sketch needs arrives with the application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from catchment.spark.cache import cached
from catchment.spark.ship import ship
from catchment.spark.standalone import standalone

pytestmark = pytest.mark.spark

# As text, so that it is sent by value. An executor that finds all its kernels compiled writes none.
FUNCTION = """
def partial_sketches(batches):
    import pathlib, sys, catchment
    import pyarrow as pa
    folder = pathlib.Path(catchment.__file__).parent / "kernel" / "__pycache__"
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.nb[ic]")}
    sketch = catchment.ECMSketch(epsilon=0.05, delta=0.01, window=500, seed=7)
    for batch in batches:
        sketch.update(batch.column("key"), at=batch.column("at"))
    blob = sketch.to_bytes()
    after = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.nb[ic]")}
    compiled = sorted(name for name in after if after[name] != before.get(name))
    where = [sys.executable, catchment.__file__, pa.__file__, str(len(before)), *compiled]
    yield pa.RecordBatch.from_pydict({"sketch": [blob], "where": [where]})

def rows_of(spark):
    events = spark.range(0, 20_000, 1, 2).selectExpr("concat('page ', id % 97) AS key", "id DIV 10 AS at")
    rows = events.mapInArrow(partial_sketches, "sketch binary, where array<string>").collect()
    return [[bytes(row["sketch"]).hex(), row["where"]] for row in rows]
"""

JOB = f"""
import json, sys
from catchment.spark.session import session
{FUNCTION}
spark = session(sys.argv[1], config=json.loads(sys.argv[2]))
print("result", json.dumps(rows_of(spark)))
spark.stop()
"""


def on_a_cluster(master: str, config: dict[str, str]) -> list[Any]:
    """The job in a process of its own, as a process holds one session."""
    done = subprocess.run(
        [sys.executable, "-c", JOB, master, json.dumps(config)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("result "))
    return json.loads(line.removeprefix("result "))  # type: ignore[no-any-return]


def here(spark: Any) -> list[Any]:
    names: dict[str, Any] = {"__name__": "a_module_that_no_worker_can_import"}
    exec(FUNCTION, names)
    return names["rows_of"](spark)  # type: ignore[no-any-return]


@pytest.mark.long("crashes")
def test_two_bare_workers_give_the_bytes_of_local_mode(spark: Any, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    assert subprocess.run([bare, "-c", "import numpy"], capture_output=True, env={}, check=False).returncode != 0
    with suppress(ZeroDivisionError), standalone(workers=2, cores=1, seconds=200) as cluster:
        rows = on_a_cluster(cluster.master, {"spark.pyspark.python": bare, "spark.executor.memory": "512m"})
        raise ZeroDivisionError("a cluster ends with its block, also by an error")
    work = str(cluster.folder / "work")
    assert len({tuple(where) for _, where in rows}) == 2, "one of the two executors did everything"
    for _, (python, package, arrow, kernels, *compiled) in rows:
        assert python == bare
        assert package.startswith(work)
        assert arrow.startswith(work)
        assert int(kernels) > 50
        assert compiled == []
    assert [blob for blob, _ in rows] == [blob for blob, _ in here(spark)]
    assert not cluster.folder.exists()
    for pid in cluster.workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_local_master_needs_nothing() -> None:
    assert ship("local[4]") == {}


@pytest.mark.long("crashes")
def test_the_archives_hold_what_workers_need_and_are_made_once() -> None:
    settings = ship("yarn")
    archives = [part.partition("#") for part in settings["spark.archives"].split(",")]
    assert [folder for *_, folder in archives] == settings["spark.executorEnv.PYTHONPATH"].split(":")
    paths = [Path(uri.removeprefix("file://")) for uri, *_ in archives]
    made = [path.stat().st_mtime_ns for path in paths]
    with tarfile.open(paths[0]) as code:
        names = code.getnames()
    assert "catchment/kernel/hashing.py" in names
    assert any(name.endswith(".nbc") for name in names)
    assert ship("yarn") == settings
    assert [path.stat().st_mtime_ns for path in paths] == made


def test_a_build_that_fails_leaves_nothing_and_one_that_comes_second_takes_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fails(place: Path) -> None:
        place.write_text("half")
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        cached("thing", fails)
    assert list((tmp_path / "catchment").iterdir()) == []

    def second(place: Path) -> None:
        place.mkdir()
        cached("thing", lambda first: (first / "file").mkdir(parents=True))

    assert (cached("thing", second) / "file").is_dir()
    assert [entry.name for entry in (tmp_path / "catchment").iterdir()] == ["thing"]
