"""What no rule can split: the filtered columns of a block's relations go to one cloud, and the block runs there."""

from __future__ import annotations

from catchment.federation.cloud import Purpose
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block

__all__ = ["ship"]


def ship(planner: Planning, block: Block, reason: str) -> Relation:
    """The whole block in the cloud to which it costs least to bring what it reads."""
    cloud = planner.cheapest(block.relations())
    select = block.fill(planner, block.select, cloud)
    if any(set(relation.pieces) - {cloud} for relation in block.relations()):
        planner.notes.append(f"rows go to {cloud}: {reason}")
    return Relation(
        {cloud: select},
        block.columns,
        block.standin(),
        block.rows(),
        block.width(),
        stable=block.stable,
        purpose=Purpose.ROWS,
        why=reason,
    )
