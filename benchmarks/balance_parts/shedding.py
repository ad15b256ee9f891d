"""LAS: queueing time and drops against full knowledge on a virtual clock, what deciding costs, and a burst on Spark.

Simulated: the streams of the thesis, 32,768 tuples of Zipf 1 with costs of 0.1 to 6.4 ms, a target of 6.4 ms for the
average over the whole stream, 10 to 90 % under-provisioning.

On Spark it is the operator that OSG's benchmark has (`slow_rows`): it waits for each row as for a model that is called,
1 ms to 1 s by the row's kind, two rows at a time. The target is `SPARK_TARGET`, four times the dearest row, whatever is
measured: on a machine whose micro-batches take longer than that the figure is missed. Rows come at half of what the
operator can take, then for two targets' time at four times what it can take, then at half again for three. The same
plan of rows goes through it with and without shedding. A row's wait is from its arrival to the call of the operator,
measured by the operator itself; what counts is the average wait of the rows that came in the last target's time.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.balance_parts.slow_rows import KINDS, seconds_of_kinds, wait
from catchment.app.report import Progress
from catchment.balance.cost_learner import CostLearner
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shedder import LoadShedder
from catchment.spark.logs import program_log
from catchment.spark.session import session
from catchment.spark.shed import shed
from catchment.testing.shed_simulation import FULL_KNOWLEDGE, LEARNT, simulate
from catchment.testing.workload import Workload, make_workload

__all__ = ["Burst", "figures", "through_a_burst"]

Row = tuple[str, str, float | None, float | None]
"""What, how, its value, and what is beside it."""

TARGET = 6_400
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPARK_TARGET = 4.0
"""Seconds that a row may wait on Spark: stated here, and kept."""

SECONDS = seconds_of_kinds()
TASKS = 2
MEAN_COST = sum(SECONDS.values()) / KINDS
EVENTS = "id bigint, kind bigint, at timestamp"
EPSILON = 0.005
"""Of the shedder's matrices: as in `balanced_map`, since there are some hundred kinds."""


def figures(*, quick: bool, progress: Progress) -> tuple[list[Row], dict[str, float], list[str]]:
    """Rows of a table, figures by name, and notes; `progress` is told of shares from 0 to 1 of this part."""
    found: dict[str, float] = {}
    rows = [
        *_simulated(5 if quick else 200, found, progress),
        *_deciding(50_000 if quick else 1_000_000, found, progress),
        *_on_spark(found, progress),
    ]
    notes = [
        f"LAS, simulated: at 10 to 90 % under-provisioning the average wait is at most "
        f"{found['las_average_over_target']:.3f} of its target, in the worst single run "
        f"{found['las_worst_run_over_target']:.3f}; drops are at most {found['las_drops_over_full_knowledge']:.3f} of "
        f"full knowledge's. {found['las_runs_a_minute']:,.0f} runs a minute.",
        f"LAS on Spark, rows of 1 ms to 1 s, target {SPARK_TARGET:g} s: after the burst rows wait "
        f"{found['las_spark_recovered_over_target']:.2f} of the target, and "
        f"without shedding {found['las_spark_unshed_over_target']:.2f}; {found['las_spark_dropped_share']:.0%} of all "
        f"rows were shed. Where nothing is shed, a batch takes {found['las_spark_time_over_plain']:.2f} times as long "
        "as by a plain map.",
    ]
    return rows, found, notes


def _simulated(runs: int, found: dict[str, float], progress: Progress) -> Iterator[Row]:
    worst, single, drops, count = 0.0, 0.0, 0.0, 0
    simulate(_stream(0.5, 0), LEARNT, target=TARGET)  # compiles
    begun = time.perf_counter()
    for place, under in enumerate(LOADS):
        progress(f"LAS, {under:.0%} under-provisioned", 0.4 * place / len(LOADS))
        averages, dropped, least = [], 0, 0
        for seed in range(runs):
            work = _stream(under, seed)
            run = simulate(work, LEARNT, target=TARGET, seed=seed)
            averages.append(run.average / TARGET)
            dropped += run.dropped
            least += simulate(work, FULL_KNOWLEDGE, target=TARGET).dropped
            count += 2
        worst, single, drops = max(worst, float(np.mean(averages))), max(single, *averages), max(drops, dropped / least)
        yield f"LAS, {under:.0%} under-provisioned", "average wait over its target", float(np.mean(averages)), 1.0
        yield f"LAS, {under:.0%} under-provisioned", "drops over full knowledge's", dropped / least, 1.0
    found["las_average_over_target"], found["las_worst_run_over_target"] = worst, single
    found["las_drops_over_full_knowledge"] = drops
    found["las_runs_a_minute"] = 60 * count / (time.perf_counter() - begun)


