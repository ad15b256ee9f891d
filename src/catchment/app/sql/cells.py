"""Values of a result as text for people, and as JSON: every type that Spark sends, nested ones too.

Columns are turned whole, by Arrow where Arrow can: its dates and times know years that Python's do not.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["distinct_names", "json_values", "texts"]


def texts(column: pa.ChunkedArray | pa.Array) -> list[str | None]:
    """Each value as Spark would print it; null is None, for the reader of the list to show.

    >>> texts(pa.array([[1, None], []])), texts(pa.array([b"\\x00\\xff"])), texts(pa.array([{"a": 0.1, "b": "x"}]))
    (['[1, NULL]', '[]'], ["X'00FF'"], ['{a: 0.1, b: x}'])
    """
    return [text for chunk in _chunks(column) for text in _texts(chunk)]


def json_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Each value as JSON has it: decimals, dates and times as texts, binary in base64, no number that JSON lacks.

    >>> json_values(pa.array([1.5, float("nan"), None])), json_values(pa.array([b"\\x00\\xff"]))
    ([1.5, 'NaN', None], ['AP8='])
    """
    return [value for chunk in _chunks(column) for value in _json(chunk)]


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names of the columns, a number after those that came before: JSON and Parquet have each name once.

    >>> distinct_names(["n", "m", "n", "n_2"])
    ['n', 'm', 'n_3', 'n_2']
    """
    found: list[str] = []
    for name in names:
        unique, number = name, 2
        while unique in found or (unique != name and unique in names):
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _texts(array: pa.Array) -> list[str | None]:
    kind = array.type
    if _is_nested(kind):
        return _nested(
            array,
            _texts,
            many=lambda values: f"[{', '.join(map(_shown, values))}]",
            pairs=lambda pairs: "{" + ", ".join(f"{_shown(key)}: {_shown(value)}" for key, value in pairs) + "}",
        )
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if value is None else f"X'{value.hex().upper()}'" for value in array.to_pylist()]
    if pa.types.is_floating(kind):
        # As Arrow cuts them: the shortest text that is this number, of 32 bits or of 64.
        return [None if text is None else _number(text) for text in pc.cast(array, pa.string()).to_pylist()]
    if pa.types.is_duration(kind):
        ticks = array.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        return [None if each is None else _interval(each) for each in ticks]
    if pa.types.is_timestamp(kind):
        return [None if text is None else _moment(text) for text in pc.cast(array, pa.string()).to_pylist()]
    try:
        return list(pc.cast(array, pa.string()).to_pylist())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return [None if value is None else str(value) for value in array.to_pylist()]


def _json(array: pa.Array) -> list[Any]:
    kind = array.type
    if _is_nested(kind):
        return _nested(array, _json, many=list, pairs=_object)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return list(array.to_pylist())
    if pa.types.is_floating(kind):
        return [None if text is None else text if text in _NO_NUMBERS else float(text) for text in _texts(array)]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return list(_texts(array))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind) or _is_list(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _nested(
    array: pa.Array,
    inner: Callable[[pa.Array], list[Any]],
    *,
    many: Callable[[list[Any]], Any],
    pairs: Callable[[list[tuple[Any, Any]]], Any],
) -> list[Any]:
    """Lists by `many`, structs and maps by `pairs`, over what `inner` makes of their parts."""
    present = array.is_valid().to_pylist()
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        columns = [inner(part) for part in array.flatten()]
        rows = zip(*columns, strict=True) if columns else ((),) * len(array)
        return [
            pairs(list(zip(names, row, strict=True))) if there else None
            for there, row in zip(present, rows, strict=True)
        ]
    build: Callable[[list[Any]], Any] = many
    if pa.types.is_map(array.type):
        kind = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
        array = array.cast(pa.list_(kind))
        parts: list[Any] = list(zip(*map(inner, array.flatten().flatten()), strict=True))
        build = pairs
    else:
        parts = inner(array.flatten())
    lengths = pc.list_value_length(array).fill_null(0).to_pylist()
    ends = list(accumulate(lengths))
    spans = zip(present, lengths, ends, strict=True)
    return [build(parts[end - length : end]) if there else None for there, length, end in spans]


def _object(pairs: list[tuple[Any, Any]]) -> Any:
    """An object where the keys are texts that differ, and otherwise the pairs: a map may have any keys."""
    if len({key for key, _ in pairs if isinstance(key, str)}) == len(pairs):
        return dict(pairs)
    return [[key, value] for key, value in pairs]


_ARROWS_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NO_NUMBERS = set(_ARROWS_WORDS.values())


def _number(text: str) -> str:
    """A whole number keeps the sign that it is none by type: 5.0."""
    return _ARROWS_WORDS.get(text) or (text if set(text) & set(".e") else text + ".0")


def _interval(ticks: int) -> str:
    """Microseconds as Spark prints an interval, of which the largest unit is a day.

    >>> _interval(93_784_000_000)
    "INTERVAL '1 02:03:04' DAY TO SECOND"
    """
    seconds, fraction = divmod(abs(ticks), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    part = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' if ticks < 0 else ''}{days} {hours:02}:{minutes:02}:{seconds:02}{part}' DAY TO SECOND"


def _moment(text: str) -> str:
    """Arrow's time without the zone, which is UTC, and without the zeros of its fraction."""
    text = text.removesuffix("Z")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
