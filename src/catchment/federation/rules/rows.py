"""Rows need nothing more: the answers of the clouds, one after the other, are the answer."""

from __future__ import annotations

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block

__all__ = ["rows"]


def rows(planner: Planning, block: Block) -> Relation | None:
    """Fits what is left: filters, expressions, joins with everything but the pivot whole."""
    pieces = {cloud: block.fill(planner, block.select, cloud, parts=True) for cloud in block.targets}
    assert block.pivot is not None
    return Relation(
        pieces,
        block.columns,
        block.standin(),
        block.rows(),
        block.width(),
        block.sources[block.pivot].relation.shares,
        scan=len(block.sources) == 1 and not block.queries,
        why=block.why,
    )