def _stream(under: float, seed: int) -> Workload:
    return make_workload(32_768, seed=seed, cheapest=100, dearest=TARGET, instances=1, provisioning=1 - under)


def _deciding(tuples: int, found: dict[str, float], progress: Progress) -> Iterator[Row]:
    """What the machines take for a tuple, in batches of 1,000, against what the operator takes."""
    progress("LAS, deciding and learning", 0.45)
    work = make_workload(tuples, seed=1, cheapest=100, dearest=TARGET, instances=1, provisioning=0.5)
    shedder, operator = LoadShedder(TARGET), ShedOperator(CostLearner())
    finished = np.cumsum(work.costs)
    spent = 0.0
    for start in range(0, tuples, 1000):
        part = slice(start, start + 1000)
        clock = time.perf_counter()
        decision = shedder.shed(work.keys[part], at=work.arrivals[part])
        news = operator.executed(
            work.keys[part], work.costs[part], waits=0, finished=finished[part], marks=decision.marks
        )
        for one in news:
            shedder.hear(one)
        spent += (time.perf_counter() - clock) if start else 0.0  # the first batch compiles
    nanoseconds = spent / (tuples - 1000) * 1e9
    found["las_nanoseconds_a_tuple"] = nanoseconds
    found["las_learning_share"] = nanoseconds / 1000 / work.mean_cost
    yield "LAS", "nanoseconds to decide on a tuple and learn from it", nanoseconds, None
    yield "LAS", "the same over the operator's mean cost", found["las_learning_share"], None


# -- a burst on Spark -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of one run: waits over the target of rows that came in the last target's time, and counts."""

    recovered: float
    worst_batch: float
    rows: int
    dropped: int
    learning_share: float
    shortest_batch: float
    report: str


def operate(row: dict[str, Any]) -> dict[str, Any]:
    """The operator: waits as for a model that is called, and says when it was called."""
    called = time.time_ns() // 1000
    wait(SECONDS, row["kind"])
    return {"id": row["id"], "arrived": int(row["at"].timestamp() * 1e6), "called": called}


def _feed(folder: Path, plan: list[tuple[float, float]], ended: Callable[[float], None]) -> None:
    """Rows as they come, in a file every quarter of a second; `plan`: until when, and how many times the capacity."""
    draw = random.Random(1)
    begun = last = time.time()
    number = 0
    while True:
        time.sleep(0.25)
        now = time.time()
        load = next((times for until, times in plan if now - begun < until), None)
        if load is None:
            ended(now)
            return
        times = come_between(last, now, load * TASKS / MEAN_COST)
        if times:
            _write(folder, number, draw.choices(range(KINDS), k=len(times)), [int(time * 1e6) for time in times])
            number, last = number + len(times), times[-1]


def come_between(last: float, now: float, rate: float) -> list[float]:
    """When rows come after the last one, up to now, at so many a second.

    >>> come_between(10.0, 11.0, 2.5)
    [10.4, 10.8]
    """
    return [last + place / rate for place in range(1, int((now - last) * rate) + 1)]


def _write(folder: Path, number: int, kinds: list[int], times: list[int]) -> None:
    ids = list(range(number, number + len(kinds)))
    table = pa.table({"id": ids, "kind": kinds, "at": pa.array(times, pa.timestamp("us", tz="UTC"))})
    unfinished = folder / f".{number}.parquet"
    pq.write_table(table, unfinished)
    unfinished.rename(folder / f"{number:09}.parquet")


