"""Window functions see all rows of a partition, so the rows go to one cloud."""

from __future__ import annotations

from sqlglot import exp

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block
from catchment.federation.rules.ship import ship

__all__ = ["windows"]


def windows(planner: Planning, block: Block) -> Relation | None:
    """Fits a block with a window function or QUALIFY."""
    select = block.select
    if select.args.get("qualify") or any(projection.find(exp.Window) for projection in select.expressions):
        return ship(planner, block, "a window function sees all rows of its partition")
    order = select.args.get("order")
    if order is not None and order.find(exp.Window):
        return ship(planner, block, "a window function sees all rows of its partition")
    return None
