"""Where a block runs: in every cloud that holds a part of its pivot, or in one.

A relation may be the pivot if the block over the union of its parts is the union of the block over each part. Inner and
cross joins allow it on both sides; an outer, semi or anti join only on the side whose rows it keeps; a full join on
neither. Of those that may, and of the clouds to which all could go instead, the cheapest in bytes over borders wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block
from catchment.federation.rules.bloom_join import BloomOffer, bloom_offer, reduced
from catchment.federation.rules.probe_index import probe_index

__all__ = ["place"]

_INNER = ("", "INNER", "CROSS")
_ANY_BYTE = 1e-9
"""What a byte costs where it costs nothing: of two plans that are free the one that moves less is taken."""


def place(planner: Planning, block: Block) -> Block:
    """The block with its targets, its pivot and the reason."""
    relations = block.relations()
    clouds = dict.fromkeys(cloud for relation in relations for cloud in relation.pieces)
    if not clouds:
        return replace(block, targets=(), why="it reads no table")
    if len(clouds) == 1:
        (only,) = clouds
        return replace(block, targets=(only,), why=f"all that it reads is in {only}")
    single = planner.cheapest(relations)
    together = _cost_of_one(planner, relations, single)
    choices = [(_cost_of_pivot(planner, block, number), number) for number in _pivots(block)]
    if choices:
        cost, number = min(choices)
        if cost <= together:
            return _at_pivot(planner, block, number)
    return replace(block, targets=(single,), why=f"it costs least to bring what it reads to {single}")


def _at_pivot(planner: Planning, block: Block, number: int) -> Block:
    pivot = block.sources[number]
    if len(block.relations()) == 1:
        why = "each cloud answers for its part"
    else:
        why = f"{pivot.alias} stays where it is, the other relations go there"
    placed = replace(block, targets=tuple(pivot.relation.pieces), pivot=number, why=why)
    smaller = {}
    for other, source in enumerate(block.sources):
        offer = _offer(planner, block, other, number)
        if offer is not None and _bloom_cost(planner, source.relation, pivot.relation, offer) < _move_cost(
            planner, source.relation, pivot.relation
        ):
            smaller[other] = reduced(planner, placed, other, offer)
    return probe_index(planner, replace(placed, reduced=smaller))


def _offer(planner: Planning, block: Block, number: int, pivot: int) -> BloomOffer | None:
    relation = block.sources[number].relation
    if number == pivot or set(relation.pieces) == set(block.sources[pivot].relation.pieces) == {planner.home}:
        return None
    return bloom_offer(block, number, pivot)


def _pivots(block: Block) -> Iterator[int]:
    """The sources that may be the pivot."""
    for number, source in enumerate(block.sources):
        if not source.relation.pieces or source.relation.limit is not None or source.relation.offset:
            continue
        own = number == 0 or ((source.side == "RIGHT" or not source.side) and source.kind in (*_INNER, "OUTER"))
        later = block.sources[number + 1 :]
        if own and all(_keeps_left(join.side, join.kind) for join in later):
            yield number


def _keeps_left(side: str, kind: str) -> bool:
    if kind in ("SEMI", "ANTI"):
        return side in ("", "LEFT")
    return side in ("", "LEFT")


def _cost_of_pivot(planner: Planning, block: Block, number: int) -> float:
    """The price of bringing every other relation whole to the pivot's clouds."""
    pivot = block.sources[number].relation
    cost = 0.0
    for other, source in enumerate(block.sources):
        if other != number:
            plain = _move_cost(planner, source.relation, pivot)
            offer = _offer(planner, block, other, number)
            cost += plain if offer is None else min(plain, _bloom_cost(planner, source.relation, pivot, offer))
    return cost + sum(_move_cost(planner, relation, pivot) for relation in block.relations()[len(block.sources) :])


def _move_cost(planner: Planning, relation: Relation, pivot: Relation) -> float:
    """The price of a relation's bytes, once out of its clouds and into each of the pivot's."""
    cost = 0.0
    for source in relation.pieces:
        size = relation.bytes_of(source)
        there = [target for target in pivot.pieces if target != source]
        cost += size * (planner.prices[source][1] if there else 0.0)
        cost += sum(size * (planner.prices[target][0] + _ANY_BYTE) for target in there)
    return cost


def _bloom_cost(planner: Planning, relation: Relation, pivot: Relation, offer: BloomOffer) -> float:
    """The price of the filter, at the mean of all prices, and of what passes it."""
    prices = [price + _ANY_BYTE for cloud in planner.prices.values() for price in cloud]
    filters = offer.cost * sum(prices) / len(prices)
    return filters + offer.kept * _move_cost(planner, relation, pivot)


def _cost_of_one(planner: Planning, relations: list[Relation], cloud: str) -> float:
    cost = 0.0
    for relation in relations:
        for source in relation.pieces:
            if source != cloud:
                size = relation.bytes_of(source)
                cost += size * (planner.prices[source][1] + planner.prices[cloud][0] + _ANY_BYTE)
    return cost
