"""Random queries by seed over the tables of a world, each with one right answer: what one Spark says about the union.

The grammar is wide on purpose: filters under three-valued logic, all kinds of joins, aggregates with DISTINCT, FILTER
and HAVING, roll-ups, subqueries, common tables used twice, set operations, windows, the hidden column `_cloud`. A LIMIT
stands only over an order that is total in the output, and nothing depends on the order of rows otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from catchment.testing.query_text import Body, Cte, Item, Select, SetOperation, Source, text
from catchment.testing.random_aggregates import Aggregates
from catchment.testing.random_expressions import FAMILIES, Expressions, Scope
from catchment.testing.random_tables import RandomTable, World

__all__ = ["RandomQuery", "random_query"]


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A query and what is known of its answer."""

    seed: int
    body: Body
    features: frozenset[str]
    uses_cloud: bool = False
    """Whether `_cloud` occurs; then no star does, which would show it in one Spark and not in a federation."""
    approximate: dict[str, float] = field(default_factory=dict, hash=False)
    """Columns that may differ from the exact ones by this share, since their functions are approximate."""

    @property
    def text(self) -> str:
        return text(self.body)

    @property
    def ordered(self) -> bool:
        """Whether the order of rows is part of the answer."""
        return bool(self.body.order)


def random_query(world: World, seed: int) -> RandomQuery:
    """The query of a seed over a world.

    >>> from catchment.testing.random_tables import random_world
    >>> random_query(random_world(1), 5) == random_query(random_world(1), 5)
    True
    """
    maker = _Maker(world, random.Random(f"{world.seed}/{seed}"))
    body = maker.query()
    return RandomQuery(seed, body, frozenset(maker.features), maker.uses_cloud, maker.approximate)


