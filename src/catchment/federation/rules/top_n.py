"""ORDER BY: each cloud gives its first n, one cloud the first n of those. Without LIMIT one cloud sorts all rows.

SELECT a FROM t ORDER BY b LIMIT 3 OFFSET 2
each: SELECT a, b AS _o0 FROM t ORDER BY _o0 LIMIT 5
home: SELECT a FROM partials ORDER BY _o0 LIMIT 3 OFFSET 2
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from catchment.federation.cloud import Purpose
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column, derived
from catchment.federation.rules.bind import Block
from catchment.federation.rules.limit import limits
from catchment.federation.rules.ship import ship

__all__ = ["order_by_outputs", "top_n"]


def top_n(planner: Planning, block: Block) -> Relation | None:
    """Fits rows with ORDER BY, also by expressions that are not selected."""
    select = block.select
    order = select.args.get("order")
    if order is None:
        return None
    found = limits(select)
    if found is None or order.args.get("siblings") or any(_is_all(key) for key in order.expressions):
        return ship(planner, block, "its order or LIMIT is not plain")
    count, offset = found
    names = tuple(f"_c{number}" for number in range(len(block.columns)))
    keys = tuple(f"_o{number}" for number in range(len(order.expressions)))
    each, sorting = _with_keys(select, block.columns, names, keys)
    if count is not None:
        each.set("order", exp.Order(expressions=[key.copy() for key in sorting]))
        each.set("limit", exp.Limit(expression=exp.Literal.number(count + offset)))
    partial = Relation(
        {cloud: block.fill(planner, each, cloud, parts=True) for cloud in block.targets},
        (*names, *keys),
        block.standin(each),
        block.rows() if count is None else min(block.rows(), float((count + offset) * len(block.targets))),
        block.width(),
        purpose=Purpose.PARTIAL if count is not None else Purpose.ROWS,
        why="the first of each cloud" if count is not None else "all rows, to be sorted",
    )

    def final(source: exp.Query) -> exp.Select:
        outputs = [
            exp.alias_(column(inner, "p"), outer, quoted=True)
            for inner, outer in zip(names, block.columns, strict=True)
        ]
        query = exp.Select(
            expressions=outputs,
            from_=exp.From(this=derived(source, "p")),
            order=exp.Order(expressions=[_of_partials(key) for key in sorting]),
        )
        for part in ("limit", "offset"):
            node = select.args.get(part)
            query.set(part, node.copy() if node is not None else None)
        return query

    return Relation(
        {planner.home: final(planner.whole(partial, planner.home))},
        block.columns,
        final(partial.standin),
        partial.rows if count is None else float(count),
        block.width(),
        why="the first of all clouds" if count is not None else "sorted",
    )


def order_by_outputs(query: exp.Query, columns: Sequence[str]) -> list[exp.Expr] | None:
    """The keys of ORDER BY if all of them are columns that the query gives; empty if there is no order."""
    order = query.args.get("order")
    if order is None:
        return []
    keys = []
    for key in order.expressions:
        inner = key.this
        if not (isinstance(inner, exp.Column) and not inner.table and inner.name in columns):
            return None
        keys.append(key.copy())
    return keys


def _with_keys(
    select: exp.Select, columns: Sequence[str], names: Sequence[str], keys: Sequence[str]
) -> tuple[exp.Select, list[exp.Expr]]:
    """The block with its order keys as columns beside what it selects, and the keys by these names."""
    each = select.copy()
    values = {name: projection.unalias() for name, projection in zip(columns, select.expressions, strict=True)}
    outputs: list[exp.Expr] = [
        exp.alias_(projection.unalias().copy(), name, quoted=True)
        for projection, name in zip(select.expressions, names, strict=True)
    ]
    sorting: list[exp.Expr] = []
    for key, name in zip(select.args["order"].expressions, keys, strict=True):
        value = _expanded(key.this, values)
        outputs.append(exp.alias_(value, name, quoted=True))
        ordered = key.copy()
        ordered.set("this", column(name))
        sorting.append(ordered)
    each.set("expressions", outputs)
    for part in ("order", "limit", "offset"):
        each.set(part, None)
    return each, sorting


def _expanded(value: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    """A key in which names of outputs are what they stand for."""

    def output(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in values:
            return values[node.name].copy()
        return node

    return value.copy().transform(output)


def _of_partials(key: exp.Expr) -> exp.Expr:
    key = key.copy()
    key.set("this", column(key.this.name, "p"))
    return key


def _is_all(key: exp.Expr) -> bool:
    return (
        isinstance(key.this, exp.Var | exp.Column) and key.this.name.lower() == "all" and not key.find(exp.Identifier)
    )
