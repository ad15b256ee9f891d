"""Aggregates in two steps: each cloud makes partial ones of its rows, one cloud the final ones of the partials.

    SELECT a, avg(b) FROM t GROUP BY a
    each: SELECT a AS _k0, sum(b) AS _p0, count(b) AS _p1 FROM t GROUP BY a
    home: SELECT _k0, sum(_p0) / sum(_p1) FROM partials GROUP BY _k0

Where groups are many, each cloud makes the final ones of a share of them (`deal.py`), if no clause needs all at once.
HAVING, ORDER BY, LIMIT, windows over aggregates, ROLLUP, CUBE and GROUPING SETS belong to the final step: the partials
are those of the finest groups, and they can be added up in any way. How each function is split is in `aggregates.py`;
if one of them cannot be, the rows go to one cloud.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from catchment.federation.cloud import Purpose
from catchment.federation.estimates import row_width
from catchment.federation.functions import AGGREGATES
from catchment.federation.grants import function_name
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column, derived
from catchment.federation.rules.aggregates import Partials, of_one_row, split
from catchment.federation.rules.bind import Block
from catchment.federation.rules.count_groups import count_groups
from catchment.federation.rules.deal import are_many, deal, deal_scattered, gather, may_deal
from catchment.federation.rules.ship import ship
from catchment.federation.rules.types import types_of

__all__ = ["split_aggregates"]

FEW_ROWS = 4
"""Of a group in a cloud: with fewer, partial groups of tasks are hardly fewer than rows."""
MOST_READS = 3
"""Of a table, instead of keeping its groups: as many as there are clouds."""
_FINAL_CLAUSES = ("having", "order", "limit", "offset", "distinct", "qualify", "windows")
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


class _NotSplit(Exception):  # noqa: N818 - it never leaves this file
    """Why a block has no partial aggregates."""


def split_aggregates(planner: Planning, block: Block) -> Relation | None:
    """Fits a block with GROUP BY or an aggregate."""
    select = block.select
    aggregates = list(_aggregates(select))
    if not aggregates and select.args.get("group") is None and select.args.get("having") is None:
        return None
    try:
        return _split(planner, block)
    except _NotSplit as reason:
        return ship(planner, block, str(reason))


def _split(planner: Planning, block: Block) -> Relation:
    select = block.select
    if any(block.is_correlated(place) for place in _final_places(select)):
        raise _NotSplit("a subquery beside its aggregates names columns of its rows")
    keys = _keys(select)
    partials = Partials(lambda values: types_of(planner, block, values))
    final = exp.Select()
    names = {key: f"_k{number}" for number, key in enumerate(keys)}
    partials.prepare(_aggregates(select))
    final.set(
        "expressions",
        [
            exp.alias_(_replaced(projection.unalias(), names, partials), name, quoted=True)
            for projection, name in zip(select.expressions, block.columns, strict=True)
        ],
    )
    for clause in _FINAL_CLAUSES:
        node = select.args.get(clause)
        if isinstance(node, list):
            final.set(clause, [_replaced(one, names, partials) for one in node])
        elif node is not None:
            final.set(clause, _replaced(node, names, partials))
    group = select.args.get("group")
    if group is not None and keys:
        if group.args.get("all"):
            final.set("group", exp.Group(expressions=[column(name, "p") for name in names.values()]))
        else:
            final.set("group", _replaced(group, names, partials))
    _check_columns(final)
    return _both_steps(planner, block, names, partials, final)


def _both_steps(
    planner: Planning, block: Block, names: dict[exp.Expr, str], partials: Partials, final: exp.Select
) -> Relation:
    outputs: list[exp.Expr] = [exp.alias_(key.copy(), name, quoted=True) for key, name in names.items()]
    outputs += [exp.alias_(value.copy(), name, quoted=True) for value, name in partials.values.items()]
    outputs += [exp.alias_(value.copy(), name, quoted=True) for value, name in partials.extra_keys.items()]
    if not outputs:
        outputs = [exp.alias_(exp.Count(this=exp.Star()), "_p0", quoted=True)]
    each = _before_groups(block.select, outputs)
    groups = [_not_a_place(key.copy()) for key in (*names, *partials.extra_keys)]
    if groups:
        each.set("group", exp.Group(expressions=groups))
    columns = tuple(output.alias for output in outputs)
    expected = 1.0 if not groups else max(1.0, block.rows() * min(0.5, 0.05 * len(groups)))
    partial = Relation(
        {cloud: block.fill(planner, each, cloud, parts=True) for cloud in block.targets},
        columns,
        block.standin(each),
        expected * (1 if groups else len(block.targets)),
        row_width(["double"] * len(columns)),
        purpose=Purpose.PARTIAL,
        why=f"partial aggregates of each cloud; {block.why}",
    )
    partial, dealt = _dealt(planner, block, names, partials, partial, final)

    def over(source: exp.Query, cloud: str) -> exp.Select:
        query = block.fill(planner, final, cloud)
        query.set("from_", exp.From(this=derived(source, "p")))
        return query

    def nothing() -> exp.Select:
        query = block.standin(final)
        query.set("from_", exp.From(this=derived(partial.standin, "p")))
        return query

    if dealt is not None:
        pieces = {cloud: over(source, cloud) for cloud, source in dealt.pieces.items()}
        if not partials.extra_keys:  # otherwise there are as many rows of a group as it has values to count
            keys = [column(name, "p") for name in names.values()]
            pieces = {cloud: gather(piece, columns, keys) for cloud, piece in pieces.items()}
        why = dealt.why
    else:
        pieces = {planner.home: over(planner.whole(partial, planner.home), planner.home)}
        why = "final aggregates of the clouds' partial ones"
    rows = partial.rows if groups else 1.0
    return Relation(pieces, block.columns, nothing(), rows, block.width(), stable=block.stable, why=why)


def _dealt(
    planner: Planning,
    block: Block,
    names: dict[exp.Expr, str],
    partials: Partials,
    partial: Relation,
    final: exp.Select,
) -> tuple[Relation, Relation | None]:
    """Partial groups, as many as a sample shows; and the same dealt out to the clouds, if they are many."""
    if not block.outermost or not _each_group_alone(final) or not are_many(partial):
        return partial, None
    if not may_deal(planner, partial, lambda: types_of(planner, block, list(names))):
        return partial, None
    counted = None if partials.extra_keys else count_groups(planner, block, list(names))
    if counted is not None:
        partial = replace(partial, rows=counted.groups * len(block.targets))
    if not are_many(partial):
        return partial, None
    keys = tuple(names.values())
    if counted is None or counted.rows >= FEW_ROWS * counted.groups or len(block.targets) > MOST_READS:
        return partial, deal(planner, partial, keys)
    (source,) = block.sources
    rows = _rows(planner, block, names, partials) or partial.pieces
    return partial, deal_scattered(
        planner, partial, rows, keys, lambda piece: gather(piece, source.relation.columns, list(names))
    )


def _rows(
    planner: Planning, block: Block, names: dict[exp.Expr, str], partials: Partials
) -> dict[str, exp.Query] | None:
    """Each cloud's rows in the form of partial groups, as if each were a group; None if a function has no such form."""
    outputs: list[exp.Expr] = [exp.alias_(key.copy(), name, quoted=True) for key, name in names.items()]
    values = list(partials.values)
    for value, kind in zip(values, types_of(planner, block, values) if values else (), strict=True):
        row = of_one_row(value, kind)
        if row is None:
            return None
        outputs.append(exp.alias_(row, partials.values[value], quoted=True))
    each = _before_groups(block.select, outputs)
    return {cloud: block.fill(planner, each, cloud, parts=True) for cloud in block.targets}


