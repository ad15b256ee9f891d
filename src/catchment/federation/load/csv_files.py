"""CSV to Arrow: block by block, and a bad row costs that row, not its block.

Arrow reads a whole block at once. Only a block that it refuses, or of which it does not give as many rows as there are
records, gets a second look: halves of halves, until the bad records stand alone, each with its reason.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from catchment.errors import InputError
from catchment.federation.cloud import Column
from catchment.federation.load.records import BLOCK_BYTES, Block, blocks, cut
from catchment.federation.load.streams import Stream, opened
from catchment.federation.load.types import arrow_type, spark_type

__all__ = ["CsvFile", "CsvForm", "Rejected"]


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How a CSV file is written; all files of a load are written alike."""

    header: bool = False
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    """The text, not in quotes, that stands for null."""
    multiline: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is not in the table, and why."""

    file: str
    line: int | None
    reason: str
    record: str


@dataclass
class CsvFile:
    """One file, plain or gzip (by its ending `.gz`).

    Parameters
    ----------
    path, form
        The file, and how it is written.
    reject
        Called for each bad record, in order.
    block_bytes
        How much is read at a time.
    """

    path: Path
    form: CsvForm
    reject: Callable[[Rejected], None]
    block_bytes: int = BLOCK_BYTES
    position: int = field(default=0, init=False)
    """Bytes of the file, as it lies there, that are behind us."""

    def guess(self) -> tuple[Column, ...]:
        """Columns by the header and by what the first block holds."""
        with opened(self.path, self._at) as stream:
            names, line = self._header(stream)
            first = next(self._blocks(stream, line), None)
        if names is None:
            raise InputError(
                f"{self.path} has no names of columns", "give --schema, or --header if its first line is one"
            )
        if first is None:
            raise InputError(f"{self.path} holds no row from which types could be guessed", "give --schema")
        guessed = self._guess_types(first, names)
        return tuple(Column(name, spark_type(guessed.get(name, pa.string()))) for name in names)

    def tables(self, columns: tuple[Column, ...]) -> Iterator[pa.Table]:
        """The good rows with these columns, in the file's order."""
        with opened(self.path, self._at) as stream:
            names, line = self._header(stream)
            read = _Reader(self, self._order(names, columns), columns)
            for block in self._blocks(stream, line):
                yield from read.block(block)

    def _at(self, position: int) -> None:
        self.position = position

    def _blocks(self, stream: Stream, line: int) -> Iterator[Block]:
        form = self.form
        return blocks(stream.read, quote=form.quote, multiline=form.multiline, size=self.block_bytes, line=line)

    def _header(self, stream: Stream) -> tuple[list[str] | None, int]:
        """The names that the first line holds, and the number of the line after it."""
        if not self.form.header:
            return None, 1
        first = stream.readline(1 << 20)
        text = first.decode("utf-8-sig", errors="replace")
        names = next(csv.reader(io.StringIO(text), delimiter=self.form.delimiter, quotechar=self.form.quote), [])
        names = [name.strip() for name in names]
        folded = [name.lower() for name in names]
        if not names or not all(names) or len(set(folded)) < len(folded):
            raise InputError(
                f"{self.path}, line 1: the header {text.strip()!r} does not name each column once", "mend it"
            )
        return names, 2

    def _order(self, names: list[str] | None, columns: tuple[Column, ...]) -> list[str]:
        """The columns in the order of the file, by the table's spelling of their names."""
        spelling = {column.name.lower(): column.name for column in columns}
        if names is None:
            return list(spelling.values())
        if {name.lower() for name in names} != set(spelling):
            raise InputError(
                f"{self.path} has the columns {', '.join(names)}, the table has {', '.join(spelling.values())}",
                "give a file whose header names the table's columns",
            )
        return [spelling[name.lower()] for name in names]

    def _guess_types(self, block: Block, names: list[str]) -> dict[str, pa.DataType]:
        """By the records of the block that have as many fields as there are names."""
        parse = self.parse_options(lambda _: "skip")
        convert = pacsv.ConvertOptions(null_values=[self.form.null], strings_can_be_null=True)
        try:
            table = pacsv.read_csv(
                io.BytesIO(block.data), pacsv.ReadOptions(column_names=names, use_threads=False), parse, convert
            )
        except pa.ArrowInvalid:
            return {}
        return {name: table.schema.field(name).type for name in names}

    def parse_options(self, bad: Callable[[pacsv.InvalidRow], str] | None = None) -> pacsv.ParseOptions:
        """How Arrow is to read the file; a file with multi-line values is cut by us, so it must know of them too."""
        form = self.form
        return pacsv.ParseOptions(
            delimiter=form.delimiter, quote_char=form.quote, newlines_in_values=True, invalid_row_handler=bad
        )


