"""An `Answer` as a Spark struct and as Arrow: one shape for every function that gives bounds in SQL.

    ANSWER_TYPE    STRUCT<value, low, high, confidence, epsilon: DOUBLE, window_start, window_end: BIGINT,
                          sites, missing: ARRAY<STRING>>
    RANKING_TYPE   ARRAY<STRUCT<item: STRING, the fields of an answer>>, heaviest first

An end that is open, a value that does not exist (NaN) and an answer that is None become NULL: SQL has no infinity that
sorts and compares as people expect. An answer over the whole history has NULL for its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from catchment.answer import Answer, Ranking

__all__ = [
    "ANSWER_TYPE",
    "ARROW_ANSWER_TYPE",
    "ARROW_RANKING_TYPE",
    "RANKING_TYPE",
    "answers_to_arrow",
    "rankings_to_arrow",
]

_DOUBLES = ("value", "low", "high", "confidence", "epsilon")
_TICKS = ("window_start", "window_end")
_NAMES = ("sites", "missing")

ANSWER_TYPE = StructType(
    [
        *(StructField(name, DoubleType()) for name in _DOUBLES),
        *(StructField(name, LongType()) for name in _TICKS),
        *(StructField(name, ArrayType(StringType())) for name in _NAMES),
    ]
)
RANKING_TYPE = ArrayType(StructType([StructField("item", StringType()), *ANSWER_TYPE.fields]))

_ARROW_NAMES = pa.list_(pa.field("element", pa.string()))  # the name that Spark gives to an array's elements
_ARROW_FIELDS = [
    *(pa.field(name, pa.float64()) for name in _DOUBLES),
    *(pa.field(name, pa.int64()) for name in _TICKS),
    *(pa.field(name, _ARROW_NAMES) for name in _NAMES),
]
ARROW_ANSWER_TYPE = pa.struct(_ARROW_FIELDS)
_ARROW_RANKED = [pa.field("item", pa.string()), *_ARROW_FIELDS]
ARROW_RANKING_TYPE = pa.list_(pa.field("element", pa.struct(_ARROW_RANKED)))


def answers_to_arrow(answers: Answer | Sequence[Answer | None]) -> pa.StructArray:
    """One struct for each answer; None becomes NULL. An Answer to an array of keys gives one for each key.

    >>> answers_to_arrow([Answer(3, 2, float("inf"), 1.0, 0.1), None]).to_pylist()[0]["high"] is None
    True
    >>> len(answers_to_arrow(Answer(np.array([3, 4]), np.array([2, 3]), np.array([3, 4]), 1.0, 0.1)))
    2
    """
    if isinstance(answers, Answer):
        return pa.StructArray.from_arrays(_columns([answers], len(answers)), fields=_ARROW_FIELDS)
    absent = np.fromiter((answer is None for answer in answers), dtype=np.bool_, count=len(answers))
    columns = _columns([_NOTHING if answer is None else answer for answer in answers], len(answers))
    return pa.StructArray.from_arrays(columns, fields=_ARROW_FIELDS, mask=pa.array(absent))


def rankings_to_arrow(rankings: Sequence[Ranking | None]) -> pa.ListArray:
    """One array of (item, answer) for each ranking; None becomes NULL.

    Items are written as text: an integer in decimal, bytes as UTF-8 with `\\\\x..` where they are none.

    >>> answers = Answer(np.array([5]), np.array([4]), np.array([5]), 1.0, 0.1)
    >>> [row["item"] for row in rankings_to_arrow([Ranking((17,), answers)]).to_pylist()[0]]
    ['17']
    """
    items = [as_text(key) for ranking in rankings if ranking is not None for key in ranking.keys]
    columns: list[pa.Array] = [pa.array(items, pa.string())]
    held = [ranking.answers for ranking in rankings if ranking is not None and len(ranking)]
    columns += _columns(held, len(items))
    lengths = [0 if ranking is None else len(ranking) for ranking in rankings]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    absent = pa.array([ranking is None for ranking in rankings], pa.bool_())
    rows = pa.StructArray.from_arrays(columns, fields=_ARROW_RANKED)
    return pa.ListArray.from_arrays(pa.array(ends), rows, type=ARROW_RANKING_TYPE, mask=absent)


def as_text(key: Any) -> str | None:
    """A key as SQL shows it; null stays null.

    >>> as_text(b"caf\\xc3\\xa9"), as_text(b"\\xff"), as_text(-3)
    ('café', '\\\\xff', '-3')
    """
    if key is None:
        return None
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)


_NOTHING = Answer(np.nan, np.nan, np.nan, np.nan, np.nan)


def _columns(answers: Sequence[Answer], rows: int) -> list[pa.Array]:
    """The fields of all answers one after the other, an answer to many keys having many rows."""
    counts = np.fromiter((np.size(answer.value) for answer in answers), dtype=np.int64, count=len(answers))
    if int(counts.sum()) != rows:
        raise ValueError(f"{counts.sum()} answers for {rows} rows")
    doubles = [_finite(_spread([getattr(answer, name) for answer in answers], counts)) for name in _DOUBLES]
    windows = [answer.window or (None, None) for answer in answers]
    return [
        *doubles,
        *(_repeated(pa.array([window[end] for window in windows], pa.int64()), counts) for end in (0, 1)),
        *(
            _repeated(pa.array([list(getattr(answer, name)) for answer in answers], _ARROW_NAMES), counts)
            for name in _NAMES
        ),
    ]


def _spread(parts: list[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers and arrays in one array, a number repeated for each of its answer's rows."""
    if counts.size == counts.sum() and not any(isinstance(part, np.ndarray) for part in parts):
        return np.array(parts, dtype=np.float64)
    rows = (
        np.broadcast_to(np.asarray(part, dtype=np.float64), count) for part, count in zip(parts, counts, strict=True)
    )
    return np.concatenate([np.zeros(0), *rows])


def _finite(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _repeated(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    return values if np.all(counts == 1) else values.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
