"""`catchment load` and `catchment sql` as people use them: processes, a terminal, and real Connect servers."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.clouds import kill, running_clouds

pytestmark = [pytest.mark.spark, pytest.mark.long("clouds")]

ROWS = 200_000
SECONDS = 300
SLOW = "SELECT count(*) FROM visits a CROSS JOIN visits b WHERE a.n + b.n < 0"
"""Pairs by the ten thousand million. Spark sees that a task is to stop when it reads its next 4,096 rows."""


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the file of two clouds, over which a table `visits` is spread."""
    folder = tmp_path_factory.mktemp("clouds")
    with running_clouds(2) as found:
        lines = []
        for name, settings in found.items():
            token = folder / f"{name}.token"
            token.touch(mode=0o600)
            token.write_text(settings.token or "")
            lines += [f"[clouds.{name}]", f'address = "{settings.address}"', f'token_file = "{token.name}"']
        (folder / "clouds.toml").write_text("\n".join(lines))
        file = folder / "visits.csv"
        file.write_text("n,country\n" + "".join(f"{n},c{n % 5}\n" for n in range(ROWS)))
        loaded = catchment(folder, "load", "csv", file, "--header", "--table", "visits", "--spread")
        assert loaded.returncode == 0, loaded.stderr
        assert f"{ROWS:,} rows into visits" in loaded.stdout
        assert "note:" not in loaded.stdout
        yield folder


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm"}


def catchment(folder: Path, *arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catchment.app", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(folder), cwd=folder, input=text
    )


def test_a_spread_table_is_one_table_with_even_parts(clouds: Path) -> None:
    parts = "SELECT _cloud, count(*) AS n, sum(n) AS s FROM visits GROUP BY _cloud"
    whole = "SELECT count(*) FROM visits"
    asked = catchment(clouds, "sql", "-o", "json", "-c", f"{parts};\nEXPLAIN {whole}; EXPLAIN ANALYZE {whole};")
    assert asked.returncode == 0, asked.stderr
    told, plan, analyzed = (json.loads(line) for line in asked.stdout.splitlines())
    assert sum(row["n"] for row in told["rows"]) == ROWS
    assert sum(row["s"] for row in told["rows"]) == ROWS * (ROWS - 1) // 2
    assert max(row["n"] for row in told["rows"]) - min(row["n"] for row in told["rows"]) <= 256
    assert (told["partial"], told["missing"]) == (False, {})
    assert 0 < told["bytes"] < 100_000
    assert re.search(r"2 rows, \d+\.\d\d s, [\d.]+ (bytes|kB) over the border", asked.stderr)
    assert "ask berlin" in plan["plan"]
    assert "true: " not in plan["plan"]
    assert "true: " in analyzed["plan"]
    assert "moved: " in analyzed["plan"]


def test_bad_rows_and_repeated_loads(clouds: Path) -> None:
    file = clouds / "bad.csv"
    file.write_text("1,a\ntwo,b\n3,c\n")
    arguments = ("load", "csv", file, "--table", "small", "--into", "lyon", "--schema", "n INT, s STRING")
    loaded = catchment(clouds, *arguments)
    assert loaded.returncode == 1, loaded.stderr
    assert "2 to lyon; 1 bad rows aside" in loaded.stdout
    assert json.loads((clouds / "small.rejected.jsonl").read_text())["line"] == 2
    again = catchment(clouds, *arguments)
    assert again.returncode == 0, again.stderr
    assert "loaded before" in again.stdout
    asked = catchment(clouds, "sql", "-o", "csv", "-c", "SELECT n, s FROM small ORDER BY n")
    assert asked.stdout == '"n","s"\n1,"a"\n3,"c"\n'


def test_the_first_error_ends_a_script_with_its_line(clouds: Path) -> None:
    script = clouds / "b.sql"
    script.write_text("SELECT max(n) AS m FROM visits;\n\nSELECT nothing\nFROM visits;\nSELECT 2;")
    asked = catchment(clouds, "sql", "-o", "csv", script)
    assert asked.returncode == 2
    assert f"error: {script}, statement in line 3: " in asked.stderr
    assert asked.stdout == f'"m"\n{ROWS - 1}\n'


def test_a_pipe_of_statements_and_a_parquet_file(clouds: Path) -> None:
    file = clouds / "a.parquet"
    kept = catchment(clouds, "sql", "-o", "parquet", "--to", file, text="SELECT n FROM visits WHERE n < 9 ORDER BY n")
    assert kept.returncode == 0, kept.stderr
    assert pq.read_table(file)["n"].to_pylist() == list(range(9))


