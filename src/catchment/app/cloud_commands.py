"""`catchment clouds`: the micro-clouds of a federation, and those that this machine runs for itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from catchment.app.report import Progress
from catchment.errors import CloudError

__all__ = ["clouds_app"]

# Spark takes as long to import as the rest together: the commands import it when they run.

clouds_app = typer.Typer(help="Show, start and stop micro-clouds.")

File = Annotated[Path | None, typer.Option("--file", help="The file of clouds; clouds.toml here by default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folder = Annotated[Path | None, typer.Option(help="Where they live; CATCHMENT_CLOUDS or the cache folder by default.")]


@clouds_app.callback(invoke_without_command=True)
def clouds(context: typer.Context, file: File = None, as_json: AsJson = False) -> None:
    """Show the clouds of a federation: region, address, health, tables with rows and size."""
    if context.invoked_subcommand is None:
        show(file, as_json)


@clouds_app.command()
def show(file: File = None, as_json: AsJson = False) -> None:
    """Show the clouds of a federation: region, address, health, tables with rows and size.

    Exits 1 if one of them does not answer.
    """
    from catchment.spark.cloud import connected
    from catchment.spark.cloud_folder import find_clouds
    from catchment.spark.logs import hush, program_log

    hush(program_log("clouds"))
    with connected(find_clouds(file)) as found:
        facts = [_facts(cloud) for cloud in found.values()]
    if as_json:
        print(json.dumps({"clouds": facts}, indent=2))
    else:
        _print(facts)
    if any(not fact["healthy"] for fact in facts):
        raise typer.Exit(1)


@clouds_app.command()
def up(
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=3, help="How many.")] = 2,
    heap: Annotated[str, typer.Option(help="The memory of each: 768m, 2g.")] = "1g",
    cores: Annotated[int, typer.Option(min=1, help="The cores that each uses at most.")] = 2,
    folder: Folder = None,
) -> None:
    """Start clouds on this machine: Spark Connect servers with tables of their own. Those that run stay as they are.

    They need about 1 GB of memory each, listen on the loopback address only, and run until `catchment clouds down`.
    """
    from catchment.spark.cloud import connected
    from catchment.spark.cloud_folder import clouds_folder, find_clouds, start_clouds
    from catchment.spark.logs import hush, program_log

    hush(program_log("clouds"))
    with _progress() as tell:
        started = start_clouds(number, folder, heap=heap, cores=cores, tell=lambda what, share: tell(what, share / 2))
        file = clouds_folder(folder) / "clouds.toml"
        with connected(find_clouds(file)) as found:
            for done, (name, cloud) in enumerate(found.items()):
                # The first question takes seconds: it opens the catalogue. Better now than at the user's first.
                tell(f"opening the catalogue of {name}", 0.5 + done / len(found) / 2)
                cloud.tables()
    for name, server in started.items():
        print(f"{name}: sc://localhost:{server.port}, log in {server.log}")
    print(f"named in {file}; stop them with `catchment clouds down`")


@clouds_app.command()
def down(folder: Folder = None) -> None:
    """Stop the clouds on this machine; their tables stay for the next `up`."""
    from catchment.spark.cloud_folder import stop_clouds

    stopped = stop_clouds(folder)
    print(f"stopped {', '.join(stopped)}" if stopped else "no cloud runs here")


def _facts(cloud: Any) -> dict[str, Any]:
    fact: dict[str, Any] = {"name": cloud.name, "region": cloud.region, "address": cloud.settings.address}
    fact |= {"cost_in": cloud.cost_in, "cost_out": cloud.cost_out, "healthy": True, "problem": None, "tables": []}
    try:
        fact["seconds"] = round(cloud.check(), 3)
        for table in cloud.tables().values():
            columns = {column.name: column.type for column in table.columns}
            fact["tables"].append({"name": table.name, "rows": table.rows, "bytes": table.bytes, "columns": columns})
    except CloudError as problem:
        fact |= {"healthy": False, "problem": str(problem)}
    return fact


def _print(facts: list[dict[str, Any]]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    shown = Table(title="clouds", title_justify="left")
    for column in ("cloud", "region", "address", "health", "table"):
        shown.add_column(column)
    for column in ("rows", "size"):
        shown.add_column(column, justify="right")
    for fact in facts:
        health = f"answers in {fact['seconds'] * 1000:,.0f} ms" if fact["healthy"] else "does not answer"
        head = [fact["name"], fact["region"], fact["address"], health]
        for table in fact["tables"] or [None]:
            rows = "" if table is None or table["rows"] is None else f"{table['rows']:,}"
            size = "" if table is None or table["bytes"] is None else _size(table["bytes"])
            shown.add_row(*head, "" if table is None else table["name"], rows, size)
            head = [""] * len(head)
    console.print(shown, markup=False)
    for fact in facts:
        if fact["problem"]:
            console.print(fact["problem"], markup=False, soft_wrap=True)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


@contextmanager
def _progress() -> Iterator[Progress]:
    """What happens now, on a line of its own; on a terminal, one line with a spinner."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status("") as status:
            yield lambda label, _: status.update(label)
        return
    yield lambda label, share: print(f"{share:4.0%} {label}", file=sys.stderr, flush=True)