class _Maker:
    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._some = Expressions(rng)
        self._aggregates = Aggregates(rng, self._some)
        self._aliases = 0
        self.features: set[str] = set()
        self.uses_cloud = rng.random() < 0.12
        self.approximate: dict[str, float] = {}

    def query(self) -> Body:
        if not self.uses_cloud and self._rng.random() < 0.04:
            return self._approximate()
        shapes: list[tuple[int, Callable[[], Body]]] = [
            (8, lambda: self._rows(2)),
            (9, lambda: self._grouped(2)),
            (3, self._set_operation),
            (3, self._with),
            (2, self._windows),
            (1, self._star),
        ]
        body = self._rng.choices([make for _, make in shapes], [weight for weight, _ in shapes])[0]()
        if isinstance(body, Select) and self._rng.random() < 0.08 and "group by alias" not in self.features:
            self.features.add("names by Spark")
            return replace(body, items=tuple(replace(item, name=None) for item in body.items))
        return self._ordered(body)

    # --- relations ---

    def _table(self) -> RandomTable:
        return self._rng.choices(self._world.tables, (5, 4, 3, 1, 2))[0]

    def _alias(self) -> str:
        self._aliases += 1
        return self._rng.choice("abcdefg") + str(self._aliases)

    def _scope(self, table: RandomTable, alias: str) -> Scope:
        prefix = f"{alias}." if alias else ""
        columns = [(prefix + column.quoted, column.family) for column in table.columns]
        if self.uses_cloud:
            columns.append((f"{prefix}_cloud", "string"))
        return Scope(tuple(columns))

    def _source(self, depth: int) -> tuple[Source, Scope]:
        """A table or a derived one."""
        alias = self._alias()
        if depth > 0 and self._rng.random() < 0.25:
            self.features.add("derived table")
            body = self._rng.choice((self._rows, self._grouped))(depth - 1)
            return Source(body, alias), _output(body, alias)
        table = self._table()
        return Source(table.name, alias), self._scope(table, alias)

    def _from(self, depth: int) -> tuple[tuple[Source, ...], Scope]:
        """One to three relations, joined."""
        if self._rng.random() < 0.25:  # names without a qualifier
            table = self._table()
            return (Source(table.name, table.name),), self._scope(table, "")
        first, scope = self._source(depth)
        sources = [first]
        for _ in range(self._rng.choices((0, 1, 2), (5, 4, 1))[0]):
            source, other = self._source(depth)
            kind, on = self._join(scope, other)
            sources.append(replace(source, join=kind, on=on))
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                scope = scope + other
        return tuple(sources), scope

    def _join(self, left: Scope, right: Scope) -> tuple[str, str]:
        kind = self._rng.choices(
            ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"),
            (8, 5, 2, 2, 2, 2, 1),
        )[0]
        self.features.add(kind.lower())
        both = [family for family in FAMILIES if left.of(family) and right.of(family) and family != "boolean"]
        if kind == "CROSS JOIN" or not both:
            return ("CROSS JOIN", "")
        keys = self._rng.sample(both, min(len(both), self._rng.choices((1, 2), (4, 1))[0]))
        if len(keys) == 2:
            self.features.add("join on two keys")
        sign = "<=>" if self._rng.random() < 0.08 else "="
        parts = [f"{self._some.column(left, key)} {sign} {self._some.column(right, key)}" for key in keys]
        roll = self._rng.random()
        if roll < 0.12:
            self.features.add("join on an expression")
            parts = [f"{self._some.value(left, keys[0], 1)} = {self._some.value(right, keys[0], 1)}"]
        elif roll < 0.2:
            self.features.add("join on no equality")
            parts = [f"{self._some.column(left, keys[0])} < {self._some.column(right, keys[0])}"]
        if self._rng.random() < 0.2:
            parts.append(self._some.predicate(left + right, 1))
        return kind, "ON " + " AND ".join(parts)

    # --- blocks ---

    def _rows(self, depth: int) -> Select:
        """Rows of relations: filters and expressions."""
        sources, scope = self._from(depth)
        items = self._items(scope)
        distinct = self._rng.random() < 0.15
        if distinct:
            self.features.add("distinct")
        return Select(items, sources, self._where(scope, depth), distinct=distinct)

    def _items(self, scope: Scope) -> tuple[Item, ...]:
        items = []
        for place in range(self._rng.randint(1, 4)):
            family = self._rng.choice(scope.families() or ["int"])
            if family == "big":
                items.append(Item(self._some.column(scope, family), f"c{place}", family))
            else:
                items.append(Item(self._some.value(scope, family), f"c{place}", family))
        return tuple(items)

    def _where(self, scope: Scope, depth: int) -> tuple[str, ...]:
        where = [self._some.predicate(scope) for _ in range(self._rng.choices((0, 1, 2), (4, 5, 2))[0])]
        if depth > 0 and self._rng.random() < 0.2:
            where.append(self._subquery(scope))
        return tuple(where)

    def _subquery(self, scope: Scope) -> str:
        table, alias = self._table(), self._alias()
        inner = self._scope(table, alias)
        family = self._rng.choice([each for each in ("int", "string", "date", "decimal") if inner.of(each)])
        outer, column = self._some.column(scope, family), self._some.column(inner, family)
        where = f" WHERE {self._some.predicate(inner, 1)}" if self._rng.random() < 0.5 else ""
        kind = self._rng.choice(("in", "not in", "exists", "not exists", "scalar", "correlated scalar", "in or"))
        self.features.add(f"subquery: {kind}")
        key = f"{self._some.column(inner, 'int')} = {self._some.column(scope, 'int')}"
        match kind:
            case "in" | "not in":
                word = kind.upper()
                return f"{outer} {word} (SELECT {column} FROM {table.name} AS {alias}{where})"
            case "in or":
                inside = f"{outer} IN (SELECT {column} FROM {table.name} AS {alias}{where})"
                return f"({inside} OR {self._some.predicate(scope, 0)})"
            case "exists" | "not exists":
                more = f" AND {self._some.predicate(inner + scope, 0)}" if self._rng.random() < 0.3 else ""
                return f"{kind.upper()} (SELECT 1 FROM {table.name} AS {alias} WHERE {key}{more})"
            case "scalar":
                return f"{outer} >= (SELECT min({column}) FROM {table.name} AS {alias}{where})"
            case _:
                call = self._rng.choice(("count(*)", f"max({self._some.column(inner, 'int')})"))
                some = self._some.column(scope, "int")
                return f"{some} <= (SELECT {call} FROM {table.name} AS {alias} WHERE {key})"

    def _grouped(self, depth: int) -> Select:
        """Aggregates, with or without groups."""
        sources, scope = self._from(depth)
        where = self._where(scope, depth)
        keys, grouping = self._keys(scope)
        calls = tuple(
            self._aggregates.item(scope, f"a{place}", self.features) for place in range(self._rng.randint(1, 3))
        )
        having: tuple[str, ...] = ()
        if self._rng.random() < 0.25:
            self.features.add("having")
            having = (self._aggregates.condition(scope),)
        items = (*keys, *calls)
        if grouping:
            return Select(items, sources, where, tuple(key.sql for key in keys), grouping, having)
        style = self._rng.random()
        if keys and style < 0.2:
            self.features.add("group by ordinal")
            return Select(items, sources, where, tuple(str(place + 1) for place in range(len(keys))), "", having)
        if keys and style < 0.3:
            self.features.add("group by alias")
            return Select(items, sources, where, tuple(str(key.name) for key in keys), "", having)
        shown = items if not keys or style < 0.85 else calls
        return Select(shown, sources, where, tuple(key.sql for key in keys), "", having)

    def _keys(self, scope: Scope) -> tuple[tuple[Item, ...], str]:
        count = self._rng.choices((0, 1, 2), (3, 6, 3))[0]
        self.features.add("group by" if count else "whole aggregate")
        keys = []
        for place in range(count):
            family = self._rng.choice([each for each in scope.families() if each != "double"] or ["int"])
            depth = 1 if self._rng.random() < 0.4 and family != "big" else 0
            written = self._some.value(scope, family, depth) if depth else self._some.column(scope, family)
            if written[0] in "-'(0123456789" or "'" in written or written in ("true", "false"):
                family = self._rng.choice(("int", "string"))  # a literal is an ordinal
                written = self._some.column(scope, family)
            keys.append(Item(written, f"g{place}", family))
        keys = [key for key in keys if not key.sql[0].isdigit() and key.sql[0] not in "-'(" and "NULL" not in key.sql]
        if len({key.sql for key in keys}) < len(keys):
            keys = keys[:1]
        if keys and self._rng.random() < 0.12:
            grouping = self._rng.choice(("ROLLUP ({})", "CUBE ({})"))
            self.features.add(grouping.split()[0].lower())
            return tuple(keys), grouping
        return tuple(keys), ""

    # --- queries around blocks ---

    def _set_operation(self) -> Body:
        operator = self._rng.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        self.features.add(operator.lower())
        families = [self._rng.choice(("int", "string", "date", "boolean", "decimal")) for _ in range(2)]
        return SetOperation(operator, self._side(families), self._side(families))

    def _side(self, families: list[str]) -> Select:
        sources, scope = self._from(1)
        items = [Item(self._some.value(scope, family, 1), f"c{at}", family) for at, family in enumerate(families)]
        return Select(tuple(items), sources, self._where(scope, 0))

    def _with(self) -> Body:
        """A common table, used once or twice."""
        body = self._rng.choice((self._rows, self._grouped))(1)
        left, right = _output(body, "l"), _output(body, "r")
        families = [family for family in left.families() if family not in ("boolean", "double")]
        name = "common"
        if not families or self._rng.random() < 0.3:
            self.features.add("common table")
            scope = _output(body, name)
            return Select(self._items(scope), (Source(name, name),), self._where(scope, 1), ctes=(Cte(name, body),))
        self.features.add("common table twice")
        family = self._rng.choice(families)
        on = f"ON {self._some.column(left, family)} = {self._some.column(right, family)}"
        kind = self._rng.choice(("JOIN", "LEFT JOIN", "LEFT ANTI JOIN"))
        scope = left if kind == "LEFT ANTI JOIN" else left + right
        sources = (Source(name, "l"), Source(name, "r", kind, on))
        return Select(self._items(scope), sources, self._where(scope, 0), ctes=(Cte(name, body),))

    def _windows(self) -> Body:
        """Window functions whose values do not depend on how ties fall."""
        self.features.add("window")
        table = self._table()
        scope = self._scope(table, "w")
        part = f"PARTITION BY {self._some.column(scope, self._rng.choice(('int', 'string')))} "
        over = part if self._rng.random() < 0.7 else ""
        every = ", ".join(f"{name}{self._rng.choice(('', ' DESC', ' NULLS LAST'))}" for name, _ in scope.columns)
        key, number = self._some.column(scope, "int"), self._some.column(scope, "int")
        frame = self._rng.choice(("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"))
        call = self._rng.choice(
            (
                f"rank() OVER ({over}ORDER BY {key})",
                f"dense_rank() OVER ({over}ORDER BY {key} DESC)",
                f"sum({number}) OVER ({over.strip()})",
                f"row_number() OVER ({over}ORDER BY {every})",
                f"sum({number}) OVER ({over}ORDER BY {every}{frame})",
                f"lag({number}) OVER ({over}ORDER BY {every})",
                f"count(*) OVER ({over.strip()})",
            )
        )
        items = (*(Item(name, f"c{at}", family) for at, (name, family) in enumerate(scope.columns)), Item(call, "v"))
        body = Select(items, (Source(table.name, "w"),), self._where(scope, 1))
        if self._rng.random() < 0.4:
            return Select((Item("q.v", "v"), Item("count(*)", "n")), (Source(body, "q"),), group=("q.v",))
        return body

    def _star(self) -> Body:
        if self.uses_cloud:
            return self._rows(1)
        self.features.add("star")
        table = self._table()
        scope = self._scope(table, "t")
        items = self._rng.choice(((Item("*"),), (Item("t.*"),), (Item("1", "one"), Item("t.*"))))
        return Select(items, (Source(table.name, "t"),), self._where(scope, 1))

    def _approximate(self) -> Body:
        """Groups of a table of their own, so that a row's exact twin is found by its key."""
        self.features.add("approximate")
        table = self._table()
        scope = self._scope(table, "t")
        key, value = self._some.column(scope, "string"), self._some.column(scope, "int")
        self.approximate = {"a": 0.1}
        return Select(
            (Item(key, "g"), Item(f"approx_count_distinct({value})", "a")), (Source(table.name, "t"),), group=(key,)
        )

    def _ordered(self, body: Body) -> Body:
        """Sometimes in order; with a limit, in one that leaves nothing open."""
        names = [item.name for item in body.items]
        if self._rng.random() < 0.55 or None in names or any(item.family is None for item in body.items):
            return body
        self.features.add("order by")
        self._rng.shuffle(names)
        order = tuple(
            name + self._rng.choice(("", " ASC", " DESC")) + self._rng.choice(("", " NULLS FIRST", " NULLS LAST"))
            for name in names
            if name is not None
        )
        limit = ""
        if self._rng.random() < 0.6:
            self.features.add("limit")
            limit = f"LIMIT {self._rng.choice((0, 1, 3, 10, 1000))}"
            if self._rng.random() < 0.4:
                self.features.add("offset")
                limit += f" OFFSET {self._rng.choice((1, 2, 50))}"
        return replace(body, order=order, limit=limit)


def _output(body: Body, alias: str) -> Scope:
    """What a query around this one may name."""
    return Scope(tuple((f"{alias}.{item.name}", item.family) for item in body.items if item.name and item.family))
