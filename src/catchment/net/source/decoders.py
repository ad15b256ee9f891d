"""Decoders: a block of bytes into keys and times, and the rest to the bad lines.

- CSV: a line is a row. Fields may be quoted; a line break in quotes is not supported, since a file is read from any
  line on. A key that is missing (two commas in a row) is bad, an empty text in quotes is a key.
- JSON lines: a line is an object with at least the fields that are named; others do not matter.
- WC98: records of 20 bytes, the web log of the World Cup 1998.

Keys are texts or integers, as the settings say: "5" and 5 are different keys. Times are ticks, or ISO 8601; a number of
ticks beyond 2^60, such as nanoseconds since 1970, is no time that a window can count with, and its line is bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.wc98 import LOGGED, RECORD
from catchment.net.source.base import BadLines
from catchment.net.source.columns import integers, is_text, iso_ticks
from catchment.net.source.lines import Lines, read_in_parts
from catchment.window.clock import TIME_LIMIT

__all__ = ["INTEGER", "ISO", "TEXT", "TICKS", "Csv", "Decoder", "Events", "Fields", "JsonLines", "WebLog"]

I64 = NDArray[np.int64]
TEXT, INTEGER = "text", "integer"
TICKS, ISO = "ticks", "iso"
_QUOTE = 34
_RECORDED = [name for name in RECORD.names or () if name != "at"]
_SECOND = 1_000_000

Events = tuple[Any, "I64 | None"]


class Decoder(Protocol):
    """What turns blocks into events."""

    def begin(self, head: bytes) -> int:
        """Look at how the source begins; says how many bytes of that are no events, -1 if more are needed to tell."""
        ...

    def whole(self, data: bytes) -> int:
        """How many of these bytes are whole lines or records."""
        ...

    def count(self, block: bytes) -> int:
        """How many lines or records are in a block, good and bad."""
        ...

    def decode(self, block: bytes, first: int, bad: BadLines) -> Events:
        """The events of a block of whole lines; `first` is the number of its first one."""
        ...


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields are the key and the time, and how they are written; `tick` in microseconds, for ISO times."""

    key: str
    time: str | None = None
    key_type: str = TEXT
    time_format: str = TICKS
    tick: int = _SECOND

    @property
    def names(self) -> list[str]:
        return [self.key, *([self.time] if self.time is not None and self.time != self.key else [])]

    def events(self, texts: dict[str, Any], lines: Lines, places: I64, bad: BadLines) -> Events:
        """Columns as keys and times; `places` says which line each row is."""
        keys, good = _integers(texts[self.key]) if self.key_type == INTEGER else _texts(texts[self.key])
        wanted = "an integer" if self.key_type == INTEGER else "text"
        lines.report(bad, f"no {self.key}, or one that is not {wanted}", places[~good])
        times = None
        if self.time is not None:
            column = texts[self.time]
            times, timed = _integers(column) if self.time_format == TICKS else iso_ticks(_texts(column)[0], self.tick)
            lines.report(bad, f"no {self.time}, or one that is no time", places[good & ~timed])
            near = (times >= -TIME_LIMIT) & (times <= TIME_LIMIT)
            lines.report(bad, f"a {self.time} beyond 2^60 ticks: give a coarser unit", places[good & timed & ~near])
            good = good & timed & near
            times = times if good.all() else times[good]
        if not good.all():
            keys = keys[good] if isinstance(keys, np.ndarray) else keys.filter(pa.array(good))
        return keys, times


