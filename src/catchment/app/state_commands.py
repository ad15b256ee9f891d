"""`catchment state`: what a stream knows, taken out of its checkpoint and put into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.app.report import shown

__all__ = ["state_app"]

state_app = typer.Typer(no_args_is_help=True, help="Take the state of a stopped stream out, and go on from it.")

Checkpoint = Annotated[Path, typer.Argument(help="The checkpoint folder of a query that is not running.")]
Savepoint = Annotated[Path, typer.Argument(help="The savepoint: a Parquet file.")]


@state_app.command("export")
def export(checkpoint: Checkpoint, savepoint: Savepoint) -> None:
    """Write a savepoint: the state of every group, and how far the source was read."""
    from catchment.spark.logs import program_log
    from catchment.spark.savepoint import export_savepoint
    from catchment.spark.session import session

    spark = session(log=program_log("state-export"))
    try:
        count = export_savepoint(spark, checkpoint, savepoint)
    finally:
        spark.stop()
    print(f"wrote {count} states to {savepoint}")


@state_app.command("show")
def show(savepoint: Savepoint) -> None:
    """Print what is in a savepoint, without Spark."""
    from catchment.spark.savepoint import list_savepoint, savepoint_offsets

    for group, state in list_savepoint(savepoint):
        print(
            f"{group}: {type(state.using).__name__}, {shown(state.events)} events, {shown(state.late)} late, "
            f"settled to tick {state.settled}, newest {state.newest}"
        )
    print(f"the source was read up to {savepoint_offsets(savepoint)}")


@state_app.command("import")
def import_(
    savepoint: Savepoint,
    file: Annotated[Path, typer.Argument(help="The file of a pipeline whose checkpoint is new.")],
    master: Annotated[str | None, typer.Option(help="Where Spark runs, in place of the file's.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is there now is read.")] = False,
    new_source: Annotated[
        bool, typer.Option("--new-source", help="The source has only what the savepoint has not seen.")
    ] = False,
) -> None:
    """Run a pipeline that starts from a savepoint, and reads its source on from where that was taken."""
    from catchment.app.jobs.pipeline import run_pipeline

    code = run_pipeline(file, master=master, seconds=seconds, once=once, savepoint=savepoint, new_source=new_source)
    if code:
        raise typer.Exit(code)
