"""Where Spark's own words go when a program of ours runs: into a file that is named, and not between its lines.

    spark = session("local[2]", "catchment bench", log=program_log("bench"))

Spark says much that no user asked for: its JVM, the Python workers, which inherit the JVM's standard output and error,
and PySpark in this process. A program of ours starts the JVM with both directed into one file, and names the file where
it ends with an error. Each program's run has a file of its own in the user's cache folder, of which the newest
`KEPT` stay; that of a pipeline is `spark.log` in its output folder. `CATCHMENT_SPARK_LOG` names another file; `-` is
the terminal, as Spark itself does. A session that a user starts, by `session()` without `log`, is left as Spark has it.

A file that grows beyond `LIMIT` bytes is copied to `….1`, in place of an older one, and emptied: its writers hold it
open to append, so they go on at its beginning. (log4j can only turn over a file that it alone writes to.)
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import py4j
import pyspark
from py4j.protocol import Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger

from catchment.errors import CatchmentError, ParameterError, UnreachableError
from catchment.spark.cache import user_cache

__all__ = ["KEPT", "LIMIT", "VARIABLE", "ProgramLog", "hush", "program_log", "see_log", "spark_failure", "start_java"]

VARIABLE = "CATCHMENT_SPARK_LOG"
"""The environment variable that names the file, or the terminal by `-`."""
LIMIT = 10_000_000
"""The bytes from which a file is emptied; the bytes before are kept once."""
KEPT = 20
"""How many files of programs stay in the cache folder, those of programs that run not counted."""

_LOOK_SECONDS = 5.0
_OF_JAVA = (
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
)
_PER_RUN = re.compile(r".+-(?P<begun>\d{8}-\d{6})-(?P<pid>\d+)\.log")
_CHATTY = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # an exception's words again, as JSON, on stderr
_PACKAGES = tuple(f"{folder}{os.sep}" for package in (pyspark, py4j) for folder in package.__path__)


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """Where a program has Spark speak: a file, or the terminal if `path` is None."""

    path: Path | None

    def __str__(self) -> str:
        return "the terminal" if self.path is None else str(self.path)


_named: list[ProgramLog] = []  # that of the JVM of this process, of which there is one


def program_log(name: str, folder: Path | None = None) -> ProgramLog:
    """The log of a program of ours: in that folder if there is one for it, else in the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return ProgramLog(None if given == "-" else Path(given).absolute())
    if folder is not None:
        return ProgramLog(folder.absolute() / "spark.log")
    place = _logs_folder()
    _remove_old(place)
    return ProgramLog(place / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log")


def start_java(wanted: Mapping[str, str], log: ProgramLog) -> None:
    """Start the JVM of this process for a program of ours, with that log, unless there is one already.

    It gets a process group of its own, so that Ctrl-C on the terminal reaches this process alone and no Python worker.
    It ends itself when this process does.
    """
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    if log.path is None:
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    else:
        gateway = _launch_into(log.path, conf)
        threading.Thread(target=_keep_small, args=(log.path,), name="spark-log", daemon=True).start()
    _named[:] = [log]
    hush(log)
    SparkContext._ensure_initialized(gateway=gateway)


def hush(log: ProgramLog) -> None:
    """Send what PySpark says in this process to the log as well: its warnings, and exceptions that it also prints."""
    if log.path is None:
        return
    path = log.path
    for name in _CHATTY:
        logger = PySparkLogger.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.FileHandler(path, encoding="utf-8", delay=True))
    show = warnings.showwarning

    def divert(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if file is None and filename.startswith(_PACKAGES):
            _append(path, warnings.formatwarning(message, category, filename, lineno, line))
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = divert


def see_log() -> str:
    """The end of a message: where Spark's own words are. Empty if nobody directed them into a file."""
    return f"; Spark's own words are in {_named[0]}" if _named and _named[0].path is not None else ""


def spark_failure(problem: BaseException) -> str | None:
    """One line for an exception of Spark's that nobody made ours, which itself goes to the log; None for any other."""
    path = _named[0].path if _named else None
    is_sparks = type(problem).__module__.partition(".")[0] in ("pyspark", "py4j")
    has_ended = isinstance(problem, ConnectionError | Py4JNetworkError)  # py4j's, when nobody is at the other end
    if path is None or isinstance(problem, CatchmentError) or not (is_sparks or has_ended):
        return None
    _append(path, "".join(traceback.format_exception(problem)))
    if has_ended:
        return f"Spark's process has ended{see_log()}"
    return f"Spark failed ({_gist(str(problem))}){see_log()}"


def _launch_into(path: Path, conf: SparkConf) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sink = path.open("ab")
    except OSError as problem:
        raise ParameterError(
            f"Spark's words cannot be written to {path} ({problem.strerror})",
            f"set {VARIABLE} to a file that can be written, or to - for the terminal",
        ) from problem
    with sink:
        before = sink.tell()
        try:
            return launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"start_new_session": True, "stdout": sink, "stderr": sink}
            )
        except PySparkRuntimeError as problem:
            with path.open("rb") as said:
                said.seek(before)
                why = _gist(said.read().decode(errors="replace"))
            raise UnreachableError(
                f"Spark's Java does not start ({why})", f"mend what it says; Spark's own words are in {path}"
            ) from problem


def _gist(said: str) -> str:
    """The first line that tells of an error, else the last one; Java's two lines after any mistake do not count."""
    told = (line.strip() for line in said.splitlines())
    lines = [line for line in told if line and line not in _OF_JAVA] or ["it says nothing"]
    return next((line for line in lines if "Error" in line or "Exception" in line), lines[-1])


def _append(path: Path, text: str) -> None:
    with suppress(OSError), path.open("a", encoding="utf-8") as log:  # a full disk must not hide what is to be said
        log.write(text)


def _keep_small(path: Path) -> None:
    while True:
        time.sleep(_LOOK_SECONDS)
        with suppress(OSError):  # the user may take the file away
            _empty_if_large(path)


def _empty_if_large(path: Path) -> None:
    size = path.stat().st_size
    if size <= LIMIT:
        return
    with path.open("rb") as full, path.with_name(f"{path.name}.1").open("wb") as older:
        full.seek(size - LIMIT)
        shutil.copyfileobj(full, older)
    os.truncate(path, 0)


def _logs_folder() -> Path:
    try:
        place = user_cache() / "logs"
        place.mkdir(mode=0o700, exist_ok=True)
    except (ParameterError, OSError):  # no home that can be written to is no reason not to run
        return Path(tempfile.mkdtemp(prefix="catchment-logs-"))
    return place


def _remove_old(place: Path) -> None:
    """Make room for one more file; those of programs that run are not touched."""
    found = [match for file in place.iterdir() if (match := _PER_RUN.fullmatch(file.name))]
    ended = sorted((match["begun"], match[0]) for match in found if not _runs(int(match["pid"])))
    for _, name in ended[: max(0, len(ended) - KEPT + 1)]:
        for file in (place / name, place / f"{name}.1"):
            file.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
