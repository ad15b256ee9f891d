"""Every SQL function of catchment, made from the tables of questions, kinds and recipes; nothing is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # it is there, without types
from pyspark.sql.types import BinaryType, DataType, StringType

from catchment.sketch.base import Sketch
from catchment.spark.functions.arguments import Argument, bind, signature
from catchment.spark.functions.asking import ask
from catchment.spark.functions.building import build_group, build_group_by_parameters
from catchment.spark.functions.kinds import KINDS
from catchment.spark.functions.merging import union_batches, union_group, union_rows
from catchment.spark.functions.partials import partials_name, partials_signature
from catchment.spark.functions.questions import BOUNDS, COUNT, QUESTIONS, RANKING, Question
from catchment.spark.functions.recipes import RECIPES, Recipe

__all__ = ["EVENTS", "FUNCTIONS", "TABLE_FUNCTIONS", "BuildingFunction", "SqlFunction", "TableFunction", "shown"]

T = TypeVar("T")

EVENTS = (
    "CREATE OR REPLACE TEMPORARY VIEW events AS "
    "SELECT * FROM VALUES ('a', 1, 5), ('b', 2, 7), ('a', 3, 5) AS events(key, time, value)"
)
"""The view that the examples are about."""


def shown(value: Any) -> str:
    """A value of a result as the documentation has it: fractions to four digits.

    >>> shown(2.112404), shown(5.0), shown("a")
    ('2.112', '5', 'a')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function in SQL and on columns: its signature, its meaning, an example with its result, and what runs."""

    name: str
    group: str
    """The prefix of its kind: where it stands in the documentation."""
    arguments: tuple[Argument, ...]
    returns: DataType
    meaning: str
    example: str
    result: str
    run: Callable[..., Any]
    flavour: Callable[[Callable[..., Any]], Callable[..., Any]]
    """`of_rows`, `of_a_group` or `of_a_group_in_batches`."""

    @property
    def names(self) -> list[str]:
        return [argument.name for argument in self.arguments]

    @property
    def required(self) -> list[str]:
        return [argument.name for argument in self.arguments if not argument.optional]

    @property
    def signature(self) -> str:
        return signature(self.name, self.names, self.required)

    def udf(self) -> Any:
        """The Arrow UDF that takes every argument as a column."""
        return self._udf(self.run)

    def _udf(self, run: Callable[..., Any]) -> Any:
        typed = self.flavour(run)
        typed.__name__ = self.name  # what plans and columns are called by
        return arrow_udf(typed, self.returns)

    def plan(
        self, given: Sequence[T], named: Mapping[str, T], *, literal: Callable[[str, T], Any], nothing: T
    ) -> tuple[Any, dict[str, T]]:
        """The UDF for this call, and its columns by name; places that were left out before another hold `nothing`."""
        bound = bind(self.name, self.names, self.required, given, named)
        places = self.names[: max(self.names.index(name) for name in bound) + 1]
        return self.udf(), {name: bound.get(name, nothing) for name in places}


@dataclass(frozen=True, slots=True)
class BuildingFunction(SqlFunction):
    """An aggregate that builds: its parameters are literals, looked at when the query is built."""

    recipe: Recipe = field(kw_only=True)

    @property
    def names(self) -> list[str]:
        return self.recipe.names

    @property
    def required(self) -> list[str]:
        return self.recipe.required

    def plan(
        self, given: Sequence[T], named: Mapping[str, T], *, literal: Callable[[str, T], Any], nothing: T
    ) -> tuple[Any, dict[str, T]]:
        """An UDF that has the prototype in it, so that tasks get nothing but the columns."""
        bound = bind(self.name, self.names, self.required, given, named)
        chosen = {name: literal(name, bound.pop(name)) for name in self.recipe.parameters if name in bound}
        return self.using(self.recipe.prototype(chosen), bound), bound

    def plan_using(self, using: Sketch, given: Sequence[T], named: Mapping[str, T]) -> tuple[Any, dict[str, T]]:
        """The same with a prototype that is there already."""
        names = [column.name for column in self.recipe.columns]
        required = [column.name for column in self.recipe.columns if not column.optional]
        bound = bind(self.name, names, required, given, named)
        return self.using(self.recipe.check_using(using), bound), bound

    def using(self, prototype: Sketch, columns: Mapping[str, Any]) -> Any:
        run = partial(build_group, self.name, prototype.to_bytes(), tuple(columns))
        return self._udf(run)


# -- what kind of UDF it is, which PySpark reads off type hints ---------------------------------------------------


def of_rows(run: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def rows(*columns: pa.Array, **named: pa.Array) -> pa.Array:
        return run(*columns, **named)

    return rows


def of_a_group(run: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
    def group(*columns: pa.Array, **named: pa.Array) -> bytes | None:
        return run(*columns, **named)

    return group


def of_a_group_in_batches(run: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
    def batches(arrays: Iterator[pa.Array]) -> bytes | None:
        return run(arrays)

    return batches


# -- the functions ------------------------------------------------------------------------------------------------


def _built(prefix: str) -> str:
    """The call that builds the sketch of an example."""
    recipe = RECIPES[f"{prefix}_sketch_agg"]
    return f"{recipe.name}({recipe.example})"


def _sample(prefix: str) -> Question:
    """A question that examples of other functions ask at their end."""
    return next(
        question
        for question in QUESTIONS.values()
        if question.kind.prefix == prefix and question.output not in (BOUNDS, RANKING) and question.sketches == 1
    )


def _asked(question: Question, sketch: str) -> str:
    return f"{question.name}({', '.join(part for part in (sketch, question.example) if part)})"


def _question(question: Question) -> SqlFunction:
    prefix = question.kind.prefix
    call = _asked(question, ", ".join([_built(prefix)] * question.sketches))
    example, result = f"SELECT {call} FROM events", question.result
    if question.output == BOUNDS:
        example = f"SELECT answer.value, answer.low, answer.high FROM (SELECT {call} AS answer FROM events)"
        result = question.bounds
    if question.output == RANKING:
        example = f"SELECT best.items[0].item, best.items[0].value FROM (SELECT {call} AS best FROM events)"
    return SqlFunction(
        question.name,
        prefix,
        question.arguments,
        question.returns,
        question.meaning,
        example,
        result,
        partial(ask, question.name),
        of_rows,
    )


def _building(recipe: Recipe) -> BuildingFunction:
    question = _sample(recipe.kind.prefix)
    return BuildingFunction(
        recipe.name,
        recipe.kind.prefix,
        recipe.columns,
        BinaryType(),
        f"Aggregate: {recipe.meaning[0].lower()}{recipe.meaning[1:]}",
        f"SELECT {_asked(question, f'{recipe.name}({recipe.example})')} FROM events",
        question.result,
        partial(build_group_by_parameters, recipe.name),
        of_a_group,
        recipe=recipe,
    )


def _unions(prefix: str) -> Iterator[SqlFunction]:
    question, built = _sample(prefix), _built(prefix)
    twice = question.output == COUNT and prefix != "distinct"
    yield SqlFunction(
        f"{prefix}_union",
        prefix,
        (Argument("sketch", "sketch"), Argument("other", "sketch")),
        BinaryType(),
        "One sketch of the events of both.",
        f"SELECT {_asked(question, f'{prefix}_union({built}, {built})')} FROM events",
        str(2 * int(question.result)) if twice else question.result,
        partial(union_rows, prefix),
        of_rows,
    )
    for name, meaning, run, flavour in (
        (
            f"{prefix}_union_agg",
            "Aggregate: one sketch of the events of all sketches of the group.",
            union_group,
            of_a_group,
        ),
        (
            f"{prefix}_union_agg_large",
            "The same for a group whose sketches are more than 2 GB together; it must be the only Python aggregate "
            "of its SELECT.",
            union_batches,
            of_a_group_in_batches,
        ),
    ):
        yield SqlFunction(
            name,
            prefix,
            (Argument("sketch", "sketch"),),
            BinaryType(),
            meaning,
            f"SELECT {_asked(question, f'{name}(sketch)')} FROM (SELECT {built} AS sketch FROM events GROUP BY key)",
            question.result,
            partial(run, prefix),
            flavour,
        )


def _describe(sketches: pa.Array) -> pa.Array:
    """What each sketch is: how to build an empty one, and what it promises."""

    def described(blob: bytes | None) -> str | None:
        if blob is None:
            return None
        sketch = Sketch.from_bytes(blob)
        return f"{sketch!r}: {sketch.guarantee}"

    encoded = sketches.dictionary_encode()
    return pa.array(list(map(described, encoded.dictionary.to_pylist())), pa.string()).take(encoded.indices)


def _all() -> Iterator[SqlFunction]:
    yield SqlFunction(
        "sketch_describe",
        "any",
        (Argument("sketch", "sketch"),),
        StringType(),
        "What a sketch of any kind is: its parameters and its guarantee.",
        f"SELECT sketch_describe({_built('top_k')}) FROM events",
        "SpaceSaving.sized(capacity=99): truth in [count - error, count], error <= 0.01 * total, always",
        _describe,
        of_rows,
    )
    for prefix in KINDS:
        yield from (_building(recipe) for recipe in RECIPES.values() if recipe.kind.prefix == prefix)
        yield from (_question(question) for question in QUESTIONS.values() if question.kind.prefix == prefix)
        yield from _unions(prefix)


FUNCTIONS: dict[str, SqlFunction] = {function.name: function for function in _all()}


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A table function: `TABLE(…)` in, a sketch for each group of each partition out."""

    name: str
    group: str
    signature: str
    meaning: str
    example: str
    result: str
    recipe: Recipe


def _table_function(recipe: Recipe) -> TableFunction:
    prefix, name = recipe.kind.prefix, partials_name(recipe)
    question = _sample(prefix)
    needed = [column.name for column in recipe.columns if not column.optional]
    taken, chosen = recipe.example.split(", ")[: len(needed)], recipe.example.split(", ")[len(needed) :]
    columns = ", ".join(
        name if name == source else f"{source} AS {name}" for name, source in zip(needed, taken, strict=True)
    )
    call = f"{name}(TABLE(SELECT {columns} FROM events), {', '.join(chosen)})"
    return TableFunction(
        name,
        prefix,
        partials_signature(recipe),
        f"Table function: `{recipe.name}` of each partition of a table, for a `{prefix}_union_agg`.",
        f"SELECT {_asked(question, f'{prefix}_union_agg(sketch)')} FROM {call}",
        question.result,
        recipe,
    )


TABLE_FUNCTIONS: dict[str, TableFunction] = {
    function.name: function for function in map(_table_function, RECIPES.values())
}
