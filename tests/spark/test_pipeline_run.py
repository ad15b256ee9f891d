"""Pipelines that run: the answers against the same events counted one by one, replays, signals, restarts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catchment.app.query import PipelineFolder, Question, ask
from catchment.errors import NameNotFoundError, PipelineError
from catchment.spark.source.options import Options
from catchment.spark.source.recipe import Recipe

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
EVENTS = 24_000

# Yesterday, so that the generator's times that are a year ahead are in the future on any day.
START = (datetime.now(UTC) - timedelta(days=1)).replace(minute=0, second=0, microsecond=0)
OPTIONS = {
    "seed": 5, "sites": 3, "keys": 200, "key_type": "text", "density": 100, "late": 0.05, "late_by": 5,
    "nulls": 0.01, "bad": 0.01, "start": START.isoformat(),
}  # fmt: skip


def described(more: dict[str, Any], *, mode: str, per_batch: int, sketches: str, spark: str = "") -> str:
    options = "\n".join(f"{name} = {json.dumps(value)}" for name, value in (OPTIONS | more).items())
    return f"""
[pipeline]
name = "trial"
[source]
format = "generator"
[source.options]
{options}
[columns]
time = "time"
site = "site"
[window]
length = "10 minutes"
ahead = "5 minutes"
{sketches}
[output]
folder = "out"
mode = "{mode}"
every = "1 minute"
[spark]
per_batch = {per_batch}
{spark}
"""


HITS = """
[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
weights = "value"
"""
PAGES = """
[[sketch]]
name = "pages"
kind = "top"
key = "key"
epsilon = 0.004
panes = 10
"""
VOLUME = """
[[sketch]]
name = "volume"
kind = "count"
"""


def happened(count: int, *, timed_only: bool = False) -> tuple[pa.Table, int]:
    """The events that can be used, by the recipe itself, and how many cannot; some sketches need no more than times."""
    recipe = Recipe.from_options(Options({name: str(value) for name, value in OPTIONS.items()}))
    events = pa.Table.from_batches([recipe.batch(0, count)])
    usable = pc.less(events["time"], pa.scalar(START + timedelta(days=30), events["time"].type))
    if not timed_only:
        usable = pc.and_(usable, pc.and_(pc.is_valid(events["key"]), pc.greater_equal(events["value"], 0)))
    good = events.filter(pc.fill_null(usable, False))
    return good, count - good.num_rows


def ticks(events: pa.Table) -> np.ndarray[Any, Any]:
    return np.asarray(events["time"].cast("int64").to_numpy() // 1_000_000)


def told(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_run_answers_as_counting_does_and_repeats_a_batch_to_the_same_files(spark: Any, tmp_path: Path) -> None:
    from catchment.spark.pipeline import Run, read_pipeline
    from catchment.spark.source import read_dead_letters

    file, out = tmp_path / "p.toml", tmp_path / "out"
    file.write_text(described({"events": EVENTS}, mode="snapshots", per_batch=9_000, sketches=HITS + PAGES))
    batches: list[int] = []
    Run(read_pipeline(file), spark, once=True, tell=lambda metrics: batches.append(metrics.batch)).start()
    good, bad = happened(EVENTS)

    folder = PipelineFolder(out)
    end = folder.read("hits").now
    assert end == int(START.timestamp()) + 180, "the last stretch that is over everywhere"
    inside = good.filter(pa.array(ticks(good) <= end))
    weights = inside.group_by("key").aggregate([("value", "sum"), ("value", "count")])
    keys = weights["key"].to_pylist()
    answer = ask(folder, Question("point", "hits", tuple(keys)))[""]
    assert np.mean(answer.holds(weights["value_sum"].to_numpy())) >= 0.97  # delta is 1 in 100 for each
    assert pc.sum(inside["value"]).as_py() in ask(folder, Question("total", "hits"))[""]
    top = ask(folder, Question("top", "pages", k=5))[""]
    exact = dict(zip(keys, weights["value_count"].to_pylist(), strict=True))
    assert set(top.keys) == set(sorted(exact, key=lambda key: -exact[key])[:5])
    assert all(exact[key] in answer for key, answer in top)
    assert top.answers.sites == ("site-0", "site-1", "site-2")
    for site, one in ask(folder, Question("total", "pages", per_site=True)).items():
        assert pc.sum(pc.equal(inside["site"], site)).as_py() in one

    letters = read_dead_letters(spark, str(out / "dead_letters"))
    reasons = {row["reason"]: row["count"] for row in letters.groupBy("reason").count().collect()}
    assert set(reasons) == {"null key", "null time", "negative weight", "time in the future"}
    assert sum(reasons.values()) == bad
    last = told(out)[-1]
    assert (last["all_events"], last["all_dead_letters"], last["states"]) == (good.num_rows, bad, 6)
    assert [line["batch"] for line in told(out)] == batches

    # As after a crash between writing and committing: the last batches are done again.
    files = {path: path.read_bytes() for path in (out / "snapshots").rglob("part.parquet")}
    for number in (2, *batches[3:]):
        (out / f"checkpoint/commits/{number}").unlink()
        (out / f"checkpoint/commits/.{number}.crc").unlink(missing_ok=True)
    (out / "snapshots/batch=2/part.parquet").unlink()
    for number in batches[3:]:
        (out / f"checkpoint/offsets/{number}").unlink()
        (out / f"checkpoint/offsets/.{number}.crc").unlink(missing_ok=True)
    Run(read_pipeline(file), spark, once=True).start()
    assert {path: path.read_bytes() for path in (out / "snapshots").rglob("part.parquet")} == files
    assert read_dead_letters(spark, str(out / "dead_letters")).count() == bad

    text = file.read_text()
    file.write_text(text.replace(str(EVENTS), str(EVENTS + 1000)).replace("epsilon = 0.004", "epsilon = 0.005"))
    with pytest.raises(PipelineError, match=r"p.toml: a micro-batch failed \(the checkpoint keeps Panes"):
        Run(read_pipeline(file), spark, once=True).start()

    file.write_text(text.replace('key = "key"', 'key = "url"', 1))
    with pytest.raises(PipelineError, match=r'p.toml, line 28: key = "url" is no column: there are site, time, key'):
        Run(read_pipeline(file), spark, once=True).start()


def test_text_files_keep_what_does_not_parse(spark: Any, tmp_path: Path) -> None:
    from catchment.spark.pipeline import Run, parse_pipeline

    (tmp_path / "in").mkdir()
    lines = [f'{{"time": "2026-01-01T00:00:{second:02}Z", "user": {second % 7}}}' for second in range(60)]
    (tmp_path / "in/a.json").write_text("\n".join([*lines, "{broken", '{"user": 1}', '{"time": "noon", "user": 1}']))
    text = """
[pipeline]
name = "text"
[source]
format = "json"
path = "in"
schema = "time STRING, user BIGINT"
[columns]
time = "time"
[window]
[[sketch]]
name = "users"
kind = "distinct"
key = "user"
[[sketch]]
name = "volume"
kind = "count"
[output]
folder = "out"
mode = "updates"
"""
    Run(parse_pipeline(text, folder=tmp_path), spark, once=True).start()
    folder = PipelineFolder(tmp_path / "out")
    assert 7 in ask(folder, Question("distinct", "users"))[""]
    total = ask(folder, Question("total", "volume"))[""]
    assert (total.value, total.sites) == (60, ("all",))
    assert told(tmp_path / "out")[-1]["all_dead_letters"] == 3


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell would start it."""
    command = [sys.executable, "-m", "catchment.app", "run", str(folder / "p.toml"), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def only_ours(running: subprocess.Popen[str], out: Path, *last: str, seconds: float = 240) -> str:
    """What a run said, which is nothing but its own lines: those at the end are given; and what Spark's log holds."""
    printed, said = running.communicate(timeout=seconds)
    assert printed == ""
    first, *lines = said.splitlines()
    assert first == f"trial: starting Spark; what it says goes to {out / 'spark.log'}"
    batches, end = lines[: len(lines) - len(last)], lines[len(lines) - len(last) :]
    assert [line for line in batches if not re.fullmatch(r"batch \d+: .* events in .*, watermark \S+", line)] == []
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(last, end, strict=True)), said
    return (out / "spark.log").read_text()


def processes(parent: int, named: str) -> list[int]:
    """The processes below that one whose command has that word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            above = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if above == parent:
            number = int(folder.name)
            found += ([number] if named in command else []) + processes(number, named)
    return found


def kill_until_it_ends(running: subprocess.Popen[str], out: Path, named: str, seconds: float = 240) -> None:
    """Once it has done a micro-batch, end those processes of Spark's as a lack of memory would, and all that follow."""
    end = time.monotonic() + seconds
    while running.poll() is None:
        assert time.monotonic() < end, "it goes on"
        if (out / "metrics.jsonl").exists():
            for number in processes(running.pid, named):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        time.sleep(0.02)


def endless(folder: Path) -> None:
    text = described({"rate": 2_000}, mode="updates", per_batch=4_000, sketches=VOLUME, spark='master = "local[1]"')
    (folder / "p.toml").write_text(text)


@pytest.mark.long("crashes")
def test_a_killed_worker_is_one_line_that_names_the_log(tmp_path: Path) -> None:
    endless(tmp_path)
    out = tmp_path / "out"
    running = started(tmp_path)
    try:
        kill_until_it_ends(running, out, "pyspark.daemon")
        cure = (
            f"mend what it says; the next run goes on with that micro-batch; Spark's own words are in {out}/spark.log"
        )
        log = only_ours(running, out, rf"error: {tmp_path}/p\.toml: a micro-batch failed \(.*\): {re.escape(cure)}")
    finally:
        running.kill()
    assert running.returncode == 2
    assert "Starting Streaming TransformWithStateInPandas Python worker." in log
    assert re.search(r"^\S+ \S+ ERROR MicroBatchExecution: ", log, re.MULTILINE)


@pytest.mark.long("crashes")
def test_a_killed_jvm_is_one_line_that_names_the_log(tmp_path: Path) -> None:
    endless(tmp_path)
    out = tmp_path / "out"
    running = started(tmp_path)
    try:
        kill_until_it_ends(running, out, "org.apache.spark.deploy.SparkSubmit")
        told_so = f"error: Spark's process has ended; Spark's own words are in {out}/spark.log"
        log = only_ours(running, out, re.escape(told_so))
    finally:
        running.kill()
    assert running.returncode == 2
    assert "Traceback (most recent call last)" in log, "what Python made of it"


@pytest.mark.long("crashes")
def test_ctrl_c_ends_after_the_batch_and_the_next_run_goes_on(tmp_path: Path) -> None:
    events, out = 16_000, tmp_path / "out"
    text = described(
        {"events": events, "rate": 2_000}, mode="updates", per_batch=4_000, sketches=VOLUME, spark='master = "local[1]"'
    )
    (tmp_path / "p.toml").write_text(text)
    running = started(tmp_path)
    try:
        asked = _ask_until(running, out, seconds=240)
        assert asked > 0, "it answers while it runs"
        os.killpg(running.pid, signal.SIGINT)  # what a terminal does: to all of the group
        log = only_ours(running, out, "stopped after the last micro-batch; the next run goes on from there")
    finally:
        running.kill()
    assert running.returncode == 130
    assert "TaskSetManager" not in log, "a task failed: the signal reached the workers"
    committed = sorted(int(path.name) for path in (out / "checkpoint/commits").iterdir() if path.name.isdigit())
    lines = told(out)
    assert [line["batch"] for line in lines] == committed
    before, dead = lines[-1]["all_events"], lines[-1]["all_dead_letters"]
    assert 0 < before < events
    (total,) = ask(PipelineFolder(out), Question("total", "volume")).values()
    assert before in total

    ended = started(tmp_path, "--once")
    only_ours(ended, out)
    assert ended.returncode == 0
    good, bad = happened(events, timed_only=True)
    lines = told(out)[len(lines) :]
    assert (before + lines[-1]["all_events"], dead + lines[-1]["all_dead_letters"]) == (good.num_rows, bad)
    at = ticks(good)
    (total,) = ask(PipelineFolder(out), Question("total", "volume")).values()
    assert int((at > at.max() - 600).sum()) in total


def _ask_until(running: subprocess.Popen[str], out: Path, seconds: float) -> int:
    """Ask until there is an answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and running.poll() is None:
        try:
            (total,) = ask(PipelineFolder(out), Question("total", "volume")).values()
            return int(total.value)
        except NameNotFoundError:
            time.sleep(0.2)
    raise AssertionError(f"no answer; exit code {running.poll()}: {running.stderr.read() if running.stderr else ''}")
