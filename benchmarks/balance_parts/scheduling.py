"""OSG: completion times against round-robin on a virtual clock, what deciding costs, and stages on Spark.

On Spark an operator waits for each row as for a model that is called, 1 ms to 1 s by the row's kind (`slow_rows`), so
eight tasks run side by side on any machine. The same stream goes through equal counts and through OSG, in micro-batches
of a few hundred rows; the first batches, in which workers start and costs are learnt, are not counted.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.balance_parts.slow_rows import DEAREST, KINDS, seconds_of_kinds, wait
from catchment.app.report import Progress
from catchment.balance.scheduler import OperatorInstance, Scheduler, SchedulerSettings
from catchment.spark.balanced_map import BalancedMap
from catchment.spark.balanced_report import BatchReport
from catchment.spark.logs import program_log
from catchment.spark.session import session
from catchment.testing.queueing import operate_full_knowledge, operate_osg, operate_round_robin, speed_up
from catchment.testing.workload import DISTRIBUTIONS, make_workload

__all__ = ["figures"]

Row = tuple[str, str, float | None, float | None]
"""What, how, its value, and what is beside it."""

TASKS = 8


def figures(*, quick: bool, progress: Progress) -> tuple[list[Row], dict[str, float], list[str]]:
    """Rows of a table, figures by name, and notes; `progress` is told of shares from 0 to 1 of this part."""
    found: dict[str, float] = {}
    rows = [
        *_simulated(20 if quick else 1000, 5 if quick else 100, found, _within(progress, 0.0, 0.4)),
        *_deciding(100_000 if quick else 1_000_000, found, _within(progress, 0.4, 0.5)),
        *_on_spark(found, _within(progress, 0.5, 1.0), quick=quick),
    ]
    notes = [
        f"OSG, simulated: {found['osg_runs_a_minute']:,.0f} runs of 100,000 tuples a minute; full knowledge reaches "
        f"{found['osg_zipf_1_full_knowledge']:.2f} where OSG reaches {found['osg_zipf_1_speed_up']:.2f}, the thesis's "
        f"rules {found['osg_zipf_1_thesis_rules']:.2f} (the thesis says 1.29).",
        f"OSG on Spark: the slowest task takes {found['osg_spark_peak_over_mean']:.2f} of the mean, in equal counts "
        f"{found['osg_spark_equal_counts_peak_over_mean']:.2f}; dealing and learning take "
        f"{found['osg_spark_learning_share']:.1%} of a batch.",
    ]
    return rows, found, notes


def _within(progress: Progress, low: float, high: float) -> Progress:
    return lambda label, share: progress(label, low + (high - low) * share)


def _simulated(runs: int, each: int, found: dict[str, float], progress: Progress) -> list[Row]:
    """Mean speed-ups on zipf-1 at 105 %, and on every distribution at 100 and 105 %."""
    ups: list[tuple[float, float, float]] = []
    start = time.perf_counter()
    for seed in range(runs):
        if seed % 20 == 0:
            progress("OSG, zipf-1 at 105 %", 0.6 * seed / runs)
        work = make_workload(seed=seed, provisioning=1.05)
        turns = operate_round_robin(work)
        ours = operate_osg(work, SchedulerSettings(seed=seed))
        theirs = operate_osg(work, SchedulerSettings.thesis(seed=seed))
        full = operate_full_knowledge(work, measure="backlog")
        ups.append((speed_up(ours, turns), speed_up(theirs, turns), speed_up(full, turns)))
    found["osg_runs_a_minute"] = 4 * runs / (time.perf_counter() - start) * 60
    ours_all, theirs_all, full_all = (np.array(column) for column in zip(*ups, strict=True))
    found["osg_zipf_1_speed_up"] = float(ours_all.mean())
    found["osg_zipf_1_least_speed_up"] = float(ours_all.min())
    found["osg_zipf_1_thesis_rules"] = float(theirs_all.mean())
    found["osg_zipf_1_full_knowledge"] = float(full_all.mean())
    rows: list[Row] = [("OSG, zipf-1 at 105 %", "times round-robin", found["osg_zipf_1_speed_up"], 1.0)]
    cases = [(name, share) for name in DISTRIBUTIONS for share in (100, 105)]
    means = []
    for place, (name, share) in enumerate(cases):
        progress(f"OSG, {name} at {share} %", 0.6 + 0.4 * place / len(cases))
        faster = []
        for seed in range(each):
            work = make_workload(seed=seed, skew=DISTRIBUTIONS[name], provisioning=share / 100)
            faster.append(speed_up(operate_osg(work, SchedulerSettings(seed=seed)), operate_round_robin(work)))
        means.append(float(np.mean(faster)))
        rows.append((f"OSG, {name} at {share} %", "times round-robin", means[-1], 1.0))
    found["osg_least_mean_speed_up"] = min(means)
    return rows


def _deciding(tuples: int, found: dict[str, float], progress: Progress) -> list[Row]:
    """What the scheduler and an instance take for a tuple, in batches of 1,000, and of what the tuple itself takes."""
    progress("OSG, deciding", 0.0)
    work = make_workload(tuples, seed=1)
    settings = SchedulerSettings()
    scheduler = Scheduler(5, settings)
    for number in range(5):
        teacher = OperatorInstance(number, settings)
        for message in teacher.executed(work.keys[:20_000], work.costs[:20_000]):
            scheduler.hear(message, at=0)
    instance = OperatorInstance(0, settings)
    parts = [slice(start, start + 1000) for start in range(0, tuples, 1000)]

    def decide() -> None:
        for part in parts:
            scheduler.assign(work.keys[part], at=work.arrivals[part])

    def learn() -> None:
        for part in parts:
            instance.executed(work.keys[part], work.costs[part])

    rows: list[Row] = []
    for name, task in (("scheduler", decide), ("instance", learn)):
        found[f"osg_{name}_ns_a_tuple"] = _best(task) / tuples * 1e9
        rows.append((f"OSG, {name}", "ns a tuple", found[f"osg_{name}_ns_a_tuple"], None))
    both = found["osg_scheduler_ns_a_tuple"] + found["osg_instance_ns_a_tuple"]
    found["osg_learning_share"] = both / (1000 * work.mean_cost)
    return rows


def _best(task: Callable[[], None], repeats: int = 3) -> float:
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def _wait(costs: dict[int, float], row: dict[str, Any]) -> dict[str, Any]:
    wait(costs, row["kind"])
    return {"id": row["id"]}


def _on_spark(found: dict[str, float], progress: Progress, *, quick: bool) -> list[Row]:
    rows, warm, counted = (150, 2, 2) if quick else (300, 4, 6)
    rng = np.random.default_rng(7)
    dearest = 100_000 if quick else DEAREST
    costs = seconds_of_kinds(dearest)
    folder = Path(tempfile.mkdtemp(prefix="catchment-bench-"))
    spark = session(f"local[{TASKS}]", "catchment bench", log=program_log("bench-balance"))
    try:
        for number in range(warm + counted):
            _put(folder / "in", number, rows, rng)
        reports: dict[str, list[BatchReport]] = {}
        for place, how in enumerate(("counts", "costs")):
            progress(f"OSG on Spark, dealt by {how}", place / 2)
            reports[how] = _streamed(spark, folder, how, costs)[warm:]
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    stage = {how: sum(report.running for report in some) for how, some in reports.items()}
    whole = {
        how: sum(report.dealing + report.running + report.learning for report in some) for how, some in reports.items()
    }
    found["osg_spark_stage_over_equal_counts"] = stage["costs"] / stage["counts"]
    found["osg_spark_batch_over_equal_counts"] = whole["costs"] / whole["counts"]
    found["osg_spark_learning_share"] = (whole["costs"] - stage["costs"]) / whole["costs"]
    found["osg_spark_peak_over_mean"] = float(np.mean([report.imbalance for report in reports["costs"]]))
    found["osg_spark_equal_counts_peak_over_mean"] = float(np.mean([report.imbalance for report in reports["counts"]]))
    return [
        (f"{rows} rows, 1 ms to {dearest / 1000:,.0f} ms, {TASKS} tasks", "stage, s", stage["costs"] / counted,
         stage["counts"] / counted),
        ("the same with dealing and learning", "batch, s", whole["costs"] / counted, whole["counts"] / counted),
        ("the slowest task", "of the mean", found["osg_spark_peak_over_mean"],
         found["osg_spark_equal_counts_peak_over_mean"]),
    ]  # fmt: skip


def _put(folder: Path, number: int, rows: int, rng: np.random.Generator) -> None:
    folder.mkdir(exist_ok=True)
    kinds = rng.integers(0, KINDS, rows).tolist()
    path = folder / f"{number:04}.json"
    path.write_text("".join(json.dumps({"id": place, "kind": kind}) + "\n" for place, kind in enumerate(kinds)))
    os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in the order of their times


def _sink(batch: Any, _number: int) -> None:
    batch.collect()


def _streamed(spark: Any, folder: Path, how: str, costs: dict[int, float]) -> list[BatchReport]:
    def function(row: dict[str, Any]) -> dict[str, Any]:
        return _wait(costs, row)

    source = spark.readStream.schema("id long, kind long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    operator = BalancedMap(function, "kind", "id long", tasks=TASKS, deal=how, learnt=folder / how / "learnt")
    writer = operator.stream(source, _sink, checkpoint=folder / how / "checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return list(operator.reports)
