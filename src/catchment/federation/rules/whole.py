"""A block that runs in one cloud runs there as it is."""

from __future__ import annotations

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block

__all__ = ["whole"]


def whole(planner: Planning, block: Block) -> Relation | None:
    """Fits a block with one target, or none: then any cloud can answer it."""
    if len(block.targets) > 1:
        return None
    if not block.targets:
        select = block.fill(planner, block.select, planner.home)
        return Relation({}, block.columns, select, 10.0, block.width(), constant=select, stable=block.stable)
    (cloud,) = block.targets
    select = block.fill(planner, block.select, cloud)
    return Relation(
        {cloud: select}, block.columns, block.standin(), block.rows(), block.width(), stable=block.stable, why=block.why
    )
