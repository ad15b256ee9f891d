"""Every SQL function of catchment, made from the tables of questions, kinds and recipes; nothing is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.functions import ArrowUDFType, arrow_udf
from pyspark.sql.types import BinaryType, DataType, StringType

from catchment.sketch.base import Sketch
from catchment.spark.functions.arguments import Argument, bind, signature
from catchment.spark.functions.asking import ask
from catchment.spark.functions.building import build_group, build_group_by_parameters
from catchment.spark.functions.kinds import KINDS
from catchment.spark.functions.merging import union_batches, union_group, union_rows
from catchment.spark.functions.questions import BOUNDS, QUESTIONS, RANKING, Question
from catchment.spark.functions.recipes import RECIPES, Recipe

__all__ = ["EVENTS", "FUNCTIONS", "BuildingFunction", "SqlFunction"]

T = TypeVar("T")

EVENTS = "VALUES ('a', 1, 5), ('b', 2, 7), ('a', 3, 5) AS events(key, time, value)"
"""What the examples are about."""


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
    flavour: int = ArrowUDFType.SCALAR

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
        return arrow_udf(self.run, self.returns, self.flavour)

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
        return arrow_udf(run, self.returns, self.flavour)


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
    example, result = f"SELECT {call} FROM {EVENTS}", question.result
    if question.output == BOUNDS:
        example = f"SELECT answer.value, answer.low, answer.high FROM (SELECT {call} AS answer FROM {EVENTS})"
        result = question.bounds
    if question.output == RANKING:
        example = f"SELECT best.items[0].item, best.items[0].value FROM (SELECT {call} AS best FROM {EVENTS})"
    return SqlFunction(
        question.name,
        prefix,
        question.arguments,
        question.returns,
        question.meaning,
        example,
        result,
        partial(ask, question.name),
    )


def _building(recipe: Recipe) -> BuildingFunction:
    question = _sample(recipe.kind.prefix)
    return BuildingFunction(
        recipe.name,
        recipe.kind.prefix,
        recipe.columns,
        BinaryType(),
        f"Aggregate: {recipe.meaning[0].lower()}{recipe.meaning[1:]}",
        f"SELECT {_asked(question, f'{recipe.name}({recipe.example})')} FROM {EVENTS}",
        question.result,
        partial(build_group_by_parameters, recipe.name),
        ArrowUDFType.GROUPED_AGG,
        recipe=recipe,
    )


def _unions(prefix: str) -> Iterator[SqlFunction]:
    question, built = _sample(prefix), _built(prefix)
    parts = [f"(SELECT {built} AS sketch FROM {EVENTS} WHERE key = '{key}')" for key in "ab"]
    pair = f"{prefix}_union(one.sketch, two.sketch)"
    yield SqlFunction(
        f"{prefix}_union",
        prefix,
        (Argument("sketch", "sketch"), Argument("other", "sketch")),
        BinaryType(),
        "One sketch of the events of both.",
        f"SELECT {_asked(question, pair)} FROM {parts[0]} AS one, {parts[1]} AS two",
        question.result,
        partial(union_rows, prefix),
    )
    for name, meaning, run, flavour in (
        (
            f"{prefix}_union_agg",
            "Aggregate: one sketch of the events of all sketches of the group.",
            union_group,
            ArrowUDFType.GROUPED_AGG,
        ),
        (
            f"{prefix}_union_agg_large",
            "The same for a group whose sketches are more than 2 GB together; it must be the only Python aggregate "
            "of its SELECT.",
            union_batches,
            ArrowUDFType.GROUPED_AGG_ITER,
        ),
    ):
        yield SqlFunction(
            name,
            prefix,
            (Argument("sketch", "sketch"),),
            BinaryType(),
            meaning,
            f"SELECT {_asked(question, f'{name}(sketch)')} FROM (SELECT {built} AS sketch FROM {EVENTS} GROUP BY key)",
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
        f"SELECT sketch_describe({_built('top_k')}) FROM {EVENTS}",
        "SpaceSaving.sized(capacity=99): truth in [count - error, count], error <= 0.01 * total, always",
        _describe,
    )
    for prefix in KINDS:
        yield from (_building(recipe) for recipe in RECIPES.values() if recipe.kind.prefix == prefix)
        yield from (_question(question) for question in QUESTIONS.values() if question.kind.prefix == prefix)
        yield from _unions(prefix)


FUNCTIONS: dict[str, SqlFunction] = {function.name: function for function in _all()}
