"""Move the conditions that concern one relation into it, so that they are applied where its rows are.

    SELECT … FROM t JOIN u ON t.a = u.a AND u.c > 1 WHERE t.b = 2
    t gets  t.b = 2,  u gets  u.c > 1

A condition of WHERE may not move into a relation that an outer join fills with nulls: `WHERE u.c IS NULL` after a LEFT
JOIN asks for the rows without a partner. One of ON may move into the side of an outer join that is not preserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

__all__ = ["Pushed", "conjuncts", "push_filters"]

Pushed = dict[str, list[exp.Expr]]


def push_filters(select: exp.Select, aliases: Sequence[str]) -> Pushed:
    """Take such conditions out of a SELECT, in place; those of each relation by its alias."""
    pushed: Pushed = {}
    joins: Sequence[exp.Join] = select.args.get("joins") or []
    open_to_nulls = _filled_with_nulls(joins, aliases)
    where = select.args.get("where")
    if where is not None:
        kept = []
        for condition in conjuncts(where.this):
            alias = _one_alias(condition, aliases)
            if alias is None or alias in open_to_nulls:
                kept.append(condition)
            else:
                pushed.setdefault(alias, []).append(condition)
        select.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
    first = len(aliases) - len(joins)
    for number, join in enumerate(joins):
        on = join.args.get("on")
        if on is None:
            continue
        movable = _movable(join, aliases[first + number], aliases[: first + number], open_to_nulls)
        kept = []
        for condition in conjuncts(on):
            alias = _one_alias(condition, aliases)
            if alias in movable:
                pushed.setdefault(str(alias), []).append(condition)
            else:
                kept.append(condition)
        join.set("on", exp.and_(*kept, copy=False) if kept else exp.true())
    return pushed


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of an AND."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [part for side in (condition.left, condition.right) for part in conjuncts(side)]
    return [condition]


def _filled_with_nulls(joins: Sequence[exp.Join], aliases: Sequence[str]) -> set[str]:
    first = len(aliases) - len(joins)
    found: set[str] = set()
    for number, join in enumerate(joins):
        if join.kind.upper() in ("SEMI", "ANTI"):
            continue
        side = join.side.upper()
        if side in ("LEFT", "FULL"):
            found.add(aliases[first + number])
        if side in ("RIGHT", "FULL"):
            found.update(aliases[: first + number])
    return found


def _movable(join: exp.Join, joined: str, before: Sequence[str], open_to_nulls: set[str]) -> set[str]:
    """The relations into which a condition of this ON may move."""
    side, kind = join.side.upper(), join.kind.upper()
    if kind in ("SEMI", "ANTI") or side == "LEFT":
        return {joined}
    if side == "RIGHT":
        return set(before) if len(before) == 1 else set()
    if side == "FULL":
        return set()
    return {joined, *before} - open_to_nulls


def _one_alias(condition: exp.Expr, aliases: Sequence[str]) -> str | None:
    """The one relation that a condition is about, if it is about one, and about nothing else."""
    if condition.find(exp.Query, exp.Window, exp.AggFunc) is not None:
        return None
    tables = {part.table for part in condition.find_all(exp.Column)}
    if len(tables) != 1:
        return None
    alias = tables.pop()
    return alias if alias in aliases else None
