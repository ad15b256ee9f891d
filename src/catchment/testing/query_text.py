"""A SELECT as clauses that can be dropped: written as Spark's SQL, and shrunk when it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Body", "Cte", "Item", "Select", "SetOperation", "Source", "shrink", "text"]


@dataclass(frozen=True, slots=True)
class Item:
    """An output column: its expression, its name unless Spark shall choose it, its family (None: not for comparing)."""

    sql: str
    name: str | None = None
    family: str | None = None

    def text(self) -> str:
        return self.sql if self.name is None else f"{self.sql} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Source:
    """A relation of FROM: a table's name or a query, its alias, how it is joined to those before it."""

    relation: str | Body
    alias: str
    join: str = ""
    on: str = ""

    def text(self) -> str:
        relation = self.relation if isinstance(self.relation, str) else f"({text(self.relation)})"
        named = relation if self.alias == relation else f"{relation} AS {self.alias}"
        return f"{self.join} {named} {self.on}".strip()


@dataclass(frozen=True, slots=True)
class Cte:
    """A named query before a SELECT."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class Select:
    """One block. `order` is total over the output whenever there is a `limit`, so that the answer is unique."""

    items: tuple[Item, ...]
    sources: tuple[Source, ...] = ()
    where: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    grouping: str = ""
    having: tuple[str, ...] = ()
    distinct: bool = False
    order: tuple[str, ...] = ()
    limit: str = ""
    ctes: tuple[Cte, ...] = ()


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Two blocks and what stands between them."""

    operator: str
    left: Body
    right: Body
    order: tuple[str, ...] = ()
    limit: str = ""
    ctes: tuple[Cte, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        return self.left.items


Body = Select | SetOperation
T = TypeVar("T")


def text(body: Body) -> str:
    """The SQL.

    >>> text(Select((Item("a"), Item("1", "one")), (Source("t", "t"),), where=("a > 1",)))
    'SELECT a, 1 AS one FROM t WHERE a > 1'
    """
    parts = []
    if body.ctes:
        parts.append("WITH " + ", ".join(f"{cte.name} AS ({text(cte.body)})" for cte in body.ctes))
    if isinstance(body, SetOperation):
        parts.append(f"{_operand(body.left)} {body.operator} {_operand(body.right)}")
    else:
        parts.append(f"SELECT {'DISTINCT ' if body.distinct else ''}{', '.join(item.text() for item in body.items)}")
        if body.sources:
            parts.append("FROM " + " ".join(source.text() for source in body.sources))
        if body.where:
            parts.append("WHERE " + " AND ".join(body.where))
        if body.group:
            parts.append("GROUP BY " + (body.grouping or "{}").format(", ".join(body.group)))
        if body.having:
            parts.append("HAVING " + " AND ".join(body.having))
    if body.order:
        parts.append("ORDER BY " + ", ".join(body.order))
    if body.limit:
        parts.append(body.limit)
    return " ".join(parts)


def shrink(body: Body, fails: Callable[[Body], bool], *, tries: int = 150) -> Body:
    """The smallest query found by dropping clauses, one at a time, that still fails."""
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in sorted(set(_smaller(body)), key=lambda each: len(text(each))):
            tries -= 1
            if tries < 0:
                break
            if len(text(smaller)) < len(text(body)) and fails(smaller):
                body, progress = smaller, True
                break
    return body


def _operand(body: Body) -> str:
    plain = isinstance(body, Select) and not (body.order or body.limit or body.ctes)
    return text(body) if plain else f"({text(body)})"


def _smaller(body: Body) -> Iterator[Body]:
    replace = dataclasses.replace
    if body.limit:
        yield replace(body, limit="")
    elif body.order:
        yield replace(body, order=())
    for place, cte in enumerate(body.ctes):
        yield cte.body
        yield replace(body, ctes=_without(body.ctes, place))
        for small in _smaller(cte.body):
            yield replace(body, ctes=_with(body.ctes, place, Cte(cte.name, small)))
    if isinstance(body, SetOperation):
        for side in ("left", "right"):
            part = getattr(body, side)
            yield replace(part, ctes=body.ctes + part.ctes)
            for small in _smaller(part):
                if side == "right" or len(small.items) == len(part.items):
                    yield replace(body, **{side: small})
        return
    if body.distinct:
        yield replace(body, distinct=False)
    for clause in ("where", "having", "group", "items"):
        parts = getattr(body, clause)
        if clause == "items" and (len(parts) == 1 or body.limit or body.order):
            continue
        for place in range(len(parts)):
            yield replace(body, **{clause: _without(parts, place)})
    for place, source in enumerate(body.sources):
        if len(body.sources) > 1:
            rest = _without(body.sources, place)
            yield replace(body, sources=(replace(rest[0], join="", on=""), *rest[1:]))
        if not isinstance(source.relation, str):
            yield source.relation
            for small in _smaller(source.relation):
                yield replace(body, sources=_with(body.sources, place, replace(source, relation=small)))


def _without(parts: tuple[T, ...], place: int) -> tuple[T, ...]:
    return parts[:place] + parts[place + 1 :]


def _with(parts: tuple[T, ...], place: int, part: T) -> tuple[T, ...]:
    return (*parts[:place], part, *parts[place + 1 :])
