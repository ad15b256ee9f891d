"""Random expressions and predicates over the columns in scope, by family of type; each has one value for one row.

Nothing here can fail in ANSI mode: no division by what may be zero, no cast that may not hold, factors that keep
integers small. So a query that fails in a federation and not in one Spark is a defect of the federation.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["FAMILIES", "Expressions", "Scope"]

FAMILIES = ("int", "double", "decimal", "string", "date", "timestamp", "boolean")

_LITERALS = {
    "int": ("0", "1", "3", "-2", "7", "5", "CAST(NULL AS INT)"),
    "big": ("9007199254740993L", "0L", "4611686018427387904L"),
    "double": ("0.125D", "-2.5D", "1D", "3.0D"),
    "decimal": ("1.50", "0.0", "-7.25", "3"),
    "string": ("''", "'a'", "'ab'", "'ü'", "'a%b'", "'A'", "CAST(NULL AS STRING)", "'it\\'s'"),
    "date": ("DATE'2024-02-29'", "DATE'2024-03-01'", "DATE'2024-02-27'"),
    "timestamp": ("TIMESTAMP'2024-02-29 01:00:00'", "TIMESTAMP'2024-02-28 23:00:00.000001'"),
    "boolean": ("true", "false"),
}
_CASTS = {"double": "DOUBLE", "decimal": "DECIMAL(12,2)", "string": "STRING"}
_PATTERNS = ("'a%'", "'%b%'", "'_'", "'%'", "'a\\\\%b'", "'%\\\\_%'", "'ü%'", "''")


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that may be named, as they are written, with their families."""

    columns: tuple[tuple[str, str], ...]

    def of(self, family: str) -> list[str]:
        return [name for name, known in self.columns if known == family]

    def families(self) -> list[str]:
        return sorted({family for _, family in self.columns})

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.columns + other.columns)


