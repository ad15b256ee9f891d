"""Presence: distinct keys as a table of cells that a site has seen or not; tables add up to how many sites have.

A key falls into one of `width` columns and, with probability 2^-(l+1), onto level l: the bitmaps of probabilistic
counting (Flajolet and Martin 1985), with each key in one of them. Everyone's table, the sum of the sites', says in
which cells somebody has seen a key, whatever the number of those who did. How many cells that are, C, is all that the
estimate needs (the coupons of Lang 2017): n keys hit E_n C = Σ_c 1 - (1 - p_c)^n cells, a curve that rises by width/ln
2 for each factor e of n, and the estimate is the n where the curve is at C.

**How far C strays.** Whether cells are hit is negatively associated, as for balls in bins, so Bernstein's inequality
holds as if they were independent, with Σ p(1 - p) <= width as the variance. For few keys there is a better way: n - C
of them fell into a cell that was taken, each with probability at most n/(2 width), the chance of the n likeliest cells.

In a window a cell keeps the newest time of its keys: the table is exactly that of the keys in the window, late ones at
their own times, and falls by itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, InputError
from catchment.kernel.hashing import draws
from catchment.kernel.presence import newest_in_cells, see_cells
from catchment.monitor.packing import pack_updates, unpack_updates
from catchment.monitor.vectors import Vector, check_cells
from catchment.sketch.bounds import bisect
from catchment.sketch.codec import Reader, Writer

__all__ = [
    "LEVELS", "PresenceVector", "WindowPresenceVector", "cells_of", "keys_at_least", "keys_at_most", "keys_of",
    "width_for",
]  # fmt: skip

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

LEVELS = 32
_NEVER = np.iinfo(np.int64).min


class _Table(Vector):
    """Cells of 0 and 1; a change is the places that have changed."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        check_cells(LEVELS * width)
        self.rows, self.width = LEVELS, width
        self._draw = draws(seed, 1)[0]

    _factor = 0  # a cell is 0 or 1, whatever the weights

    def check(self, weights: I64, count: int, times: I64 | None, stream: int) -> None:
        super().check(weights, count, times, stream)
        if bool(np.any(weights < 0)):
            raise InputError("a negative weight for a distinct count", "keys that were seen cannot be taken back")

    def possible(self, least: float, most: float) -> bool:
        return least >= 0 and most <= 1

    def packed(self, cells: I64) -> bytes:
        flat = cells.reshape(-1)
        places = np.flatnonzero(flat)
        return pack_updates(places.astype(np.uint64), flat[places])

    def unpacked(self, updates: bytes) -> I64:
        places, changes = unpack_updates(updates)
        cells = np.zeros(self.rows * self.width, dtype=np.int64)
        if places.size and int(places[-1]) >= cells.size:
            raise DamagedBytesError(f"a change of cell {int(places[-1])} of {cells.size}")
        cells[places.astype(np.int64)] = changes
        return cells.reshape(self.shape)


