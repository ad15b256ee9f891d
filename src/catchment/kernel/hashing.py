"""xxh64 of keys, equal to Spark's `xxhash64`, and the cheap derivation of rows and signs from it.

XXH64 follows the specification of Y. Collet (xxHash, version 0.1.1 of the algorithm description). Spark hashes a
string or binary column as its bytes, a bigint as 8 little-endian bytes, and several columns by using the hash of
one as the seed of the next: `seeds` below.

For an int64 and a fixed seed XXH64 is a bijection (each step, multiplication by an odd number, rotation,
xor-shift, addition, can be undone), so two integers never share a hash.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = [
    "SPARK_SEED",
    "column_draws",
    "column_of",
    "draws",
    "hash_bytes",
    "hash_bytes_chained",
    "hash_int64s",
    "hash_int64s_chained",
    "mixed",
]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

SPARK_SEED = np.uint64(42)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)

# numba mixes a uint64 and a plain int to float64: every constant is a uint64.
_S1, _S7, _S8, _S11, _S12, _S16, _S18, _S23, _S24 = (np.uint64(n) for n in (1, 7, 8, 11, 12, 16, 18, 23, 24))
_S27, _S29, _S30, _S31, _S32, _S33, _S40, _S48, _S56, _B64 = (
    np.uint64(n) for n in (27, 29, 30, 31, 32, 33, 40, 48, 56, 64)
)
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(n) for n in range(1, 8))


@kernel
def _rotated(x: np.uint64, bits: np.uint64) -> np.uint64:
    return (x << bits) | (x >> (_B64 - bits))


@kernel
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(lane + word * _P2, _S31) * _P1


@kernel
def _folded(hash_: np.uint64, lane: np.uint64) -> np.uint64:
    return (hash_ ^ _round(np.uint64(0), lane)) * _P1 + _P4


@kernel
def _avalanched(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> _S33)) * _P2
    h = (h ^ (h >> _S29)) * _P3
    return h ^ (h >> _S32)


@kernel
def _word64(data: U8, at: np.uint64) -> np.uint64:
    # Byte loads at unsigned places, which need no check for a negative index: LLVM fuses the eight into one, and no
    # aligned view is needed, so any Arrow buffer will do. Signed places ran at less than half the speed.
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _1]) << _S8
        | np.uint64(data[at + _2]) << _S16
        | np.uint64(data[at + _3]) << _S24
        | np.uint64(data[at + _4]) << _S32
        | np.uint64(data[at + _5]) << _S40
        | np.uint64(data[at + _6]) << _S48
        | np.uint64(data[at + _7]) << _S56
    )


@kernel
def _word32(data: U8, at: np.uint64) -> np.uint64:
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _1]) << _S8
        | np.uint64(data[at + _2]) << _S16
        | np.uint64(data[at + _3]) << _S24
    )


@kernel
def _hash_of_int64(value: np.int64, seed: np.uint64) -> np.uint64:
    h = seed + _P5 + _S8
    h = _rotated(h ^ _round(np.uint64(0), np.uint64(value)), _S27) * _P1 + _P4
    return _avalanched(h)


@kernel
def _hash_of_span(data: U8, start: np.uint64, stop: np.uint64, seed: np.uint64) -> np.uint64:
    at = start
    if stop - start >= _S32:
        a = seed + _P1 + _P2
        b = seed + _P2
        c = seed
        d = seed - _P1
        while at + _S32 <= stop:
            a = _round(a, _word64(data, at))
            b = _round(b, _word64(data, at + _S8))
            c = _round(c, _word64(data, at + _S16))
            d = _round(d, _word64(data, at + _S24))
            at += _S32
        h = _rotated(a, _S1) + _rotated(b, _S7) + _rotated(c, _S12) + _rotated(d, _S18)
        h = _folded(_folded(_folded(_folded(h, a), b), c), d)
    else:
        h = seed + _P5
    h += stop - start
    while at + _S8 <= stop:
        h = _rotated(h ^ _round(np.uint64(0), _word64(data, at)), _S27) * _P1 + _P4
        at += _S8
    if at + _4 <= stop:
        h = _rotated(h ^ (_word32(data, at) * _P1), _S23) * _P2 + _P3
        at += _4
    while at < stop:
        h = _rotated(h ^ (np.uint64(data[at]) * _P5), _S11) * _P1
        at += _1
    return _avalanched(h)


@kernel
def hash_int64s(values: I64, seed: np.uint64, out: U64) -> None:
    for i in range(values.size):
        out[i] = _hash_of_int64(values[i], seed)


@kernel
def hash_bytes(data: U8, offsets: I64, seed: np.uint64, out: U64) -> None:
    for i in range(out.size):
        out[i] = _hash_of_span(data, np.uint64(offsets[i]), np.uint64(offsets[i + 1]), seed)


@kernel
def hash_int64s_chained(values: I64, seeds: U64, out: U64) -> None:
    for i in range(values.size):
        out[i] = _hash_of_int64(values[i], seeds[i])


@kernel
def hash_bytes_chained(data: U8, offsets: I64, seeds: U64, out: U64) -> None:
    for i in range(out.size):
        out[i] = _hash_of_span(data, np.uint64(offsets[i]), np.uint64(offsets[i + 1]), seeds[i])


@kernel
def column_of(hash_: np.uint64, a: np.uint64, b: np.uint64, c: np.uint64, width: np.uint64) -> np.uint64:
    """The column in [0, width) of a key in the row that drew a, b and c.

    Pair-multiply-shift (Thorup, High speed hashing for integers and strings, 2015, section 3.5) on the two halves of
    the hash, then fastrange (Lemire, ACM TOMACS 29(1), 2019): one multiplication, and for any two hashes the columns
    are independent and uniform over the draw, so keys cannot be chosen to collide without the seed. Rejected: double
    hashing h1 + i*h2, under which two keys near in both halves meet in every row, and plain multiply-shift, under
    which chosen keys meet with probability 2/width. Their loops ran 1.6 times as fast; a bound that holds is worth it.
    """
    return ((((a + (hash_ >> _S32)) * (b + (hash_ & _LOW)) + c) >> _S32) * width) >> _S32


@kernel
def mixed(hash_: np.uint64, draw: np.uint64) -> np.uint64:
    """A fresh 64-bit value for each (key, row), a bijection of the hash: for signs, bit positions and ranks.

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) on hash xor draw, both multiplications: with one,
    hashes that differ only in their top bits had signs in common under every seed.
    """
    x = hash_ ^ draw
    x = (x ^ (x >> _S30)) * _MIX
    x = (x ^ (x >> _S27)) * _MIX2
    return x ^ (x >> _S31)


def draws(seed: int, count: int) -> U64:
    """`count` random numbers from `seed` by SplitMix64: the hash functions of a sketch.

    >>> draws(7, 3).tolist() == draws(7, 4)[:3].tolist()
    True
    """
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
        return mixed.py_func(x, np.uint64(0))  # type: ignore[attr-defined]


def column_draws(seed: int, rows: int) -> U64:
    """The a, b and c of each row, for `column_of`."""
    return draws(seed, 3 * rows).reshape(rows, 3)
