"""Crashes: a pipeline killed at random times ends with the states and outputs of one that was never disturbed.

`catchment run` on the generator, three kinds of sketches at eight sites, with watermark, checkpoints and dead letters.
*Driver*: the command, its JVM and its workers get a kill −9 together, at a random moment, also while starting; the
command is started again. *Worker*: one Python worker of a running query gets a kill −9, again and again. At the end the
rest is run without a disturbance. States are read by Spark's state reader and compared byte by byte; snapshots and dead
letters row by row.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from catchment.app.report import Progress, Report
from catchment.spark.logs import program_log
from catchment.spark.savepoint import read_states
from catchment.spark.session import session

BATCHES, PER_BATCH = 60, 10_000
PATIENCE = 300
COLUMNS = ("what is killed", "kills", "starts", "states equal", "snapshots", "of them equal", "dead letters equal")

PIPELINE = """
[pipeline]
name = "crashes"
[source]
format = "generator"
[source.options]
seed = 9
sites = 8
keys = 1000
density = 2000
late = 0.05
late_by = 5
nulls = 0.002
events = {events}
[columns]
time = "time"
site = "site"
[window]
length = "5 minutes"
lateness = "10 seconds"
[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
epsilon = 0.1
[[sketch]]
name = "top"
kind = "top"
key = "key"
epsilon = 0.02
panes = 10
[[sketch]]
name = "visitors"
kind = "distinct"
key = "key"
epsilon = 0.1
panes = 10
[output]
folder = "{folder}/out"
every = "20 seconds"
keep = 100_000
[spark]
master = "local[2,8]"
trigger = "500 milliseconds"
per_batch = {per_batch}
"""


def run(*, quick: bool, progress: Progress, spark: Any = None) -> Report:
    """Kill and compare; `spark` is a session to read the states with, if one runs here already."""
    wanted = 1 if quick else 25
    batches = BATCHES // 6 if quick else BATCHES
    folder = Path(tempfile.mkdtemp(prefix="catchment-crashes-"))
    rng = random.Random(5)
    try:
        progress("an undisturbed run", 0.0)
        _finish(_written(folder / "undisturbed", batches))
        starts = {}
        for place, (what, disturb) in enumerate((("driver", _kill_drivers), ("worker", _kill_workers))):
            file = _written(folder / what, batches)

            def told(done: int, what: str = what, place: int = place) -> None:
                progress(f"{what}: kill {done} of {wanted}", 0.1 + 0.4 * (place + done / wanted))

            starts[what] = disturb(file, wanted, rng, told) + 1
            _finish(file)
        progress("comparing", 0.95)
        rows, figures = _compared(folder, starts, wanted, spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    notes = [f"{batches * PER_BATCH:,} events in micro-batches of {PER_BATCH:,}."]
    return Report("A pipeline under kill −9, beside one that ran undisturbed", COLUMNS, rows, figures, notes)


def _written(folder: Path, batches: int) -> Path:
    folder.mkdir()
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(folder=folder, events=batches * PER_BATCH, per_batch=PER_BATCH))
    return file


def _command(file: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "catchment.app", "run", str(file), *more]
    with (file.parent / "log").open("ab") as log:  # the child has its own copy
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _finish(file: Path) -> None:
    """Run what is left, undisturbed."""
    process = _command(file, "--once")
    if process.wait(PATIENCE * 4):
        raise RuntimeError(f"the pipeline failed: {(file.parent / 'log').read_text()[-2000:]}")


def _kill_drivers(file: Path, kills: int, rng: random.Random, told: Callable[[int], None]) -> int:
    """Start the command and kill all of it, so often; how often it was started."""
    for number in range(kills):
        told(number)
        process = _command(file)
        if rng.random() < 0.8:
            _await_batch(file, process)
            time.sleep(rng.uniform(0, 3))
        else:
            time.sleep(rng.uniform(0, 10))  # maybe before it has begun
        tree = [process.pid, *_descendants(process.pid)]
        for pid in tree:
            _kill(pid)
        process.wait()
        _await_end(tree)
    return kills


def _kill_workers(file: Path, kills: int, rng: random.Random, told: Callable[[int], None]) -> int:
    """Kill Python workers of a running query, one at a time; how often the command had to be started."""
    killed = starts = 0
    while killed < kills:
        starts += 1
        process = _command(file)
        _await_batch(file, process)
        while killed < kills and process.poll() is None:
            time.sleep(rng.uniform(0.1, 1.0))
            workers = [pid for pid in _descendants(process.pid) if _is_worker(pid)]
            if workers:
                told(killed)
                _kill(rng.choice(workers))
                killed += 1
        tree = [process.pid, *_descendants(process.pid)]
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        _await_end(tree)
    return starts


def _await_batch(file: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a micro-batch more is done than was at first, or so long that there may be none left."""
    metrics = file.parent / "out" / "metrics.jsonl"
    before = metrics.stat().st_size if metrics.exists() else 0
    end = time.monotonic() + (PATIENCE if not before else PATIENCE / 10)
    while process.poll() is None and time.monotonic() < end:
        if metrics.exists() and metrics.stat().st_size > before:
            return
        time.sleep(0.05)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it ended meanwhile
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, open_ = [], [pid]
    while open_:
        children = parents.get(open_.pop(), [])
        found += children
        open_ += children
    return found


def _is_worker(pid: int) -> bool:
    """A Python process that the daemon of the workers made: its parent runs the same command."""
    try:
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        return all(b"pyspark.daemon" in Path(f"/proc/{each}/cmdline").read_bytes() for each in (pid, parent))
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _await_end(pids: list[int]) -> None:
    """Until none of them is left: two drivers must not write to one checkpoint."""
    end = time.monotonic() + PATIENCE
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > end:
            raise RuntimeError(f"some of {pids} do not end")
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _compared(folder: Path, starts: dict[str, int], kills: int, spark: Any) -> tuple[list[list[Any]], dict[str, float]]:
    reader = spark or session(log=program_log("experiment-crashes"))
    try:
        states = {
            name: sorted(map(tuple, read_states(reader, folder / name / "out" / "checkpoint").collect()))
            for name in ("undisturbed", *starts)
        }
    finally:
        if spark is None:
            reader.stop()
    expected, letters = _snapshots(folder / "undisturbed"), _dead_letters(folder / "undisturbed")
    rows, figures = [], {}
    for what, started in starts.items():
        found = _snapshots(folder / what)
        same = sum(found.get(key) == blobs and len(blobs) == 1 for key, blobs in expected.items())
        equal = states[what] == states["undisturbed"] and len(states[what]) == 24
        figures[f"{what}_kills"] = float(kills)
        figures[f"{what}_states_differ"] = float(not equal)
        figures[f"{what}_snapshots_differ"] = float(len(found.keys() | expected.keys()) - same or not expected)
        figures[f"{what}_dead_letters_differ"] = float(_dead_letters(folder / what) != letters or not letters)
        share = _dead_letters(folder / what) == letters
        rows.append([what, kills, started, str(equal), len(found), same, str(share)])
    return rows, figures


def _files(folder: Path, what: str) -> Iterator[Any]:
    for file in sorted((folder / "out" / what).rglob("*.parquet")):
        yield from pq.ParquetFile(file).read().to_pylist()


def _snapshots(folder: Path) -> dict[tuple[Any, ...], set[bytes]]:
    """All sketches that were ever given for a site, a name and a time: one, if repeating a batch repeats its output."""
    found: dict[tuple[Any, ...], set[bytes]] = {}
    for row in _files(folder, "snapshots"):
        found.setdefault((row["site"], row["name"], row["at"]), set()).add(row["sketch"])
    return found


def _dead_letters(folder: Path) -> list[str]:
    return sorted(row["record"] for row in _files(folder, "dead_letters"))