def through_a_burst(
    spark: Any, target: float, *, sheds: bool, until: tuple[float, float, float] = (1.0, 3.0, 6.0)
) -> Burst:
    """One stream through the operator: calm, burst, calm, each until so many targets' times; `target` in seconds."""
    place = Path(tempfile.mkdtemp(prefix="catchment-shedding-"))
    (place / "in").mkdir()
    found: list[tuple[int, int]] = []
    ends: list[float] = []

    def into(results: Any, _number: int) -> None:
        table = results.select("arrived", "called").toArrow()
        found.extend(zip(table.column("arrived").to_pylist(), table.column("called").to_pylist(), strict=True))

    try:
        events = spark.readStream.schema(EVENTS).parquet(str(place / "in"))
        flow = shed(
            events, operate, "kind", schema="id bigint, arrived bigint, called bigint", arrival="at",
            target=f"{int(target * 1000)} ms" if sheds else None, into=into, checkpoint=place / "offsets", tasks=TASKS,
            epsilon=EPSILON,
        )  # fmt: skip
        few = random.Random(2).choices(range(KINDS), k=16)
        _write(place / "in", 10**8, few, [time.time_ns() // 1000] * len(few))
        query = flow.start()
        query.processAllAvailable()  # the first batch, in which costs are seen for the first time
        found.clear()
        plan = [(target * end, load) for end, load in zip(until, (0.5, 4.0, 0.5), strict=True)]
        feeder = threading.Thread(target=_feed, args=(place / "in", plan, ends.append))
        feeder.start()
        feeder.join()
        query.processAllAvailable()
        query.stop()
        late = [called - arrived for arrived, called in found if arrived > (ends[0] - target) * 1e6]
        reports = flow.reports[1:]
        return Burst(
            recovered=float(np.mean(late)) / 1e6 / target if late else float("inf"),
            worst_batch=max(one.average_wait for one in reports) / 1000 / target,
            rows=sum(one.rows for one in reports),
            dropped=sum(one.dropped for one in reports),
            learning_share=sum(one.overhead for one in reports) / sum(one.seconds for one in reports),
            shortest_batch=min(one.seconds for one in reports),
            report=flow.report(),
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _on_spark(found: dict[str, float], progress: Progress) -> Iterator[Row]:
    spark = session("local[2]", "catchment bench", log=program_log("bench-balance"))
    try:
        progress("a burst on Spark, shed", 0.5)
        through_a_burst(spark, 0.5, sheds=False)  # not counted: everything is slower for the first time
        shedding = through_a_burst(spark, SPARK_TARGET, sheds=True)
        progress("a burst on Spark, not shed", 0.75)
        keeping = through_a_burst(spark, SPARK_TARGET, sheds=False)
        progress("a batch on Spark, plain and through the shedder", 0.9)
        found["las_spark_time_over_plain"] = _over_plain(spark, rows=160)
    finally:
        spark.stop()
    found["las_spark_recovered_over_target"] = shedding.recovered
    found["las_spark_unshed_over_target"] = keeping.recovered
    found["las_spark_dropped_share"] = shedding.dropped / shedding.rows
    found["las_spark_learning_share"] = shedding.learning_share
    found["las_spark_target_seconds"] = SPARK_TARGET
    found["las_spark_shortest_batch_seconds"] = shedding.shortest_batch
    yield "LAS on Spark, after a burst", "wait over the target; unshed beside", shedding.recovered, keeping.recovered
    yield "LAS on Spark, worst batch", "wait over the target; unshed beside", shedding.worst_batch, keeping.worst_batch
    yield "LAS on Spark", "share of rows shed", found["las_spark_dropped_share"], None
    yield "LAS on Spark", "share of the batches' time for deciding and learning", shedding.learning_share, None
    yield (
        "LAS on Spark, nothing shed",
        "time over a plain map of the same rows",
        found["las_spark_time_over_plain"],
        1.0,
    )


def _over_plain(spark: Any, rows: int) -> float:
    """What deciding, dealing, measuring and learning add to a batch, here one of five seconds' work.

    The time of a batch over that of a plain map of the same rows in as many tasks. All rows are of one kind, about 60
    ms: with others the shedder would deal them better than a plain map does, which is not what is asked here.
    """
    place = Path(tempfile.mkdtemp(prefix="catchment-shedding-"))
    schema = "id bigint, arrived bigint, called bigint"
    try:
        (place / "in").mkdir()
        kind = min(SECONDS, key=lambda one: abs(SECONDS[one] - 0.06))
        _write(place / "in", 0, [kind] * rows, [time.time_ns() // 1000] * rows)
        events = spark.readStream.schema(EVENTS).parquet(str(place / "in"))
        flow = shed(
            events, operate, "kind", schema=schema, arrival="at", target=None, into=_counted,
            checkpoint=place / "offsets", tasks=TASKS,
        )  # fmt: skip
        batch = spark.read.schema(EVENTS).parquet(str(place / "in"))
        spent: dict[str, list[float]] = {"plain": [], "shedder": []}
        for number in range(4):
            clock = time.perf_counter()
            batch.repartition(TASKS).mapInArrow(_plainly, schema).count()
            spent["plain"].append(time.perf_counter() - clock)
            clock = time.perf_counter()
            flow.process(batch, number)
            spent["shedder"].append(time.perf_counter() - clock)
        return min(spent["shedder"][1:]) / min(spent["plain"][1:])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _counted(results: Any, _number: int) -> None:
    results.count()


def _plainly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([operate(row) for row in batch.to_pylist()])
