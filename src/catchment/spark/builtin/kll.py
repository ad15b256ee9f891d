"""Bounds for `kll_sketch_agg_bigint`, `…_float` and `…_double`: quantiles and ranks.

The bytes are read here and not by the DataSketches library: its Python package has no sketch of 64-bit integers, and
its reader ends the process on damaged bytes. What a KLL sketch holds is simple enough: values in levels, a value of
level i standing for 2^i of them. The size of the error is asked of the library.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, ParameterError, QueryError, UnknownFormatError
from catchment.sketch.checks import check_choice, check_fraction

__all__ = ["KLL_KINDS", "kll_is_empty", "kll_quantile_answer", "kll_rank_answer"]

KLL_KINDS = ("bigint", "float", "double")
_TYPES: dict[str, np.dtype[Any]] = {"bigint": np.dtype("<i8"), "float": np.dtype("<f4"), "double": np.dtype("<f8")}
_FAMILY = 15
_EMPTY, _SINGLE = 1, 4
_DELTA = 0.01
_LEVEL_LIMIT = 61


@dataclass(frozen=True, slots=True, eq=False)
class _Kll:
    """A sketch at rest: its values in order, how many values are up to each, and the exact ends."""

    values: NDArray[Any]
    up_to: NDArray[np.int64]
    smallest: Any
    largest: Any
    k: int
    exact: bool

    @property
    def count(self) -> int:
        return int(self.up_to[-1])

    @property
    def rank_error(self) -> float:
        return 0.0 if self.exact else float(kll_doubles_sketch.get_normalized_rank_error(self.k, False))

    def quantile(self, rank: float) -> Any:
        """The smallest value with at least that share of all at or below it; the true ends beyond 0 and 1."""
        if rank <= 0 or rank >= 1:
            return self.smallest if rank <= 0 else self.largest
        needed = math.ceil(round(rank * self.count, 7))  # 0.3 * 10 is 3, and not the next value after it
        return self.values[np.searchsorted(self.up_to, needed)].item()

    def rank(self, value: Any) -> float:
        """The share of all values at or below this one."""
        place = int(np.searchsorted(self.values, value, side="right"))
        return int(self.up_to[place - 1]) / self.count if place else 0.0


def kll_quantile_answer(blob: bytes, rank: float, *, kind: str = "double", delta: float = _DELTA) -> Answer:
    """The value at this rank, from 0 to 1, with the values between which the true one lies.

    The truth is the smallest value with at least `rank` of all values at or below it (Spark's own definition).

    **Guarantee.** A sketch that never dropped a value is exact: its confidence is 1. Else the rank of what it gives is
    off by at most `epsilon` with probability 0.99, the one confidence that its authors publish: a fit to the 99th
    percentile of the largest error over all ranks, measured in thousands of trials, not proved. `low` and `high` are
    the values at rank - epsilon and rank + epsilon; the smallest and the largest value are always exact. After merges
    of different k the smallest k counts, and the bytes carry it.

    Parameters
    ----------
    blob
        The bytes of the column.
    rank
        From 0 to 1, the median being 0.5.
    kind
        "bigint", "float" or "double", as in the SQL name that made the sketch: the bytes do not tell.
    delta
        The probability of failure, 0.01 or more; more than that makes the bounds no narrower.

    Raises
    ------
    QueryError
        The sketch is empty, or the rank is not a number from 0 to 1.
    BytesError
        The bytes are not a KLL sketch as Spark writes it.
    """
    _check_delta(delta)
    if not 0 <= rank <= 1:
        raise QueryError(f"the rank {rank!r}", "give a number from 0 to 1, such as 0.5 for the median")
    sketch = _read(blob, kind)
    error = sketch.rank_error
    value, low, high = (sketch.quantile(place) for place in (rank, rank - error, rank + error))
    if sketch.exact:
        low = high = value
    return Answer(value, low, high, _confidence(sketch), error)


def kll_rank_answer(blob: bytes, value: Any, *, kind: str = "double", delta: float = _DELTA) -> Answer:
    """The share of values at or below this one, with bounds; parameters and guarantee as in `kll_quantile_answer`."""
    _check_delta(delta)
    if isinstance(value, float) and math.isnan(value):
        raise QueryError("the rank of NaN", "give a value that can be compared")
    sketch = _read(blob, kind)
    if kind == "float":  # as Spark compares: 0.1 is below its nearest float
        value = np.float32(value).item()
    if value < sketch.smallest or value >= sketch.largest:  # the ends are exact
        rank = 0.0 if value < sketch.smallest else 1.0
        return Answer(rank, rank, rank, 1.0, sketch.rank_error)
    rank, error = sketch.rank(value), sketch.rank_error
    return Answer(rank, max(rank - error, 0.0), min(rank + error, 1.0), _confidence(sketch), error)


def kll_is_empty(blob: bytes) -> bool:
    """Whether this is a KLL sketch that has seen no value."""
    return len(blob) == 8 and blob[2] == _FAMILY and bool(blob[3] & _EMPTY)


def _confidence(sketch: _Kll) -> float:
    return 1.0 if sketch.exact else 1 - _DELTA


def _check_delta(delta: float) -> None:
    if check_fraction("delta", delta) < _DELTA:
        raise ParameterError(f"delta={delta!r}", f"the error of KLL is known at confidence 0.99: give {_DELTA} or more")


def _read(blob: bytes, kind: str) -> _Kll:
    dtype = _TYPES[check_choice("kind", kind, KLL_KINDS)]
    if len(blob) < 8:
        raise DamagedBytesError(f"{len(blob)} bytes, and the header alone of a KLL sketch has 8")
    words, serial, family, flags = blob[:4]
    if family != _FAMILY or (words, serial) not in ((2, 1), (2, 2), (5, 1)):
        raise UnknownFormatError(
            f"family {family}, version {serial} where a KLL sketch has {_FAMILY} and 1 or 2",
            f"give the column that kll_sketch_agg_{kind} made",
        )
    k, m = struct.unpack_from("<HB", blob, 4)
    if k < m or m != 8:
        raise DamagedBytesError(f"a KLL sketch with k={k} and m={m}")
    if flags & _EMPTY:
        if len(blob) != 8:
            raise DamagedBytesError(f"{len(blob)} bytes for an empty KLL sketch")
        raise QueryError("an empty KLL sketch has no quantiles", "leave out groups without values")
    if flags & _SINGLE:
        if len(blob) != 8 + dtype.itemsize:
            raise DamagedBytesError(f"{len(blob)} bytes for a KLL sketch of one {kind}")
        only = np.frombuffer(blob, dtype=dtype, offset=8)
        _check_order(only)
        return _Kll(only, np.ones(1, dtype=np.int64), only[0].item(), only[0].item(), k, exact=True)
    return _read_levels(blob, dtype, k)


def _read_levels(blob: bytes, dtype: np.dtype[Any], k: int) -> _Kll:
    if len(blob) < 20:
        raise DamagedBytesError(f"{len(blob)} bytes, and the header alone of a full KLL sketch has 20")
    count, smallest_k, levels = struct.unpack_from("<QHB", blob, 8)
    first = 20 + 4 * levels + 2 * dtype.itemsize
    if not 1 <= levels <= _LEVEL_LIMIT or not 8 <= smallest_k <= k or len(blob) < first:
        raise DamagedBytesError(f"{len(blob)} bytes for a KLL sketch of {levels} levels and k={smallest_k}")
    held, rest = divmod(len(blob) - first, dtype.itemsize)
    starts = np.frombuffer(blob, dtype="<u4", count=levels, offset=20).astype(np.int64)
    sizes = np.diff(starts, append=starts[0] + held)
    weights = np.left_shift(np.int64(1), np.arange(levels, dtype=np.int64))
    # In whole numbers of Python, which cannot wrap around to a sum that looks right.
    total = sum(int(size) * int(weight) for size, weight in zip(sizes, weights, strict=True))
    if rest or int(sizes.min()) < 0 or total != count or not 0 < count < 2**63:
        raise DamagedBytesError(f"a KLL sketch of {count} values whose levels stand for {total}")
    ends = np.frombuffer(blob, dtype=dtype, count=2, offset=first - 2 * dtype.itemsize)
    values = np.frombuffer(blob, dtype=dtype, offset=first)
    _check_order(values)
    _check_order(ends)
    if ends[0] > values.min() or values.max() > ends[1]:
        raise DamagedBytesError(f"a KLL sketch with values outside its own range [{ends[0]}, {ends[1]}]")
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(np.repeat(weights, sizes)[order])
    return _Kll(values[order], up_to, ends[0].item(), ends[1].item(), smallest_k, exact=levels == 1)


def _check_order(values: NDArray[Any]) -> None:
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise DamagedBytesError("a KLL sketch that holds NaN, which none takes in")
