"""Bounds for `approx_top_k_accumulate` and `approx_top_k_combine`: which items, and how often at least and at most?

The state of both is a struct: `sketch` BINARY, `maxItemsTracked` INT, `itemDataType` of the type of the items (always
NULL), and `itemDataTypeDDL` STRING such as "item BIGINT NOT NULL". `sketch` holds an ItemsSketch of DataSketches,
followed by the number of nulls, 8 bytes, big-endian; how an item is written depends on its type. It is read here, in
arrays, since booleans are written as bits together and the library reads an item at a time.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from catchment.answer import Answer, Ranking
from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.sketch.checks import check_whole

__all__ = ["MOST_TRACKED", "items_ranking"]

MOST_TRACKED = 1_000_000
_FAMILY, _SERIAL = 10, 1
_EMPTY = 5
"""Both of the bits that versions of the library have used for it."""
_EPOCH = datetime(1970, 1, 1)
_SHORTEST, _LONGEST = 3, 31
_ERROR_FACTOR = 3.5
_FILL = 0.75
_DECIMAL_BYTES = 16


def items_ranking(state: Any, k: int = 5) -> Ranking:
    """The k items that were counted most often, each with the least and the most that its true count can be.

    **Guarantee.** Always true (confidence 1), over the rows that the state has not forgotten: an item's count is
    between `low` and `high`, and an item that is not tracked occurred at most as often as the note says. `value` is
    what `approx_top_k_estimate` gives, which is `high`. `epsilon` is the share of the rows that the error stays below:
    3.5 divided by the size of the sketch, or what it really is where smaller sketches were combined into it. Unlike
    `approx_top_k_estimate`, which leaves out items that could be in the list by mistake, and so may give an empty list,
    this gives them with their bounds. Nulls are counted exactly, and are an item (None).

    **What Spark forgets.** A partial sketch whose counters have all just been taken away, which happens to small
    sketches of items that are all rare, is written by the DataSketches library as an empty one, without its rows and
    its error. What it had seen of an item, at most epsilon times its rows, is then missing from `high`. Track
    several times as many items as there are heavy ones, and it does not happen.

    Parameters
    ----------
    state
        The struct that `approx_top_k_accumulate` or `approx_top_k_combine` made: a Row, a dict, or a tuple.
    k
        How many, at least 1.

    Raises
    ------
    BytesError
        The state is damaged, or of a type that this version does not read.
    """
    k = check_whole("k", k, 1, MOST_TRACKED)
    blob, tracked, type_ = _fields(state)
    items, counts, offset, rows, nulls, slots = _read(blob, type_)
    values = counts + offset
    lows, highs = counts, values
    if nulls:
        items = [None, *items]
        lows, highs = np.concatenate([[nulls], counts]), np.concatenate([[nulls], values])
    # Equal counts in the order of their text, so that the same state gives the same list.
    order = sorted(range(len(items)), key=lambda place: (-int(highs[place]), str(items[place])))[:k]
    size = min(2.0**slots, 2.0 ** np.ceil(np.log2(max(tracked / _FILL, 1))))
    epsilon = max(_ERROR_FACTOR / size, offset / rows if rows else 0.0)
    answers = Answer(highs[order], lows[order], highs[order], confidence=1.0, epsilon=float(epsilon))
    return Ranking(tuple(items[place] for place in order), answers, note=_note(len(items), k, offset))


def _note(held: int, k: int, offset: int) -> str:
    fewer = f"only {held} items are tracked" if held < k else ""
    others = f"an item that is not tracked occurred at most {offset} times" if offset else ""
    return "; ".join(part for part in (fewer, others) if part)


def _fields(state: Any) -> tuple[bytes, int, str]:
    values = state if isinstance(state, Mapping) else getattr(state, "asDict", lambda: None)()
    try:
        if values is None:
            blob, tracked, _, ddl = state
        else:
            blob, tracked, ddl = (values[name] for name in ("sketch", "maxItemsTracked", "itemDataTypeDDL"))
        return bytes(blob), int(tracked), str(ddl)
    except (KeyError, TypeError, ValueError):
        raise UnknownFormatError(
            f"a state of type {type(state).__name__} without sketch, maxItemsTracked and itemDataTypeDDL",
            "give the struct that approx_top_k_accumulate or approx_top_k_combine made",
        ) from None


def _read(blob: bytes, ddl: str) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.int64]], int, int, int, int]:
    """Items, their counters, what each may be too low by, rows, nulls, and the logarithm of the largest size."""
    if len(blob) < 16:
        raise DamagedBytesError(f"{len(blob)} bytes, and the smallest state of approx_top_k has 16")
    words, serial, family, largest, _, flags = blob[:6]
    if family != _FAMILY or serial != _SERIAL:
        raise UnknownFormatError(
            f"family {family}, version {serial} where an items sketch has {_FAMILY} and {_SERIAL}",
            "give the struct that approx_top_k_accumulate or approx_top_k_combine made",
        )
    (nulls,) = struct.unpack_from(">q", blob, len(blob) - 8)
    if nulls < 0 or not _SHORTEST <= largest <= _LONGEST:
        raise DamagedBytesError(f"an items sketch with {nulls} nulls and up to 2^{largest} slots")
    if words & 0x3F == 1 and flags & _EMPTY and len(blob) == 16:
        return [], np.zeros(0, dtype=np.int64), 0, 0, nulls, largest
    if words & 0x3F != 4 or flags & _EMPTY or len(blob) < 40:
        raise DamagedBytesError(f"{len(blob)} bytes for an items sketch with a header of {words & 0x3F} words")
    used, _, rows, offset = struct.unpack_from("<IIqq", blob, 8)
    start, stop = 32 + 8 * used, len(blob) - 8
    if start > stop or rows < 0 or offset < 0:
        raise DamagedBytesError(f"{len(blob)} bytes for an items sketch of {used} items")
    counts = np.frombuffer(blob, dtype="<i8", count=used, offset=32).astype(np.int64)
    if used and (int(counts.min()) <= 0 or sum(counts.tolist()) > rows):
        raise DamagedBytesError(f"counters that do not fit {rows} rows")
    return _items(blob[start:stop], used, ddl), counts, offset, rows, nulls, largest


def _items(data: bytes, count: int, ddl: str) -> list[Any]:
    found = re.fullmatch(r"item\s+(\w+)\s*(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?.*", ddl, re.IGNORECASE | re.DOTALL)
    name = found[1].upper() if found else ""
    if found and name == "DECIMAL" and found[2]:
        unscaled = _fixed("<i8")(data, count) if int(found[2]) <= 18 else _big_integers(data, count)
        return [Decimal(f"{number}E-{found[3]}") for number in unscaled]  # exact: scaleb() would round to 28 digits
    if name not in _READERS:
        raise UnknownFormatError(
            f"items of the type {ddl!r}",
            "count items that are boolean, numeric, date, timestamp or string, or cast them to string",
        )
    return _READERS[name](data, count)


def _fixed(dtype: str, tag: int | None = None) -> Callable[[bytes, int], list[Any]]:
    """Numbers of one width, each after a byte that names its type where the library writes mixed numbers."""
    layout = np.dtype([("value", dtype)] if tag is None else [("tag", "u1"), ("value", dtype)])

    def read(data: bytes, count: int) -> list[Any]:
        if len(data) != count * layout.itemsize:
            raise DamagedBytesError(f"{len(data)} bytes for {count} items of {layout.itemsize}")
        rows = np.frombuffer(data, dtype=layout)
        if tag is not None and np.any(rows["tag"] != tag):
            raise DamagedBytesError("items of another type than the state says")
        return rows["value"].tolist()  # type: ignore[no-any-return]

    return read


def _spans(data: bytes, count: int) -> list[bytes]:
    """Items of any length, each after its length in 4 bytes."""
    parts, at = [], 0
    for _ in range(count):
        if at + 4 > len(data):
            raise DamagedBytesError(f"{len(data)} bytes that end before {count} items do")
        (length,) = struct.unpack_from("<I", data, at)
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(data):
        raise DamagedBytesError(f"{len(data)} bytes for {count} items that take {at}")
    return parts


def _texts(data: bytes, count: int) -> list[str]:
    try:
        return [part.decode() for part in _spans(data, count)]
    except UnicodeDecodeError:
        raise DamagedBytesError("an item that is not UTF-8") from None


def _big_integers(data: bytes, count: int) -> list[int]:
    parts = _spans(data, count)
    if any(not 1 <= len(part) <= _DECIMAL_BYTES for part in parts):
        raise DamagedBytesError("a decimal of more than 38 digits, or of none")
    return [int.from_bytes(part, "big", signed=True) for part in parts]


def _booleans(data: bytes, count: int) -> list[bool]:
    if len(data) != (count + 7) // 8:
        raise DamagedBytesError(f"{len(data)} bytes for {count} booleans")
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count].astype(np.bool_).tolist()  # type: ignore[no-any-return]


def _times(data: bytes, count: int) -> list[datetime]:
    try:
        return [_EPOCH + timedelta(microseconds=moment) for moment in _fixed("<i8")(data, count)]
    except OverflowError:
        raise DamagedBytesError("a time outside the years 1 to 9999") from None


def _moments(data: bytes, count: int) -> list[datetime]:
    return [moment.replace(tzinfo=UTC) for moment in _times(data, count)]


def _dates(data: bytes, count: int) -> list[date]:
    try:
        return [(_EPOCH + timedelta(days=day)).date() for day in _fixed("<i4", 9)(data, count)]
    except OverflowError:
        raise DamagedBytesError("a date outside the years 1 to 9999") from None


_READERS: dict[str, Callable[[bytes, int], list[Any]]] = {
    "BOOLEAN": _booleans,
    "TINYINT": _fixed("<i1", 2),
    "SMALLINT": _fixed("<i2", 3),
    "INT": _fixed("<i4", 9),
    "BIGINT": _fixed("<i8"),
    "FLOAT": _fixed("<f4", 6),
    "DOUBLE": _fixed("<f8"),
    "STRING": _texts,
    "DATE": _dates,
    "TIMESTAMP": _moments,
    "TIMESTAMP_NTZ": _times,
}