class Expressions:
    """What is written with the dice of one query."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def column(self, scope: Scope, family: str) -> str:
        """A column of a family, or something like it if there is none."""
        if scope.of(family) or not scope.of("int") or family not in ("double", "decimal", "string"):
            return self._rng.choice(scope.of(family) or _LITERALS[family])
        return f"CAST({self._rng.choice(scope.of('int'))} AS {_CASTS[family]})"

    def value(self, scope: Scope, family: str, depth: int = 2) -> str:
        """An expression of a family."""
        roll = self._rng.random()
        if depth <= 0 or roll < 0.45:
            return self.column(scope, family) if roll < 0.4 or depth > 0 else self._rng.choice(_LITERALS[family])
        if roll < 0.65:
            return self._common(scope, family, depth - 1)
        return self._special(scope, family, depth - 1)

    def predicate(self, scope: Scope, depth: int = 2) -> str:
        """A condition, true, false or NULL."""
        roll = self._rng.random()
        if depth > 0 and roll < 0.25:
            word = self._rng.choice(("AND", "OR"))
            return f"({self.predicate(scope, depth - 1)} {word} {self.predicate(scope, depth - 1)})"
        if depth > 0 and roll < 0.33:
            return f"NOT ({self.predicate(scope, depth - 1)})"
        family = self._rng.choice(scope.families() or ["int"])
        return self._rng.choice(self._tests(family))(scope, family)

    def _tests(self, family: str) -> Sequence[Callable[[Scope, str], str]]:
        tests = [self._compare, self._compare, self._null, self._in, self._between, self._same]
        if family == "string":
            tests += [self._like, self._like]
        if family == "boolean":
            tests += [self.column, self.column]
        return tests

    def _compare(self, scope: Scope, family: str) -> str:
        sign = self._rng.choice(("=", "=", "<>", "<", "<=", ">", ">="))
        other = self.value(scope, family, 1) if self._rng.random() < 0.4 else self._rng.choice(_LITERALS[family])
        return f"{self.value(scope, family, 1)} {sign} {other}"

    def _null(self, scope: Scope, family: str) -> str:
        return f"({self.value(scope, family, 1)}) IS {self._rng.choice(('', 'NOT '))}NULL"

    def _in(self, scope: Scope, family: str) -> str:
        values = self._rng.sample(_LITERALS[family], min(len(_LITERALS[family]), self._rng.randint(1, 4)))
        listed = ", ".join(values + (["NULL"] if self._rng.random() < 0.15 else []))
        return f"{self.column(scope, family)} {self._rng.choice(('', 'NOT '))}IN ({listed})"

    def _between(self, scope: Scope, family: str) -> str:
        low, high = self._rng.choice(_LITERALS[family]), self.value(scope, family, 0)
        return f"{self.column(scope, family)} {self._rng.choice(('', 'NOT '))}BETWEEN {low} AND {high}"

    def _same(self, scope: Scope, family: str) -> str:
        sign = self._rng.choice(("<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        return f"{self.column(scope, family)} {sign} {self.value(scope, family, 0)}"

    def _like(self, scope: Scope, family: str) -> str:
        word = self._rng.choice(("LIKE", "NOT LIKE", "ILIKE"))
        return f"{self.column(scope, family)} {word} {self._rng.choice(_PATTERNS)}"

    def _common(self, scope: Scope, family: str, depth: int) -> str:
        first, second = self.value(scope, family, depth), self.value(scope, family, depth)
        condition = self.predicate(scope, depth - 1)
        return self._rng.choice(
            (
                f"CASE WHEN {condition} THEN {first} ELSE {second} END",
                f"CASE WHEN {condition} THEN {first} END",
                f"coalesce({first}, {second})",
                f"nullif({first}, {second})",
                f"if({condition}, {first}, {second})",
                f"greatest({first}, {second})",
                f"least({first}, {second})",
                f"nvl({first}, {second})",
            )
        )

    def _special(self, scope: Scope, family: str, depth: int) -> str:
        def some(kind: str) -> str:
            return self.value(scope, kind, depth)

        choose = self._rng.choice
        match family:
            case "int":
                return choose(
                    (
                        f"({some('int')} + {some('int')})",
                        f"({some('int')} - {some('int')})",
                        f"({some('int')} * {choose(('2', '-1', '3'))})",
                        f"({some('int')} % 4)",
                        f"pmod({some('int')}, 5)",
                        f"({some('int')} DIV 3)",
                        f"length({some('string')})",
                        f"abs({some('int')})",
                        f"month({some('date')})",
                        f"dayofmonth({some('date')})",
                        f"hour({some('timestamp')})",
                        f"datediff({some('date')}, {some('date')})",
                        f"CAST({some('boolean')} AS INT)",
                        f"CAST({some('int')} AS BIGINT)",
                    )
                )
            case "double":
                return choose(
                    (
                        f"({some('double')} + {some('double')})",
                        f"({some('double')} - {some('int')})",
                        f"({some('double')} * 0.5D)",
                        f"({some('int')} / 4)",
                        f"CAST({some('int')} AS DOUBLE)",
                        f"floor({some('double')}) * 1D",
                    )
                )
            case "decimal":
                return choose(
                    (
                        f"({self.column(scope, 'decimal')} + {self.column(scope, 'decimal')})",
                        f"({self.column(scope, 'decimal')} - 1.25)",
                        f"({self.column(scope, 'decimal')} * 2)",
                        f"round({self.column(scope, 'decimal')}, 1)",
                        f"CAST({some('int')} AS DECIMAL(10,0))",
                    )
                )
            case "string":
                return choose(
                    (
                        f"concat({some('string')}, {some('string')})",
                        f"upper({some('string')})",
                        f"substr({some('string')}, 1, {choose((1, 2))})",
                        f"trim({some('string')})",
                        f"CAST({some('int')} AS STRING)",
                        f"({some('string')} || '-' || {some('string')})",
                        f"date_format({some('date')}, 'yyyy-MM')",
                        f"replace({some('string')}, 'a', 'z')",
                        f"CAST({some('date')} AS STRING)",
                        f"CAST({self.column(scope, 'decimal')} AS STRING)",
                    )
                )
            case "date":
                return choose(
                    (
                        f"date_add({some('date')}, {choose((1, -2))})",
                        f"CAST({some('timestamp')} AS DATE)",
                        f"trunc({some('date')}, 'MONTH')",
                        f"({some('date')} + INTERVAL '1' MONTH)",
                    )
                )
            case "timestamp":
                return choose(
                    (
                        f"date_trunc('HOUR', {some('timestamp')})",
                        f"({some('timestamp')} + INTERVAL '90' MINUTE)",
                        f"CAST({some('date')} AS TIMESTAMP)",
                    )
                )
            case "boolean":
                return f"({self.predicate(scope, depth)})"
        return self.column(scope, family)
