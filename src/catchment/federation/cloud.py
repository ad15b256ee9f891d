"""What the federation knows of a micro-cloud and asks of one: the door behind it stands in `spark/`.

A cloud answers SQL in Spark's dialect, over tables of its own and over views that were put there for one query. Nothing
here names an engine, so a test may put anything behind the door that speaks this SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from catchment.federation.column_statistics import ColumnStatistics
from catchment.federation.intervals import Value
from catchment.federation.ledger import Ledger

__all__ = ["Cloud", "Column", "Errand", "Index", "Part", "Purpose", "Segment", "Table"]


class Purpose(StrEnum):
    """Why bytes cross a border; a query's books are kept by it."""

    RESULT = "result"
    """Rows as the user sees them."""
    PARTIAL = "partial"
    """Partial aggregates, sketch states among them, the first n of each cloud, distinct rows."""
    ROWS = "rows"
    """Filtered columns of a table, because no rule could do with less."""
    FILTER = "filter"
    """Bloom filters and lists of join keys."""
    STATISTICS = "statistics"
    """What the planner learns about tables, and indexes."""
    PROGRAM = "program"
    """Functions of a map-reduce."""
    LOAD = "load"
    """Rows of files on their way into a table."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with its type as Spark writes it: `bigint`, `decimal(10,2)`, `array<string>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a segment: the smallest and the largest value of the index's column, None if all are null."""

    file: str
    rows: int
    low: Value | None = None
    high: Value | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A table of a cloud that holds the rows of some files of another, in the order of one column."""

    table: str
    """Its name with that of its database, as SQL writes it."""
    parts: tuple[Part, ...]
    statistics: ColumnStatistics

    @property
    def rows(self) -> int:
        return self.statistics.rows


@dataclass(frozen=True, slots=True)
class Index:
    """An index of one cloud over one column of one table, as far as it can be used now.

    The rows of the table are those of the segments, and those of the files that are listed as fresh: no row is in both.
    """

    name: str
    table: str
    column: str
    type: str = ""
    covered: tuple[str, ...] = ()
    """Every column that the segments have."""
    segments: tuple[Segment, ...] = ()
    fresh: tuple[str, ...] = ()
    """Paths of the table's files that no segment holds: they are read beside it."""
    fresh_bytes: int = 0
    covered_bytes: int = 0
    """What the files that the segments hold take."""
    statistics: tuple[ColumnStatistics, ...] = ()
    """Of every segment, of those too that are too old to be read: good enough for an estimate."""
    format: str = "parquet"
    """Of the table's own files."""

    @property
    def rows(self) -> float:
        """About how many rows the table has: those of the segments are counted."""
        counted = sum(segment.rows for segment in self.segments)
        return counted * (1 + self.fresh_bytes / self.covered_bytes) if self.covered_bytes else float(counted)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of one cloud: its columns, and how large it is as far as that is known without reading it."""

    name: str
    columns: tuple[Column, ...]
    rows: int | None = None
    bytes: int | None = None
    indexes: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Errand:
    """For which query, and why, something is asked of a cloud; what crosses is entered in the ledger."""

    query: str
    purpose: Purpose
    ledger: Ledger = field(compare=False)


class Cloud(Protocol):
    """One micro-cloud. Every call may raise `CloudError`, which names the cloud, and comes back in bounded time."""

    @property
    def name(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def cost_in(self) -> float:
        """The price of a byte that enters; any unit, the same for all clouds."""

    @property
    def cost_out(self) -> float:
        """The price of a byte that leaves."""

    def tables(self) -> Mapping[str, Table]:
        """The tables by their lower-case names; may be some seconds old."""

    def run(self, sql: str, errand: Errand) -> pa.Table:
        """What a statement gives, whole; one that changes something is never sent twice."""

    def put(self, name: str, rows: pa.Table, errand: Errand) -> None:
        """Make rows a view of that name, for this federation's queries only."""

    def keep(self, name: str, sql: str, errand: Errand) -> None:
        """Run a SELECT once and make what it gives a view of that name, for this federation's queries only."""

    def forget(self, names: Iterable[str]) -> None:
        """Drop views that were put or kept; never fails for one that is not there."""

    def cancel(self, query: str) -> None:
        """Stop what runs for a query; its callers get `CancelledQueryError`."""
