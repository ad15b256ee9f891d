"""UNION ALL in each cloud; UNION, INTERSECT and EXCEPT where one cloud has both sides.

    SELECT a FROM t UNION ALL SELECT b FROM u
    each: SELECT a FROM t UNION ALL SELECT b FROM u

A cloud that has nothing of one side takes a stand-in for it, a query of the same types without rows, because the types
of a union are made of both sides'.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from catchment.federation.cloud import Purpose
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, Unplanned, column, derived, name_of
from catchment.federation.rules.distinct import distinct_at_home
from catchment.federation.rules.limit import limits
from catchment.federation.rules.top_n import order_by_outputs

__all__ = ["set_operation"]


def set_operation(planner: Planning, query: exp.SetOperation, env: Mapping[str, Relation]) -> Relation:
    """A set operation as a relation."""
    if query.args.get("by_name") or query.args.get("on") or query.side or query.kind:
        raise Unplanned("a set operation by name")
    sides = [planner.relation(side, env) for side in (query.left, query.right)]
    sides = [planner.settled(side) if _is_sliced(side) else side for side in sides]
    columns = sides[0].columns
    if len(set(columns)) < len(columns):
        raise Unplanned("a set operation with two columns of one name")
    order = order_by_outputs(query, columns)
    if order is None:
        raise Unplanned("a set operation is ordered by an expression")
    if isinstance(query, exp.Union):
        every = _union_all(sides, columns)
        if query.args.get("distinct"):
            every = every.mapped(_distinct, purpose=Purpose.PARTIAL, why="the distinct rows of each cloud")
            return distinct_at_home(planner, every, order, query, stable=_is_stable(query))
        return _ordered(planner, every, order, query)
    return _at_home(planner, query, sides, columns, order)


def _union_all(sides: list[Relation], columns: tuple[str, ...]) -> Relation:
    clouds = dict.fromkeys(cloud for side in sides for cloud in side.pieces)
    rows = sum(side.rows for side in sides)
    standin = _union(sides[0].standin, sides[1].standin, columns)
    if not clouds:
        return Relation({}, columns, standin, rows, sides[0].width, constant=standin)
    first = next(iter(clouds))
    pieces: dict[str, exp.Query] = {}
    for cloud in clouds:
        parts = []
        for side in sides:
            if side.constant is not None:
                parts.append(side.constant if cloud == first else _nothing(side.constant))
            else:
                parts.append(side.pieces.get(cloud) or _nothing(side.standin))
        pieces[cloud] = _union(parts[0], parts[1], columns)
    shares = {
        cloud: sum(side.bytes_of(cloud) for side in sides) / max(1.0, sum(side.bytes for side in sides))
        for cloud in clouds
    }
    return Relation(
        pieces,
        columns,
        standin,
        rows,
        max(side.width for side in sides),
        shares,
        stable=all(side.stable for side in sides),
        why="both sides in each cloud",
    )


def _union(left: exp.Query, right: exp.Query, columns: tuple[str, ...]) -> exp.Select:
    both = exp.Union(this=_bare(left), expression=_bare(right), distinct=False)
    return exp.Select(
        expressions=[column(name, "_both") for name in columns],
        from_=exp.From(this=derived(both, "_both")),
    )


def _bare(query: exp.Query) -> exp.Query:
    """A side that has an order or a limit is put in parentheses."""
    if any(query.args.get(part) for part in ("order", "limit", "offset")):
        return exp.Subquery(this=query.copy())
    return query.copy()


def _nothing(query: exp.Query) -> exp.Select:
    return exp.Select(
        expressions=[exp.Star()], from_=exp.From(this=derived(query, "_none")), where=exp.Where(this=exp.false())
    )


def _distinct(query: exp.Query) -> exp.Query:
    assert isinstance(query, exp.Select)
    query = query.copy()
    query.set("distinct", exp.Distinct())
    return query


def _ordered(planner: Planning, every: Relation, order: list[exp.Expr], query: exp.Query) -> Relation:
    """UNION ALL with the order and limit of the whole."""
    found = limits(query)
    if found is None:
        raise Unplanned("a LIMIT that is an expression")
    count, offset = found
    if not order and count is None and not offset:
        return every

    def cut(part: exp.Query) -> exp.Query:
        part = part.copy()
        part.set("order", exp.Order(expressions=[key.copy() for key in order]) if order else None)
        if count is not None:
            part.set("limit", exp.Limit(expression=exp.Literal.number(count + offset)))
        return part

    partial = every.mapped(cut, purpose=Purpose.PARTIAL) if count is not None else every
    cloud = planner.home if len(every.pieces) != 1 else next(iter(every.pieces))

    def final(source: exp.Query) -> exp.Query:
        select = exp.Select(
            expressions=[column(name, "p") for name in every.columns], from_=exp.From(this=derived(source, "p"))
        )
        select.set("order", exp.Order(expressions=[key.copy() for key in order]) if order else None)
        for clause in ("limit", "offset"):
            node = query.args.get(clause)
            select.set(clause, node.copy() if node is not None else None)
        return select

    return Relation(
        {cloud: final(planner.whole(partial, cloud))},
        every.columns,
        final(every.standin),
        every.rows,
        every.width,
        stable=bool(order),
        why="ordered and cut",
    )


def _at_home(
    planner: Planning, query: exp.SetOperation, sides: list[Relation], columns: tuple[str, ...], order: list[exp.Expr]
) -> Relation:
    """INTERSECT and EXCEPT: both sides go to one cloud, without repeated rows unless they count."""
    if query.args.get("distinct"):
        sides = [_distinct_side(side) for side in sides]
    cloud = planner.cheapest(sides)

    def final(left: exp.Query, right: exp.Query) -> exp.Query:
        both = query.copy()
        for clause in ("with_", "order", "limit", "offset"):
            both.set(clause, None)
        both.set("this", _bare(left))
        both.set("expression", _bare(right))
        select = exp.Select(
            expressions=[column(name, "_both") for name in columns], from_=exp.From(this=derived(both, "_both"))
        )
        select.set("order", exp.Order(expressions=[key.copy() for key in order]) if order else None)
        for clause in ("limit", "offset"):
            node = query.args.get(clause)
            select.set(clause, node.copy() if node is not None else None)
        return select

    planner.notes.append(f"both sides of {query.key.upper()} go to {cloud}: it compares all rows")
    return Relation(
        {cloud: final(*[planner.whole(side, cloud) for side in sides])},
        columns,
        final(*[side.standin for side in sides]),
        sides[0].rows,
        sides[0].width,
        stable=_is_stable(query),
        why="both sides in one cloud",
    )


def _distinct_side(side: Relation) -> Relation:
    return side.mapped(lambda part: _distinct(_over(part, side.columns)), purpose=Purpose.PARTIAL, scan=False)


def _over(part: exp.Query, columns: tuple[str, ...]) -> exp.Select:
    return exp.Select(
        expressions=[exp.column(name_of(name)) for name in columns], from_=exp.From(this=derived(part, "_side"))
    )


def _is_sliced(relation: Relation) -> bool:
    return relation.limit is not None or relation.offset > 0


def _is_stable(query: exp.Query) -> bool:
    return query.args.get("limit") is None or query.args.get("order") is not None
