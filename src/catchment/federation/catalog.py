"""The tables of all clouds as one: same-named tables are parts of one logical table.

Names are compared as Spark compares them, without case. The columns of a logical table are those of its parts, which
must agree: the same names, and types of which one holds all values of the others (`int` and `bigint`). A table whose
parts do not fit is listed with the reason, and refused by name when a query asks for it; the others work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from catchment.errors import QueryError
from catchment.federation.cloud import Cloud, Column, Table

__all__ = ["Catalog", "LogicalTable", "columns_table", "tables_table", "wider"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True)
class LogicalTable:
    """One table over clouds: its columns by lower-case name in the order of the first cloud, and its parts."""

    name: str
    columns: Mapping[str, Column]
    parts: Mapping[str, Table]
    """The part of each cloud that holds one, by the cloud's name."""
    problem: str | None = None
    """Why its parts are not one table."""

    @property
    def clouds(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def casts(self, cloud: str) -> frozenset[str]:
        """The columns whose type in that cloud is narrower than that of the logical table."""
        part = {column.name.lower(): column.type for column in self.parts[cloud].columns}
        return frozenset(name for name, column in self.columns.items() if part[name] != column.type)


class Catalog:
    """The logical tables of some clouds."""

    def __init__(self, parts: Mapping[str, Mapping[str, Table]]) -> None:
        names = dict.fromkeys(name.lower() for tables in parts.values() for name in tables)
        self._tables = {
            name: _merged(name, {cloud: tables[name] for cloud, tables in parts.items() if name in tables})
            for name in names
        }
        self.clouds = tuple(parts)

    @classmethod
    def of(cls, clouds: Iterable[Cloud]) -> Catalog:
        """What the clouds say of their tables now."""
        return cls({cloud.name: {name.lower(): table for name, table in cloud.tables().items()} for cloud in clouds})

    @property
    def tables(self) -> Mapping[str, LogicalTable]:
        return self._tables

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._tables

    def table(self, name: str) -> LogicalTable:
        """The logical table of that name, or a `QueryError` that says which there are, or why its parts do not fit."""
        table = self._tables.get(name.lower())
        if table is None:
            known = ", ".join(sorted(self._tables)) or "none at all"
            raise QueryError(f"there is no table {name!r} in any cloud", f"name one of these: {known}")
        if table.problem is not None:
            raise QueryError(table.problem, "give its parts the same columns, or rename one of them")
        return table


def _merged(name: str, parts: Mapping[str, Table]) -> LogicalTable:
    clouds = iter(parts)
    first = next(clouds)
    columns = {column.name.lower(): column for column in parts[first].columns}
    for cloud in clouds:
        other = {column.name.lower(): column for column in parts[cloud].columns}
        if other.keys() != columns.keys():
            odd = ", ".join(sorted(other.keys() ^ columns.keys()))
            return LogicalTable(name, columns, parts, f"table {name!r}: only one of {first!r} and {cloud!r} has {odd}")
        for key, column in other.items():
            wide = wider(columns[key].type, column.type)
            if wide is None:
                said = f"{columns[key].type} in {first!r} and {column.type} in {cloud!r}"
                return LogicalTable(name, columns, parts, f"table {name!r}: column {key} is {said}")
            columns[key] = Column(columns[key].name, wide)
    return LogicalTable(name, columns, parts)


def wider(one: str, other: str) -> str | None:
    """The type of the two that holds all values of both, or None.

    >>> wider("int", "bigint"), wider("decimal(10,2)", "decimal(8,4)"), wider("date", "string")
    ('bigint', 'decimal(12,4)', None)
    """
    if one == other:
        return one
    if one in _INTEGERS and other in _INTEGERS:
        return max(one, other, key=_INTEGERS.index)
    if {one, other} == {"float", "double"}:
        return "double"
    sizes = [_decimal(one), _decimal(other)]
    if None in sizes or not (_DECIMAL.fullmatch(one) or _DECIMAL.fullmatch(other)):
        return None
    scale = max(size[1] for size in sizes if size)
    whole = max(size[0] - size[1] for size in sizes if size)
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def _decimal(kind: str) -> tuple[int, int] | None:
    if found := _DECIMAL.fullmatch(kind):
        return int(found[1]), int(found[2])
    return (_DIGITS[kind], 0) if kind in _DIGITS else None


def tables_table(catalog: Catalog) -> pa.Table:
    """What SHOW TABLES gives: the logical tables, and where their parts are."""
    lines = [
        {
            "table": table.name,
            "clouds": ", ".join(table.clouds),
            "columns": len(table.columns),
            "rows": _sum([part.rows for part in table.parts.values()]),
            "bytes": _sum([part.bytes for part in table.parts.values()]),
            "problem": table.problem,
        }
        for table in sorted(catalog.tables.values(), key=lambda table: table.name)
    ]
    kinds = [("table", pa.string()), ("clouds", pa.string()), ("columns", pa.int32()), ("rows", pa.int64())]
    return pa.Table.from_pylist(lines, pa.schema([*kinds, ("bytes", pa.int64()), ("problem", pa.string())]))


def columns_table(table: LogicalTable) -> pa.Table:
    """What DESCRIBE gives."""
    lines = [{"col_name": column.name, "data_type": column.type} for column in table.columns.values()]
    return pa.Table.from_pylist(lines, pa.schema([("col_name", pa.string()), ("data_type", pa.string())]))


def _sum(numbers: list[int | None]) -> int | None:
    """None if one of them is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
