"""Random tables that lie in pieces over clouds, by seed: what a federated query is tested on.

The same seed gives the same tables. They are small and nasty: NULLs and duplicate rows, few distinct keys with one that
is frequent, a cloud without rows or without the table, tables of one cloud, the same column as INT here and BIGINT
there, names that must be quoted. Doubles are multiples of an eighth, so that any order of addition gives the same sum.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

__all__ = ["CLOUDS", "RandomColumn", "RandomTable", "World", "random_world"]

CLOUDS = ("berlin", "lyon", "porto")

TYPES = {
    "int": ("bigint", "int", "smallint"),
    "big": ("bigint",),
    "double": ("double", "double", "float"),
    "decimal": ("decimal(12,2)", "decimal(9,3)", "decimal(20,4)"),
    "string": ("string",),
    "date": ("date",),
    "timestamp": ("timestamp",),
    "boolean": ("boolean",),
}
"""The types of a family: what is written of one is valid of each."""

_NAMES = {
    "int": ("k", "n", "Qty", "order"),
    "big": ("big",),
    "double": ("x", "y"),
    "decimal": ("price", "amount"),
    "string": ("s", "name", "größe"),
    "date": ("day", "due"),
    "timestamp": ("at",),
    "boolean": ("ok", "is it"),
}
_STRINGS = ("", "a", "A", "ab", "b", "abc", "ü", "日本", "a%b", "a_b", "it's", " a", "null", "😀", "0", "x\\y", 'q"q')
_BIG = (2**53 + 1, 2**53, 2**62, -(2**62), -(2**53) - 1, 0, 1)


@dataclass(frozen=True, slots=True)
class RandomColumn:
    """A column: its name as it is, its family, its type in Spark."""

    name: str
    family: str
    type: str

    @property
    def quoted(self) -> str:
        return self.name if self.name.isascii() and self.name.isalnum() and self.name != "order" else f"`{self.name}`"


@dataclass(frozen=True, slots=True)
class RandomTable:
    """A logical table: by cloud its rows, of Python values; a cloud that lacks it is not named."""

    name: str
    columns: tuple[RandomColumn, ...]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]

    def values_sql(self, clouds: Sequence[str], *, with_cloud: bool = False) -> str:
        """A SELECT of the rows of these clouds, cast to the types; `with_cloud` adds the column `_cloud`."""
        names = [column.quoted for column in self.columns]
        casts = [f"CAST({name} AS {column.type}) AS {name}" for name, column in zip(names, self.columns, strict=True)]
        if with_cloud:
            names.append("_cloud")
            casts.append("CAST(_cloud AS string) AS _cloud")
        rows = [(*row, cloud) if with_cloud else row for cloud in clouds for row in self.rows.get(cloud, ())]
        written = [f"({', '.join(_literal(value) for value in row)})" for row in rows]
        nothing = f"({', '.join(['NULL'] * len(names))})"
        inline = f"(SELECT * FROM VALUES {', '.join(written or [nothing])} AS t({', '.join(names)}))"
        return f"SELECT {', '.join(casts)} FROM {inline}" + ("" if written else " WHERE false")


@dataclass(frozen=True, slots=True)
class World:
    """Tables over three clouds."""

    seed: int
    tables: tuple[RandomTable, ...]

    def statements(self, cloud: str, database: str, *, views: bool = False) -> list[str]:
        """What makes a cloud's tables in a database of it; as views of constants they cost no files and less time."""
        kind, stored = ("VIEW", "") if views else ("TABLE", " USING parquet")
        made = [
            f"CREATE {kind} {database}.{table.name}{stored} AS {table.values_sql([cloud])}"
            for table in self.tables
            if cloud in table.rows
        ]
        return [f"CREATE DATABASE {database}", *made]

    def union_statements(self, database: str, plain: str, *, views: bool = False) -> list[str]:
        """What makes the same tables whole: in one database with `_cloud`, in the other without it."""
        kind, stored = ("VIEW", "") if views else ("TABLE", " USING parquet")
        made = [f"CREATE DATABASE {database}", f"CREATE DATABASE {plain}"]
        for table in self.tables:
            names = ", ".join(column.quoted for column in table.columns)
            whole = table.values_sql(CLOUDS, with_cloud=True)
            made.append(f"CREATE {kind} {database}.{table.name}{stored} AS {whole}")
            made.append(f"CREATE VIEW {plain}.{table.name} AS SELECT {names} FROM {database}.{table.name}")
        return made


def random_world(seed: int) -> World:
    """The world of a seed.

    >>> world = random_world(7)
    >>> [table.name for table in world.tables]
    ['visits', 'orders', 'Pages', 'notes', 'depots']
    >>> random_world(7) == world
    True
    """
    rng = random.Random(seed)
    most = rng.choice((10, 25, 40))
    everywhere = {cloud: rng.randint(0, most) for cloud in CLOUDS}
    skewed = dict(zip(CLOUDS, rng.sample((0, 2, most), 3), strict=True))
    missing = {cloud: rng.randint(1, most) for cloud in rng.sample(CLOUDS, 2)}
    empty = dict.fromkeys(CLOUDS, 0)
    single = {rng.choice(CLOUDS): rng.randint(1, most)}
    sizes = {"visits": everywhere, "orders": skewed, "Pages": missing, "notes": empty, "depots": single}
    if rng.random() < 0.7:
        sizes["notes"] = empty | {rng.choice(CLOUDS): rng.randint(1, 5)}
    return World(seed, tuple(_table(rng, name, rows) for name, rows in sizes.items()))


def _table(rng: random.Random, name: str, sizes: Mapping[str, int]) -> RandomTable:
    columns = []
    for family, names in _NAMES.items():
        least = 1 if family in ("int", "string") else 0
        chosen = rng.sample(names, rng.randint(least, min(2, len(names))))
        columns += [RandomColumn(name, family, rng.choice(TYPES[family])) for name in chosen]
    if not any(column.name == "k" for column in columns):
        columns.append(RandomColumn("k", "int", rng.choice(TYPES["int"])))
    rng.shuffle(columns)
    nulls = rng.choice((0.0, 0.1, 0.4))
    pool: list[tuple[Any, ...]] = []

    def row() -> tuple[Any, ...]:
        if pool and rng.random() < 0.2:
            return rng.choice(pool)  # a duplicate, perhaps of another cloud
        pool.append(tuple(None if rng.random() < nulls else _value(rng, column) for column in columns))
        return pool[-1]

    return RandomTable(name, tuple(columns), {cloud: [row() for _ in range(size)] for cloud, size in sizes.items()})


def _value(rng: random.Random, column: RandomColumn) -> Any:
    match column.family:
        case "int":
            return 3 if rng.random() < 0.3 else rng.randint(-3, 12) if rng.random() < 0.8 else rng.randint(-900, 900)
        case "big":
            return rng.choice(_BIG)
        case "double":
            return rng.randint(-40, 40) / 8 if rng.random() < 0.95 else math.nan
        case "decimal":
            return f"{rng.randint(-2000, 2000) / 100:.2f}"
        case "string":
            return rng.choice(_STRINGS[: rng.choice((4, len(_STRINGS)))])
        case "date":
            return date(2024, 2, 27) + timedelta(days=rng.randint(0, 6))
        case "timestamp":
            return datetime(2024, 2, 28, 22) + timedelta(hours=rng.randint(0, 9), microseconds=rng.choice((0, 1, 999)))
        case _:
            return rng.random() < 0.5


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}L"
        case float():
            return "double('NaN')" if value != value else f"{value!r}D"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case _:
            return "'{}'".format(str(value).replace("\\", "\\\\").replace("'", "\\'"))
