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

from catchment.federation.ledger import Ledger

__all__ = ["Cloud", "Column", "Errand", "Index", "Purpose", "Table"]


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


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with its type as Spark writes it: `bigint`, `decimal(10,2)`, `array<string>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Index:
    """An index of one cloud over one column of one table, as it stands now."""

    name: str
    table: str
    column: str


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
        """What a SELECT gives, whole."""

    def put(self, name: str, rows: pa.Table, errand: Errand) -> None:
        """Make rows a view of that name, for this federation's queries only."""

    def forget(self, names: Iterable[str]) -> None:
        """Drop views that were put; never fails for one that is not there."""

    def cancel(self, query: str) -> None:
        """Stop what runs for a query; its callers get `CancelledQueryError`."""
