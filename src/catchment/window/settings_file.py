"""A file of settings, TOML, opened: whatever is wrong with it is named with its line.

In this room, beside `durations`, because the doors (`spark`, `net`) do not see each other and both read such files.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from catchment.errors import NameNotFoundError, SettingsError
from catchment.window.settings_lines import lines_of
from catchment.window.settings_tables import Places, Table

__all__ = ["open_settings", "parse_settings"]


def open_settings(file: Path, *, what: str, cure: str, kind: type[SettingsError] = SettingsError) -> Table:
    """The outermost table of a file; `what` is what such a file describes, `cure` how to come by one.

    Raises
    ------
    SettingsError
        of the given kind, with the file, the line and the cure.
    NameNotFoundError
        There is no such file.
    """
    if not file.is_file():
        raise NameNotFoundError(f"no file {file}", cure)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise kind(f"{file}, line {line}: a byte that is not UTF-8", "save the file as UTF-8") from None
    return parse_settings(text, str(file), what=what, kind=kind)


def parse_settings(text: str, file: str, *, what: str, kind: type[SettingsError] = SettingsError) -> Table:
    """The outermost table of a text; `file` is what to call it.

    >>> parse_settings('[site]\\nname = "berlin"', "site.toml", what="a site").table("site").text("name")
    'berlin'
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        at = re.search(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(problem))
        line = int(at[2]) if at and at[2] else text.count("\n") + 1
        said = at[1] if at else str(problem)
        column = f", column {at[3]}" if at and at[3] else ""
        raise kind(
            f"{file}, line {line}{column}: this is not TOML ({said})", "texts are in quotes, tables in [brackets]"
        ) from None
    return Table(values, (), Places(file, lines_of(text), what, kind))
