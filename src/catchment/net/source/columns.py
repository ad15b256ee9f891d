"""Columns of texts turned into keys and ticks, with a mask of those that cannot be; no Python for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["castable", "integers", "is_text", "iso_ticks"]

Mask = NDArray[np.bool_]
I64 = NDArray[np.int64]

_INTEGER = r"^[+-]?[0-9]{1,19}$"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)


def castable(values: Any, kind: Any) -> Mask:
    """Which values a cast takes, found by halves: a good column costs one cast, a bad value a few more."""
    good = np.ones(len(values), dtype=bool)
    waiting = [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        try:
            values.slice(start, stop - start).cast(kind)
        except pa.ArrowInvalid:
            if stop - start == 1:
                good[start] = False
            else:
                middle = (start + stop) // 2
                waiting += [(start, middle), (middle, stop)]
    return good


def is_text(values: Any) -> Mask:
    """Which of these bytes are UTF-8 and not null."""
    there = np.asarray(values.is_valid())
    return there if _fits(values, pa.string()) else there & castable(values, pa.string())


def integers(texts: Any) -> tuple[I64, Mask]:
    """Texts as int64s, and which of them are such."""
    texts = pc.utf8_trim_whitespace(texts)
    good = _matches(texts, _INTEGER)
    good = _narrowed(texts, good, pa.int64())
    return _filled(texts, good, pa.int64()), good


def iso_ticks(texts: Any, tick: int) -> tuple[I64, Mask]:
    """Times such as 2024-05-01T12:00:00.5+02:00 as ticks of so many µs, and which are times; no zone means UTC."""
    texts = pc.utf8_trim_whitespace(texts)
    shaped = _matches(texts, _TIME)
    zoned = _matches(texts, _ZONE) & (np.asarray(pc.fill_null(pc.utf8_length(texts), 0)) > 10)
    microseconds = np.zeros(len(texts), dtype=np.int64)
    good = np.zeros(len(texts), dtype=bool)
    for rows, kind in ((shaped & zoned, pa.timestamp("us", "UTC")), (shaped & ~zoned, pa.timestamp("us"))):
        if rows.any():
            fitting = _narrowed(texts, rows, kind)
            microseconds[fitting] = _cast(texts.filter(pa.array(fitting)), kind)
            good |= fitting
    return microseconds // tick, good


def _matches(texts: Any, pattern: str) -> Mask:
    return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False))


def _fits(values: Any, kind: Any) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _narrowed(texts: Any, rows: Mask, kind: Any) -> Mask:
    """Those of the rows that the cast takes; the shape has kept most others from it."""
    chosen = texts if rows.all() else texts.filter(pa.array(rows))
    if _fits(chosen, kind):
        return rows
    good = rows.copy()
    good[rows] = castable(chosen, kind)
    return good


def _filled(texts: Any, good: Mask, kind: Any) -> I64:
    values = np.zeros(len(texts), dtype=np.int64)
    values[good] = _cast(texts.filter(pa.array(good)), kind)
    return values


def _cast(texts: Any, kind: Any) -> I64:
    cast = texts.cast(kind)
    return np.asarray(cast if kind == pa.int64() else cast.cast(pa.int64()), dtype=np.int64)
