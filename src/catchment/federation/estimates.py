"""What is guessed before a query runs: rows, bytes, selectivity. A bad guess costs time, never a wrong result."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from catchment.federation.cloud import Table
from catchment.federation.selectivity import fraction

__all__ = ["row_width", "selectivity", "type_width"]

_WIDTHS = {
    "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 4, "double": 8,
    "date": 4, "timestamp": 8, "timestamp_ntz": 8, "string": 24, "binary": 64,
}  # fmt: skip
_NESTED = 64.0


def type_width(kind: str) -> float:
    """The bytes of a value of a type, about."""
    if kind.startswith("decimal"):
        return 16.0
    return float(_WIDTHS.get(re.split(r"[(<]", kind)[0], _NESTED))


def row_width(kinds: Iterable[str]) -> float:
    """The bytes of a row, about; never nothing, because a row has an overhead."""
    return sum(map(type_width, kinds)) + 1.0


def selectivity(condition: exp.Expr) -> float:
    """The part of rows that a condition keeps, by its shape alone: for relations of which no sketch knows anything.

    >>> import sqlglot
    >>> round(selectivity(sqlglot.condition("a = 1 AND b > 2")), 4)
    0.0167
    """
    return fraction(Table("", ()), condition)
