"""Random calls of aggregate functions that have one answer whatever the order of rows."""

from __future__ import annotations

import random

from catchment.testing.query_text import Item
from catchment.testing.random_expressions import Expressions, Scope

__all__ = ["Aggregates"]

_INEXACT = ("stddev({})", "variance({})", "var_pop({})", "stddev_pop({})", "skewness({})", "kurtosis({})")
"""Their last digits depend on the order of addition: never compared, sorted or grouped by."""


class Aggregates:
    """What is written with the dice of one query."""

    def __init__(self, rng: random.Random, expressions: Expressions) -> None:
        self._rng = rng
        self._some = expressions

    def item(self, scope: Scope, name: str, features: set[str]) -> Item:
        """An aggregate as an output column; what it shows is added to `features`."""
        roll = self._rng.random()
        call, family, feature = self._distinct(scope) if roll < 0.2 else self._plain(scope)
        features.add(feature)
        if roll > 0.88 and feature not in ("collect", "expression of aggregates"):
            features.add("filter clause")
            call = f"{call} FILTER (WHERE {self._some.predicate(scope, 1)})"
        elif family == "int" and roll > 0.78:
            features.add("expression of aggregates")
            call = f"{call} + coalesce(max({self._some.column(scope, 'int')}), 1)"
        return Item(call, name, family)

    def condition(self, scope: Scope) -> str:
        """What a HAVING asks."""
        number = self._some.column(scope, "int")
        return self._rng.choice(
            (
                "count(*) > 1",
                f"max({number}) >= 3",
                f"sum({number}) IS NOT NULL",
                f"count(DISTINCT {number}) < 4",
                f"NOT (min({number}) < 0)",
            )
        )

    def _distinct(self, scope: Scope) -> tuple[str, str | None, str]:
        number = self._some.column(scope, "int")
        string = self._some.column(scope, "string")
        return self._rng.choice(
            (
                (f"count(DISTINCT {number})", "int", "count distinct"),
                (f"count(DISTINCT {number}, {string})", "int", "count distinct of two"),
                (f"sum(DISTINCT {number})", "int", "sum distinct"),
                (f"avg(DISTINCT {number})", "double", "avg distinct"),
                (f"count(DISTINCT {self._some.value(scope, 'string', 1)})", "int", "count distinct"),
            )
        )

    def _plain(self, scope: Scope) -> tuple[str, str | None, str]:
        number = self._some.value(scope, "int", 1)
        string = self._some.value(scope, "string", 1)
        family = self._rng.choice([each for each in scope.families() if each != "big"] or ["int"])
        anything = self._some.value(scope, family, 1)
        real = self._some.value(scope, "double", 1)
        decimal = self._some.column(scope, "decimal")
        flag = self._some.predicate(scope, 1)
        big = self._some.column(scope, "big")
        column = self._some.column(scope, "int")
        return self._rng.choice(
            (
                ("count(*)", "int", "count"),
                ("count(*)", "int", "count"),
                (f"count({anything})", "int", "count"),
                (f"count({column}, {string})", "int", "count"),
                (f"sum({number})", "int", "sum"),
                (f"sum({number})", "int", "sum"),
                (f"sum({real})", "double", "sum"),
                (f"sum({decimal})", "decimal", "sum"),
                (f"avg({number})", "double", "avg"),
                (f"avg({real})", "double", "avg"),
                (f"avg({decimal})", "decimal", "avg"),
                (f"min({anything})", family, "min and max"),
                (f"max({anything})", family, "min and max"),
                (f"max({big})", "big", "min and max"),
                (f"bool_and({flag})", "boolean", "bool_and and bool_or"),
                (f"bool_or({flag})", "boolean", "bool_and and bool_or"),
                (f"count_if({flag})", "int", "count"),
                (f"bit_or({column})", "int", "bits"),
                (f"bit_xor({column})", "int", "bits"),
                (self._rng.choice(_INEXACT).format(column), None, "statistics"),
                (f"corr({column}, {column} * 2 + length({string}))", None, "statistics"),
                (f"covar_samp({column}, {real})", None, "statistics"),
                (f"sort_array(collect_list({column}))", None, "collect"),
                (f"sort_array(collect_set({string}))", None, "collect"),
                (f"percentile({column}, 0.5)", "double", "percentile"),
                (f"median({column})", "double", "percentile"),
                (f"max_by({column}, struct({column}, {string}))", "int", "max_by"),
                (f"min_by({string}, struct({string}, {column}))", "string", "max_by"),
                (f"sum({number}) / nullif(count({column}), 0)", None, "expression of aggregates"),
            )
        )
