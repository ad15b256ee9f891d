"""Read an index instead of a table where that costs less: the rows are the same, in another order.

    SELECT pageURL FROM rankings AS r WHERE pageRank = 7
    SELECT pageURL FROM `catchment_index_paris`.`rows_…` AS r WHERE pageRank = 7 AND _metadata.file_name IN ('part-3…')
    UNION ALL SELECT pageURL FROM rankings AS r WHERE pageRank = 7 AND _metadata.file_path IN ('…/added.parquet')

The whole predicate stays: Spark's reader skips row groups and pages by it, and filters what is left. Beside it the
files that can hold it are named, so that the others are not even opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from catchment.federation.cloud import Index, Segment, Table
from catchment.federation.column_statistics import matching
from catchment.federation.index_text import LONGEST_LIST, PAGE_ROWS
from catchment.federation.intervals import EVERYTHING, NULLS, Domain, Interval, Value, conjuncts, domain_of
from catchment.federation.selectivity import column_intervals, estimate_rows

__all__ = ["Replacement", "no_index", "use_index"]

ROW_COST = 1.0
"""Of a row that a scan reads; the unit of all costs."""
INDEX_ROW_COST = 2.1
"""Of a row that is read from an index: pages are small, and other columns compress less in the new order. So index and
scan are taken to cost the same where a little less than half of the rows is asked for; `catchment bench amplab` holds
the choice against both."""
TEXT_ROW_COST = 4.0
"""Of a row of CSV or JSON, all of whose fields are parsed whatever is asked for."""
RELATION_COST = 20_000.0
"""Of one more relation in a statement: what it takes to plan it and to start a task."""
_EXACT = (Domain.WHOLE, Domain.DATE, Domain.TEXT)
"""Where a literal means here what it means in the cloud; a time depends on the session's zone, a NaN on the engine."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is read instead of a leaf: the same rows."""

    relation: exp.Query
    reason: str
    rows: float
    """About how many it gives."""
    weight: float = 0.0
    """What it costs, where a scan costs 1; nothing where it is to be taken whatever it costs."""


@dataclass(frozen=True, slots=True)
class _Offer:
    index: Index
    intervals: tuple[Interval, ...]
    read: float
    cost: float


def use_index(leaf: exp.Select, table: Table, *, always: bool = False) -> Replacement | None:
    """The index relation for `SELECT columns FROM table WHERE predicate`, or None where the scan costs less.

    Parameters
    ----------
    leaf
        A SELECT of one table of this cloud with columns and WHERE, nothing else; it is not changed.
    table
        The table with its indexes as they can be used now (`IndexCatalog.filled`).
    always
        Whether to take an index that can serve even where the scan costs less: to compare the two.
    """
    if not _is_leaf(leaf):
        return None
    where = leaf.args.get("where")
    parts = list(conjuncts(where.this if where else None))
    offers = [offer for index in table.indexes if (offer := _offer(leaf, parts, index))]
    best = min(offers, key=lambda offer: offer.cost, default=None)
    if best is None:
        return None
    rows = best.index.rows
    weight = 0.0 if always else best.cost / max(1.0, rows * _scan_cost(best.index))
    if weight >= 1:
        return None
    said = f"index {best.index.name} on {best.index.column}: about {best.read:,.0f} of {rows:,.0f} rows are read"
    if best.index.fresh:
        said += f", {len(best.index.fresh)} added files among them"
    return Replacement(_relation(leaf, best), said, estimate_rows(table, where.this if where else None), weight)


def no_index(_leaf: exp.Select, _table: Table) -> Replacement | None:
    """The scan, always: in place of `use_index`, to compare with."""
    return None


def _is_leaf(leaf: exp.Select) -> bool:
    """One table by its name, and nothing that a union of parts would change."""
    allowed = {"expressions", "from_", "where", "kind", "hint"}
    given = {key for key, value in leaf.args.items() if value}
    source = leaf.args.get("from_")
    return given <= allowed and source is not None and isinstance(source.this, exp.Table) and not source.this.db


def _offer(leaf: exp.Select, parts: list[exp.Expr], index: Index) -> _Offer | None:
    """What the index would cost; None if it cannot give the columns or says nothing to the predicate."""
    covered = {column.lower() for column in index.covered}
    asked = {column.name.lower() for column in leaf.find_all(exp.Column)}
    if not index.segments or not asked <= covered or leaf.find(exp.Star):
        return None
    intervals = column_intervals(parts, index)
    if intervals is None and _scan_cost(index) == ROW_COST:
        return None
    intervals = (EVERYTHING, NULLS) if intervals is None else intervals
    relevant = [segment for segment in index.segments if _files(segment, intervals, index) != []]
    read = sum(_read(segment, intervals) for segment in relevant)
    fresh = index.rows - sum(segment.rows for segment in index.segments)
    relations = len(relevant) - 1 + bool(index.fresh)
    cost = read * INDEX_ROW_COST + fresh * _scan_cost(index) + max(0, relations) * RELATION_COST
    return _Offer(index, intervals, read + fresh, cost)


def _scan_cost(index: Index) -> float:
    return ROW_COST if index.format in ("parquet", "orc") else TEXT_ROW_COST


def _read(segment: Segment, intervals: Iterable[Interval]) -> float:
    """Rows of the pages that hold the intervals, about."""
    asked = list(intervals)
    if len(asked) > LONGEST_LIST and all(interval.is_point() for interval in asked):
        ends: list[Value] = [interval.low for interval in asked]
        asked = [Interval(min(ends), max(ends))]
    found = matching([segment.statistics], asked) * segment.rows
    return min(float(segment.rows), found + len(asked) * PAGE_ROWS)


def _relation(leaf: exp.Select, offer: _Offer) -> exp.Query:
    parts: list[exp.Query] = []
    for segment in offer.index.segments:
        files = _files(segment, offer.intervals, offer.index)
        if files != []:
            parts.append(_reading(leaf, segment.table, "file_name", files))
    if offer.index.fresh:
        parts.append(_reading(leaf, None, "file_path", list(offer.index.fresh)))
    if not parts:
        return _reading(leaf, offer.index.segments[0].table, "file_name", None).where(exp.false(), copy=False)
    return parts[0] if len(parts) == 1 else exp.union(*parts, distinct=False, copy=False)


def _files(segment: Segment, intervals: Iterable[Interval], index: Index) -> list[str] | None:
    """The files of a segment that can hold rows; None for all of them."""
    if domain_of(index.type) not in _EXACT:
        return None
    asked = tuple(intervals)
    found = [
        part.file
        for part in segment.parts
        if any(
            interval.nulls or (part.low is not None and part.high is not None and interval.meets(part.low, part.high))
            for interval in asked
        )
    ]
    return None if len(found) == len(segment.parts) else found


def _reading(leaf: exp.Select, table: str | None, field: str, files: list[str] | None) -> exp.Select:
    """The leaf over another table, under the same alias, or over some files only."""
    copy = leaf.copy()
    source = copy.args["from_"].this
    alias = source.alias_or_name
    if table is not None:
        renamed = exp.to_table(table, dialect="spark")
        renamed.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        source.replace(renamed)
    if files is None:
        return copy
    name = exp.Dot.build([exp.column("_metadata", table=alias), exp.to_identifier(field)])
    return copy.where(exp.In(this=name, expressions=[exp.Literal.string(file) for file in files]), copy=False)
