"""Every function as a Python function of columns: `ecm_sketch_estimate("sketch", "key", last=600)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql.functions import col, lit

from catchment.errors import ParameterError
from catchment.sketch.base import Sketch
from catchment.spark.functions.catalog import FUNCTIONS, BuildingFunction, SqlFunction

__all__ = ["column_functions"]


def column_functions() -> dict[str, Callable[..., Column]]:
    """All of them by name."""
    return {name: _column_function(function) for name, function in FUNCTIONS.items()}


def _column_function(function: SqlFunction) -> Callable[..., Column]:
    def call(*given: Any, using: Sketch | None = None, **named: Any) -> Column:
        if using is not None:
            if not isinstance(function, BuildingFunction):
                raise ParameterError(f"{function.name} was given using", f"call {function.signature}")
            return _applied(*function.plan_using(using, given, named))
        nothing = lit(None).cast("bigint")
        return _applied(*function.plan(given, named, literal=_python_value, nothing=nothing))

    call.__name__ = call.__qualname__ = function.name
    call.__doc__ = f"{function.meaning}\n\nIn SQL: {function.signature}\n\n    {function.example}"
    return call


def _applied(udf: Any, columns: Mapping[str, Any]) -> Column:
    applied: Column = udf(*map(_as_column, columns.values()))
    return applied


def _as_column(value: Any) -> Column:
    """A column as it is, a string as the name of one, and anything else as itself on every row."""
    if isinstance(value, Column):
        return value
    return col(value) if isinstance(value, str) else lit(value)


def _python_value(name: str, value: Any) -> Any:
    if isinstance(value, Column):
        raise ParameterError(f"{name} is a column", f"give {name} as a Python value: it is the same for all rows")
    return value
