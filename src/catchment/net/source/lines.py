"""A block of lines: where each begins and ends, and a way to read all that can be read of it.

Arrow reads a block of lines as a whole, or refuses it as a whole, because of one line. So a block that is refused, or
that gives another number of rows than it has lines, is tried again in parts, until the lines that spoil it stand
alone: around the row that Arrow blames, or by halves. A good block is read once; a bad line costs some more attempts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.net.source.base import BadLines

__all__ = ["Lines", "read_in_parts"]

I64 = NDArray[np.int64]
_NEWLINE, _RETURN = 10, 13
_JSON_ROW = re.compile(r" in row (\d+)$")
_CSV_ROW = re.compile(r"Row #(\d+): Expected \d+ columns, got \d+")
FIELDS = "it has another number of fields"


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines one after the other: line i is data[starts[i]:starts[i + 1]], and number numbers[i] of its file."""

    data: bytes
    starts: I64
    numbers: I64

    @classmethod
    def of(cls, block: bytes, first: int) -> Lines:
        """The lines of a block, without those that are blank; `first` is the number of its first line."""
        array = np.frombuffer(block, dtype=np.uint8)
        if not array.size:
            return cls(block, np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))
        ends = np.flatnonzero(array == _NEWLINE) + 1
        if not ends.size or ends[-1] != array.size:
            ends = np.append(ends, array.size)
        starts = np.concatenate(([0], ends))
        lines = cls(block, starts, first + np.arange(ends.size))
        lengths = np.diff(starts)
        blank = (lengths == 0) | ((lengths == 1) & (array[starts[:-1].clip(max=array.size - 1)] == _NEWLINE))
        two = np.flatnonzero(lengths == 2)
        blank[two] = (array[starts[two]] == _RETURN) & (array[starts[two] + 1] == _NEWLINE)
        return lines.only(~blank)

    def __len__(self) -> int:
        return self.numbers.size

    def only(self, chosen: NDArray[np.bool_]) -> Lines:
        """The chosen lines, moved together."""
        if chosen.all():
            return self
        keep = np.repeat(chosen, np.diff(self.starts))
        data = np.frombuffer(self.data, dtype=np.uint8)[: keep.size][keep].tobytes()
        lengths = np.diff(self.starts)[chosen]
        return Lines(data, np.concatenate(([0], np.cumsum(lengths))), self.numbers[chosen])

    def count(self, byte: int) -> I64:
        """How often a byte occurs in each line."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        found = np.frombuffer(self.data, dtype=np.uint8) == byte
        return np.add.reduceat(found, self.starts[:-1], dtype=np.int64)

    def span(self, start: int, stop: int) -> memoryview:
        return memoryview(self.data)[self.starts[start] : self.starts[stop]]

    def text(self, place: int) -> bytes:
        return bytes(self.span(place, place + 1)).rstrip(b"\r\n")

    def report(self, bad: BadLines, reason: str, places: I64) -> None:
        bad.add(reason, self.numbers[places], lambda place: self.text(int(places[place])))


Rows = tuple[Any, I64]
"""A table, and for each of its rows the place of its line."""


def read_in_parts(
    lines: Lines, read: Callable[[memoryview], tuple[Any, I64]], report: Callable[[str, I64], None]
) -> list[Rows]:
    """What can be read of the lines, as tables.

    `read` gives the table of a span of lines and which of these, counted from 0, it left out; it may raise
    `ArrowInvalid`. `report` is told of the lines that cannot be read, and why.
    """
    found: list[Rows] = []
    waiting = [(0, len(lines))] if len(lines) else []
    while waiting:
        start, stop = waiting.pop()
        why = "it is not one row"
        try:
            table, left_out = read(lines.span(start, stop))
            if table.num_rows + left_out.size == stop - start:
                places = np.delete(np.arange(start, stop), left_out)
                if left_out.size:
                    report(FIELDS, start + left_out)
                found.append((table, places))
                continue
        except pa.ArrowInvalid as problem:
            why = str(problem).removeprefix("JSON parse error: ").removesuffix(" in row 0")
        if stop - start == 1:
            report(FIELDS if _CSV_ROW.search(why) else why, np.array([start]))
            continue
        at = start + _blamed(why, stop - start)
        cuts = [start, at, at + 1, stop] if at < stop else [start, (start + stop) // 2, stop]
        pieces = [(one, other) for one, other in itertools.pairwise(cuts) if one < other]
        waiting += reversed(pieces)  # the first is taken first, so rows stay in order
    return found


def _blamed(why: str, otherwise: int) -> int:
    """The row that an error of Arrow names, from 0 on."""
    if (row := _JSON_ROW.search(why)) is not None:
        return int(row[1])
    row = _CSV_ROW.search(why)
    return otherwise if row is None else int(row[1]) - 1
