"""`catchment run`, `query` and `pipeline`: a pipeline from a file, and questions to what it wrote."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from catchment.answer import Answer, Ranking, plain
from catchment.app.query import QUESTIONS, PipelineFolder, Question, ask
from catchment.app.report import shown
from catchment.errors import ParameterError
from catchment.window.durations import as_ticks

__all__ = ["pipeline_app", "query", "run"]

# Spark takes as long to import as the rest together, and `query` does without: its commands import it when they run.

pipeline_app = typer.Typer(no_args_is_help=True, help="Write and check the file of a pipeline.")

File = Annotated[Path, typer.Argument(help="The pipeline's file.")]


def run(
    file: File,
    master: Annotated[str | None, typer.Option(help="Where Spark runs, in place of the file's: local[4].")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is there now is read.")] = False,
) -> None:
    """Run a pipeline until its source ends or Ctrl-C, from its checkpoint on.

    Ctrl-C and SIGTERM let the running micro-batch end; a second one does not. Exit codes: 0 when it ended by itself, by
    --once, --seconds or SIGTERM; 130 after Ctrl-C; 2 for an error.

    What Spark itself says goes to spark.log in the output folder, or to the file that CATCHMENT_SPARK_LOG names (-:
    here).
    """
    from catchment.app.jobs.pipeline import run_pipeline

    code = run_pipeline(file, master=master, seconds=seconds, once=once)
    if code:
        raise typer.Exit(code)


@pipeline_app.command()
def init(
    file: Annotated[Path, typer.Argument(help="Where it goes.")] = Path("pipeline.toml"),
) -> None:
    """Write an example that runs as it is, with a comment for every key."""
    from catchment.spark.pipeline.read import EXAMPLE

    try:
        with file.open("x", encoding="utf-8") as there:
            there.write(EXAMPLE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise ParameterError(f"{file} is there already", "give another name") from None
    print(f"wrote {file}; run it with `catchment run {file}`")


@pipeline_app.command()
def check(file: File) -> None:
    """Say whether a file describes a pipeline, and otherwise which line does not."""
    from catchment.spark.pipeline.read import read_pipeline

    pipeline = read_pipeline(file)
    print(f"{file}: {pipeline.name}, {pipeline.source.format} to {pipeline.output.folder}")
    for each in pipeline.sketches:
        of = f" of {each.key}" if each.key else ""
        print(f"  {each.name}: {each.kind}{of}; at each site {each.using.guarantee}")


def query(
    folder: Annotated[Path, typer.Argument(help="The output folder of a pipeline.")],
    question: Annotated[str, typer.Argument(help=f"One of {', '.join(QUESTIONS)}.")],
    name: Annotated[str, typer.Argument(help="The name of a sketch.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Keys, a share, sites: see the question.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many keys `top` names.")] = 10,
    phi: Annotated[float, typer.Option(help="The share of all from which a key is `heavy`.")] = 0.01,
    last: Annotated[str | None, typer.Option(help='How far back: "10 minutes"; the whole window by default.')] = None,
    now: Annotated[
        str | None, typer.Option(help="Up to when: 2026-01-31T08:00:00Z, or a tick; the newest by default.")
    ] = None,
    site: Annotated[list[str] | None, typer.Option(help="Only this site; may be given again.")] = None,
    per_site: Annotated[bool, typer.Option("--per-site", help="An answer for each site.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a pipeline, also while it runs: the answer is over all sites, with bounds, from their newest snapshots."""
    there = PipelineFolder(folder)
    asked = Question(
        question=question,
        name=name,
        arguments=tuple(arguments or ()),
        k=k,
        phi=phi,
        last=None if last is None else as_ticks("last", int(last) if last.isdigit() else last, there.tick),
        now=None if now is None else _tick(now, there.tick),
        sites=tuple(site or ()),
        per_site=per_site,
    )
    answers = ask(there, asked)
    if as_json:
        content = {"question": question, "sketch": name, "tick": there.tick}
        told = {where: _facts(asked, found) for where, found in answers.items()}
        content |= {"sites": told} if per_site else told[""]
        print(json.dumps(plain(content), indent=2, allow_nan=False))
    else:
        _show(asked, answers, there.tick)


def _tick(text: str, tick: int) -> int:
    """A moment as a tick: a number is one already, and a time without a zone is UTC."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"--now {text}", "give a moment such as 2026-01-31T08:00:00Z, or a tick") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) // tick


def _facts(asked: Question, found: Answer | Ranking) -> dict[str, Any]:
    """One answer as JSON has it: a list of keys where there are several."""
    if isinstance(found, Ranking):
        rows = [{"key": key, "value": one.value, "low": one.low, "high": one.high} for key, one in found]
        about = found.answers.to_dict()
        ranked = {"answers": rows, "note": found.note}
        return ranked | {name: about[name] for name in ("confidence", "epsilon", "window", "sites", "missing")}
    facts = found.to_dict()
    if asked.question == "point":
        rows = [
            {"key": key, "value": one.value, "low": one.low, "high": one.high}
            for key, one in zip(asked.arguments, found, strict=True)
        ]
        return {"answers": rows} | {name: fact for name, fact in facts.items() if name not in ("value", "low", "high")}
    return facts


def _show(asked: Question, answers: dict[str, Answer | Ranking], tick: int) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    keyed = asked.question in ("point", "top", "heavy")
    table = Table(title=f"{asked.question} {asked.name}", title_justify="left")
    for column in (*(("site",) if asked.per_site else ()), *(("key",) if keyed else ())):
        table.add_column(column)
    for column in ("value", "low", "high"):
        table.add_column(column, justify="right")
    for where, found in answers.items():
        site = [where] if asked.per_site else []
        if isinstance(found, Ranking):
            rows = [(str(key), one) for key, one in found]
        elif keyed:
            rows = list(zip(asked.arguments, found, strict=True))
        else:
            rows = [("", found)]
        for key, one in rows:
            table.add_row(*site, *([key] if keyed else []), *(shown(part) for part in (one.value, one.low, one.high)))
    console.print(table, markup=False)
    first = next(iter(answers.values()))
    answer, note = _of(first), first.note if isinstance(first, Ranking) else ""
    if answer.window is not None:
        start, end = (_moment(edge, tick) for edge in answer.window)
        console.print(f"after {start}, up to {end}; with confidence {answer.confidence:g}", markup=False)
    sites = list(dict.fromkeys(site for found in answers.values() for site in _of(found).sites))
    console.print(f"{len(sites)} sites: {', '.join(sites)}", markup=False)
    missing = list(dict.fromkeys(site for found in answers.values() for site in _of(found).missing))
    if missing:
        console.print(f"behind, with what they had: {', '.join(missing)}", markup=False)
    if note:
        console.print(note, markup=False)


def _of(found: Answer | Ranking) -> Answer:
    return found.answers if isinstance(found, Ranking) else found


def _moment(ticks: int, tick: int) -> str:
    """A tick as a time; the tick's number where no calendar has it."""
    try:
        return datetime.fromtimestamp(ticks * tick / 1_000_000, tz=UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"tick {ticks}"
