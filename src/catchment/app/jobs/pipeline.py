"""A pipeline on a terminal: its progress, and what Ctrl-C does."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from catchment.app.report import shown
from catchment.spark.logs import program_log
from catchment.spark.pipeline import Metrics, Run, pipeline_session, read_pipeline, resumed

__all__ = ["INTERRUPTED", "run_pipeline"]

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of any command that it ends."""


def run_pipeline(
    file: Path,
    *,
    master: str | None,
    seconds: float | None,
    once: bool,
    savepoint: Path | None = None,
    new_source: bool = False,
) -> int:
    """Run the pipeline of that file, from its checkpoint or a savepoint; the exit code: 0, or 130 after Ctrl-C."""
    pipeline = read_pipeline(file)
    if savepoint is not None:
        pipeline = resumed(pipeline, savepoint, new_source=new_source)
    console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 200)
    output = Path(pipeline.output.folder)
    output.mkdir(parents=True, exist_ok=True)
    log = program_log("run", folder=output)
    console.print(f"{pipeline.name}: starting Spark; what it says goes to {log}", markup=False)
    spark = pipeline_session(pipeline, master=master, log=log.path)
    came: list[int] = []
    try:
        with _Display(console, pipeline.name) as display:
            run = Run(pipeline, spark, once=once, tell=display.show, savepoint=savepoint)

            def stop(number: int, _frame: Any) -> None:
                came.append(number)
                run.stop()

            # After the session, which sets a handler of its own that ends all jobs at once.
            before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                run.start(seconds)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
    finally:
        spark.stop()
    if came:
        console.print("stopped after the last micro-batch; the next run goes on from there", markup=False)
    return INTERRUPTED if came and came[0] == signal.SIGINT else 0


class _Display:
    """A table on a terminal, that changes in place; a line for each micro-batch where there is none."""

    def __init__(self, console: Console, name: str) -> None:
        self.console, self.name = console, name
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, metrics: Metrics) -> None:
        if self._live is not None:
            self._live.update(_table(self.name, metrics), refresh=True)
            return
        self.console.print(
            f"batch {metrics.batch}: {metrics.events:,} events in {metrics.seconds:.1f} s "
            f"({metrics.events_a_second:,.0f}/s), {metrics.dead_letters:,} dead letters, {metrics.sites} sites, "
            f"{metrics.snapshots:,} snapshots, watermark {metrics.watermark or '-'}",
            markup=False,
        )


def _table(name: str, metrics: Metrics) -> Table:
    table = Table(title=name, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows: dict[str, Any] = {
        "micro-batch": metrics.batch,
        "events": metrics.all_events,
        "events a second": round(metrics.events_a_second),
        "dead letters": metrics.all_dead_letters,
        "watermark": metrics.watermark or "-",
        "sites with news": metrics.sites,
        "states": metrics.states,
        "bytes of state": metrics.state_bytes,
        "snapshots": metrics.snapshots,
    }
    for label, value in rows.items():
        table.add_row(label, shown(value))
    return table
