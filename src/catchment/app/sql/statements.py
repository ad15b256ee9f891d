"""Cutting a text into statements: at every `;` that is not inside quotes or a comment, as Spark reads them.

Quotes are `'…'`, `"…"` and `` `…` ``; a backslash escapes in the first two unless an `r` stands before them. `--`
comments a line, `/* … */` anything, one inside another too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Statement", "is_complete", "split_statements", "without_comments"]

_MARK = re.compile(r"""(?<!\w)[rR](?=['"])|['"`;]|--|/\*""")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its `;`, and the line of the text on which it begins, from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of text: "code", "quoted", "comment", or the "end" of a statement; `closed`, if it ends itself."""

    kind: str
    start: int
    end: int
    closed: bool = True


def split_statements(text: str) -> list[Statement]:
    """The statements in order; what has nothing but space and comments is none.

    >>> [s.text for s in split_statements("SELECT ';' -- not; here\\n; SELECT /* nor; here */ 2;")]
    ["SELECT ';' -- not; here", 'SELECT /* nor; here */ 2']
    """
    found: list[Statement] = []
    start, told = 0, False  # told: whether anything but space and comments was seen
    first = 0
    for piece in _pieces(text):
        if piece.kind == "end":
            if told:
                found.append(_statement(text, first, piece.start))
            start, told = piece.end, False
        elif not told and piece.kind != "comment":
            stretch = text[max(piece.start, start) : piece.end]
            if stretch.strip():
                told, first = True, max(piece.start, start) + len(stretch) - len(stretch.lstrip())
    if told:
        found.append(_statement(text, first, len(text)))
    return found


def is_complete(text: str) -> bool:
    """Whether the last statement of a text is closed by a `;`, so that a shell may run it.

    >>> is_complete("SELECT 1"), is_complete("SELECT 1; -- done"), is_complete("SELECT ';"), is_complete("")
    (False, True, False, True)
    """
    open_ = False
    for piece in _pieces(text):
        if not piece.closed:
            return False
        if piece.kind == "end":
            open_ = False
        elif piece.kind != "comment" and text[piece.start : piece.end].strip():
            open_ = True
    return not open_


def without_comments(text: str) -> str:
    """The text with each comment as one space: it may stand on one line then.

    >>> without_comments("SELECT 1 -- one\\n, '--'")
    "SELECT 1  \\n, '--'"
    """
    return "".join(" " if piece.kind == "comment" else text[piece.start : piece.end] for piece in _pieces(text))


def _statement(text: str, start: int, end: int) -> Statement:
    return Statement(text[start:end].rstrip(), text.count("\n", 0, start) + 1)


def _pieces(text: str) -> Iterator[_Piece]:
    place = 0
    while place < len(text):
        mark = _MARK.search(text, place)
        if mark is None:
            yield _Piece("code", place, len(text))
            return
        if mark.start() > place:
            yield _Piece("code", place, mark.start())
        if mark[0] == ";":
            piece = _Piece("end", mark.start(), mark.end())
        elif mark[0] == "--":
            end = text.find("\n", mark.end())
            piece = _Piece("comment", mark.start(), len(text) if end < 0 else end)
        elif mark[0] == "/*":
            piece = _comment(text, mark.start())
        else:
            piece = _quoted(text, mark.start())
        yield piece
        place = piece.end


def _comment(text: str, start: int) -> _Piece:
    depth, place = 0, start
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        place = edge.end()
        if depth == 0:
            return _Piece("comment", start, place)
    return _Piece("comment", start, len(text), closed=False)


def _quoted(text: str, start: int) -> _Piece:
    raw = text[start] in "rR"
    place = start + raw
    quote = text[place]
    place += 1
    while place < len(text):
        if text[place] == "\\" and quote != "`" and not raw:
            place += 2
        elif text[place] == quote:
            return _Piece("quoted", start, place + 1)  # a doubled quote is the next one that begins right here
        else:
            place += 1
    return _Piece("quoted", start, len(text), closed=False)
