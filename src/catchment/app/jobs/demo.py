"""The demo: a pipeline on local Spark, eight sites, the last hour's top keys, and the truth beside every answer.

What runs is `catchment run` and what asks is `catchment query`; the truth is counted apart from both, from the same
events, which the generator can make again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.app.query import PipelineFolder, Question, ask
from catchment.app.report import Report
from catchment.errors import QueryError
from catchment.spark.logs import program_log
from catchment.spark.pipeline import Metrics, Run, pipeline_session, read_pipeline
from catchment.spark.source.recipe import Recipe

__all__ = ["Moment", "run_demo"]

RECIPE = Recipe(seed=7, sites=8, keys=5_000, density=1_000.0, late=0.02, late_by=5.0, bursts=0.05, burst_every=1_500.0)
EVENTS, PER_BATCH = 5_400_000, 540_000
MINUTE, HOUR = 60, 3_600
TOP = 10

PIPELINE = """
[pipeline]
name = "demo"
[source]
format = "generator"
[source.options]
{options}
events = {events}
[columns]
time = "time"
site = "site"
[window]
length = "1 hour"
lateness = "10 seconds"
[[sketch]]
name = "top"
kind = "top"
key = "key"
epsilon = 0.01
panes = 12
[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
epsilon = 0.05
[output]
folder = "{folder}/out"
every = "5 minutes"
keep = 1_000
dead_letters = false
[spark]
master = "{master}"
trigger = "available now"
per_batch = {per_batch}
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """What the demo knows after a micro-batch."""

    metrics: Metrics
    table: Report
    held: int
    asked: int


def run_demo(
    tell: Callable[[Moment], None], *, events: int = EVENTS, per_batch: int = PER_BATCH, master: str = "local[2]"
) -> Moment:
    """Run it; `tell` is called after every micro-batch that has something to show. Returns the last of these."""
    with tempfile.TemporaryDirectory(prefix="catchment-demo-") as folder:
        file = Path(folder) / "pipeline.toml"
        options = "\n".join(f"{name} = {value}" for name, value in _options().items())
        file.write_text(
            PIPELINE.format(options=options, events=events, per_batch=per_batch, folder=folder, master=master)
        )
        pipeline = read_pipeline(file)
        truth, moments = _Truth(), list[Moment]()
        held = asked = 0

        def look(metrics: Metrics) -> None:
            nonlocal held, asked
            truth.reach(metrics.all_events)
            try:
                shown = _shown(Path(pipeline.output.folder), truth, metrics)
            except QueryError:
                return  # no snapshot yet
            held, asked = held + int(shown.figures["held"]), asked + len(shown.rows)
            moments.append(Moment(metrics, shown, held, asked))
            tell(moments[-1])

        spark = pipeline_session(pipeline, log=program_log("demo").path)
        try:
            Run(pipeline, spark, tell=look).start()
        finally:
            spark.stop()
    return moments[-1]


def _options() -> dict[str, float]:
    names = ("seed", "sites", "keys", "skew", "density", "late", "late_by", "bursts", "burst_every")
    return {name: getattr(RECIPE, name) for name in names}


class _Truth:
    """The counts of every key in every minute, by counting."""

    def __init__(self) -> None:
        self._counts: dict[int, NDArray[np.int64]] = {}
        self._made = 0
        self.raw_bytes = 0

    def reach(self, events: int) -> None:
        """Count the events up to that number."""
        while self._made < events:
            batch = RECIPE.batch(self._made, min(1 << 18, events - self._made))
            minutes = -(-(batch.column("time").cast("int64").to_numpy() // 1_000_000) // MINUTE)
            keys = batch.column("key").to_numpy()
            for minute in np.unique(minutes).tolist():
                counts = self._counts.setdefault(minute, np.zeros(RECIPE.keys, dtype=np.int64))
                counts += np.bincount(keys[minutes == minute], minlength=RECIPE.keys)
            self._made += batch.num_rows
            self.raw_bytes += batch.nbytes

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """The counts after one end of a minute up to another."""
        total = np.zeros(RECIPE.keys, dtype=np.int64)
        for minute in range(start // MINUTE + 1, end // MINUTE + 1):
            total += self._counts.get(minute, 0)
        return total


def _shown(folder: Path, truth: _Truth, metrics: Metrics) -> Report:
    """The top keys of the last hour over all sites, with bounds, and what is exact."""
    there = PipelineFolder(folder)
    found = ask(there, Question("top", "top", k=TOP, last=HOUR))[""]
    assert isinstance(found, Ranking)
    window = found.answers.window
    assert window is not None
    exact = truth.between(*window)
    points = ask(there, Question("point", "hits", arguments=tuple(map(str, found.keys)), last=HOUR, now=window[1]))[""]
    order = np.argsort(-exact, kind="stable")
    ranks = {int(key): place for place, key in enumerate(order[: 2 * TOP].tolist(), start=1)}
    rows, held = [], 0
    for (key, ranked), counted in zip(found, points, strict=True):
        true = int(exact[key])
        held += ranked.holds(true) and counted.holds(true)
        rows.append(
            (f"key {key}", true, ranked.value, _interval(ranked), counted.value, _interval(counted), ranks.get(key, 0))
        )
    moved = sum(file.stat().st_size for file in (folder / "snapshots").rglob("*.parquet"))
    columns = ("key", "exact", "top sketch", "low to high", "ECM-sketch", "low to high", "true rank")
    figures = {"held": float(held), "moved_bytes": float(moved), "raw_bytes": float(truth.raw_bytes)}
    notes = [
        f"{metrics.all_events:,} events at {RECIPE.sites} sites; "
        f"all snapshots so far: {moved / 1e6:,.1f} MB, the raw events: {truth.raw_bytes / 1e6:,.0f} MB, "
        f"{truth.raw_bytes / max(moved, 1):,.0f} times as much."
    ]
    return Report(f"The last hour's top {TOP} over {RECIPE.sites} sites", columns, rows, figures, notes)


def _interval(answer: Answer) -> str:
    return f"{answer.low:,.0f} to {answer.high:,.0f}"