def _before_groups(select: exp.Select, outputs: list[exp.Expr]) -> exp.Select:
    """A block without what comes after its rows are joined and filtered, and with these outputs."""
    each = select.copy()
    for clause in (*_FINAL_CLAUSES, "group"):
        each.set(clause, None)
    each.set("expressions", outputs)
    return each


def _each_group_alone(final: exp.Select) -> bool:
    """Whether a row of the final step comes from one group of all keys, and no clause is about several."""
    group = final.args.get("group")
    if group is None or any(final.args.get(clause) for clause in _FINAL_CLAUSES if clause != "having"):
        return False
    if any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets")) or group.find(*_SETS):
        return False
    return all(node is final for node in final.find_all(exp.Window, exp.Query))


def _not_a_place(key: exp.Expr) -> exp.Expr:
    """A key to group by: a bare number, of count(DISTINCT -2), would be the place of a column to Spark."""
    number = key.this if isinstance(key, exp.Neg) else key
    return exp.func("COALESCE", key) if isinstance(number, exp.Literal) and number.is_int else key


def _aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    """The aggregate calls of a block, with their FILTER; not those that a window makes of rows."""
    for place in _final_places(select):
        yield from _calls(place)


def _final_places(select: exp.Select) -> list[exp.Expr]:
    """The parts of a block that come after its groups."""
    places = [*select.expressions, *(select.args.get(name) for name in ("having", "order", "qualify"))]
    return [place for place in places if place is not None]


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Query):
        return
    if _is_call(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from _calls(child)


def _is_call(node: exp.Expr) -> bool:
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return False
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return _is_aggregate(node.this) or _is_call_inside(node)
    return _is_aggregate(node)


def _is_call_inside(node: exp.Expr) -> bool:
    inner = node.this
    while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return _is_aggregate(inner)


def _is_aggregate(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Func):
        return False
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return False
    return function_name(node) in AGGREGATES


def _keys(select: exp.Select) -> list[exp.Expr]:
    """The expressions by which a block groups, each once, in whatever sets they stand."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        values = [projection.unalias() for projection in select.expressions]
        return list(dict.fromkeys(value for value in values if not any(True for _ in _calls(value))))
    if group.args.get("totals"):
        raise _NotSplit("GROUP BY … WITH TOTALS")
    found: dict[exp.Expr, None] = {}
    for key in (*group.expressions, *_sets(group)):
        for part in _flat(key):
            if isinstance(part, exp.Literal) and part.is_int:
                raise _NotSplit("it groups by the place of a column")
            found[part] = None
    return list(found)


def _sets(group: exp.Group) -> Iterator[exp.Expr]:
    for name in ("rollup", "cube", "grouping_sets"):
        yield from group.args.get(name) or []


def _flat(key: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(key, (*_SETS, exp.Tuple)):
        for part in key.expressions:
            yield from _flat(part)
    elif isinstance(key, exp.Paren):
        yield from _flat(key.this)
    else:
        yield key


def _replaced(node: exp.Expr, names: dict[exp.Expr, str], partials: Partials) -> exp.Expr:
    """A part of the final step: keys and aggregates are those of the partials."""
    if node in names:
        return column(names[node], "p")
    if isinstance(node, exp.Query):
        return node.copy()
    if _is_call(node):
        made = split(node, partials)
        if made is None:
            raise _NotSplit(f"{_call_name(node)} has no partial form")
        return made
    fresh = type(node)()
    for key, value in node.args.items():
        if isinstance(value, list):
            fresh.set(key, [_replaced(one, names, partials) if isinstance(one, exp.Expr) else one for one in value])
        elif isinstance(value, exp.Expr):
            fresh.set(key, _replaced(value, names, partials))
        else:
            fresh.set(key, value)
    return fresh


def _call_name(node: exp.Expr) -> str:
    while isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    assert isinstance(node, exp.Func)
    return function_name(node)


def _check_columns(final: exp.Select) -> None:
    """A column that is neither a key nor in an aggregate: Spark may see that it is one, we do not."""
    for part in final.find_all(exp.Column):
        if part.table and part.table != "p":
            raise _NotSplit(f"column {part.name} stands outside the keys and aggregates")