class Terminal:
    """A program in a pseudo-terminal, and what it has shown."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # a run in the background ignores it, and so would its children
            os.execvpe(sys.executable, [sys.executable, "-m", "catchment.app", *arguments], environment(folder))
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def wait_for(self, pattern: str, *, typing: str = "") -> str:
        """What was shown up to a pattern; the next search begins after it. Meanwhile something is typed again."""
        deadline, again = time.monotonic() + SECONDS, time.monotonic()
        while not (found := re.search(pattern, self._shown)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self._shown!r}"
            if typing and time.monotonic() >= again:
                self.type(typing)
                again += 5
            if select.select([self._end], [], [], 1)[0]:
                try:
                    self._shown += os.read(self._end, 65536).decode(errors="replace")
                except OSError:  # Linux's way to say that the other side has closed
                    raise AssertionError(f"it ended before {pattern!r}: {self._shown!r}") from None
        before, self._shown = self._shown[: found.end()], self._shown[found.end() :]
        return before

    def code(self) -> int:
        deadline = time.monotonic() + SECONDS
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            assert time.monotonic() < deadline, f"it goes on: {self._shown!r}"
            time.sleep(0.1)
        return os.waitstatus_to_exitcode(ended[1])


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    running = Terminal(folder, *arguments)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)


def test_the_shell_in_a_terminal(clouds: Path) -> None:
    with terminal(clouds, "sql") as shell:
        shell.wait_for("sql> ")
        shell.type("SELECT count(*) AS n\n")
        shell.wait_for("-> ")
        shell.type("FROM visits;\n")
        assert str(ROWS) in shell.wait_for("over the border")
        shell.wait_for("sql> ")
        # Completion: a table, and a column of it.
        shell.type("SELECT max(countr\t) FROM vis\t;\n")
        assert "c4" in shell.wait_for("over the border")
        shell.wait_for("sql> ")
        # Ctrl-C stops what runs, and the shell is there for more.
        shell.type(f"{SLOW};\n")
        time.sleep(10)
        shell.type("\x03")
        shell.wait_for("stopped, in the clouds too")
        shell.wait_for("sql> ")
        shell.type(".mode csv\n.timing off\nSELECT min(n) AS least FROM visits;\n")
        shell.wait_for('"least"\r\n0\r\n')
        # Ctrl-C at the prompt drops what was typed.
        shell.type("SELECT\n")
        shell.wait_for("-> ")
        shell.wait_for("sql> ", typing="\x03")  # Python sees one that comes between prompt and wait with the next key
        shell.type("SELECT nonsense;\n")
        shell.wait_for("error: ")
        shell.wait_for("sql> ")
        shell.type("\x1b[A\x1b[A\x1b[A\n")  # up, past the error: what was typed before
        shell.wait_for("timing")
        shell.wait_for("sql> ")  # Ctrl-D between two prompts is lost
        shell.type("\x04")
        assert shell.code() == 0
    history = (clouds / "state" / "catchment" / "sql_history").read_text()
    assert "SELECT count(*) AS n FROM visits;" in history
    assert (clouds / "state" / "catchment" / "sql_history").stat().st_mode & 0o077 == 0


def test_ctrl_c_ends_a_command_with_130_and_the_remote_jobs(clouds: Path) -> None:
    with terminal(clouds, "sql", "-c", SLOW) as running:
        time.sleep(20)
        running.type("\x03")
        running.wait_for("stopped, in the clouds too")
        assert running.code() == 130
    # The clouds are free: the next test asks them, and what ran here would have held their cores for hours.


def test_a_cloud_that_is_down_is_named_or_left_out_and_said(clouds: Path) -> None:
    kill("lyon")
    question = "SELECT count(*) AS n FROM visits"
    asked = catchment(clouds, "sql", "--partial", "-o", "json", "-c", question)
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    assert told["partial"]
    assert list(told["missing"]) == ["lyon"]
    assert abs(told["rows"][0]["n"] - ROWS // 2) <= 256
    assert "partial: without cloud lyon (" in asked.stderr
    (clouds / "more.csv").write_text("n,country\n1,x\n")
    loaded = catchment(clouds, "load", "csv", clouds / "more.csv", "--header", "--table", "visits", "--spread")
    assert loaded.returncode == 2
    assert "lyon" in loaded.stderr
