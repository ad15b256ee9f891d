"""On which line of a TOML file a key stands: Python's reader keeps the values and forgets the places.

Only for text that Python's reader has accepted, so nothing is checked here.
"""

from __future__ import annotations

import re

__all__ = ["Path", "line_of", "lines_of"]

Path = tuple[str | int, ...]
"""Where a value is: names of tables and keys, and numbers in arrays of tables: `("sketch", 0, "epsilon")`."""

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'""", re.DOTALL)


def lines_of(text: str) -> dict[Path, int]:
    """The line of every table and key that has one of its own; keys of inline tables are on their table's.

    >>> lines_of('[a]\\nb.c = [\\n 1]\\n[[d]]\\n"e" = 1\\n[[d]]')
    {('a',): 1, ('a', 'b'): 2, ('a', 'b', 'c'): 2, ('d',): 4, ('d', 0): 4, ('d', 0, 'e'): 5, ('d', 1): 6}
    """
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    place = _skip(text, 0)
    while place < len(text):
        line = text.count("\n", 0, place) + 1
        if text[place] == "[":
            array = text.startswith("[[", place)
            names, place = _key(text, place + (2 if array else 1))
            table = _inside(names, counts) if not array else (*_inside(names[:-1], counts), names[-1])
            place += 2 if array else 1
            _note(found, table, line)
            if array:
                table = (*table, counts.setdefault(table, 0))
                counts[table[:-1]] += 1
                _note(found, table, line)
        else:
            names, place = _key(text, place)
            for count in range(1, len(names) + 1):
                _note(found, (*table, *names[:count]), line)
            place = _value(text, place + 1)
        place = _skip(text, place)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of a key, or of the nearest table around it that has one.

    >>> line_of({("a",): 3}, ("a", "b")), line_of({}, ("a",))
    (3, 1)
    """
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _note(found: dict[Path, int], path: Path, line: int) -> None:
    found.setdefault(path, line)


def _inside(names: tuple[str, ...], counts: dict[Path, int]) -> Path:
    """The path of a table; below an array of tables that is in its last one."""
    path: Path = ()
    for name in names:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _key(text: str, place: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while (part := _PART.match(text, place)) is not None:
        names.append(next(name for name in part.groups()[:3] if name is not None))
        place = part.end()
        if not part[4]:
            break
    return tuple(names), place


def _value(text: str, place: int) -> int:
    """The end of the line on which a value ends, over texts, comments and brackets."""
    depth = 0
    while place < len(text):
        sign = text[place]
        whole = _TEXT.match(text, place) if sign in "\"'" else None
        if whole is not None:
            place = whole.end()
            continue
        if sign == "#":
            place = text.find("\n", place) if "\n" in text[place:] else len(text)
            continue
        if sign == "\n" and depth == 0:
            return place
        depth += (sign in "[{") - (sign in "]}")
        place += 1
    return place
