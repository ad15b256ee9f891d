"""`catchment load csv` and `catchment load parquet`: files into a table of one cloud, or spread over several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from catchment.app.sql_commands import CloudsFile
from catchment.app.terminal import printable, progress_bar
from catchment.errors import NameNotFoundError, ParameterError

__all__ = ["load_app"]

# Spark takes as long to import as the rest together: the commands import it when they run.

load_app = typer.Typer(no_args_is_help=True, help="Put files into a table of one cloud, or spread them over several.")

Files = Annotated[list[str], typer.Argument(help="The files; with --remote paths as the cloud sees them.")]
TableName = Annotated[str, typer.Option("--table", help="The table; it is made where it is missing.")]
Into = Annotated[list[str] | None, typer.Option("--into", help="The cloud; repeat it to spread over these.")]
Spread = Annotated[bool, typer.Option("--spread", help="Spread the rows evenly over all clouds.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what the table holds; otherwise add to it.")]
BatchId = Annotated[
    str | None, typer.Option("--batch-id", help="Know files by this and their names; by their bytes without.")
]
Again = Annotated[bool, typer.Option("--again", help="Also load files that were loaded before.")]
Remote = Annotated[bool, typer.Option("--remote", help="The cloud reads the files itself; nothing is sent.")]


@load_app.command()
def csv(
    files: Files,
    table: TableName,
    into: Into = None,
    spread: Spread = False,
    schema: Annotated[
        str | None, typer.Option(help="Columns of a new table: 'id BIGINT, day DATE'; guessed by --header without.")
    ] = None,
    header: Annotated[bool, typer.Option("--header", help="The first line of each file names the columns.")] = False,
    delimiter: Annotated[str, typer.Option(help="Between two fields; \\t is a tabulator.")] = ",",
    quote: Annotated[str, typer.Option(help="Around a field.")] = '"',
    null: Annotated[str, typer.Option(help="The field, without quotes, that means null.")] = "",
    multiline: Annotated[bool, typer.Option("--multiline", help="Line breaks may stand in quotes.")] = False,
    replace: Replace = False,
    rejected: Annotated[
        Path | None, typer.Option(help="Where bad rows go, as JSON lines; TABLE.rejected.jsonl without.")
    ] = None,
    max_rejected: Annotated[int, typer.Option(min=0, help="With more bad rows a file is not loaded.")] = 10_000,
    batch_id: BatchId = None,
    again: Again = False,
    remote: Remote = False,
    clouds: CloudsFile = None,
) -> None:
    """Load CSV files, plain or .gz. Each is loaded whole or not at all, and the same file not twice.

    Exit codes: 0 when every row is in the table; 1 when bad rows stand aside, with file, line and reason; 2 for an
    error: the files that the error does not name are loaded, the same command finishes the rest; 130 after Ctrl-C.
    """
    from catchment.federation.load.csv_files import CsvForm
    from catchment.federation.load.types import columns_of

    delimiter = {"\\t": "\t"}.get(delimiter, delimiter)
    for what, letter in (("--delimiter", delimiter), ("--quote", quote)):
        if len(letter.encode()) != 1:
            raise ParameterError(f"{what} {letter!r}", "give one letter of ASCII")
    form = CsvForm(header, delimiter, quote, null, multiline)
    columns = columns_of(schema) if schema else ()
    if not rejected:
        rejected = Path(f"{table}.rejected.jsonl")
    given = {"columns": columns, "form": form, "batch": batch_id, "again": again}
    _load(files, table, _Where(into, spread, remote, clouds), replace, rejected, max_rejected, given)


@load_app.command()
def parquet(
    files: Files,
    table: TableName,
    into: Into = None,
    spread: Spread = False,
    replace: Replace = False,
    batch_id: BatchId = None,
    again: Again = False,
    remote: Remote = False,
    clouds: CloudsFile = None,
) -> None:
    """Load Parquet files. Each is loaded whole or not at all, and the same file not twice.

    Exit codes: 0 when all rows are in the table; 2 for an error; 130 after Ctrl-C.
    """
    given = {"form": None, "batch": batch_id, "again": again}
    rejected = Path(f"{table}.rejected.jsonl")  # none: Parquet's rows have types, and a file that does not fit fails
    _load(files, table, _Where(into, spread, remote, clouds), replace, rejected, 0, given)


class _Where:
    """To which clouds the rows go."""

    def __init__(self, into: list[str] | None, spread: bool, remote: bool, clouds: Path | None) -> None:
        if spread and into:
            raise ParameterError("--spread and --into", "give one of them; --into may be repeated")
        self.into = tuple(into or ())
        self.spread = spread
        self.remote = remote
        self.clouds = clouds

    def choose(self, there: Sequence[Any]) -> list[Any]:
        names = [cloud.name for cloud in there]
        for name in self.into:
            if name not in names:
                raise NameNotFoundError(f"there is no cloud {name!r}", f"there are {', '.join(names)}")
        if not self.into and not self.spread and len(there) > 1:
            raise ParameterError("a table for which cloud?", f"give --into {names[0]}, or --spread over all")
        chosen = [cloud for cloud in there if not self.into or cloud.name in self.into]
        if self.remote and len(chosen) > 1:
            raise ParameterError("--remote into several clouds", "give one: each sees its own files")
        return chosen


def _load(
    files: list[str], table: str, where: _Where, replace: bool, rejected: Path, most: int, given: dict[str, Any]
) -> None:
    from catchment.app.sql.asking import bytes_text
    from catchment.federation.load.loader import Load
    from catchment.federation.load.rejects import Rejects
    from catchment.spark.cloud import federation
    from catchment.spark.logs import hush, program_log

    if not where.remote:
        for file in files:
            if not Path(file).is_file():
                raise NameNotFoundError(f"no file {file}", "give files; --remote if the cloud is to find them")
    hush(program_log("load"))
    try:
        with federation(where.clouds) as there, progress_bar() as progress:
            load = Load(where.choose(there.clouds), table, Rejects(rejected, most), progress=progress, **given)
            if where.remote:
                report = load.remote(files, replace=replace)
            else:
                paths = [Path(file) for file in files]
                report = load.replace(paths) if replace else load.append(paths)
    except KeyboardInterrupt:
        print("stopped; a file that was not named is loaded whole or not at all: the same command finishes the rest")
        raise typer.Exit(130) from None
    for each in report.files:
        name = printable(each.file)
        if each.skipped:
            print(f"{name}: loaded before")
            continue
        parts = ", ".join(f"{count:,} to {printable(cloud)}" for cloud, count in each.rows.items())
        print(f"{name}: {parts}" + (f"; {each.rejected:,} bad rows aside" if each.rejected else ""))
    moved = bytes_text(report.ledger.bytes())
    print(f"{report.rows:,} rows into {printable(table)} in {report.seconds:.1f} s, {moved} over the border")
    for note in report.notes:
        print(f"note: {printable(note)}")
    if report.rejected:
        print(f"{report.rejected:,} bad rows are in {rejected}, with line and reason")
        raise typer.Exit(1)
