"""What a rule may ask of the planner: relations of queries, rows brought to a cloud, prices and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from catchment.federation.catalog import Catalog
from catchment.federation.relation import Relation

__all__ = ["Planning", "Prices"]

Prices = Mapping[str, tuple[float, float]]
"""For each cloud what a byte costs that enters, and one that leaves."""


class Planning(Protocol):
    """The planner as rules see it."""

    catalog: Catalog
    prices: Prices
    home: str
    """The cheapest cloud, where final steps run."""
    notes: list[str]
    """What was decided, and why, for EXPLAIN."""
    types_of: Callable[[str], Sequence[str]]
    """The types of the columns of a query that reads no table."""
    sample: Callable[[str, str], Sequence[int]] | None
    """The numbers that a query of one column gives in a cloud; None where no cloud can be asked."""
    probes: list[Any]
    """What an index may serve once keys are known (`rules/probe_index.py`)."""
    use_index: Callable[..., Any]
    """What stands in place of a scan in one cloud, if an index does (`rules/use_index.py`)."""

    def relation(self, query: exp.Expr, env: Mapping[str, Relation]) -> Relation:
        """A query as a relation; `env` are the common table expressions that it sees."""

    def with_clause(self, query: exp.Expr, env: Mapping[str, Relation]) -> Mapping[str, Relation]:
        """What a query sees beside `env`: the parts of its WITH."""

    def cheapest(self, relations: Sequence[Relation]) -> str:
        """The cloud to which it costs least to bring all these relations."""

    def whole(self, relation: Relation, cloud: str) -> exp.Query:
        """A query that gives all rows of a relation in one cloud; what is elsewhere is put there."""

    def kept(self, relation: Relation, cloud: str) -> exp.Select:
        """A cloud's own piece, which is run once and stays there as a view."""

    def put(self, relation: Relation, cloud: str, sources: Sequence[str], *, merge: str = "rows") -> str:
        """A view in a cloud of the rows of some pieces; its name."""

    def settled(self, relation: Relation) -> Relation:
        """The same rows for every reader: they are put in one cloud, once."""
