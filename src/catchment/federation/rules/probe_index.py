"""Read the pivot of a join by an index on the key, once the keys of the relation that goes to it are known.

    SELECT … FROM pages AS p JOIN visits AS v ON p.url = v.url WHERE v.day = '2020-01-01'
    each cloud of visits: the rows of that day, which go to each cloud of pages and pass by here: their urls are known
    each cloud of pages:  SELECT … FROM `catchment_index_paris`.`rows_…` AS p WHERE p.url IN ('…', …), joined with them

A page that no visit names has no part in an inner join, so the answer is the same. Only a plan can say that keys will
be known; how many there are, and whether the index costs less than the scan, is seen when they are (`plan.Probe`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from catchment.federation.cloud import Table
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block
from catchment.federation.rules.bloom_join import equalities
from catchment.federation.rules.types import type_of_column

__all__ = ["ProbeOffer", "probe_index"]

PROBE = "probe"
"""What the root of a leaf carries in its `meta`: the number of the offer."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_KEYS = (*_WHOLE, "string", "date")
"""Types whose values are written in SQL and compared as they are here."""


@dataclass(frozen=True, slots=True)
class ProbeOffer:
    """A leaf over a table in one cloud, and what it is joined with."""

    table: Table
    alias: str
    column: str
    keys: Relation
    place: int
    """Of the key among the columns of `keys`."""


def probe_index(planner: Planning, block: Block) -> Block:
    """The block with leaves of its pivot marked that an index may serve; with the block as it is if there are none."""
    assert block.pivot is not None
    pivot = block.sources[block.pivot]
    for number in range(len(block.sources)):
        keys = block.reduced.get(number, block.sources[number].relation)
        if number == block.pivot or not keys.pieces or not _drops_strangers(block, number):
            continue
        for column, key in equalities(block, number, block.pivot):
            types = (type_of_column(pivot.relation, column), type_of_column(keys, key))
            if not _comparable(*types):
                continue
            marked = dict[str, exp.Query]()
            for cloud, table in pivot.relation.tables.items():
                if any(index.column.lower() == column.lower() and index.segments for index in table.indexes):
                    marked[cloud] = pivot.relation.pieces[cloud].copy()
                    marked[cloud].meta[PROBE] = len(planner.probes)
                    offer = ProbeOffer(table, pivot.alias, column, keys, keys.columns.index(key))
                    planner.probes.append(offer)
                    planner.notes.append(f"{cloud}: {pivot.alias} may be read by an index on {column}, if keys are few")
            if marked:
                probed = replace(pivot.relation, pieces={**pivot.relation.pieces, **marked})
                return replace(block, reduced={**block.reduced, block.pivot: probed})
    return block


def _drops_strangers(block: Block, number: int) -> bool:
    """Whether a row of the pivot without a partner in a source is in no row of the answer."""
    assert block.pivot is not None
    later = block.sources[max(number, block.pivot)]
    if later.kind == "SEMI":
        return number > block.pivot and later.side in ("", "LEFT")
    return not later.side and later.kind in ("", "INNER", "CROSS")


def _comparable(one: str | None, other: str | None) -> bool:
    if one in _WHOLE and other in _WHOLE:
        return True
    return one == other and one in _KEYS
