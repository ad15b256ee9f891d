"""`catchment sql`: one statement over many clusters, from a shell, a command line or a file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import NameNotFoundError, ParameterError

if TYPE_CHECKING:
    from catchment.app.sql.outputs import Output

__all__ = ["CloudsFile", "as_bytes", "sql"]

# Spark and sqlglot take as long to import as the rest together: the command imports them when it runs.

CloudsFile = Annotated[
    Path | None, typer.Option("--clouds", help="The file that names the clouds; `clouds up` started others.")
]

_UNITS = {"": 1} | {letter: 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("kmgt", 1)}


def sql(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of statements; - is the standard input.")] = None,
    command: Annotated[str | None, typer.Option("-c", "--command", help="Statements, in place of a file.")] = None,
    clouds: CloudsFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table, csv, json or parquet.")] = "table",
    to: Annotated[Path | None, typer.Option("--to", help="Write results to this file, when all is well.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Leave out clouds that are down, and say so.")] = False,
    limit_bytes: Annotated[
        str | None, typer.Option(help="Refuse what would move more over borders: 500 MB, 2GiB.")
    ] = None,
) -> None:
    """Ask all clouds at once, in Spark's SQL; without a statement or a file, in a shell.

    Exit codes: 0 when all went well, a labelled partial answer included; 2 at the first error, with its line; 130 after
    Ctrl-C. The shell stays after errors and Ctrl-C, and ends with 0.
    """
    limit = None if limit_bytes is None else as_bytes(limit_bytes)
    texts = _texts(files or [], command)
    is_shell = not texts and sys.stdin.isatty()
    if is_shell and to is not None:
        raise ParameterError("--to in a shell", "give statements by -c or a file")
    if not texts and not is_shell:
        texts = [("standard input", sys.stdin.read())]
    from catchment.app.sql.outputs import open_output

    try:
        with open_output(output, to) as out:
            _run(out, texts, clouds, limit=limit, partial=partial)
    except KeyboardInterrupt:
        print("stopped, in the clouds too", file=sys.stderr)
        raise typer.Exit(130) from None


def _run(
    output: Output, texts: list[tuple[str, str]], clouds: Path | None, *, limit: int | None, partial: bool
) -> None:
    """What was given, or a shell if nothing was."""
    from catchment.app.sql.script import run_script
    from catchment.app.sql.shell import Shell
    from catchment.spark.cloud import federation
    from catchment.spark.logs import hush, program_log

    hush(program_log("sql"))
    with federation(clouds, **({} if limit is None else {"byte_limit": limit})) as there:
        if not texts:
            Shell(there, output, partial=partial).run()
        for name, text in texts:
            run_script(there, text, name, output, partial=partial)


def as_bytes(text: str) -> int:
    """A number of bytes as a person writes it.

    >>> as_bytes("500 MB"), as_bytes("2GiB"), as_bytes("1_000")
    (500000000, 2147483648, 1000)
    """
    match = re.fullmatch(r"([\d_]+(?:\.\d+)?)\s*([kmgt]i?)?b?", text.strip().lower())
    if match is None:
        raise ParameterError(f"{text!r} is no number of bytes", "write 500 MB, 2GiB or 1000000")
    return int(float(match[1].replace("_", "")) * _UNITS[match[2] or ""])


def _texts(files: list[Path], command: str | None) -> list[tuple[str, str]]:
    """The statements to run, each text with its name."""
    if files and command is not None:
        raise ParameterError("both -c and files", "give one of them")
    if command is not None:
        return [("-c", command)]
    return [("standard input", sys.stdin.read()) if str(file) == "-" else (str(file), _read(file)) for file in files]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NameNotFoundError(f"no file {file}", "give a file of statements") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{file} is not UTF-8", "save the file as UTF-8") from None
