"""Whether two Arrow tables are the same answer to a query."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["difference"]

CLOSE = 1e-9
"""How far doubles may lie apart, relatively: additions in another order end in other last digits."""


def difference(
    expected: pa.Table, actual: pa.Table, *, ordered: bool = False, approximate: Mapping[str, float] | None = None
) -> str | None:
    """What tells the actual answer from the expected one, in words; None if nothing does.

    Names and types of columns must be equal, but for what is said never to be null inside of values. Rows are a
    multiset, unless they are `ordered`. Columns that are `approximate` may differ by their share, and by one, from the
    expected row with the same other columns.

    >>> a, b = pa.table({"x": [1, 2, 2]}), pa.table({"x": [2, 1, 2]})
    >>> difference(a, b) is None, difference(a, b, ordered=True)
    (True, "row 0: expected {'x': 1}, got {'x': 2}")
    >>> difference(a, pa.table({"x": [1, 1, 2]}))
    '1 rows missing, among them (2,); 1 too many, among them (1,)'
    """
    if expected.column_names != actual.column_names:
        return f"columns: expected {expected.column_names}, got {actual.column_names}"
    types = [(_type(a), _type(b)) for a, b in zip(expected.schema.types, actual.schema.types, strict=True)]
    if any(a != b for a, b in types):
        return f"types: expected {[a for a, _ in types]}, got {[b for _, b in types]}"
    if expected.num_rows != actual.num_rows:
        return f"rows: expected {expected.num_rows}, got {actual.num_rows}"
    want, have = _rows(expected), _rows(actual)
    if approximate:
        return _approximately(want, have, expected.column_names, approximate)
    if ordered:
        return _in_order(want, have, expected.column_names)
    return _as_multisets(want, have)


def _type(kind: pa.DataType) -> str:
    return str(kind).replace(" not null", "")


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any) -> Any:
    """A value that equals its like: NaN is one value, and so is zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(_plain(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, _plain(each)) for name, each in value.items())
    return value


def _close(a: Any, b: Any, share: float = CLOSE) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=share, abs_tol=share)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_close(x, y, share) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _in_order(want: Sequence[tuple[Any, ...]], have: Sequence[tuple[Any, ...]], names: list[str]) -> str | None:
    for place, (a, b) in enumerate(zip(want, have, strict=True)):
        if not _close(a, b):
            left, right = dict(zip(names, a, strict=True)), dict(zip(names, b, strict=True))
            return f"row {place}: expected {left}, got {right}"
    return None


def _as_multisets(want: Sequence[tuple[Any, ...]], have: Sequence[tuple[Any, ...]]) -> str | None:
    missing, surplus = Counter(want) - Counter(have), Counter(have) - Counter(want)
    left = list(surplus.elements())
    lost = []
    for row in missing.elements():
        twin = next((place for place, other in enumerate(left) if _close(row, other)), None)
        if twin is None:
            lost.append(row)
        else:
            left.pop(twin)
    if lost or left:
        return f"{len(lost)} rows missing, among them {lost[0]}; {len(left)} too many, among them {left[0]}"
    return None


def _approximately(
    want: Sequence[tuple[Any, ...]], have: Sequence[tuple[Any, ...]], names: list[str], shares: Mapping[str, float]
) -> str | None:
    exact = [place for place, name in enumerate(names) if name not in shares]

    def by_key(rows: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {tuple(row[place] for place in exact): row for row in rows}

    known, found = by_key(want), by_key(have)
    if known.keys() != found.keys():
        return f"groups: {len(known.keys() - found.keys())} missing, {len(found.keys() - known.keys())} too many"
    for key, row in known.items():
        for place, name in enumerate(names):
            if name in shares and abs(row[place] - found[key][place]) > shares[name] * row[place] + 1:
                return f"{name} of {key}: expected about {row[place]}, got {found[key][place]}"
    return None
