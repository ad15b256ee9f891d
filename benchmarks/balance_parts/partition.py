"""Balanced partitioning: imbalance over a thousand streams, the slowest task on Spark, and what learning costs.

Streams: zipf 1, 2 and 3 over 10,000 keys with random names, four fifths to learn from, one fifth to judge by, k = 2 to
10 parts. DKG is as a user of k parts gets it, with a learner for each k (64 buckets a part, theta = 1/(64 k)); beside
it are full knowledge of the very events that are judged by, and plain hashing. Of the thesis's 20,000 events to judge
by, a tenth is 2,000 give or take 42, so that with ten parts the worst of a thousand streams is some 8 % off by chance,
whatever is done; streams here are ten times as long, and the thesis's length is beside. A gap is how far a stream's
imbalance is above that of full knowledge of the same stream.

Spark: rows of Parquet with a key and a value, in 8 parts, through an operator in Python that takes about a
microsecond a row; the times of the tasks are Spark's own, by the clock, and beside them the processor's time that the
operator took, which other work on the machine changes less. Zipf 1.0, keys whole; zipf 1.5, where one key has 38 %,
keys split, and a second step that merges. Results are compared with exact ones. Keys are their ranks;
under other names Spark's hash has a busiest part of 1.4 to 2.1 times the mean on zipf 1.0, 1.8 in the median of 40.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from catchment.app.report import Progress
from catchment.balance import KeyLearner, build_map, full_knowledge, hash_map, imbalance, peak_over_mean
from catchment.spark.logs import program_log
from catchment.spark.partition import balanced_repartition, learn_partitioner
from catchment.spark.session import session
from experiments.key_streams import KeyStream, key_stream

I64 = NDArray[np.int64]
Row = tuple[str, str, str, float, float | None]
Figures = dict[str, float]

COLUMNS = ("what", "case", "how", "value", "worst")
HOW = ("full knowledge", "DKG", "plain hashing")
SKEWS = (1.0, 2.0, 3.0)
PARTS = tuple(range(2, 11))
TASKS = 8
UNIVERSE = 10_000
STREAMS = 334
"""Of each skew: a thousand in all."""


def figures(*, quick: bool, progress: Progress) -> tuple[list[Row], Figures, list[str]]:
    """Rows for `COLUMNS`, figures by name, and notes; `progress` is told shares from 0 to 1."""
    rows: list[Row] = []
    found: Figures = {}
    each = 8 if quick else STREAMS
    rows += over_streams(each, 1_000_000, "", found, lambda done: progress("streams", 0.5 * done))
    rows += over_streams(
        each, 100_000, "_thesis_length", found, lambda done: progress("short streams", 0.5 + 0.1 * done)
    )
    rows += _on_spark(400_000 if quick else 20_000_000, found, lambda done: progress("on Spark", 0.6 + 0.4 * done))
    return rows, found, [_note(found)]


def _note(found: Figures) -> str:
    return (
        f"DKG: over a thousand streams of a million events, zipf 1, 2 and 3, k = 2 to 10, its imbalance is above that "
        f"of full knowledge by at most {found['dkg_mean_gap_points']:.1f} points in the mean and "
        f"{found['dkg_worst_gap_points']:.1f} in the worst stream; plain hashing's by "
        f"{found['hash_mean_gap_points']:.0f} and {found['hash_worst_gap_points']:.0f}. With streams a tenth as long, "
        f"as the thesis has them, by {found['dkg_mean_gap_points_thesis_length']:.1f} and "
        f"{found['dkg_worst_gap_points_thesis_length']:.1f}. "
        f"On Spark the slowest of {TASKS} tasks takes {found['task_dkg']:.2f} times the mean, with Spark's hash "
        f"{found['task_hash']:.2f}; with zipf 1.5 and keys split {found['task_split']:.2f}, with Spark's hash "
        f"{found['task_hash_zipf_1.5']:.2f}. "
        f"Learning took {100 * found['learning_share']:.1f} % of the time of the job that it balanced. "
        f"With a core for each of the {TASKS} tasks the stage lasts as long as its slowest task: "
        f"{found['slowest_over_hash_slowest']:.2f} times as long as with Spark's hash partitioning; two cores share "
        f"out even uneven tasks. The part with the most rows has {found['rows_dkg']:.3f} times the mean, with Spark's "
        f"hash {found['rows_hash']:.2f}."
    )


# -- imbalance over streams -----------------------------------------------------------------------------------


def over_streams(
    count: int, length: int, name: str, found: Figures, progress: Callable[[float], None]
) -> Iterator[Row]:
    worst_gap = worst_mean_gap = 0.0
    hash_mean = hash_worst = 0.0
    for place, skew in enumerate(SKEWS):
        results: list[list[tuple[float, float, float]]] = []
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # kernels leave Python's lock to each other
            for seed, result in enumerate(threads.map(partial(_of_stream, skew, length), range(count))):
                if seed % 10 == 0:
                    progress((place + seed / count) / len(SKEWS))
                results.append(result)
        for number, k in enumerate(PARTS):
            dkg, best, hashed = np.array([result[number] for result in results]).T
            case = f"{length:,} events, zipf-{skew:g}, k = {k}"
            for how, values in zip(HOW, (best, dkg, hashed), strict=True):
                yield "imbalance, %", case, how, float(values.mean()), float(values.max())
            worst_mean_gap = max(worst_mean_gap, float(dkg.mean() - best.mean()))
            worst_gap = max(worst_gap, float((dkg - best).max()))
            hash_mean = max(hash_mean, float(hashed.mean() - best.mean()))
            hash_worst = max(hash_worst, float((hashed - best).max()))
    found[f"dkg_mean_gap_points{name}"], found[f"dkg_worst_gap_points{name}"] = worst_mean_gap, worst_gap
    found[f"hash_mean_gap_points{name}"], found[f"hash_worst_gap_points{name}"] = hash_mean, hash_worst


def _of_stream(skew: float, length: int, seed: int) -> list[tuple[float, float, float]]:
    stream = key_stream(skew, seed, training=length * 4 // 5, validation=length // 5)
    return [_imbalances(stream, k) for k in PARTS]


def _imbalances(stream: KeyStream, k: int) -> tuple[float, float, float]:
    learner = KeyLearner.for_parts(k, seed=stream.seed)
    learner.update(stream.training)
    dkg, hashed = (
        np.bincount(chart.place(stream.names), weights=stream.counts, minlength=k)
        for chart in (build_map(learner, k), hash_map(k, seed=stream.seed))
    )
    return imbalance(dkg), imbalance(full_knowledge(stream.counts, k)), imbalance(hashed)


# -- tasks on Spark -------------------------------------------------------------------------------------------


def _on_spark(events: int, found: Figures, progress: Callable[[float], None]) -> Iterator[Row]:
    spark = session(
        "local[2]", "catchment bench", {"spark.sql.shuffle.partitions": TASKS}, log=program_log("bench-balance")
    )
    folder = Path(tempfile.mkdtemp(prefix="catchment-bench-"))
    try:
        yield from _whole_keys(spark, folder, events, found, progress)
        yield from _split_keys(spark, folder, events, found, progress)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _written(folder: Path, skew: float, events: int) -> tuple[str, I64, I64]:
    """Rows as Parquet, eight files, and what is exact: how often each key comes, and the sum of its scores."""
    odds = np.arange(1, UNIVERSE + 1) ** -skew
    shares = np.cumsum(odds / odds.sum())[:-1]
    rng = np.random.default_rng(int(10 * skew))
    target = folder / f"zipf-{skew:g}"
    target.mkdir()
    counts, sums = np.zeros(UNIVERSE, dtype=np.int64), np.zeros(UNIVERSE, dtype=np.int64)
    for number in range(8):
        size = events * (number + 1) // 8 - events * number // 8
        keys = np.searchsorted(shares, rng.random(size))
        values = rng.integers(0, 1_000_000, size)
        counts += np.bincount(keys, minlength=UNIVERSE)
        np.add.at(sums, keys, score(values))
        pq.write_table(pa.table({"key": keys, "value": values}), target / f"{number}.parquet", row_group_size=1 << 20)
    return str(target), counts, sums


def score(value: Any) -> Any:
    """Something that has to be worked out for each value, here three rounds of a hash; of an array as of a number."""
    for _ in range(3):
        value = ((value * 40_503) % 4_294_967_296) ^ (value >> 7)
    return value


def operator(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events and the sum of the scores of each key, with a dictionary, in Python, as a user's operator has it.

    And one row more, under a key below zero: how long the processor was busy with this part, in microseconds.
    """
    begun = time.process_time_ns()
    found: dict[int, list[int]] = {}
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            entry = found.get(key)
            if entry is None:
                entry = found[key] = [0, 0]
            entry[0] += 1
            entry[1] += score(value)
    context = TaskContext.get()
    assert context is not None
    found[-1 - context.partitionId()] = [(time.process_time_ns() - begun) // 1000, rows]
    events, totals = zip(*found.values(), strict=True)
    yield pa.RecordBatch.from_pydict({"key": list(found), "events": list(events), "total": list(totals)})


OUT = "key bigint, events bigint, total bigint"


class _Job:
    """One run of the operator over a partitioning: its results, its time, and the times of its tasks."""

    def __init__(self, spark: Any, name: str, rows: DataFrame, *, merge: bool = False) -> None:
        done = rows.mapInArrow(operator, OUT)
        if merge:
            done = done.groupBy("key").agg(sql.sum("events").alias("events"), sql.sum("total").alias("total"))
        spark.sparkContext.setJobGroup(name, name)
        begun = time.perf_counter()
        results = done.toArrow()
        self.seconds = time.perf_counter() - begun
        measured = results.filter(pc.less(results.column("key"), 0))
        self.results = results.filter(pc.greater_equal(results.column("key"), 0))
        self.busy, self.rows = measured.column("events").to_pylist(), measured.column("total").to_pylist()
        self.tasks = _task_seconds(spark, name)
        spark.sparkContext.setJobGroup("other", "other")

    @property
    def slowest_over_mean(self) -> float:
        """By the clock, as Spark has it: what else the machine does is in it."""
        return peak_over_mean(self.tasks)

    @property
    def busiest_over_mean(self) -> float:
        """By the time of the processor that the operator took."""
        return peak_over_mean(self.busy + [0] * (TASKS - len(self.busy)))

    @property
    def most_rows_over_mean(self) -> float:
        return peak_over_mean(self.rows + [0] * (TASKS - len(self.rows)))

    def check(self, counts: I64, sums: I64) -> None:
        keys = self.results.column("key").to_numpy()
        if len(np.unique(keys)) != len(keys) or len(keys) != np.count_nonzero(counts):
            raise AssertionError("a key is missing, or there twice")
        for column, exact in (("events", counts), ("total", sums)):
            if not np.array_equal(self.results.column(column).to_numpy(), exact[keys]):
                raise AssertionError(f"{column} are not the exact ones")


def _task_seconds(spark: Any, group: str) -> list[float]:
    """How long the tasks of the operator's stage ran: the stage of this group with the longest tasks, eight of them."""
    context = spark.sparkContext
    store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
    stages: list[list[float]] = []
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds:
            tasks = store.taskList(stage, 0, 1000)
            metrics = [tasks.apply(place).taskMetrics() for place in range(tasks.size())]
            times = [each.get().executorRunTime() / 1000 for each in metrics if each.isDefined()]
            if len(times) == TASKS:
                stages.append(times)
    return max(stages, key=sum)


def _whole_keys(
    spark: Any, folder: Path, events: int, found: Figures, progress: Callable[[float], None]
) -> Iterator[Row]:
    path, counts, sums = _written(folder, 1.0, events)
    df = spark.read.parquet(path)
    progress(0.1)
    # What the first of anything costs, such as the start of Python workers, is no part of this.
    learn_partitioner(df, "key", TASKS, sample=0.001)
    _Job(spark, "first", balanced_repartition(df.sample(0.02), "key", TASKS, partitioner=hash_map(TASKS)))
    _Job(spark, "second", df.sample(0.02).repartition(TASKS, "key"))
    begun = time.perf_counter()
    partitioner = learn_partitioner(df, "key", TASKS)
    learning = time.perf_counter() - begun
    progress(0.2)
    ours = _Job(spark, "dkg", balanced_repartition(df, "key", TASKS, partitioner=partitioner))
    ours.check(counts, sums)
    progress(0.4)
    plain = _Job(spark, "hash", df.repartition(TASKS, "key"))
    plain.check(counts, sums)
    found["task_dkg"], found["task_hash"] = ours.slowest_over_mean, plain.slowest_over_mean
    found["busy_dkg"], found["busy_hash"] = ours.busiest_over_mean, plain.busiest_over_mean
    found["task_hash_over_dkg"] = plain.slowest_over_mean / ours.slowest_over_mean
    found["learning_share"] = learning / ours.seconds
    found["slowest_over_hash_slowest"] = max(ours.tasks) / max(plain.tasks)
    found["rows_dkg"], found["rows_hash"] = ours.most_rows_over_mean, plain.most_rows_over_mean
    case = f"{events:,} rows, zipf-1, {TASKS} tasks"
    yield "slowest task / mean", case, "DKG", ours.slowest_over_mean, None
    yield "slowest task / mean", case, "Spark's hash", plain.slowest_over_mean, None
    yield "busiest task / mean", case, "DKG", ours.busiest_over_mean, None
    yield "busiest task / mean", case, "Spark's hash", plain.busiest_over_mean, None
    yield "learning / job", case, "one row in 20", found["learning_share"], None
    begun = time.perf_counter()
    learn_partitioner(df, "key", TASKS, sample=1.0)
    found["whole_learning_share"] = (time.perf_counter() - begun) / ours.seconds
    yield "learning / job", case, "all rows", found["whole_learning_share"], None


def _split_keys(
    spark: Any, folder: Path, events: int, found: Figures, progress: Callable[[float], None]
) -> Iterator[Row]:
    progress(0.5)
    path, counts, sums = _written(folder, 1.5, events)
    df = spark.read.parquet(path)
    case = f"{events:,} rows, zipf-1.5, {TASKS} tasks"
    progress(0.6)
    split = _Job(spark, "split", balanced_repartition(df, "key", TASKS, split=0.5), merge=True)
    split.check(counts, sums)
    progress(0.8)
    plain = _Job(spark, "hash of zipf 1.5", df.repartition(TASKS, "key"))
    plain.check(counts, sums)
    found["task_split"], found["task_hash_zipf_1.5"] = split.slowest_over_mean, plain.slowest_over_mean
    found["rows_split"], found["rows_hash_zipf_1.5"] = split.most_rows_over_mean, plain.most_rows_over_mean
    found["busy_split"], found["busy_hash_zipf_1.5"] = split.busiest_over_mean, plain.busiest_over_mean
    yield "slowest task / mean", case, "DKG, keys split and merged", split.slowest_over_mean, None
    yield "slowest task / mean", case, "Spark's hash", plain.slowest_over_mean, None
