"""Sketches out of a group's rows: nulls are skipped, times become ticks, and one function builds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from catchment.errors import ParameterError
from catchment.sketch.base import Sketch
from catchment.spark.functions.arguments import as_ordered, as_ticks, as_whole, bind, check_key
from catchment.spark.functions.recipes import RECIPES, Recipe
from catchment.window.gather import build

__all__ = ["build_columns", "build_group", "build_group_by_parameters"]

_FEEDS = {"key": "keys", "time": "at", "value": "values", "attribute": "attributes", "weight": "weights"}
"""What `update` calls the columns."""

_READ = {"key": check_key, "ordered": lambda column: column, "ticks": as_ticks, "whole": as_whole}


def build_group(name: str, prototype: bytes, given: tuple[str, ...], *columns: pa.Array) -> bytes:
    """The sketch of a group, where the prototype was built with the query; `given` names the columns."""
    columns_by_name = dict(zip(given, columns, strict=True))
    return build_columns(RECIPES[name], Sketch.from_bytes(prototype), columns_by_name).to_bytes()


def build_group_by_parameters(name: str, *columns: pa.Array, **named: pa.Array) -> bytes:
    """The same where the parameters come as columns, as they do when nobody could look at the query."""
    recipe = RECIPES[name]
    bound = bind(name, recipe.names, recipe.required, columns, named)
    chosen = {name: _constant(name, bound.pop(name)) for name in recipe.parameters if name in bound}
    return build_columns(recipe, recipe.prototype(chosen), bound).to_bytes()


def _constant(name: str, column: pa.Array) -> Any:
    """The one value of a parameter's column."""
    distinct = column.unique()
    if len(distinct) != 1:
        raise ParameterError(f"{name} that differs from row to row", f"give a literal for {name}")
    value = distinct[0].as_py()
    return float(value) if pa.types.is_decimal(column.type) and value is not None else value


def build_columns(recipe: Recipe, using: Sketch, columns: Mapping[str, pa.Array]) -> Sketch:
    """A sketch like `using` of these rows; those with a null in any column are skipped."""
    read = {
        argument.name: _READ[argument.role](columns[argument.name])
        for argument in recipe.columns
        if argument.name in columns
    }
    whole = np.ones(len(next(iter(read.values()))), dtype=np.bool_)
    for column in read.values():
        if column.null_count:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
    if not whole.all():
        read = {name: column.filter(pa.array(whole)) for name, column in read.items()}
    if not whole.any():
        return using
    ordered = {argument.name for argument in recipe.columns if argument.role == "ordered"}
    fed = {_FEEDS[name]: _plain(name, column, name in ordered) for name, column in read.items()}
    return build(using, **fed)


def _plain(name: str, column: pa.Array, ordered: bool) -> Any:
    """Keys stay in Arrow, which sketches read in place; numbers become NumPy's."""
    if ordered:
        return as_ordered(column)
    return column if name in ("key", "attribute") else column.to_numpy(zero_copy_only=False)
