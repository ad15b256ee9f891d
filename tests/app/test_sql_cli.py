"""`catchment sql` and `catchment load`: what they say before a cloud is asked, and what Ctrl-C does to a question."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from catchment.app.cli import main
from catchment.app.sql.asking import interruptible
from catchment.app.sql_commands import as_bytes
from catchment.errors import ParameterError


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("sql", "-c", "SELECT 1", "-o", "xml"), "--output xml: give one of table, csv, json, parquet"),
        (("sql", "-c", "SELECT 1", "-o", "parquet"), "--output parquet without a file: add --to FILE"),
        (("sql", "-c", "SELECT 1", "a.sql"), "both -c and files: give one of them"),
        (("sql", "a.sql"), "no file a.sql: give a file of statements"),
        (("sql", "-c", "SELECT 1", "--limit-bytes", "much"), "'much' is no number of bytes"),
        (("sql", "-c", "SELECT 1"), "no clouds.toml here, and no clouds on this machine: start some"),
        (("sql", "-c", "SELECT 1", "--clouds", "x.toml"), "no file x.toml"),
        (("load", "csv", "no.csv", "--table", "t"), "no file no.csv: give files"),
        (("load", "csv", "here.csv", "--table", "t", "--spread", "--into", "x"), "--spread and --into: give one"),
        (("load", "csv", "here.csv", "--table", "t", "--delimiter", "ab"), "--delimiter 'ab': give one letter"),
        (("load", "csv", "here.csv", "--table", "t", "--schema", "a b c"), "column a of type bc cannot be read"),
        (("load", "parquet", "here.csv", "--table", "t"), "no clouds.toml here, and no clouds on this machine"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    (tmp_path / "here.csv").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATCHMENT_CLOUDS", str(tmp_path / "clouds"))
    monkeypatch.setattr(sys, "argv", ["catchment", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert problem in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.csv"]


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 mile", "1.5.2"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="is no number of bytes"):
        as_bytes(text)


def test_ctrl_c_stops_the_work_and_waits_for_its_end() -> None:
    stopped, ended = threading.Event(), threading.Event()

    def work() -> None:
        stopped.wait(60)
        time.sleep(0.2)  # a cloud takes its time
        ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            interruptible(work, stop=stopped.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_what_the_work_gives_or_raises_is_given_or_raised() -> None:
    assert interruptible(lambda: 7, stop=lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, stop=lambda: None)
