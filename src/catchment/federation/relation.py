"""A relation spread over clouds: for each cloud a SELECT, and all their rows together are the relation's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from catchment.federation.cloud import Purpose, Table

__all__ = ["Relation", "Unplanned", "column", "derived", "name_of", "select_from", "wrap"]


class Unplanned(Exception):  # noqa: N818 - no error for a user: the planner falls back to a plan that ships
    """No rule knows this part of a query; the reason goes to EXPLAIN."""


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Rows over clouds, and what is known of them before they exist."""

    pieces: Mapping[str, exp.Query]
    """By cloud; `UNION ALL` of them is the relation. Empty for a `constant`."""
    columns: tuple[str, ...]
    standin: exp.Query
    """A query of the same columns and types that reads no table."""
    rows: float
    width: float
    """Bytes of a row."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The part of the rows that each piece gives; equal parts where it is not known."""
    constant: exp.Query | None = None
    """A query that any cloud can answer alone, such as VALUES."""
    scan: bool = False
    """Whether a piece may be read twice and gives the same rows, at the price of a scan."""
    stable: bool = True
    """Whether a piece gives the same rows each time."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """By cloud, of the pieces that are a SELECT of a table's columns and nothing else."""
    kept: float = 1.0
    """The part of a table's rows that its conditions leave."""
    purpose: Purpose = Purpose.ROWS
    why: str = ""
    limit: int | None = None
    """Of the rows of the pieces, one after the other, only so many are the relation's, after the first `offset`."""
    offset: int = 0

    @property
    def bytes(self) -> float:
        return self.rows * self.width

    def bytes_of(self, cloud: str) -> float:
        if cloud not in self.pieces:
            return 0.0
        return self.bytes * self.shares.get(cloud, 1 / len(self.pieces))

    def rows_of(self, cloud: str) -> float:
        if cloud not in self.pieces:
            return 0.0
        return self.rows * self.shares.get(cloud, 1 / len(self.pieces))

    def mapped(self, change: Callable[[exp.Query], exp.Query], **more: object) -> Relation:
        """The same change made to every piece, the constant and the stand-in."""
        return replace(
            self,
            pieces={cloud: change(piece) for cloud, piece in self.pieces.items()},
            standin=change(self.standin),
            constant=None if self.constant is None else change(self.constant),
            tables={},
            **more,  # type: ignore[arg-type]
        )


def name_of(name: str) -> exp.Identifier:
    """A name, quoted, so that no word is taken for a keyword."""
    return exp.to_identifier(name, quoted=True)


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.Column(this=name_of(name), table=name_of(table) if table else None)


def derived(query: exp.Query, alias: str) -> exp.Subquery:
    """A query in a FROM clause."""
    return exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=name_of(alias)))


def select_from(view: str, columns: Iterable[str]) -> exp.Select:
    """All columns of a view, by name: the order in which it holds them does not matter."""
    return exp.Select(
        expressions=[column(name) for name in columns],
        from_=exp.From(this=exp.Table(this=name_of(view))),
    )


def wrap(query: exp.Query, alias: str, columns: Iterable[str], where: Iterable[exp.Expr]) -> exp.Select:
    """`SELECT columns FROM (query) AS alias WHERE …`."""
    select = exp.Select(
        expressions=[column(name, alias) for name in columns]
        or [exp.alias_(exp.Literal.number(1), "_one", quoted=True)],
        from_=exp.From(this=derived(query, alias)),
    )
    conditions = [condition.copy() for condition in where]
    if conditions:
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    return select
