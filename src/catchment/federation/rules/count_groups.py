"""How many groups a cloud's rows make: asked of a sample, where a guess would decide about seconds of work.

A cloud is asked for the hashes of the keys of its first rows. The classes that a sample does not show are estimated
from those that it shows once and twice: d + f1² / (2 f2), which is a lower bound in expectation and exact for keys that
are equally frequent (Chao, Scandinavian Journal of Statistics 11, 1984). Rows that lie together by their keys make it
too low. Either costs time, never a wrong result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from catchment.federation.dialect import write
from catchment.federation.planning import Planning
from catchment.federation.rules.bind import Block

__all__ = ["GroupCount", "count_groups"]

SAMPLE = 8192
"""Rows; 64 KiB of hashes. A million groups show some thirty keys twice, so they are told from ten million."""


@dataclass(frozen=True, slots=True)
class GroupCount:
    """About how many rows a cloud has, and in how many groups."""

    rows: float
    groups: float


def _reads_one_table(block: Block) -> bool:
    """Whether a cloud's part of a block is a scan of its own table, which can be read for a sample, or twice."""
    if len(block.sources) != 1 or block.queries or block.pivot != 0 or block.select.args.get("laterals"):
        return False
    return block.sources[0].relation.scan and set(block.sources[0].relation.tables) == set(block.targets)


def count_groups(planner: Planning, block: Block, keys: list[exp.Expr]) -> GroupCount | None:
    """Of the cloud with the most rows; None where nobody can be asked."""
    if planner.sample is None or not keys or not _reads_one_table(block):
        return None
    relation = block.sources[0].relation
    cloud = max(block.targets, key=relation.rows_of)
    sample = exp.Select(
        expressions=[exp.alias_(exp.func("xxhash64", *(key.copy() for key in keys)), "h", quoted=True)],
        from_=block.select.args["from_"].copy(),
        where=block.select.args["where"].copy() if block.select.args.get("where") else None,
        limit=exp.Limit(expression=exp.Literal.number(SAMPLE)),
    )
    hashes = planner.sample(cloud, write(block.fill(planner, sample, cloud, parts=True)))
    rows = block.rows() * relation.rows_of(cloud) / max(1.0, relation.rows)
    counted = _estimate(np.asarray(hashes), rows)
    planner.notes.append(
        f"{cloud}: about {counted.groups:,.0f} groups of {counted.rows:,.0f} rows, by a sample of {len(hashes):,}"
    )
    return counted


def _estimate(hashes: np.ndarray, rows: float) -> GroupCount:
    """From the hashes of a sample of so many rows; if there were no more rows than these, it is the truth.

    >>> _estimate(np.arange(SAMPLE) % (SAMPLE - 64), 1e6)  # 64 keys twice, the others once
    GroupCount(rows=1000000.0, groups=516160.0)
    >>> _estimate(np.array([1, 1, 2]), 1e6)
    GroupCount(rows=3.0, groups=2.0)
    """
    times = np.unique(hashes, return_counts=True)[1]
    if hashes.size < SAMPLE:
        return GroupCount(float(hashes.size), float(times.size))
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    # The second is its form where none is seen twice.
    unseen = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    return GroupCount(rows, min(rows, times.size + unseen))
