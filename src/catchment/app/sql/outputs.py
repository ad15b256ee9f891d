"""Where results go and in which form: `table`, `csv`, `json` or `parquet`, to the terminal, a pipe or a file.

A file appears when it is whole: until then it has another name, and what was there before stays.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from catchment.app.sql.cells import distinct_names, json_values, texts
from catchment.app.sql.layout import table_lines
from catchment.app.terminal import printable
from catchment.errors import ParameterError

__all__ = ["FORMS", "Output", "open_output"]

FORMS = ("table", "csv", "json", "parquet")
_GROUP_ROWS = 128 * 1024


class Output:
    """Takes results, and the plans that EXPLAIN gives, one after the other.

    Parameters
    ----------
    form
        One of `FORMS`; a shell changes it under way.
    stream
        Where text goes.
    file
        Where Parquet goes, which is one result and no text.
    width
        Of the terminal, where the stream is one.
    """

    def __init__(self, form: str, stream: TextIO, *, file: Path | None = None, width: int | None = None) -> None:
        self.form = form
        self._stream = stream
        self._file = file
        self._width = width
        self._written = 0

    def result(self, table: pa.Table, about: Mapping[str, Any]) -> None:
        """Write the rows; `about` is what JSON says beside them: what is missing, bytes, seconds."""
        if self.form == "parquet":
            self._parquet(table)
        elif self.form == "json":
            self._say(_json(table, about, ascii_only=self._width is not None))
        elif self.form == "csv":
            for text in _csv(table):
                # To a file or a pipe the data goes as it is; a terminal must not obey it.
                self._stream.write(_tame(text) if self._width is not None else text)
        else:
            for line in table_lines(table, width=self._width):
                self._say(line)
        self._stream.flush()
        self._written += 1

    def text(self, text: str) -> None:
        """Write what is no table: a plan."""
        if self.form == "parquet":
            raise ParameterError("a plan as Parquet", "ask for --output table, or leave EXPLAIN out")
        if self.form == "json":
            self._say(json.dumps({"plan": text}, ensure_ascii=self._width is not None))
        else:
            for line in text.splitlines():
                self._say(printable(line))
        self._stream.flush()
        self._written += 1

    def _parquet(self, table: pa.Table) -> None:
        if self._written:
            raise ParameterError("a second result for one Parquet file", "give one statement that has a result")
        named = table.rename_columns(distinct_names(table.column_names))
        pq.write_table(named, self._file, row_group_size=_GROUP_ROWS, compression="zstd")

    def _say(self, line: str) -> None:
        self._stream.write(line + "\n")


@contextmanager
def open_output(form: str, to: Path | None) -> Iterator[Output]:
    """The output of a command; a file is kept only when all went well.

    Raises
    ------
    ParameterError
        The form is none, or Parquet has no file, or the file cannot be written; before anything is asked of a cloud.
    """
    if form not in FORMS:
        raise ParameterError(f"--output {form}", f"give one of {', '.join(FORMS)}")
    if to is None:
        if form == "parquet":
            raise ParameterError("--output parquet without a file", "add --to FILE")
        yield Output(form, sys.stdout, width=terminal_width())
        return
    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        stream = part.open("w", encoding="utf-8", newline="")
    except OSError as problem:
        raise ParameterError(f"cannot write {to} ({problem.strerror})", "give another file") from None
    try:
        with stream:
            yield Output(form, stream, file=part)
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def terminal_width() -> int | None:
    """Cells of the terminal that stdout is; None where it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80 if sys.stdout.isatty() else None
    except (OSError, ValueError):
        return None


def _json(table: pa.Table, about: Mapping[str, Any], *, ascii_only: bool) -> str:
    names = distinct_names(table.column_names)
    columns = [json_values(column) for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return json.dumps({"rows": rows, **about}, ensure_ascii=ascii_only, allow_nan=False)


def _csv(table: pa.Table) -> Iterator[str]:
    """Header and rows. Texts are in quotes, so that null, which is nothing, differs from the empty text."""
    plain = pa.table([_plain(column) for column in table.columns], names=table.column_names)
    options = pacsv.WriteOptions(include_header=False)
    header = ",".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
    yield header + "\n"
    for batch in plain.to_batches(max_chunksize=10_000):
        sink = pa.BufferOutputStream()
        pacsv.write_csv(batch, sink, options)
        yield sink.getvalue().to_pybytes().decode("utf-8")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow writes as CSV the way we mean it."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind):
        return column
    return pa.chunked_array([pa.array(texts(column), pa.string())])


def _tame(text: str) -> str:
    return "".join(printable(line) + "\n" for line in text.split("\n")[:-1])
