"""Spark: sketches of rows and of streams against Spark's own, on this machine's cores, in one run.

Batch: ECM-sketches (epsilon = delta = 0.05, one hour, 8 sites) of Parquet rows, by the fast lane and from any
DataFrame, against Spark's `count_min_sketch` with the same grouping, which knows no time. Stream: events made by the
generator, with watermark and checkpoints, and the state's bytes for ten times the events. Top 10 of the last hour,
every minute: panes in one sketch, against panes of `approx_top_k_accumulate` with combine, and hopping windows.
Times are the best of several after a first run that is not counted; in a stream the first batches are not counted.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from catchment import ECMSketch, Panes, SpaceSaving
from catchment.app.report import Progress, Report
from catchment.sketch.base import Sketch
from catchment.spark import sketch, sketch_stream
from catchment.spark.builtin import approx_top_k, approx_top_k_accumulate, approx_top_k_combine, approx_top_k_estimate
from catchment.spark.logs import program_log
from catchment.spark.savepoint import read_states
from catchment.spark.session import session
from catchment.spark.source import register_sources
from catchment.spark.source.recipe import Recipe

HOUR, MINUTE = 3600, 60
SITES = 8
TOP, TRACKED = 10, 1000
HOPPING_LIMIT = 30
"""Hopping windows are stopped when they have taken so many times our time."""

Row = tuple[str, str, float | None, float | None]


def ecm() -> ECMSketch:
    return ECMSketch(0.05, 0.05, window=HOUR)


def run(*, quick: bool, progress: Progress) -> Report:
    scale = 20 if quick else 1
    figures: dict[str, float] = {}
    config = {"spark.sql.execution.arrow.maxRecordsPerBatch": 65_536, "spark.driver.memory": "6g"}  # for the hops
    spark = session("local[2]", "catchment bench", config, log=program_log("bench-spark"))
    register_sources(spark)
    folder = Path(tempfile.mkdtemp(prefix="catchment-bench-"))
    try:
        rows = [
            *_batch(spark, folder, 40_000_000 // scale, figures, progress),
            *_top(spark, folder, 10_000_000 // scale, figures, progress),
            *_stream(spark, folder, 60 // scale, figures, progress),
            *_growth(spark, folder, 10_000_000 // scale, figures, progress),
            *_hopping(spark, folder, 10_000_000 // scale, figures, progress),
        ]
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    columns = ("what", "how", "M events/s", "times the peer's speed")
    notes = [
        "Spark's count_min_sketch has no time in it: it answers for all rows, an ECM-sketch for any range of the hour.",
        f"State of the stream: {figures['stream_state_bytes'] / 1000:,.0f} KB for {SITES} sites; with ten times the "
        f"events in the window, {figures['state_growth']:.2f} times that. The largest Python worker took "
        f"{figures['worker_memory_bytes'] / 1e6:,.0f} MB.",
        f"Hopping windows are stopped after {HOPPING_LIMIT} times our time, if they take that long.",
        f"Top {TOP} of the last hour at every minute: all bounds held against exact counts; "
        f"{figures['top_missed']:.0f} keys that were certain to belong were missed.",
    ]
    return Report("Sketches on Spark, two cores", columns, rows, figures, notes)


def _best(work: Callable[[], Any], repeats: int = 3) -> float:
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _at_most(spark: Any, work: Callable[[], Any], seconds: float) -> float:
    """How long it takes, once; stopped when that is longer than it matters."""
    spark.addTag("at most")
    timer = threading.Timer(seconds, spark.interruptTag, ["at most"])
    begun = time.perf_counter()
    timer.start()
    try:
        work()
    except Exception:
        if time.perf_counter() - begun < seconds:
            raise
    finally:
        timer.cancel()
        spark.removeTag("at most")
    return time.perf_counter() - begun


def _write(recipe: Recipe, events: int, folder: Path) -> str:
    """The stream as Parquet, eight files of row groups of a million."""
    folder.mkdir()
    step = -(-events // 8)
    for number in range(8):
        stop = min((number + 1) * step, events)
        batches = [recipe.batch(at, min(1 << 16, stop - at)) for at in range(number * step, stop, 1 << 16)]
        pq.write_table(pa.Table.from_batches(batches), folder / f"{number}.parquet", row_group_size=1 << 20)
    return str(folder)


def _batch(spark: Any, folder: Path, events: int, figures: dict[str, float], progress: Progress) -> Iterator[Row]:
    progress("writing rows", 0.0)
    recipe = Recipe(seed=1, sites=SITES, keys=100_000, density=events / HOUR, late=0.05, late_by=10.0)
    df = spark.read.parquet(_write(recipe, events, folder / "rows"))
    progress("Spark's count_min_sketch", 0.08)
    count_min = sql.count_min_sketch("key", sql.lit(0.05), sql.lit(0.95), sql.lit(1))
    peer = events / _best(lambda: df.groupBy("site").agg(count_min).collect())
    yield "batch, 8 sites", "Spark's count_min_sketch", peer / 1e6, None
    found: dict[str, dict[str, bytes]] = {}

    def ours(lane: str) -> None:
        rows = sketch(df, using=ecm(), keys="key", time="time", by="site", lane=lane).collect()
        found[lane] = {row["site"]: bytes(row["sketch"]) for row in rows}

    for lane, name in (("scan", "ECM, Parquet read by the tasks"), ("rows", "ECM, from any DataFrame")):
        progress(name, 0.15 if lane == "scan" else 0.22)
        rate = events / _best(lambda lane=lane: ours(lane))  # type: ignore[misc]
        figures[f"{lane}_over_count_min"] = rate / peer
        yield "batch, 8 sites", name, rate / 1e6, rate / peer
    if found["scan"] != found["rows"] or len(found["scan"]) != SITES:
        raise AssertionError("the two lanes gave different sketches")


def _top(spark: Any, folder: Path, events: int, figures: dict[str, float], progress: Progress) -> Iterator[Row]:
    progress("writing two hours of rows", 0.3)
    recipe = Recipe(seed=2, sites=1, keys=100_000, density=events / (2 * HOUR))
    df = spark.read.parquet(_write(recipe, events, folder / "two hours"))
    start = recipe.start // 1_000_000
    ends = [start + HOUR + MINUTE * number for number in range(1, HOUR // MINUTE + 1)]
    answers: dict[str, dict[int, list[Any]]] = {}

    def ours() -> None:
        panes = Panes(SpaceSaving.sized(capacity=TRACKED), window=2 * HOUR, panes=2 * HOUR // MINUTE)
        (row,) = sketch(df, using=panes, keys="key", time="time").collect()
        kept: Any = Sketch.from_bytes(row["sketch"])
        newest = kept.newest
        answers["ours"] = {
            end: list(kept.top(TOP, last=HOUR, now=end))
            for end in ends
            if newest - 2 * HOUR <= end - HOUR and end <= newest
        }

    minute = sql.ceil(sql.unix_seconds("time") / MINUTE).alias("minute")

    def accumulated() -> None:
        panes = df.groupBy(minute).agg(approx_top_k_accumulate("key", TRACKED).alias("pane"))
        windows = panes.select("pane", sql.explode(sql.sequence("minute", sql.expr("minute + 59"))).alias("end"))
        whole = windows.groupBy("end").agg(approx_top_k_combine("pane", TRACKED).alias("whole"))
        rows = whole.select("end", approx_top_k_estimate("whole", TOP).alias("top")).collect()
        answers["panes"] = {row["end"] * MINUTE: [item["item"] for item in row["top"]] for row in rows}

    progress("top 10 by panes in one sketch", 0.34)
    own = _best(ours, 6)  # of two seconds each
    progress("top 10 by approx_top_k_accumulate and combine", 0.38)
    peer = _best(accumulated, 6)
    figures["top_over_panes"], figures["top_seconds"] = peer / own, own
    figures["top_wrong"], figures["top_missed"] = _check_top(recipe, events, answers["ours"])
    yield "last hour's top 10, every minute", "panes of approx_top_k_accumulate, combined", events / peer / 1e6, None
    yield "last hour's top 10, every minute", "Panes of SpaceSaving, one sketch", events / own / 1e6, peer / own


def _hopping(spark: Any, folder: Path, events: int, figures: dict[str, float], progress: Progress) -> Iterator[Row]:
    """The same answers by a window of an hour that starts at every minute: each row is in sixty of them."""
    progress("top 10 by hopping windows", 0.9)
    df = spark.read.parquet(str(folder / "two hours"))
    hop = sql.window("time", "1 hour", "1 minute").alias("hop")
    hops = df.groupBy(hop).agg(approx_top_k("key", TOP, TRACKED).alias("top"))
    seconds = _at_most(spark, hops.collect, HOPPING_LIMIT * figures["top_seconds"])
    figures["top_over_hopping"] = seconds / figures.pop("top_seconds")
    yield "last hour's top 10, every minute", "hopping windows, approx_top_k", events / seconds / 1e6, None


def _check_top(recipe: Recipe, events: int, answers: dict[int, list[Any]]) -> tuple[float, float]:
    """How many counts were outside their bounds, and how many keys with more than all that were named were left out."""
    batches = [recipe.batch(at, min(1 << 16, events - at)) for at in range(0, events, 1 << 16)]
    table = pa.Table.from_batches(batches)
    keys = table.column("key").to_numpy()
    times = table.column("time").cast(pa.int64()).to_numpy() // 1_000_000
    wrong = missed = 0
    for end, ranking in answers.items():
        counts = np.bincount(keys[(times > end - HOUR) & (times <= end)], minlength=recipe.keys)
        wrong += sum(not answer.holds(int(counts[key])) for key, answer in ranking)
        certain = max(answer.high for _, answer in ranking)
        missed += int(np.sum(counts > certain)) + (len(ranking) < TOP)
    if len(answers) < HOUR // MINUTE // 2:
        raise AssertionError(f"only {len(answers)} minutes were asked about")
    return float(wrong), float(missed)


def _query(spark: Any, folder: Path, recipe: dict[str, Any], events: int, per_batch: int) -> Any:
    stream = spark.readStream.format("catchment_events")
    for name, value in {**recipe, "sites": SITES, "events": events, "per_batch": per_batch}.items():
        stream = stream.option(name, value)
    sketches = sketch_stream(stream.load(), using=ecm(), keys="key", time="time", by="site")
    writer = sketches.writeStream.format("noop").option("checkpointLocation", str(folder))
    return writer.trigger(availableNow=True).start()


def _stream(spark: Any, folder: Path, seconds: int, figures: dict[str, float], progress: Progress) -> Iterator[Row]:
    """As many events as it takes to keep going for so many seconds after the first batches."""
    progress("a stream", 0.55)
    per_batch, recipe = 3_000_000, {"seed": 3, "keys": 100_000, "density": 1_000_000, "late": 0.05, "late_by": 5}
    query = _query(spark, folder / "stream", recipe, 2**40, per_batch)
    settled: float | None = None
    first: Any = None
    last: Any = None
    try:
        # On a busy machine a batch may take longer than all of that time, and a rate needs two.
        while settled is None or time.monotonic() - settled < max(seconds, 5) or last.batchId == first.batchId:
            time.sleep(0.2)
            if query.exception() is not None:
                raise query.exception()
            if settled is None and query.lastProgress is not None and query.lastProgress.batchId >= 2:
                settled, first = time.monotonic(), query.lastProgress
            last = query.lastProgress
    finally:
        query.stop()
    elapsed = (_millis(last) - _millis(first)) / 1000
    rate = (last.batchId - first.batchId) * per_batch / elapsed
    figures["stream_events_a_second"] = rate
    states = [len(row["state"]) for row in read_states(spark, folder / "stream").collect()]
    figures["stream_state_bytes"] = float(sum(states))
    yield f"stream, 8 sites, {elapsed:.0f} s", "ECM, watermark, checkpoints", rate / 1e6, None


def _millis(progress: Any) -> float:
    """When a batch ended."""
    begun = np.datetime64(progress.timestamp.removesuffix("Z"), "ms").astype(np.int64)
    return float(begun) + float(progress.durationMs["triggerExecution"])


def _growth(spark: Any, folder: Path, events: int, figures: dict[str, float], progress: Progress) -> Iterator[Row]:
    """The state of an hour with so many events, and with ten times as many; the memory of the Python workers."""
    sizes = []
    for times in (1, 10):
        progress(f"the state of {times * events:,} events", 0.75 if times == 1 else 0.82)
        checkpoint = folder / f"growth-{times}"
        recipe = {"seed": 4, "keys": 100_000, "density": times * events / HOUR}
        _query(spark, checkpoint, recipe, times * events, max(times * events // 8, 1)).awaitTermination()
        sizes.append(sum(len(row["state"]) for row in read_states(spark, checkpoint).collect()))
    figures["state_growth"] = sizes[1] / sizes[0]
    figures["worker_memory_bytes"] = float(max(_worker_memory()))
    return iter(())


def _worker_memory() -> list[int]:
    """The most memory that each Python worker of this process's Spark ever took."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue  # it ended meanwhile
        if b"pyspark.daemon" in command or b"pyspark/daemon" in command:
            found.append(int(fields.get("VmHWM", "0 kB").split()[0]) * 1024)
    return found
