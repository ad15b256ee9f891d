"""DISTINCT: each cloud gives its distinct rows, and one cloud those of all.

SELECT DISTINCT a FROM t
each: SELECT DISTINCT a FROM t          home: SELECT DISTINCT a FROM partials
"""

from __future__ import annotations

from sqlglot import exp

from catchment.federation.cloud import Purpose
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, select_from
from catchment.federation.rules.bind import Block
from catchment.federation.rules.ship import ship
from catchment.federation.rules.top_n import order_by_outputs

__all__ = ["distinct", "distinct_at_home"]


def distinct(planner: Planning, block: Block) -> Relation | None:
    """Fits SELECT DISTINCT whose order, if any, is by columns that it selects."""
    clause = block.select.args.get("distinct")
    if clause is None:
        return None
    if clause.args.get("on"):
        return ship(planner, block, "DISTINCT ON")
    order = order_by_outputs(block.select, block.columns)
    if order is None or len(set(block.columns)) < len(block.columns):
        return ship(planner, block, "its distinct rows are ordered by something else")
    each = block.select.copy()
    for part in ("order", "limit", "offset"):
        each.set(part, None)
    partial = Relation(
        {cloud: block.fill(planner, each, cloud, parts=True) for cloud in block.targets},
        block.columns,
        block.standin(each),
        block.rows() * 0.5,
        block.width(),
        purpose=Purpose.PARTIAL,
        why="the distinct rows of each cloud",
    )
    return distinct_at_home(planner, partial, order, block.select, stable=block.stable)


def distinct_at_home(
    planner: Planning, partial: Relation, order: list[exp.Expr], clauses: exp.Query, *, stable: bool
) -> Relation:
    """The distinct rows of a relation, in one cloud, with the order and limit of a query."""

    def final(source: exp.Select) -> exp.Select:
        source.set("distinct", exp.Distinct())
        source.set("order", exp.Order(expressions=[key.copy() for key in order]) if order else None)
        for part in ("limit", "offset"):
            node = clauses.args.get(part)
            source.set(part, node.copy() if node is not None else None)
        return source

    whole = planner.whole(partial, planner.home)
    alias = exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier("p", quoted=True)))
    select = exp.Select(
        expressions=[exp.column(exp.to_identifier(name, quoted=True)) for name in partial.columns],
        from_=exp.From(this=alias),
    )
    nothing = select_from("p", partial.columns)
    nothing.set("from_", exp.From(this=exp.Subquery(this=partial.standin.copy(), alias=alias.args["alias"].copy())))
    return Relation(
        {planner.home: final(select)},
        partial.columns,
        final(nothing),
        partial.rows * 0.5,
        partial.width,
        stable=stable,
        why="the distinct rows of all clouds",
    )