def _texts(column: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Bytes as texts, null where they are not, and which are."""
    good = is_text(column)
    if not good.all():
        column = pc.if_else(pa.array(good), column, pa.scalar(None, column.type))
    return column.cast(pa.string()), good


def _integers(column: Any) -> tuple[I64, NDArray[np.bool_]]:
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(0)), np.asarray(column.is_valid())
    return integers(_texts(column)[0])


def _by_line(lines: bytes, end: bytes = b"\n") -> int:
    return lines.rfind(end) + 1


class Csv:
    """Lines of fields, with or without a line of names before them.

    - `columns`: the names, where the source does not begin with them.
    """

    def __init__(self, fields: Fields, *, columns: tuple[str, ...] = (), separator: str = ",") -> None:
        if len(separator) != 1 or separator in '"\r\n' or ord(separator) > 127:
            raise ParameterError(f"separator={separator!r}", 'give one character, such as "," or ";"')
        self._fields, self._separator = fields, separator
        self._columns: list[str] = []
        self._header = not columns
        if columns:
            self._name(list(columns))

    def begin(self, head: bytes) -> int:
        if not self._header:
            return 0
        size = head.find(b"\n") + 1
        if size == 0:
            return -1
        options = pyarrow.csv.ParseOptions(delimiter=self._separator)
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(head[:size].removeprefix(b"\xef\xbb\xbf")), parse_options=options
            )
        except pa.ArrowInvalid as problem:
            raise ParameterError(f"the first line names no columns ({problem})", "give columns = [...]") from None
        self._name(table.column_names)
        return size

    def _name(self, columns: list[str]) -> None:
        for name in self._fields.names:
            if columns.count(name) != 1:
                raise ParameterError(
                    f"{'no' if name not in columns else 'more than one'} column {name!r}",
                    f"name one of {', '.join(columns)}; or give columns = [...] if the first line is an event",
                )
        self._columns = columns

    def whole(self, data: bytes) -> int:
        return _by_line(data)

    def count(self, block: bytes) -> int:
        return block.count(b"\n") + (not block.endswith(b"\n"))

    def decode(self, block: bytes, first: int, bad: BadLines) -> Events:
        lines = Lines.of(block, first)
        if _QUOTE in block:
            # A quote that does not close would take the lines after it into its field.
            closed = lines.count(_QUOTE) % 2 == 0
            lines.report(bad, "a quote that does not close", np.flatnonzero(~closed))
            lines = lines.only(closed)
        rows = read_in_parts(lines, self._read, lambda why, places: lines.report(bad, why, places))
        return _joined(self._fields, rows, lines, bad)

    def _read(self, span: memoryview) -> tuple[Any, I64]:
        wrong: list[int] = []

        def skip(row: Any) -> str:
            wrong.append(row.number - 1)
            return "skip"

        # Arrow decodes a row's text for its handler, and fails where it cannot; without a handler it names the row.
        handler = skip if _is_utf8(span) else None
        names = self._fields.names
        table = pyarrow.csv.read_csv(
            pa.BufferReader(span),
            read_options=pyarrow.csv.ReadOptions(
                column_names=self._columns, use_threads=False, block_size=max(len(span) + 1, 1024)
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self._separator, invalid_row_handler=handler),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.binary()), null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        return table, np.array(wrong, dtype=np.int64)


class JsonLines:
    """Lines, each an object."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        kinds = {fields.key: pa.int64() if fields.key_type == INTEGER else pa.string()}
        if fields.time is not None:
            kinds[fields.time] = pa.int64() if fields.time_format == TICKS else pa.string()
        self._schema = pa.schema(list(kinds.items()))

    def begin(self, head: bytes) -> int:
        return 0

    def whole(self, data: bytes) -> int:
        return _by_line(data)

    def count(self, block: bytes) -> int:
        return block.count(b"\n") + (not block.endswith(b"\n"))

    def decode(self, block: bytes, first: int, bad: BadLines) -> Events:
        lines = Lines.of(block, first)
        rows = read_in_parts(lines, self._read, lambda why, places: lines.report(bad, why, places))
        return _joined(self._fields, rows, lines, bad)

    def _read(self, span: memoryview) -> tuple[Any, I64]:
        table = pyarrow.json.read_json(
            pa.BufferReader(span),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(span) + 1, 1024)),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
        )
        return table, np.zeros(0, dtype=np.int64)


class WebLog:
    """Records of the World Cup's web log; a record whose time is outside the log is bad."""

    def __init__(self, key: str = "object", *, tick: int = _SECOND) -> None:
        if key not in _RECORDED:
            raise ParameterError(f"key={key!r}", f"choose one of {', '.join(_RECORDED)}")
        self._key, self._tick = key, tick

    def begin(self, head: bytes) -> int:
        return 0

    def whole(self, data: bytes) -> int:
        return len(data) // RECORD.itemsize * RECORD.itemsize

    def count(self, block: bytes) -> int:
        return -(-len(block) // RECORD.itemsize)

    def decode(self, block: bytes, first: int, bad: BadLines) -> Events:
        whole = self.whole(block)
        records = np.frombuffer(block, dtype=RECORD, count=whole // RECORD.itemsize)
        seconds = records["at"].astype(np.int64)
        good = (seconds >= LOGGED[0]) & (seconds <= LOGGED[1])
        places = np.flatnonzero(~good)
        bad.add("its time is outside the log", first + places, lambda place: _hex(records[places[place]].tobytes()))
        if whole < len(block):
            bad.add("it is cut short", np.array([first + records.size]), lambda _: _hex(block[whole:]))
        return records[self._key][good].astype(np.int64), seconds[good] * _SECOND // self._tick


def _is_utf8(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _joined(fields: Fields, rows: list[tuple[Any, I64]], lines: Lines, bad: BadLines) -> Events:
    if not rows:
        none = np.zeros(0, dtype=np.int64)
        return (none if fields.key_type == INTEGER else pa.array([], pa.string())), none if fields.time else None
    table = rows[0][0] if len(rows) == 1 else pa.concat_tables([table for table, _ in rows])
    places = rows[0][1] if len(rows) == 1 else np.concatenate([places for _, places in rows])
    return fields.events({name: _column(table, name) for name in fields.names}, lines, places, bad)


def _column(table: Any, name: str) -> Any:
    column = table.column(name).combine_chunks()
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column  # Arrow's JSON takes any bytes
