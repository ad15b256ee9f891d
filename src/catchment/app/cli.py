"""The `catchment` command."""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from catchment.answer import plain
from catchment.app.catalog import Catalog
from catchment.app.cloud_commands import clouds_app
from catchment.app.describe import describe
from catchment.app.detect_commands import detect
from catchment.app.jobs.merge_check import adapters_there_are, parse_sites, run_merge_check
from catchment.app.jobs.tour import run_tour
from catchment.app.load_commands import load_app
from catchment.app.monitor_commands import certificates, claims, coordinator, site
from catchment.app.pipeline_commands import pipeline_app, query, run
from catchment.app.report import Report
from catchment.app.simulate_command import simulate
from catchment.app.sql_commands import sql
from catchment.app.state_commands import state_app
from catchment.app.targets import shortfalls
from catchment.app.terminal import new_console, progress_bar
from catchment.errors import CatchmentError, ParameterError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("catchment"))
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """One question of many streams: sketches that merge, answers with bounds."""


Name = Annotated[str | None, typer.Argument(help="Which one; without it, the list of them.")]
Quick = Annotated[bool, typer.Option("--quick", help="Less data: seconds instead of minutes.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=600_000, help="How many events, of an hour and a half.")] = 5_400_000,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
) -> None:
    """Run a pipeline on Spark, eight sites: the last hour's top keys with bounds beside the exact ones, live.

    What Spark itself says goes to a file in the cache folder, or to the one that CATCHMENT_SPARK_LOG names (-: here).
    """
    from catchment.app.jobs.demo import Moment, run_demo  # Spark takes as long to import as the rest together

    start = time.perf_counter()
    console = new_console()
    console.print("starting Spark, and a pipeline of eight sites on it")
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def tell(moment: Moment) -> None:
            if console.is_terminal:
                live.update(Group(moment.table.table(), *moment.table.notes), refresh=True)
            else:
                key, exact, _, interval, *_ = moment.table.rows[0]
                console.print(f"{moment.metrics.all_events:>12,} events; first is {key}: {exact:,}, in {interval}")

        last = run_demo(tell, events=events, per_batch=events // 10, master=master)
    _show(last.table)
    console.print(
        f"{last.held} of {last.asked} answers on the way held the exact count in both intervals; "
        f"took {time.perf_counter() - start:.1f} s"
    )


@app.command()
def tour(seed: Annotated[int, typer.Option(help="Another stream.")] = 7) -> None:
    """Without Spark: sketch several million events at eight sites, merge, and compare with the exact answers."""
    start = time.perf_counter()
    with progress_bar() as progress:
        reports = run_tour(seed=seed, progress=progress)
    for report in reports:
        _show(report)
    new_console().print(f"took {time.perf_counter() - start:.1f} s")


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="Bytes that to_bytes wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a serialised sketch is, its parameters, guarantee and size."""
    facts = describe(file)
    if as_json:
        print(json.dumps(plain(facts), indent=2, allow_nan=False))
        return
    for name, value in facts.items():
        text = ", ".join(f"{key}={part}" for key, part in value.items()) if isinstance(value, dict) else value
        print(f"{name:>25}  {text}")


@app.command()
def experiment(
    name: Name = None,
    quick: Quick = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Where the plot goes: .svg or .png.")] = None,
    data: Annotated[Path | None, typer.Option(help="A trace to run on, where the experiment takes one.")] = None,
) -> None:
    """Measure accuracy or communication; prints a table and writes a plot.

    What Spark itself says, where it is used, goes to a file in the cache folder, or to the one that CATCHMENT_SPARK_LOG
    names (-: here).
    """
    catalog = Catalog("experiments")
    if name is None:
        return _list(catalog)
    path = plot or Path("results") / f"{name}.svg"
    if path.suffix not in (".svg", ".png"):
        raise ParameterError(f"--plot {plot}", "end the name in .svg or .png")
    catalog.load(name, data=data)
    _check_destination(path)
    report = _run(catalog, name, quick=quick, json_file=json_file, data=data)
    if report.chart is not None:
        report.save_chart(path)
        new_console().print(f"plot in {path}")
    return None


@app.command()
def bench(
    name: Name = None,
    quick: Quick = False,
    json_file: JsonFile = None,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 where a figure misses its target.")] = False,
) -> None:
    """Measure speed and memory against peers in one run; prints ratios.

    What Spark itself says, where it is used, goes to a file in the cache folder, or to the one that CATCHMENT_SPARK_LOG
    names (-: here).
    """
    catalog = Catalog("benchmarks")
    if name is None:
        return _list(catalog)
    report = _run(catalog, name, quick=quick, json_file=json_file)
    if check:
        missed = shortfalls(catalog.folder / "targets.toml", name, report.figures)
        for line in missed:
            new_console(stderr=True).print(f"falls short: {line}")
        if missed:
            raise typer.Exit(1)
        new_console().print("every target is met")
    return None


@app.command("merge-check")
def merge_check(
    adapters: Annotated[
        list[str] | None, typer.Argument(help="Names of sketches, or module:Class of your own; all of ours by default.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Of each scenario, for each number of sites.")] = None,
    sites: Annotated[str | None, typer.Option(help="Numbers of sites: 1,2,4,16.")] = None,
    quick: Quick = False,
    json_file: JsonFile = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the names of the sketches.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Other streams, trees and hash functions.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for any sketch, not only for ours.")] = False,
) -> None:
    """Merge window sketches through trees of sites; exits 1 where the truth leaves an interval of ours too often."""
    if listed:
        for name, whose in adapters_there_are().items():
            print(f"{name:24} {whose}")
        return
    if json_file is not None:
        _check_destination(json_file)
    numbers = parse_sites(sites or ("1,4" if quick else "1,2,4,16"))
    count = (1 if quick else 2) if trials is None else trials
    with progress_bar() as progress:
        checks = run_merge_check(adapters or [], sites=numbers, trials=count, seed=seed, progress=progress)
    _show(checks.report())
    if json_file is not None:
        json_file.write_text(checks.to_json(quick=quick))
    if set(checks.broken) & (checks.ours if not strict else set(checks.broken)):
        raise typer.Exit(1)


app.command()(run)
app.command()(coordinator)
app.command()(site)
app.command()(claims)
app.command()(certificates)
app.command()(detect)
app.command()(simulate)
app.command()(query)
app.command()(sql)
app.add_typer(pipeline_app, name="pipeline")
app.add_typer(state_app, name="state")
app.add_typer(load_app, name="load")
app.add_typer(clouds_app, name="clouds")


def _list(catalog: Catalog) -> None:
    for name, purpose in catalog.names().items():
        print(f"{name:24} {purpose}")


def _run(catalog: Catalog, name: str, *, quick: bool, json_file: Path | None, data: Path | None = None) -> Report:
    run = catalog.load(name, data=data)
    if json_file is not None:
        _check_destination(json_file)
    with progress_bar() as progress:
        report = run(quick=quick, progress=progress)
    _show(report)
    if json_file is not None:
        json_file.write_text(report.to_json(name, quick=quick))
    return report


def _check_destination(path: Path) -> None:
    """Make sure before the work that its result can be written there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as problem:
        raise ParameterError(f"cannot write {path} ({problem.strerror})", "give another file") from None


def _show(report: Report) -> None:
    console = new_console()
    console.print(report.table())
    for note in report.notes:
        console.print(note)
    console.print()


def main() -> None:
    """Run the command; an error of ours, or of Spark's, is one line on stderr and exit code 2."""
    try:
        app()
    except Exception as problem:
        # What has not been loaded has not failed: no command loads Spark for its errors.
        logs = sys.modules.get("catchment.spark.logs")
        said = logs.spark_failure(problem) if logs is not None else None
        if said is None and not isinstance(problem, CatchmentError | OSError):
            raise
        new_console(stderr=True).print(f"error: {said or problem}", markup=False, soft_wrap=True)
        sys.exit(2)
