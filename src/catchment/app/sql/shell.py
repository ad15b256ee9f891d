"""The shell of `catchment sql`: statements of several lines, history, completion, Ctrl-C that stops the clouds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from catchment.app.sql.asking import ask
from catchment.app.sql.outputs import Output
from catchment.app.sql.script import show
from catchment.app.sql.statements import is_complete, split_statements, without_comments
from catchment.app.sql.words import DELIMITERS, candidates
from catchment.app.terminal import printable
from catchment.errors import CatchmentError
from catchment.federation.federation import Federation
from catchment.federation.functions import GRANTED

try:
    import readline as _readline
except ImportError:  # Windows has none: lines can be typed there, and not edited
    _line_editor: ModuleType | None = None
else:
    _line_editor = _readline

__all__ = ["Shell", "history_file"]

PROMPT, MORE = "sql> ", "  -> "
_KEPT = 5_000
_FORMS = ("table", "csv", "json")
HELP = """\
Statements end with ; and may have several lines: SELECT, EXPLAIN, EXPLAIN ANALYZE (runs it and shows what was true),
SHOW TABLES, DESCRIBE t, CREATE INDEX i ON t(c), REFRESH INDEX i, DROP INDEX i, SHOW INDEXES. Ctrl-C stops a running
one in every cloud.
  .tables               the tables of all clouds
  .clouds               the clouds, and whether they answer
  .mode table|csv|json  how results are shown
  .timing on|off        rows, seconds and bytes after each result
  .partial on|off       answer without clouds that are down, and say so
  .help                 this
  .quit                 leave; Ctrl-D does too"""


class Shell:
    """Reads statements from a person and runs them until the person leaves."""

    def __init__(self, federation: Federation, output: Output, *, partial: bool = False) -> None:
        self._federation = federation
        self._output = output
        self._partial = partial
        self._timing = True
        self._buffer = ""
        self._tables: dict[str, list[str]] = {}
        self._commands: dict[str, Callable[[str], bool]] = {
            ".clouds": self._clouds,
            ".help": lambda _: _say(HELP),
            ".mode": self._mode,
            ".partial": self._set_partial,
            ".quit": lambda _: False,
            ".exit": lambda _: False,
            ".tables": lambda _: self._run("SHOW TABLES"),
            ".timing": self._set_timing,
        }

    def run(self) -> None:
        """The conversation."""
        with _editing(self._complete):
            self._learn()
            _say("catchment sql: .help for help, .quit to leave")
            going = True
            while going:
                try:
                    line = input(MORE if self._buffer else PROMPT)
                except EOFError:
                    print()
                    return
                except KeyboardInterrupt:
                    print()
                    self._buffer = ""
                    continue
                going = self.take(line)

    def take(self, line: str) -> bool:
        """One line of the person's; whether the conversation goes on."""
        if not self._buffer and line.strip().startswith("."):
            _remember(line.strip())
            name, _, rest = line.strip().partition(" ")
            if name not in self._commands:
                return _say(f"no command {printable(name)}: see .help")
            return self._commands[name](rest.strip().rstrip(";"))
        self._buffer += line + "\n"
        if not is_complete(self._buffer):
            return True
        text, self._buffer = self._buffer, ""
        _remember(" ".join(without_comments(text).split("\n")).strip())
        for statement in split_statements(text):
            if not self._run(statement.text):
                break
        return True

    def _run(self, text: str) -> bool:
        """Run one statement, and stay whatever happens to it; False if it failed: those after it are left out."""
        try:
            show(ask(self._federation, text, partial=self._partial), self._output, timing=self._timing)
        except KeyboardInterrupt:
            _say("\nstopped, in the clouds too")
            return False
        except (CatchmentError, OSError) as problem:
            print(f"error: {printable(str(problem))}", file=sys.stderr, flush=True)
            return False
        self._learn()
        return True

    def _mode(self, form: str) -> bool:
        if form not in _FORMS:
            return _say(f"give one of {', '.join(_FORMS)}; it is {self._output.form}")
        self._output.form = form
        return True

    def _set_timing(self, word: str) -> bool:
        self._timing = _switch(word, self._timing)
        return True

    def _set_partial(self, word: str) -> bool:
        self._partial = _switch(word, self._partial)
        return True

    def _clouds(self, _: str) -> bool:
        for cloud in self._federation.clouds:
            try:
                said = f"{len(cloud.tables())} tables"
            except CatchmentError as problem:
                said = f"does not answer: {problem.problem}"
            except KeyboardInterrupt:
                return _say("\nstopped")
            _say(printable(f"{cloud.name} ({cloud.region}): {said}"))
        return True

    def _complete(self, word: str, number: int) -> str | None:
        assert _line_editor is not None
        before = self._buffer + _line_editor.get_line_buffer()[: _line_editor.get_begidx()]
        found = candidates(before, word, self._tables, functions=GRANTED, commands=self._commands)
        return found[number] if number < len(found) else None

    def _learn(self) -> None:
        """Ask for the names of tables beside: a cloud that is slow to tell must not hold up who types."""

        def learn() -> None:
            try:
                tables = self._federation.catalog().tables
            except CatchmentError:
                return  # there is less to complete, and the next query will say why
            self._tables = {name: list(table.columns) for name, table in tables.items()}

        threading.Thread(target=learn, daemon=True, name="completion").start()


def history_file() -> Path:
    """Where lines are remembered: in the user's folder for state, as the XDG rules have it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "catchment" / "sql_history"


@contextmanager
def _editing(complete: Callable[[str, int], str | None]) -> Iterator[None]:
    """Lines with history and completion, if this Python can; what was typed is remembered for the next time."""
    editor = _line_editor
    if editor is None:
        yield
        return
    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        editor.read_history_file(file)
    except OSError as problem:
        print(f"no history: {problem}", file=sys.stderr)
    editor.set_auto_history(False)
    editor.set_history_length(_KEPT)
    editor.set_completer(complete)
    editor.set_completer_delims(DELIMITERS)
    is_libedit = "libedit" in (editor.__doc__ or "")
    editor.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        editor.set_completer(None)
        try:
            editor.write_history_file(file)
        except OSError as problem:
            print(f"the history is not kept: {problem}", file=sys.stderr)


def _remember(line: str) -> None:
    editor = _line_editor
    if editor is not None and line:
        last = editor.get_history_item(editor.get_current_history_length())
        if line != last:
            editor.add_history(line)


def _switch(word: str, now: bool) -> bool:
    if word not in ("on", "off"):
        _say(f"give on or off; it is {'on' if now else 'off'}")
        return now
    return word == "on"


def _say(text: str) -> bool:
    print(text, flush=True)
    return True