class _Reader:
    """Blocks of one file to tables."""

    def __init__(self, file: CsvFile, order: list[str], columns: tuple[Column, ...]) -> None:
        self._file = file
        self._order = order
        self._schema = pa.schema([pa.field(column.name, arrow_type(column)) for column in columns])
        self._zoned: dict[str, bool] | None = None
        self._kinds = {field.name: field.type for field in self._schema}
        self._texts = [name for name, kind in self._kinds.items() if kind in (pa.string(), pa.binary())]

    def block(self, block: Block) -> Iterator[pa.Table]:
        if self._zoned is None:
            self._learn_zones(block)
        ends = cut(block.data, quote=self._file.form.quote, multiline=self._file.form.multiline)
        yield from self._look(block, ends, 0, len(ends))
        whole = int(ends[-1]) if len(ends) else 0
        if whole < len(block.data):  # the end of the file came first
            self._reject(block, whole, len(block.data), "a quote is not closed up to the end of the file")

    def _learn_zones(self, block: Block) -> None:
        """Arrow wants to know whether times have a zone written after them: the first block tells."""
        moments = [name for name, kind in self._kinds.items() if pa.types.is_timestamp(kind) and kind.tz]
        guessed = self._file._guess_types(block, self._order) if moments else {}
        self._zoned = {name: getattr(guessed.get(name), "tz", None) is not None for name in moments}
        for name, zoned in self._zoned.items():
            if not zoned:
                self._kinds[name] = pa.timestamp("us")

    def _look(self, block: Block, ends: npt.NDArray[np.int64], first: int, last: int) -> Iterator[pa.Table]:
        """The good rows of records `first` to `last`; each bad one is rejected."""
        if first == last:
            return
        start = int(ends[first - 1]) if first else 0
        data = memoryview(block.data)[start : int(ends[last - 1])]
        problem = ""
        try:
            table = self._convert(data)
            if table.num_rows == self._expected(ends, first, last, block.data) and not self._is_open(table):
                if table.num_rows:
                    yield table
                return
            problem = "a quote is not closed on its line" if not self._file.form.multiline else "a quote is not closed"
        except pa.ArrowException as refusal:
            problem = str(refusal)
        if last - first == 1:
            self._reject(block, start, int(ends[last - 1]), self._reason(problem))
            return
        middle = (first + last) // 2
        yield from self._look(block, ends, first, middle)
        yield from self._look(block, ends, middle, last)

    def _reject(self, block: Block, start: int, end: int, reason: str) -> None:
        text = block.data[start:end].decode("utf-8", errors="backslashreplace").removesuffix("\n").removesuffix("\r")
        line = block.line + block.data.count(b"\n", 0, start)
        self._file.reject(Rejected(str(self._file.path), line, reason, text))

    def _convert(self, data: memoryview) -> pa.Table:
        convert = pacsv.ConvertOptions(
            column_types=self._kinds,
            null_values=[self._file.form.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        read = pacsv.ReadOptions(column_names=self._order, block_size=max(len(data), 1) + 1)
        table = pacsv.read_csv(pa.BufferReader(pa.py_buffer(data)), read, self._file.parse_options(), convert)
        return table.select(self._schema.names).cast(self._schema)

    def _expected(self, ends: npt.NDArray[np.int64], first: int, last: int, data: bytes) -> int:
        """How many rows the records are: Arrow gives none for an empty line."""
        starts = np.concatenate(([ends[first - 1] if first else 0], ends[first : last - 1]))
        lengths = ends[first:last] - starts
        doubtful: list[int] = starts[lengths == 2].tolist()
        empty = int(np.count_nonzero(lengths == 1)) + sum(data[place] == 13 for place in doubtful)
        return last - first - empty

    def _is_open(self, table: pa.Table) -> bool:
        """Whether a quote of the last record was closed by the end of the block alone: its line break is inside."""
        if self._file.form.multiline or not table.num_rows:
            return False
        last = table.slice(table.num_rows - 1).select(self._texts).to_pylist()[0]
        return any((b"\n" if isinstance(value, bytes) else "\n") in value for value in last.values() if value)

    def _reason(self, said: str) -> str:
        """Arrow's words with the column's name in place of its number."""
        match = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?(?:CSV conversion error to )?(.*)", said, re.DOTALL)
        if match:
            return f"column {self._order[int(match[1])]}: {match[2]}"
        wrong = re.search(r"Expected (\d+) columns, got (\d+)", said)
        return f"{wrong[2]} fields, {wrong[1]} are expected" if wrong else said.splitlines()[0]
