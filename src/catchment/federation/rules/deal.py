"""Deal many partial groups out to the clouds, so that each makes the final ones of its share.

    each:  keep SELECT a AS _k0, sum(b) AS _p0 FROM t GROUP BY a, as v
    each:  SELECT * FROM v WHERE pmod(xxhash64(_k0), 2) = n, to cloud n
    each:  SELECT _k0, sum(_p0) FROM its own share and what came GROUP BY _k0

As many bytes cross borders as if all went to one cloud, and all clouds work. It pays where groups are many, and no
other step needs them in one place; and needs that equal keys have equal hashes, which Spark does not say of fractions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column

__all__ = ["DEALT", "deal", "pays_to_deal"]

DEALT = "final aggregates, those of a share of the groups in each cloud"
"""Why the steps after it run, for EXPLAIN."""

LEAST_DEALT = 4 << 20
"""Bytes of partial groups, as estimated, from which on they are dealt out: it takes some statements more."""
_HASHED = re.compile(r"(tinyint|smallint|int|bigint|boolean|date|timestamp|timestamp_ntz|binary|string|decimal\(.*\))")


def pays_to_deal(planner: Planning, relation: Relation, types: Callable[[], Sequence[str]]) -> bool:
    """Whether partial groups are dealt out rather than sent home; `types` gives those of their keys."""
    if len(relation.pieces) < 2 or not relation.stable or relation.bytes < LEAST_DEALT:
        return False
    home = sum(_cost(planner, relation, source, planner.home) for source in relation.pieces)
    dealt = sum(_cost(planner, relation, source, to) for source in relation.pieces for to in relation.pieces)
    return dealt / len(relation.pieces) <= 1.01 * home and all(_HASHED.fullmatch(kind) for kind in types())


def _cost(planner: Planning, relation: Relation, source: str, to: str) -> float:
    price = planner.prices[source][1] + planner.prices[to][0]
    return 0.0 if source == to else relation.bytes_of(source) * price


def deal(planner: Planning, relation: Relation, keys: Sequence[str]) -> Relation:
    """The same rows, all of one key in one cloud."""
    clouds = tuple(relation.pieces)
    kept = {cloud: planner.kept(relation, cloud) for cloud in clouds}

    def share(source: str, number: int) -> exp.Select:
        hashed = exp.func("pmod", exp.func("xxhash64", *(column(key) for key in keys)), exp.Literal.number(len(clouds)))
        return kept[source].copy().where(hashed.eq(number), copy=False)

    pieces = {}
    for number, cloud in enumerate(clouds):
        shares = {source: share(source, number) for source in clouds}
        sent = replace(relation, pieces=shares, rows=relation.rows / len(clouds), scan=True)
        pieces[cloud] = planner.whole(sent, cloud)
    return replace(relation, pieces=pieces, scan=False)
