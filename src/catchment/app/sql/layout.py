"""A result as a table for a terminal, or as records one below the other where the table is wider than it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from catchment.app.sql.cells import texts
from catchment.app.terminal import printable

__all__ = ["table_lines"]

NULL = "NULL"
CELL = 60
"""The widest cell of a table on a terminal; the rest of a longer one is left out, and shown in records."""
ROWS = 1_000
"""The most rows that a terminal is shown."""


def table_lines(table: pa.Table, *, width: int | None = None) -> Iterator[str]:
    """The lines of a table; with `width`, those of a terminal of so many cells.

    A terminal gets the first rows of many, and records in place of a table that does not fit. A file gets everything.
    No character in the data can steer the terminal.

    >>> print(*table_lines(pa.table({"city": ["Århus", None], "n": [12, 3]})), sep="\\n")
    city  |  n
    ------+---
    Århus | 12
    NULL  |  3
    """
    shown = table if width is None else table.slice(0, ROWS)
    columns = [[NULL if text is None else printable(text) for text in texts(column)] for column in shown.columns]
    names = [printable(name) for name in table.column_names]
    if width is None:
        yield from _table(names, columns, shown.schema)
    else:
        cut = [[_cut(text) for text in column] for column in columns]
        sizes = _sizes(names, cut)
        if sum(sizes) + 3 * (len(sizes) - 1) <= width:
            yield from _table(names, cut, shown.schema)
        else:
            yield from _records(names, columns)
    if shown.num_rows < table.num_rows:
        yield f"… {table.num_rows - shown.num_rows:,} more rows: ask for fewer, or write them to a file"


def _table(names: list[str], columns: list[list[str]], schema: pa.Schema) -> Iterator[str]:
    if not names:
        return
    sizes = _sizes(names, columns)
    right = [_is_number(field.type) for field in schema]
    yield _row(names, sizes, right)
    yield "-+-".join("-" * size for size in sizes)
    for row in zip(*columns, strict=True):
        yield _row(row, sizes, right)


def _records(names: list[str], columns: list[list[str]]) -> Iterator[str]:
    size = max(map(cell_len, names))
    for number, row in enumerate(zip(*columns, strict=True), 1):
        yield f"-- row {number:,}"
        yield from (f"{set_cell_size(name, size)} | {text}" for name, text in zip(names, row, strict=True))


def _row(cells: list[str] | tuple[str, ...], sizes: list[int], right: list[bool]) -> str:
    parts = [
        " " * (size - cell_len(cell)) + cell if to_the_right else set_cell_size(cell, size)
        for cell, size, to_the_right in zip(cells, sizes, right, strict=True)
    ]
    return " | ".join(parts).rstrip()


def _sizes(names: list[str], columns: list[list[str]]) -> list[int]:
    return [max(map(cell_len, (name, *column))) for name, column in zip(names, columns, strict=True)]


def _cut(text: str) -> str:
    return text if cell_len(text) <= CELL else set_cell_size(text, CELL - 1) + "…"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
