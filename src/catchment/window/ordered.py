"""Ordered keys as whole numbers: codes that sort as the keys do, so that ranges of keys are ranges of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import KeyTypeError, NullKeyError

__all__ = ["FLOAT", "INTEGER", "IPV4", "ORDERS", "SIGNED", "decoded", "encoded", "widest"]

U64 = NDArray[np.uint64]

INTEGER, SIGNED, FLOAT, IPV4 = "integer", "signed", "float", "ipv4"
ORDERS = (INTEGER, SIGNED, FLOAT, IPV4)
"""Whole numbers from 0; of either sign; floating-point numbers; and addresses, as text or as numbers."""

_SIGN = np.uint64(1 << 63)


def widest(order: str) -> int:
    """The bits that an order needs, or the most that it can use."""
    return {INTEGER: 63, SIGNED: 63, FLOAT: 64, IPV4: 32}[order]


def encoded(keys: Any, order: str, bits: int) -> tuple[U64, bool]:
    """The code of each key, below 2^bits, and whether it was one key by itself.

    >>> encoded([3, 5], "integer", 8)[0].tolist(), encoded(-1, "signed", 8)[0].tolist()
    ([3, 5], [127])
    >>> encoded("10.0.0.255", "ipv4", 32)[0].tolist() == [10 * 2**24 + 255]
    True
    """
    scalar = not isinstance(keys, (list, tuple)) and np.ndim(keys) == 0
    if order == FLOAT:
        return _of_floats(keys), scalar
    numbers = _of_addresses(keys) if order == IPV4 else _whole(keys)
    offset = 1 << (bits - 1) if order == SIGNED else 0
    low, high = -offset, (1 << bits) - 1 - offset
    if numbers.size and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        outside = numbers.min() if int(numbers.min()) < low else numbers.max()
        raise KeyTypeError(f"the key {outside} is outside [{low}, {high}]", f"build with more than {bits} bits")
    return (numbers + offset).astype(np.uint64), scalar


def decoded(codes: U64, order: str, bits: int) -> list[Any]:
    """The keys of codes.

    >>> codes, _ = encoded([-2.5, 0.0, 1e300], "float", 64)
    >>> decoded(codes, "float", 64), bool(np.all(codes[1:] > codes[:-1]))
    ([-2.5, 0.0, 1e+300], True)
    """
    if order == FLOAT:
        # Beyond the infinities there are only codes that are no number.
        codes = np.clip(codes, *_of_floats([-np.inf, np.inf]))
        words = np.where(codes & _SIGN, codes ^ _SIGN, ~codes)
        floats: list[Any] = words.view(np.float64).tolist()
        return floats
    numbers = [code - (1 << (bits - 1) if order == SIGNED else 0) for code in codes.tolist()]
    return [_dotted(number) for number in numbers] if order == IPV4 else numbers


def _whole(keys: Any) -> NDArray[np.int64]:
    numbers = _array(keys)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise KeyTypeError(f"keys of type {numbers.dtype}", "give integers, or build with order='float' or 'ipv4'")
    if numbers.dtype.kind == "u" and numbers.size and int(numbers.max()) >= 1 << 63:
        raise KeyTypeError(f"the key {numbers.max()} is above 2^63 - 1", "leave out the top bit")
    return numbers.astype(np.int64)


def _array(keys: Any) -> NDArray[Any]:
    if np.ma.is_masked(keys):
        raise NullKeyError("keys that are masked", "leave them out, with compressed()")
    try:
        return np.atleast_1d(np.asarray(keys))
    except ValueError:
        raise KeyTypeError("keys of uneven shape", "give one dimension") from None


def _of_floats(keys: Any) -> U64:
    """The bits of a double as a whole number: negative ones complemented, the others with the sign bit set."""
    given = _array(keys)
    if given.dtype.kind not in "iuf" and given.size:
        raise KeyTypeError(f"keys of type {given.dtype}", "give numbers")
    numbers = given.astype(np.float64)
    if np.any(np.isnan(numbers)):
        raise KeyTypeError(f"the key at position {int(np.argmax(np.isnan(numbers)))} is not a number", "leave it out")
    words = (numbers + 0.0).view(np.uint64)  # adding 0 turns -0.0 into 0.0
    return np.asarray(np.where(words & _SIGN, ~words, words | _SIGN))


def _of_addresses(keys: Any) -> NDArray[np.int64]:
    addresses = _array(keys)
    if addresses.dtype.kind in "iu" or not addresses.size:
        return _whole(addresses)
    texts = addresses.astype(str)
    joined = ".".join(texts.tolist())
    pieces = joined.split(".")
    digits = joined.replace(".", "")
    if np.any(np.char.count(texts, ".") != 3) or "" in pieces or not (digits.isascii() and digits.isdigit()):
        raise _not_addresses(texts)
    table = np.array(pieces).astype(np.int64).reshape(-1, 4)
    if np.any(table > 255):
        raise _not_addresses(texts)
    return np.asarray(table @ np.array([1 << 24, 1 << 16, 1 << 8, 1]))


def _not_addresses(texts: NDArray[np.str_]) -> KeyTypeError:
    return KeyTypeError(f"not all of {texts[:3].tolist()}… are IPv4 addresses", "give them as 192.0.2.1")


def _dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
