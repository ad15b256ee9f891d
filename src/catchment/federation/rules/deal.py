"""Deal many partial groups out to the clouds, so that each makes the final ones of its share.

    each:  keep SELECT a AS _k0, sum(b) AS _p0 FROM t GROUP BY a, as v
    each:  SELECT * FROM v WHERE pmod(xxhash64(_k0), 2) = n, to cloud n
    each:  SELECT _k0, sum(_p0) FROM its own share and what came GROUP BY _k0

As many bytes cross borders as if all went to one cloud, and all clouds work. It pays where groups are many, and no
other step needs them in one place; and needs that equal keys have equal hashes, which Spark does not say of fractions.

Groups that hardly repeat are *scattered*: a cloud has nearly as many as rows. To make and keep partial ones of them
costs more than to read the table again, so they are made only of what crosses a border:

    each:  SELECT a AS _k0, sum(b) AS _p0 FROM t WHERE pmod(xxhash64(a), 2) = n GROUP BY a, to cloud n
    each:  SELECT _k0, sum(_p0) FROM (SELECT a AS _k0, b AS _p0 FROM t WHERE its own share) and what came GROUP BY _k0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column, derived

__all__ = ["DEALT", "SCATTERED", "are_many", "deal", "deal_scattered", "gather", "may_deal"]

DEALT = "final aggregates, those of a share of the groups in each cloud"
"""Why the steps after it run, for EXPLAIN."""

SCATTERED = f"{DEALT}: of its own rows, and of others' partial groups"

LEAST_DEALT = 4 << 20
"""Bytes of partial groups, as estimated, from which on they are dealt out: it takes some statements more."""
_HASHED = re.compile(r"(tinyint|smallint|int|bigint|boolean|date|timestamp|timestamp_ntz|binary|string|decimal\(.*\))")


def are_many(relation: Relation) -> bool:
    """Whether partial groups are worth the statements that it takes to deal them out."""
    return relation.bytes >= LEAST_DEALT


def may_deal(planner: Planning, relation: Relation, types: Callable[[], Sequence[str]]) -> bool:
    """Whether partial groups can be dealt out for no more than it costs to send them home; `types` are their keys'."""
    if len(relation.pieces) < 2 or not relation.stable:
        return False
    home = sum(_cost(planner, relation, source, planner.home) for source in relation.pieces)
    dealt = sum(_cost(planner, relation, source, to) for source in relation.pieces for to in relation.pieces)
    return dealt / len(relation.pieces) <= 1.01 * home and all(_HASHED.fullmatch(kind) for kind in types())


def _cost(planner: Planning, relation: Relation, source: str, to: str) -> float:
    price = planner.prices[source][1] + planner.prices[to][0]
    return 0.0 if source == to else relation.bytes_of(source) * price


def deal(planner: Planning, relation: Relation, keys: Sequence[str]) -> Relation:
    """The same rows, all of one key in one cloud; each cloud keeps what it has, and sends the others' shares."""
    kept = replace(relation, pieces={cloud: planner.kept(relation, cloud) for cloud in relation.pieces})
    return replace(_shared(planner, kept, kept.pieces, keys), why=DEALT)


def deal_scattered(
    planner: Planning,
    relation: Relation,
    rows: Mapping[str, exp.Query],
    keys: Sequence[str],
    together: Callable[[exp.Select], exp.Select],
) -> Relation:
    """The same for groups that hardly repeat: nothing is kept, each table is read for every share.

    `rows` has for each cloud what the groups of its own share are made of, partial or not; `together` is made of those
    that others get.
    """
    return replace(_shared(planner, relation, rows, keys, together), why=SCATTERED)


def _shared(
    planner: Planning,
    relation: Relation,
    own: Mapping[str, exp.Query],
    keys: Sequence[str],
    together: Callable[[exp.Select], exp.Select] = lambda piece: piece,
) -> Relation:
    clouds = tuple(relation.pieces)

    def share(piece: exp.Query, number: int) -> exp.Select:
        assert isinstance(piece, exp.Select)
        values = {output.alias_or_name: output.unalias() for output in piece.expressions}
        hashed = exp.func("xxhash64", *(values[key].copy() for key in keys))
        return piece.where(exp.func("pmod", hashed, exp.Literal.number(len(clouds))).eq(number))

    pieces = {}
    for number, cloud in enumerate(clouds):
        shares = {source: together(share(piece, number)) for source, piece in relation.pieces.items()}
        shares[cloud] = share(own[cloud], number)
        sent = replace(relation, pieces=shares, rows=relation.rows / len(clouds), scan=True)
        pieces[cloud] = planner.whole(sent, cloud)
    return replace(relation, pieces=pieces, scan=False)


def gather(select: exp.Select, columns: Sequence[str], keys: Sequence[exp.Expr]) -> exp.Select:
    """A grouping SELECT of one relation that has the rows of a group meet before they are added up.

    Spark makes partial groups in each task and then moves those. Where keys hardly repeat that saves nothing, and
    costs a third of the time of such a query.
    """
    alias = select.args["from_"].this.alias_or_name
    rows = exp.Select(
        expressions=[column(name, alias) for name in columns],
        from_=select.args["from_"].copy(),
        distribute=exp.Distribute(expressions=[key.copy() for key in keys]),
    )
    if select.args.get("where"):
        rows.set("where", select.args["where"].copy())
        select.set("where", None)
    select.set("from_", exp.From(this=derived(rows, alias)))
    return select
