"""A Bloom semi-join: before a relation goes to the pivot's clouds, it is reduced to the keys that the pivot has.

    SELECT … FROM visits AS v JOIN pages AS p ON v.url = p.url WHERE v.day = '2020-01-01'
    each cloud of visits: the bits of the urls of that day, OR-ed here, put in each cloud of pages
    each cloud of pages:  SELECT … FROM pages WHERE url's bits are set; these rows go to the clouds of visits

A row that the filter lets through by mistake finds no partner in the join, so the answer is the same. The filter pays
if what it keeps back is larger than the filter: both are estimated. Keys are compared by their hashes, so they must be
of one type, or of two integer types; fractions are left out, because 0.0 and -0.0 are equal and have two hashes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp, parse_one

from catchment.federation.bloom import MOST_WORDS, BloomShape, build_sql, probe_sql, shape_for
from catchment.federation.catalog import wider
from catchment.federation.cloud import Purpose
from catchment.federation.dialect import DIALECT, write
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column, derived, wrap
from catchment.federation.rules.bind import Block, Source
from catchment.federation.rules.push_filters import conjuncts
from catchment.federation.rules.types import type_of_column

__all__ = ["BloomOffer", "bloom_offer", "equalities", "reduced"]

RATE = 0.01
"""Of strangers that pass: ten times as many bits would keep back hardly more."""
LEAST_SAVING = 64 * 1024
"""Bytes; below, a second round over the clouds costs more time than it saves."""
_HASHED = {"tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"}


@dataclass(frozen=True, slots=True)
class BloomOffer:
    """A filter of the pivot's keys for one other relation."""

    pivot_keys: tuple[str, ...]
    keys: tuple[str, ...]
    types: tuple[str, ...]
    shape: BloomShape
    kept: float
    """The part of the relation that passes, about."""
    cost: float
    """Bytes of the filters, built and put."""


def bloom_offer(block: Block, number: int, pivot: int) -> BloomOffer | None:
    """The filter that the pivot has for a source, if it pays."""
    source, by = block.sources[number], block.sources[pivot]
    relation = source.relation
    if not relation.pieces or not relation.scan or not by.relation.scan:
        return None
    pairs = [pair for pair in equalities(block, number, pivot) if _type(pair, source, by) is not None]
    if not pairs:
        return None
    kept = min(1.0, max(by.relation.kept, by.relation.rows / relation.rows) + RATE)
    keys = int(by.relation.rows)
    if keys * 1.6 / 8 > MOST_WORDS:
        return None
    shape = shape_for(keys, RATE)
    cost = float(shape.bytes * len(relation.pieces))
    cost += sum(shape.bytes_built(int(by.relation.rows_of(cloud))) for cloud in by.relation.pieces)
    if relation.bytes * (1 - kept) < cost + LEAST_SAVING:
        return None
    return BloomOffer(
        tuple(one for one, _ in pairs),
        tuple(other for _, other in pairs),
        tuple(str(_type(pair, source, by)) for pair in pairs),
        shape,
        kept,
        cost,
    )


def reduced(planner: Planning, block: Block, number: int, offer: BloomOffer) -> Relation:
    """A source of which only the rows are left that pass the pivot's filter."""
    assert block.pivot is not None
    pivot, source = block.sources[block.pivot], block.sources[number]
    built = {
        cloud: parse_one(
            build_sql(
                write(wrap(piece, pivot.alias, offer.pivot_keys, [])),
                [write(column(key)) for key in offer.pivot_keys],
                offer.shape,
                offer.types,
            ),
            dialect=DIALECT,
        )
        for cloud, piece in pivot.relation.pieces.items()
    }
    keys = pivot.relation.rows
    bits = Relation(
        built,  # type: ignore[arg-type]
        ("word", "mask"),
        pivot.relation.standin,
        min(keys, float(offer.shape.words)),
        12.0,
        purpose=Purpose.FILTER,
        why=f"Bloom filter of {pivot.alias}.{', '.join(offer.pivot_keys)}",
    )
    merge = f"bits {offer.shape.words} {offer.shape.bits}"
    pieces: dict[str, exp.Query] = {}
    for cloud, piece in source.relation.pieces.items():
        view = planner.put(bits, cloud, list(built), merge=merge)
        probe = probe_sql([write(column(key, source.alias)) for key in offer.keys], view, offer.shape, offer.types)
        pieces[cloud] = exp.Select(
            expressions=[column(name, source.alias) for name in source.relation.columns],
            from_=exp.From(this=derived(piece, source.alias)),
            where=exp.Where(this=parse_one(probe, dialect=DIALECT)),
        )
    planner.notes.append(
        f"a Bloom filter of {pivot.alias}'s keys ({offer.shape.bytes:,} bytes) reduces {source.alias} "
        f"to about {offer.kept:.1%} before it moves"
    )
    return replace(
        source.relation,
        pieces=pieces,
        tables={},
        rows=max(1.0, source.relation.rows * offer.kept),
        why=f"the rows of {source.alias} whose keys pass the filter of {pivot.alias}",
    )


def equalities(block: Block, number: int, pivot: int) -> list[tuple[str, str]]:
    """Pairs of columns, the pivot's first, that every row of the answer has equal if it has the source's row at all."""
    joins = block.select.args.get("joins") or []
    first = len(block.sources) - len(joins)
    conditions: list[exp.Expr] = []
    where = block.select.args.get("where")
    if where is not None:
        conditions += conjuncts(where.this)
    later = max(number, pivot)
    if later >= first:
        on = joins[later - first].args.get("on")
        conditions += conjuncts(on) if on is not None else []
    names = (block.sources[pivot].alias, block.sources[number].alias)
    found = []
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            sides = {
                side.table: side.name for side in (condition.left, condition.right) if isinstance(side, exp.Column)
            }
            if set(sides) == set(names):
                found.append((sides[names[0]], sides[names[1]]))
    return found


def _type(pair: tuple[str, str], source: Source, by: Source) -> str | None:
    """The type in which both keys are hashed."""
    mine, other = type_of_column(by.relation, pair[0]), type_of_column(source.relation, pair[1])
    if mine is None or other is None or mine not in _HASHED or other not in _HASHED:
        return None
    return wider(mine, other)
