"""Columns as DDL says them (`id BIGINT, price DECIMAL(10,2)`), as Spark stores them and as Arrow reads them."""

from __future__ import annotations

import re

import pyarrow as pa

from catchment.errors import ParameterError
from catchment.federation.cloud import Column

__all__ = ["arrow_type", "columns_of", "quoted", "spark_type"]

_FLAT = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?")
_LETTERS = re.compile(r"(?:varchar|char)\(\d+\)")
_COLUMN = re.compile(r"(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s*(.+)", re.DOTALL)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """The columns that a DDL names, in order.

    >>> columns_of("id BIGINT, `the price` DECIMAL(10,2)")
    (Column(name='id', type='bigint'), Column(name='the price', type='decimal(10,2)'))
    """
    found = []
    for part in _parts(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise ParameterError(f"{part!r} is no column", "write a name and a type: id BIGINT")
        column = Column((match[1] or match[2]).replace("``", "`"), re.sub(r"\s+", "", match[3]).lower())
        arrow_type(column)
        found.append(column)
    names = [column.name.lower() for column in found]
    if not found or len(set(names)) < len(names):
        raise ParameterError(f"the schema {ddl!r}", "name at least one column, and each once")
    return tuple(found)


def arrow_type(column: Column) -> pa.DataType:
    """What a text file's column is read as.

    >>> arrow_type(Column("x", "decimal(10,2)"))
    Decimal128Type(decimal128(10, 2))
    """
    kind = column.type.lower().replace(" ", "")
    if kind in _FLAT:
        return _FLAT[kind]
    if match := _DECIMAL.fullmatch(kind):
        digits, scale = int(match[1] or 10), int(match[2] or 0)
        if 1 <= digits <= 38 and scale <= digits:
            return pa.decimal128(digits, scale)
    if _LETTERS.fullmatch(kind):
        return pa.string()
    raise ParameterError(
        f"column {column.name} of type {column.type} cannot be read from text",
        f"give one of {', '.join(_FLAT)} or decimal(p,s), or load Parquet",
    )


def spark_type(kind: pa.DataType) -> str:
    """The type of a column whose values were guessed from text; where there are none, they are texts."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_date(kind):
        return "date"
    return "timestamp" if pa.types.is_timestamp(kind) else "string"


def quoted(name: str) -> str:
    """A name as it stands in SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _parts(ddl: str) -> list[str]:
    """The columns' texts: cut at commas outside of brackets and backticks."""
    parts, depth, inside, start = [], 0, False, 0
    for place, letter in enumerate(ddl):
        if letter == "`":
            inside = not inside
        elif not inside:
            depth += (letter in "(<") - (letter in ")>")
            if letter == "," and depth == 0:
                parts.append(ddl[start:place].strip())
                start = place + 1
    return [part for part in (*parts, ddl[start:].strip()) if part]
