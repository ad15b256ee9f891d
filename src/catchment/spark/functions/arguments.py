"""Argument: a place in a SQL function: its name, the Spark types that may stand there, and how Arrow brings it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catchment.errors import CatchmentError, KeyTypeError, ParameterError, TimeError, WeightError

__all__ = ["Argument", "as_numbers", "as_ordered", "as_ticks", "as_whole", "bind", "check_key"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("float", "double", "decimal")
_KEYS = (*_INTEGERS, "string", "binary")

TYPES: dict[str, tuple[str, ...]] = {
    "sketch": ("binary",),
    "key": _KEYS,
    "ordered": (*_INTEGERS, *_FRACTIONS, "string"),
    "ticks": (*_INTEGERS, "timestamp", "timestamp_ntz"),
    "whole": _INTEGERS,
    "number": (*_INTEGERS, *_FRACTIONS),
}
"""The Spark types that a role accepts; `ordered` is a key of a DyadicECM, whose order says which of them."""

_SECOND = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Argument:
    """A place in a function's signature that takes a column."""

    name: str
    role: str
    optional: bool = False

    def accepts(self, spark_type: str) -> bool:
        """Whether a column of this type may stand here; NULL always may.

        >>> Argument("key", "key").accepts("decimal(10,2)"), Argument("phi", "number").accepts("decimal(10,2)")
        (False, True)
        """
        return spark_type.split("(")[0].split(" ")[0] in (*TYPES[self.role], "void")

    def refusal(self, function: str, spark_type: str) -> CatchmentError:
        wanted = ", ".join(TYPES[self.role]).upper()
        error = {"key": KeyTypeError, "ordered": KeyTypeError, "ticks": TimeError}.get(self.role, ParameterError)
        return error(f"{function} was given {self.name} of type {spark_type.upper()}", f"cast it to {wanted}")


def bind(
    function: str, names: Sequence[str], required: Sequence[str], given: Sequence[T], named: Mapping[str, T]
) -> dict[str, T]:
    """What was given by place and by name, by name; too many, too few, unknown and doubled ones are refused.

    >>> bind("f", ["sketch", "key", "last"], ["sketch", "key"], ["s", "k"], {"last": 60})
    {'sketch': 's', 'key': 'k', 'last': 60}
    >>> bind("f", ["sketch", "key", "last"], ["sketch", "key"], ["s"], {})
    Traceback (most recent call last):
    catchment.errors.ParameterError: f was given no key: call f(sketch, key[, last])
    """
    cure = f"call {signature(function, names, required)}"
    if len(given) > len(names):
        raise ParameterError(f"{function} was given {len(given)} arguments", cure)
    bound = dict(zip(names, given, strict=False))
    for name, value in named.items():
        if name not in names:
            raise ParameterError(f"{function} was given {name}, which it does not know", cure)
        if name in bound:
            raise ParameterError(f"{function} was given {name} twice", cure)
        bound[name] = value
    missing = [name for name in required if name not in bound]
    if missing:
        raise ParameterError(f"{function} was given no {missing[0]}", cure)
    return bound


def signature(function: str, names: Sequence[str], required: Sequence[str]) -> str:
    """The call as people read it.

    >>> signature("f", ["a", "b", "c"], ["a"])
    'f(a[, b[, c]])'
    """
    needed = [name for name in names if name in required]
    spare = [name for name in names if name not in required]
    inside = ", ".join(needed) + "".join(f"[, {name}" for name in spare) + "]" * len(spare)
    return f"{function}({inside})".replace("([, ", "([")


# -- Arrow columns ------------------------------------------------------------------------------------------------


def check_key(column: pa.Array) -> pa.Array:
    """Keys as they are, refused by their type where it has no one hash."""
    kind = column.type
    fine = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (fine or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
        raise KeyTypeError(f"keys of type {kind}", "cast them to BIGINT, STRING or BINARY")
    return column


def as_ordered(column: pa.Array) -> Any:
    """Keys of a DyadicECM as NumPy has them: its order says what they must be."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(column.type) or pa.types.is_binary(column.type):
        raise KeyTypeError(f"keys of type {column.type}", "give integers, numbers or addresses, as the sketch's order")
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values


def as_ticks(column: pa.Array) -> pa.Array:
    """Times as int64: integers as they are, timestamps as the whole seconds since 1970 that they have passed.

    >>> as_ticks(pa.array([1_500_000, -1], pa.timestamp("us"))).to_pylist()
    [1, -1]
    """
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        seconds = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _SECOND)
        return pc.if_else(micros.is_valid(), pa.array(seconds), pa.scalar(None, pa.int64()))
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise TimeError(f"times of type {column.type}", "give BIGINT ticks or a TIMESTAMP")


def as_whole(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise WeightError(f"numbers of type {column.type}", "cast them to BIGINT")


def as_numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type) or pa.types.is_string(column.type):
        raise ParameterError(f"numbers of type {column.type}", "cast them to DOUBLE")
    return column.cast(pa.float64())