class PresenceVector(_Table):
    """1 in each cell that a key has fallen into, ever."""

    def __init__(self, *, width: int, seed: int) -> None:
        super().__init__(width, seed)
        self._seen = np.zeros(self.rows * width, dtype=np.bool_)

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        fresh = np.empty(hashes.size, dtype=np.int64)
        count = see_cells(self._seen, self.rows, self.width, self._draw, hashes, fresh)
        for drift in self.drifts:
            drift.rose(fresh[:count], hashes.size)

    def advance(self, time: int) -> None:
        """The whole history does not change with time."""

    def values(self) -> I64:
        return self._seen.astype(np.int64).reshape(self.shape)

    def write(self, writer: Writer) -> None:
        writer.raw(np.packbits(self._seen).tobytes())

    def read(self, reader: Reader) -> None:
        size = self._seen.size
        bits = np.frombuffer(reader.raw(-(-size // 8)), dtype=np.uint8)
        self._seen = np.unpackbits(bits, count=size).astype(np.bool_)


class WindowPresenceVector(_Table):
    """1 in each cell that a key in the window has fallen into."""

    def __init__(self, *, width: int, seed: int, window: int) -> None:
        super().__init__(width, seed)
        self._window = window
        self._newest = np.full(self.rows * width, _NEVER, dtype=np.int64)
        self._time = _NEVER

    def check(self, weights: I64, count: int, times: I64 | None, stream: int) -> None:
        super().check(weights, count, times, stream)
        if times is None:
            raise InputError("events without times for a window", "give times= with every event")

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        assert times is not None  # checked
        newest_in_cells(self._newest, self.rows, self.width, self._draw, hashes, times)
        self._time = max(self._time, int(times.max(initial=_NEVER)))
        self._moved(hashes.size)

    def advance(self, time: int) -> None:
        self._time = max(self._time, time)
        self._moved(0)

    def values(self) -> I64:
        start = max(self._time - self._window, _NEVER)
        return (self._newest > start).astype(np.int64).reshape(self.shape)

    def write(self, writer: Writer) -> None:
        writer.numbers("q", self._time)
        writer.raw(self._newest.astype("<i8").tobytes())

    def read(self, reader: Reader) -> None:
        (self._time,) = reader.numbers("q")
        self._newest = np.frombuffer(reader.raw(8 * self._newest.size), dtype="<i8").astype(np.int64)


# -- how many keys ----------------------------------------------------------------------------------------------


def cells_of(keys: float, width: int) -> float:
    """How many cells so many keys hit in the mean.

    >>> round(cells_of(1, 100), 9), round(cells_of(1e6, 100) - cells_of(5e5, 100), 3)
    (1.0, 100.0)
    """
    shares = 0.5 ** np.minimum(np.arange(1, LEVELS + 1), LEVELS - 1) / width
    return float(width * -np.expm1(keys * np.log1p(-shares)).sum())


def keys_of(cells: float, width: int) -> float:
    """How many keys hit so many cells in the mean.

    >>> round(keys_of(cells_of(12_345, 500), 500))
    12345
    """
    if cells <= 0:
        return 0.0
    largest = float(width) * 2.0**LEVELS
    return bisect(lambda keys: cells_of(keys, width) <= cells, 0.0, largest, steps=100)


def keys_at_most(cells: float, width: int, delta: float) -> float:
    """With probability 1 - delta there are no more keys than that: by Bernstein, or by the cells that were taken."""
    return min(keys_of(cells + _radius(width, delta / 2), width), _few(cells, width, delta / 2))


def keys_at_least(cells: float, width: int, delta: float) -> float:
    """With probability 1 - delta there are no fewer keys than that; never fewer than cells, in any case."""
    return max(keys_of(cells - _radius(width, delta), width), cells)


@lru_cache
def width_for(epsilon: float, delta: float) -> int:
    """The columns with which the estimate is within epsilon of the truth, with probability 1 - delta.

    From some two keys a column on the curve rises by width/ln 2 for each factor e of the keys, and this is proven.
    Below that it is flatter, and C strays less: there Bernstein proves about twice epsilon, and the estimate keeps it.
    """
    width = 16.0
    while _radius(math.floor(width), delta / 4) > 0.999 * width / math.log(2) * math.log1p(epsilon):
        width *= 1.01
    return math.ceil(width)


def _radius(width: int, delta: float) -> float:
    """Bernstein: exp(-s²/(2 (v + s/3))) = delta for the variance v = width, with a thousandth for its wobble."""
    log = math.log(1 / delta)
    third = log / 3
    return third + math.sqrt(third * third + 2 * 1.001 * width * log)


def _few(cells: float, width: int, delta: float) -> float:
    """The most keys of which it is not too unlikely that all but `cells` fell where another one was."""

    def possible(keys: float) -> bool:
        kept, chance = cells / keys, keys / (2 * width)
        if chance >= 1 - kept:
            return True
        # Chernoff for a binomial above its mean.
        away = (1 - kept) * math.log((1 - kept) / chance) + kept * math.log(kept / (1 - chance))
        return math.exp(-keys * away) >= delta

    if cells < 1 - 1e-9:
        return 0.0
    if cells >= width / 2:
        return math.inf
    if possible(float(width)):
        return math.inf
    return math.ceil(bisect(possible, cells, float(width)))
