"""Questions to whole batches of rows: every sketch is read once, and asked for all of its keys at once.

A column of sketches that was joined to keys repeats the same bytes on many rows. Rows are grouped by what must be the
same for one call (the bytes, the range, other parameters); each group is one call with an array of keys, and the
answers go back to the places of their rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.errors import KeyTypeError, QueryError
from catchment.sketch.base import Sketch
from catchment.spark.answers import answers_to_arrow, rankings_to_arrow
from catchment.spark.functions.arguments import (
    Argument,
    as_numbers,
    as_ordered,
    as_ticks,
    as_whole,
    bind,
    check_key,
)
from catchment.spark.functions.grouping import groups_of_rows, numbered
from catchment.spark.functions.questions import BOUNDS, COUNT, FLAG, QUESTIONS, RANKING, Question
from catchment.window.base import WindowSketch
from catchment.window.panes import Panes

__all__ = ["ask"]

I64 = NDArray[np.int64]

_recent: dict[str, dict[bytes, Sketch]] = {}
"""The sketches of the last batch, by function: the next batch often brings the same. No older ones are kept."""


def ask(name: str, *columns: pa.Array, **named: pa.Array) -> pa.Array:
    """The answers of the function of that name, one for each row; null where something that it needs is null."""
    question = QUESTIONS[name]
    names = [argument.name for argument in question.arguments]
    required = [argument.name for argument in question.arguments if not argument.optional]
    given = bind(name, names, required, columns, named)
    present = np.ones(len(columns[0] if columns else next(iter(named.values()))), dtype=np.bool_)
    for needed in required:
        present &= given[needed].is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(present)
    if rows.size < present.size:
        given = {argument: column.take(pa.array(rows)) for argument, column in given.items()}
    parts, places = _answer_groups(question, given, rows.size)
    answers = pa.concat_arrays(parts) if parts else _nothing(question)
    found = np.zeros(present.size, dtype=np.int64)
    found[rows] = places
    return answers.take(pa.array(found, mask=~present))


def _answer_groups(question: Question, given: dict[str, pa.Array], count: int) -> tuple[list[pa.Array], I64]:
    """The answers group by group, and where among them each row finds its own."""
    arguments = {argument.name: argument for argument in question.arguments if argument.name in given}
    keys = _keys(arguments["key"], given["key"]) if question.vector else None
    shared = [_Shared(argument, given[name]) for name, argument in arguments.items() if name != question.vector]
    sketches = _read(question, shared)
    parts: list[pa.Array] = []
    places = np.zeros(count, dtype=np.int64)
    end = 0
    for members in groups_of_rows([column.codes for column in shared], count):
        first = members[0]
        values = {column.name: column.value(first, sketches) for column in shared}
        if keys is None:
            part = _as_arrow(question, _call(question, values))
            places[members] = end
        else:
            own = keys if members.size == count else keys.take(members)
            part = _as_arrow(question, _call(question, values, own))
            places[members] = end + np.arange(members.size)
        parts.append(part)
        end += len(part)
    return parts, places


class _Shared:
    """A column whose values decide which rows can be asked together: a number for each distinct value."""

    def __init__(self, argument: Argument, column: pa.Array) -> None:
        self.name, self.role = argument.name, argument.role
        self.distinct, self.codes = numbered(_CONVERTED[argument.role](column))

    def value(self, row: int, sketches: dict[bytes, Sketch]) -> Any:
        code = int(self.codes[row])
        if code < 0:
            return None
        value = self.distinct[code].as_py()
        return sketches[value] if self.role == "sketch" else value


def _blobs(column: pa.Array) -> pa.Array:
    if pa.types.is_null(column.type):
        return column.cast(pa.binary())
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        raise KeyTypeError(f"sketches of type {column.type}", "give the BINARY that an _agg or a _union function made")
    return column


def _bound(column: pa.Array) -> pa.Array:
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


_CONVERTED = {"sketch": _blobs, "ordered": _bound, "ticks": as_ticks, "whole": as_whole, "number": as_numbers}


def _keys(argument: Argument, column: pa.Array) -> Any:
    return as_ordered(column) if argument.role == "ordered" else check_key(column)


def _read(question: Question, shared: list[_Shared]) -> dict[bytes, Sketch]:
    blobs = {blob for column in shared if column.role == "sketch" for blob in column.distinct.to_pylist()}
    before = _recent.get(question.name, {})
    sketches = {blob: before.get(blob) or question.kind.read(blob) for blob in blobs}
    _recent[question.name] = sketches
    return sketches


def _call(question: Question, values: dict[str, Any], *keys: Any) -> Any:
    sketch = values.pop("sketch")
    time = {name: value for name in ("last", "now") if (value := values.pop(name, None)) is not None}
    arguments = (*keys, *(values[argument.name] for argument in question.arguments if argument.name in values))
    if isinstance(sketch, Panes) and not hasattr(sketch, question.method):
        return sketch.ask(question.method, *arguments, **time)
    if time and not isinstance(sketch, WindowSketch):
        raise QueryError(
            f"{question.name} was given {next(iter(time))} for a {type(sketch).__name__} of all times",
            f"leave it out, or build with {question.kind.prefix}_panes_agg",
        )
    return getattr(sketch, question.method)(*arguments, **time)


# -- what goes back -----------------------------------------------------------------------------------------------


def _as_arrow(question: Question, found: Any) -> pa.Array:
    """What a sketch said, as the function's type; one entry for each key, or one in all."""
    if question.output == BOUNDS:
        return answers_to_arrow(found if isinstance(found.value, np.ndarray) else [found])
    if question.output == RANKING:
        return _rankings([found])
    if question.output == FLAG:
        return pa.array(np.atleast_1d(found))
    values = np.atleast_1d(np.asarray(found.value, dtype=None if question.output == COUNT else np.float64))
    if values.dtype.kind in "iu":
        return pa.array(values.astype(np.int64))
    finite = np.isfinite(values)
    if question.output == COUNT:
        return pa.array(np.rint(np.where(finite, values, 0)).astype(np.int64), mask=~finite)
    return pa.array(values, mask=~finite)


def _rankings(found: list[Ranking]) -> pa.Array:
    notes = pa.array([ranking.note for ranking in found], pa.string())
    return pa.StructArray.from_arrays([rankings_to_arrow(found), notes], names=["items", "note"])


def _nothing(question: Question) -> pa.Array:
    """An empty array of the function's type."""
    if question.output == RANKING:
        return _rankings([])
    if question.output == FLAG:
        return pa.array([], pa.bool_())
    empty = np.zeros(0, dtype=np.int64 if question.output == COUNT else np.float64)
    return _as_arrow(question, Answer(empty, empty, empty, confidence=1.0, epsilon=0.0))
