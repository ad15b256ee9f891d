"""Partial sketches in pure SQL: a table function builds one for each group of a partition, and a union merges them.

    SELECT site, ecm_union_agg(sketch) AS sketch
    FROM ecm_sketch_partials(TABLE(SELECT site, page AS key, time FROM views), 0.05, 0.01, 3600)
    GROUP BY site

The table's columns that are called as the sketch's (`key`, `time`, `weight`, …) are taken in; the others are the
groups, and come back beside the sketch. Only sketches are shuffled, where an aggregate of rows would shuffle every row.
The merge adds its error, where the kind is not linear: the sketch that it gives knows how much.

Parameters are looked at while the query is analysed. A partition's rows are held until its end, since the sketch is
built from them in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction, _create_udtf
from pyspark.util import PythonEvalType

from catchment.errors import ParameterError
from catchment.sketch.base import Sketch
from catchment.spark.functions.arguments import bind, signature
from catchment.spark.functions.building import build_columns
from catchment.spark.functions.grouping import groups_of_rows, numbered
from catchment.spark.functions.recipes import RECIPES, Recipe

__all__ = ["partials_name", "partials_signature", "partials_udtf"]


def partials_name(recipe: Recipe) -> str:
    return f"{recipe.name.removesuffix('_agg')}_partials"


def partials_signature(recipe: Recipe) -> str:
    return signature(partials_name(recipe), ["rows", *recipe.parameters], ["rows", *_required(recipe)])


def partials_udtf(recipe: Recipe) -> UserDefinedTableFunction:
    """The table function of that recipe."""
    name = recipe.name

    class Partials:
        @staticmethod
        def analyze(rows: AnalyzeArgument, *given: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
            return _analyzed(RECIPES[name], rows, given, named)

        def __init__(self, plan: _Plan) -> None:
            self._plan, self._batches = plan, list[pa.RecordBatch]()

        def eval(self, rows: pa.RecordBatch, *_: pa.Array, **__: pa.Array) -> Iterator[pa.Table]:
            self._batches.append(rows)
            return iter(())

        def terminate(self) -> Iterator[pa.Table]:
            # Spark's worker fails on what is yielded for a partition that had no rows.
            if self._batches:
                yield _built(self._plan, pa.Table.from_batches(self._batches))

    # `arrow_udtf` refuses a class with `analyze`, though the worker and the analyser take one (SPARK-53286).
    return _create_udtf(
        Partials, None, name=partials_name(recipe), evalType=PythonEvalType.SQL_ARROW_UDTF, deterministic=True
    )


@dataclass
class _Plan(AnalyzeResult):
    """What the analysis found, handed on to the tasks."""

    recipe: str = ""
    prototype: bytes = b""


def _analyzed(
    recipe: Recipe, rows: AnalyzeArgument, given: Sequence[AnalyzeArgument], named: Mapping[str, AnalyzeArgument]
) -> _Plan:
    name = partials_name(recipe)
    if not rows.isTable or not isinstance(rows.dataType, StructType):
        raise ParameterError(f"{name} was given no table", f"call {partials_signature(recipe)}, rows being TABLE(…)")
    bound = bind(name, list(recipe.parameters), _required(recipe), given, named)
    prototype = recipe.prototype({name: _constant(name, argument) for name, argument in bound.items()})
    columns = {column.name: column for column in recipe.columns}
    types = {field.name: field.dataType.simpleString() for field in rows.dataType.fields}
    for column in columns.values():
        if column.name not in types:
            if not column.optional:
                raise ParameterError(
                    f"{name} was given a table without a column {column.name}", f"SELECT … AS {column.name}"
                )
        elif not column.accepts(types[column.name]):
            raise column.refusal(name, types[column.name])
    groups = [field for field in rows.dataType.fields if field.name not in columns]
    schema = StructType([*groups, StructField("sketch", BinaryType())])
    return _Plan(schema=schema, recipe=recipe.name, prototype=prototype.to_bytes())


def _required(recipe: Recipe) -> list[str]:
    return [name for name in recipe.required if name in recipe.parameters]


def _constant(name: str, argument: AnalyzeArgument) -> Any:
    if not argument.isConstantExpression:
        raise ParameterError(f"{name} that is not a constant", f"give a literal for {name}")
    value = argument.value
    return float(value) if argument.dataType.typeName() == "decimal" and value is not None else value


def _built(plan: _Plan, rows: pa.Table) -> pa.Table:
    """A row for each group: its columns and its sketch."""
    recipe, prototype = RECIPES[plan.recipe], Sketch.from_bytes(plan.prototype)
    taken = [column.name for column in recipe.columns if column.name in rows.column_names]
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    groups = [name for name in columns if name not in taken]
    firsts, sketches = [], []
    for members in groups_of_rows([numbered(columns[name])[1] for name in groups], rows.num_rows):
        part = {name: columns[name].take(pa.array(members)) for name in taken}
        firsts.append(members[0])
        sketches.append(build_columns(recipe, prototype, part).to_bytes())
    found = {name: columns[name].take(pa.array(firsts)) for name in groups}
    return pa.table({**found, "sketch": pa.array(sketches, pa.binary())})
