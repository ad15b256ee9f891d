"""LIMIT without an order: each cloud gives that many at most, and the first of all of them are the answer."""

from __future__ import annotations

from sqlglot import exp

from catchment.federation.cloud import Purpose
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block
from catchment.federation.rules.ship import ship

__all__ = ["limit", "limits"]


def limit(planner: Planning, block: Block) -> Relation | None:
    """Fits LIMIT and OFFSET by plain numbers, without ORDER BY."""
    select = block.select
    if not (select.args.get("limit") or select.args.get("offset")):
        return None
    found = limits(select)
    if found is None:
        return ship(planner, block, "its LIMIT is an expression")
    count, offset = found
    each = select.copy()
    each.set("offset", None)
    each.set("limit", None if count is None else exp.Limit(expression=exp.Literal.number(count + offset)))
    pieces = {cloud: block.fill(planner, each, cloud, parts=True) for cloud in block.targets}
    most = block.rows() if count is None else float((count + offset) * len(pieces))
    return Relation(
        pieces,
        block.columns,
        block.standin(),
        min(most, block.rows()),
        block.width(),
        stable=False,
        purpose=Purpose.PARTIAL,
        why="each cloud gives at most as many rows as are asked for",
        limit=count,
        offset=offset,
    )


def limits(query: exp.Query) -> tuple[int | None, int] | None:
    """LIMIT and OFFSET of a query; None if one of them is not a plain number."""
    numbers: list[int | None] = []
    for clause in ("limit", "offset"):
        node = query.args.get(clause)
        if node is None:
            numbers.append(None)
        elif isinstance(node.expression, exp.Literal) and node.expression.is_int:
            numbers.append(int(node.expression.name))
        else:
            return None
    return numbers[0], numbers[1] or 0
