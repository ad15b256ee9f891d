"""`approx_top_k` and its parts as Python functions: Spark 4.3 has them in SQL only."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import call_function, col, lit

from catchment.errors import ParameterError
from catchment.sketch.checks import check_whole
from catchment.spark.builtin.items import MOST_TRACKED

__all__ = ["approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine", "approx_top_k_estimate"]

_MOST_K = 2**31 - 1
_TRACKED = 10_000


def approx_top_k(column: Column | str, k: int = 5, max_items_tracked: int = _TRACKED) -> Column:
    """ARRAY<STRUCT<item, count>> of the k items that occur most often; it may be shorter, or empty.

    Raises `ParameterError` when k or `max_items_tracked` is out of range, here and not when the query runs.
    """
    k = check_whole("k", k, 1, _MOST_K)
    tracked = _tracked(max_items_tracked)
    if k > tracked:
        raise ParameterError(f"k={k} with max_items_tracked={tracked}", "track at least k items")
    return call_function("approx_top_k", _column(column), lit(k), lit(tracked))


def approx_top_k_accumulate(column: Column | str, max_items_tracked: int = _TRACKED) -> Column:
    """The state of the count of a column's items, to be kept, combined and asked later; `items_ranking` reads it."""
    return call_function("approx_top_k_accumulate", _column(column), lit(_tracked(max_items_tracked)))


def approx_top_k_combine(state: Column | str, max_items_tracked: int | None = None) -> Column:
    """One state of many, an aggregate; without `max_items_tracked` all must have the same."""
    if max_items_tracked is None:
        return call_function("approx_top_k_combine", _column(state))
    return call_function("approx_top_k_combine", _column(state), lit(_tracked(max_items_tracked)))


def approx_top_k_estimate(state: Column | str, k: int = 5) -> Column:
    """ARRAY<STRUCT<item, count>> of the k items that occur most often in a state; it may be shorter, or empty."""
    return call_function("approx_top_k_estimate", _column(state), lit(check_whole("k", k, 1, _MOST_K)))


def _tracked(value: int) -> int:
    return check_whole("max_items_tracked", value, 1, MOST_TRACKED)


def _column(column: Column | str) -> Column:
    return col(column) if isinstance(column, str) else column
