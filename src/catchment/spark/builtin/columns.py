"""The bounds as functions of Spark columns and of SQL.

Each is an Arrow UDF over whole batches. A sketch that is NULL, or any other argument that is, gives NULL. Bytes that
are no such sketch end the query with the `BytesError`, which names the cure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, DataType, LongType

from catchment.answer import Answer, Ranking
from catchment.sketch.checks import check_choice, check_whole
from catchment.spark.answers import ANSWER_TYPE, RANKING_TYPE, answers_to_arrow, rankings_to_arrow
from catchment.spark.builtin.confidence import standard_deviations
from catchment.spark.builtin.count_min import SparkCountMin
from catchment.spark.builtin.hll import hll_answer
from catchment.spark.builtin.items import MOST_TRACKED, items_ranking
from catchment.spark.builtin.kll import KLL_KINDS, kll_is_empty, kll_quantile_answer, kll_rank_answer
from catchment.spark.builtin.theta import theta_answer, tuple_answer

__all__ = [
    "approx_top_k_estimate_with_error_bounds",
    "count_min_sketch_estimate",
    "count_min_sketch_estimate_with_error_bounds",
    "count_min_sketch_union_agg",
    "hll_sketch_estimate_with_error_bounds",
    "kll_sketch_get_quantile_with_error_bounds",
    "kll_sketch_get_rank_with_error_bounds",
    "register_builtin",
    "theta_sketch_estimate_with_error_bounds",
    "tuple_sketch_estimate_with_error_bounds",
]

ColumnOrName = Column | str
I64 = NDArray[np.int64]

_DELTA = 0.05


def hll_sketch_estimate_with_error_bounds(sketch: ColumnOrName, *, delta: float = _DELTA) -> Column:
    """`hll_answer` of a BINARY column that `hll_sketch_agg` or `hll_union_agg` made, as a struct.

    frame.groupBy("site").agg(hll_sketch_agg("user").alias("users"))
         .select("site", hll_sketch_estimate_with_error_bounds("users", delta=0.01))
    """
    standard_deviations(delta)
    return _call("hll_sketch_estimate_with_error_bounds", sketch, lit(delta))


def theta_sketch_estimate_with_error_bounds(sketch: ColumnOrName, *, delta: float = _DELTA) -> Column:
    """`theta_answer` of a BINARY column that `theta_sketch_agg` or another function of Theta sketches made."""
    standard_deviations(delta)
    return _call("theta_sketch_estimate_with_error_bounds", sketch, lit(delta))


def tuple_sketch_estimate_with_error_bounds(
    sketch: ColumnOrName, *, kind: str = "double", delta: float = _DELTA
) -> Column:
    """`tuple_answer` of a BINARY column that `tuple_sketch_agg_double` or `…_integer` made."""
    check_choice("kind", kind, ("double", "integer"))
    standard_deviations(delta)
    return _call(f"tuple_sketch_estimate_{kind}_with_error_bounds", sketch, lit(delta))


def kll_sketch_get_quantile_with_error_bounds(
    sketch: ColumnOrName, rank: float | Column, *, kind: str = "double"
) -> Column:
    """`kll_quantile_answer` of a BINARY column that `kll_sketch_agg_bigint`, `…_float` or `…_double` made.

    A sketch that has seen no value gives NULL. In SQL the kind is in the name:
    `kll_sketch_get_quantile_bigint_with_error_bounds(sketch, 0.5)`.
    """
    check_choice("kind", kind, KLL_KINDS)
    return _call(f"kll_sketch_get_quantile_{kind}_with_error_bounds", sketch, _literal(rank))


def kll_sketch_get_rank_with_error_bounds(
    sketch: ColumnOrName, value: float | Column, *, kind: str = "double"
) -> Column:
    """`kll_rank_answer` of a BINARY column, as `kll_sketch_get_quantile_with_error_bounds`."""
    check_choice("kind", kind, KLL_KINDS)
    return _call(f"kll_sketch_get_rank_{kind}_with_error_bounds", sketch, _literal(value))


def approx_top_k_estimate_with_error_bounds(state: ColumnOrName, k: int = 5) -> Column:
    """`items_ranking` of a state that `approx_top_k_accumulate` or `approx_top_k_combine` made.

    ARRAY<STRUCT<item STRING, …>>: items of any type are given as text, a null item as NULL.
    """
    check_whole("k", k, 1, MOST_TRACKED)
    return _call("approx_top_k_estimate_with_error_bounds", state, lit(k))


def count_min_sketch_estimate(sketch: ColumnOrName, key: ColumnOrName) -> Column:
    """How often `key` was counted by `count_min_sketch`: BIGINT, never too low.

    The key is of the type that was counted; integers of every width are the same key. A sketch is decoded once for each
    batch of rows that carry it, but Spark sends it with every row: for many keys of one large sketch, ask
    `SparkCountMin.from_bytes(blob).estimate(keys)` instead.
    """
    return _call("count_min_sketch_estimate", sketch, key)


def count_min_sketch_estimate_with_error_bounds(sketch: ColumnOrName, key: ColumnOrName) -> Column:
    """The same with bounds: the `Answer` of `SparkCountMin.estimate` as a struct."""
    return _call("count_min_sketch_estimate_with_error_bounds", sketch, key)


def count_min_sketch_union_agg(sketch: ColumnOrName) -> Column:
    """An aggregate: the union of the sketches of a group, as BINARY that Spark's JVM reads; NULLs are left out.

    All must have been made with the same eps, confidence and seed, or the query ends with `MergeError`.
    """
    return _call("count_min_sketch_union_agg", sketch)


def register_builtin(spark: SparkSession) -> None:
    """Make every function of this file callable in SQL, under its name.

        register_builtin(spark)
        spark.sql("SELECT hll_sketch_estimate_with_error_bounds(hll_sketch_agg(user)) FROM visits")

    delta, and k of `approx_top_k_estimate_with_error_bounds`, are an optional last argument. KLL and Tuple functions
    have their kind in the name, as Spark's have: `kll_sketch_get_rank_bigint_with_error_bounds`,
    `tuple_sketch_estimate_integer_with_error_bounds`.
    """
    for name in _functions():
        spark.udf.register(name, _functions()[name])


def _call(name: str, *columns: ColumnOrName) -> Column:
    call: Column = _functions()[name](*(col(column) if isinstance(column, str) else column for column in columns))
    return call


def _literal(value: Any) -> Column:
    return value if isinstance(value, Column) else lit(value)


@cache
def _functions() -> dict[str, Any]:
    """Every UDF by its SQL name."""
    functions = {
        "hll_sketch_estimate_with_error_bounds": _by_row(_hll, ANSWER_TYPE),
        "theta_sketch_estimate_with_error_bounds": _by_row(_theta, ANSWER_TYPE),
        "approx_top_k_estimate_with_error_bounds": _by_row(items_ranking, RANKING_TYPE),
        "count_min_sketch_estimate": _udf(_count_min_values, LongType()),
        "count_min_sketch_estimate_with_error_bounds": _udf(_count_min_answers, ANSWER_TYPE),
        "count_min_sketch_union_agg": _udf(_count_min_union, BinaryType()),
    }
    for kind in ("double", "integer"):
        functions[f"tuple_sketch_estimate_{kind}_with_error_bounds"] = _by_row(_tuple_of(kind), ANSWER_TYPE)
    for kind in KLL_KINDS:
        functions[f"kll_sketch_get_quantile_{kind}_with_error_bounds"] = _by_row(_quantile_of(kind), ANSWER_TYPE)
        functions[f"kll_sketch_get_rank_{kind}_with_error_bounds"] = _by_row(_rank_of(kind), ANSWER_TYPE)
    return functions


def _udf(function: Callable[..., Any], type_: DataType) -> Any:
    """Arrays to an array is a scalar function, arrays to anything else an aggregate: Spark reads it off the hints."""
    return arrow_udf(function, type_)  # type: ignore[call-overload]


def _by_row(answer: Callable[..., Answer | Ranking | None], type_: DataType) -> Any:
    """A function of one sketch as one of columns: a row of them is one call, since every row is another sketch."""
    to_arrow: Callable[[list[Any]], pa.Array] = rankings_to_arrow if type_ is RANKING_TYPE else answers_to_arrow

    def answers(*columns: pa.Array) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return to_arrow([None if any(value is None for value in row) else answer(*row) for row in rows])

    return _udf(answers, type_)


def _hll(blob: bytes, delta: Any = _DELTA) -> Answer:
    return hll_answer(blob, delta=float(delta))


def _theta(blob: bytes, delta: Any = _DELTA) -> Answer:
    return theta_answer(blob, delta=float(delta))


def _tuple_of(kind: str) -> Callable[..., Answer]:
    return lambda blob, delta=_DELTA: tuple_answer(blob, kind=kind, delta=float(delta))


def _quantile_of(kind: str) -> Callable[..., Answer | None]:
    return lambda blob, rank: None if kll_is_empty(blob) else kll_quantile_answer(blob, float(rank), kind=kind)


def _rank_of(kind: str) -> Callable[..., Answer | None]:
    def answer(blob: bytes, value: Any) -> Answer | None:
        number = math.floor(value) if kind == "bigint" and math.isfinite(value) else float(value)
        return None if kll_is_empty(blob) else kll_rank_answer(blob, number, kind=kind)

    return answer


def _asked(sketches: pa.Array, keys: pa.Array) -> Iterator[tuple[I64, Answer]]:
    """Rows with the answers to them: each distinct sketch is decoded once and asked for all of its keys together."""
    encoded = sketches.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.where(keys.is_valid().to_numpy(zero_copy_only=False), codes, -1)
    for code, blob in enumerate(encoded.dictionary):
        rows = np.flatnonzero(codes == code)
        if rows.size:
            yield rows, SparkCountMin.from_bytes(blob.as_py()).estimate(keys.take(pa.array(rows)))


def _count_min_answers(sketches: pa.Array, keys: pa.Array) -> pa.Array:
    parts, places, done = [answers_to_arrow([])], np.full(len(keys), -1, dtype=np.int64), 0
    for rows, answer in _asked(sketches, keys):
        parts.append(answers_to_arrow(answer))
        places[rows] = np.arange(done, done + rows.size)
        done += rows.size
    return pa.concat_arrays(parts).take(pa.array(places, mask=places < 0))


def _count_min_values(sketches: pa.Array, keys: pa.Array) -> pa.Array:
    values = np.full(len(keys), -1, dtype=np.int64)
    for rows, answer in _asked(sketches, keys):
        values[rows] = answer.value
    return pa.array(values, mask=values < 0)


def _count_min_union(sketches: pa.Array) -> bytes | None:
    if sketches.null_count == len(sketches):
        return None
    return SparkCountMin.merge(SparkCountMin.from_bytes(blob.as_py()) for blob in sketches if blob.is_valid).to_bytes()
