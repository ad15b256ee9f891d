"""How many rows of a table a predicate leaves, about: from the sketches of its indexed columns, where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from catchment.federation.cloud import Index, Table
from catchment.federation.column_statistics import matching
from catchment.federation.intervals import EVERYTHING, Interval, conjuncts, domain_of, intersection, intervals_of

__all__ = ["column_intervals", "estimate_rows", "fraction"]

UNKNOWN_ROWS = 1_000_000
"""Of a table of which nothing is known."""
BYTES_PER_ROW = 32
"""On disk, of a table whose rows nobody counted."""
GUESS: dict[type[exp.Expr], float] = {
    exp.EQ: 0.05,
    exp.NullSafeEQ: 0.05,
    exp.In: 0.1,
    exp.Is: 0.05,
    exp.Like: 0.1,
}
"""For what no sketch knows; any other comparison leaves a third."""
_THIRD = 1 / 3


def estimate_rows(table: Table, predicate: exp.Expr | None) -> float:
    """About how many rows of a cloud's table satisfy a predicate; never below one, and at most all.

    >>> from sqlglot import parse_one
    >>> estimate_rows(Table("t", (), rows=1000), parse_one("a > 5 AND b = 3"))
    16.6...
    """
    rows = _rows(table)
    return min(rows, max(1.0, rows * fraction(table, predicate)))


def _rows(table: Table) -> float:
    if table.rows is not None:
        return float(table.rows)
    return UNKNOWN_ROWS if table.bytes is None else max(1.0, table.bytes / BYTES_PER_ROW)


def fraction(table: Table, predicate: exp.Expr | None) -> float:
    """Which part of the rows satisfies a predicate. Columns are taken as independent of each other."""
    indexed = {index.column.lower(): index for index in table.indexes if index.statistics}
    return _all(list(conjuncts(predicate)), indexed)


def _all(parts: list[exp.Expr], indexed: Mapping[str, Index]) -> float:
    """Conjuncts on one indexed column are cut with each other; the rest multiply."""
    share = 1.0
    ranges: dict[str, tuple[Interval, ...]] = {}
    for part in parts:
        column = _only_column(part)
        index = indexed.get(column)
        found = column_intervals([part], index) if index else None
        if found is None:
            share *= _one(part, indexed)
        else:
            ranges[column] = intersection(ranges[column], found) if column in ranges else found
    for column, intervals in ranges.items():
        share *= matching(indexed[column].statistics, intervals)
    return share


def _one(part: exp.Expr, indexed: Mapping[str, Index]) -> float:
    match part:
        case exp.Boolean():
            return 1.0 if part.this else 0.0
        case exp.Or():
            left, right = (_all(list(conjuncts(side)), indexed) for side in (part.left, part.right))
            return left + right - left * right
        case exp.Not():
            return _not(part.this, indexed)
        case exp.NEQ():
            return _not(exp.EQ(this=part.this.copy(), expression=part.expression.copy()), indexed)
        case exp.Column():
            return 0.5
    return GUESS.get(type(part), _THIRD)


def _not(part: exp.Expr, indexed: Mapping[str, Index]) -> float:
    """What is neither true nor unknown: a comparison says nothing of nulls, and so does its opposite."""
    index = indexed.get(_only_column(part))
    intervals = column_intervals(list(conjuncts(part)), index) if index else None
    most = 1.0
    if index and intervals and not any(interval.nulls for interval in intervals):
        most = matching(index.statistics, [EVERYTHING])
    return max(0.0, most - _all(list(conjuncts(part)), indexed))


def _only_column(part: exp.Expr) -> str:
    """The one column that a predicate is about, in lower case; nothing if there are several."""
    names = {column.name.lower() for column in part.find_all(exp.Column)}
    return names.pop() if len(names) == 1 else ""


def column_intervals(parts: list[exp.Expr], index: Index) -> tuple[Interval, ...] | None:
    """What conjuncts say together of an index's column; None if no one says anything."""
    domain = domain_of(index.type)
    if domain is None:
        return None
    intervals: tuple[Interval, ...] | None = None
    for part in parts:
        found = intervals_of(part, index.column, domain)
        if found is not None:
            intervals = found if intervals is None else intersection(intervals, found)
    return intervals
