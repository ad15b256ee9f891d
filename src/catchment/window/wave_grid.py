"""A grid of rank waves: the fast counters in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.wave import (
    RINGS,
    add_weights,
    bracket_cells,
    decode_times,
    encode_times,
    fill_cells,
    list_steps,
    number_arrivals,
    store_times,
)
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import Clock
from catchment.window.pooled import MOST_LEVELS, ReplayedGrid, leaf_error

__all__ = ["WaveGrid"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class WaveGrid(ReplayedGrid):
    """Rank waves of capacity `size`: level by level the times of the last `size` ranks (see kernel/wave.py).

    *Error.* Let s be a moment in the window, p the newest kept rank whose time is not after s and q the oldest kept
    one that is: the true count c lies in [n - q + 1, n - p]. If the gap q - p is 2^l, then q lies beyond the reach of
    level l - 1, so c > (size - 1) 2^l, and the middle misses c by at most (2^l - 1)/2: less than c / (2 (size - 1)).
    """

    def __init__(self, cells: int, size: int, window: int) -> None:
        super().__init__(cells, size, window, block=size)
        self._counts = np.zeros(cells, dtype=np.int64)
        self._tops = np.zeros(cells, dtype=np.uint8)

    @classmethod
    def size_for(cls, epsilon: float, height: int = 0) -> int:
        return math.ceil(1 / (2 * leaf_error(epsilon, height)) - 1e-9) + 1

    @property
    def error(self) -> float:
        return 1 / (2 * (self.size - 1))

    @property
    def replay_error(self) -> float:
        """Half of a gap of 2^l may be replayed on the wrong side of a cut, of more than (size - 1) 2^l arrivals."""
        return self.error if self._tops.any() else 0.0

    def _add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        size = np.uint64(self.size)
        ranks = np.empty(times.size if weights is None else 0, dtype=np.int64)
        if weights is None:
            number_arrivals(self._counts, cells, ranks)
        done = 0
        while True:
            state = self._counts, self._tops, self._directory, self._pool, self._used
            if weights is None:
                done = store_times(*state, size, self.window, cells, ranks, times, self._base, done)
            else:
                done = add_weights(*state, size, self.window, cells, times, weights, self._base, done)
            if done == times.size:
                return
            self._make_places(int(self._tops.max()) + 4)
            if self._used[0] + 2 * self.size > self._pool.size:
                self._make_blocks()

    def after(self, start: int, *, delta: float = 0.0) -> tuple[I64, I64]:
        asked = np.arange(self.cells)
        low, high = np.zeros((2, asked.size), dtype=np.int64)
        if self._begun:
            bracket_cells(
                self._counts, self._tops, self._directory, self._pool, np.uint64(self.size),
                asked, max(start - self._base, 0), low, high,
            )  # fmt: skip
        return low, high

    def counts(self) -> I64:
        return self._counts

    # -- merging ----------------------------------------------------------------------------------------------

    def _step_room(self, cells: I64) -> I64:
        return np.where(self._counts[cells] > 0, (self._tops[cells].astype(np.int64) + 2) * self.size + 1, 0)

    def _list_steps(self, origin: int, edge: int, cells: I64, rooms: I64, times: I64, weights: I64, out: I64) -> None:
        if self._begun:
            list_steps(
                self._counts, self._tops, self._directory, self._pool, np.uint64(self.size), self._base,
                origin, edge, cells, rooms, times, weights, out,
            )  # fmt: skip

    def _fill(self, cells: I64, rooms: I64, lengths: I64, times: I64, weights: I64, largest: int) -> None:
        self._make_places(_top_for(largest, self.size) + 2)
        done = 0
        while done < cells.size:
            done = fill_cells(
                self._counts, self._tops, self._directory, self._pool, self._used, np.uint64(self.size),
                self._base, cells, rooms, lengths, times, weights, done,
            )  # fmt: skip
            if done < cells.size:
                self._make_blocks(MOST_LEVELS)

    # -- bytes ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer, clock: Clock) -> None:
        writer.integers(self._counts)
        writer.integers(self._tops)
        if not self._begun:
            return
        used = np.where(self._counts > 0, self._tops.astype(np.int64) + 2, 0)
        writer.claim(self._claimed(int(used.sum()) * self.block, int(used.max(initial=0))))
        out = np.empty(self._pool.size, dtype=np.uint64)
        for level in self._levels():
            found = encode_times(level, out, *self._coding(clock))
            writer.integers(out[:found])

    def read(self, reader: Reader, clock: Clock) -> None:
        counts = reader.integers(self.cells, np.int64, low=0, high=MASS_LIMIT)
        tops = reader.integers(self.cells, np.uint8, low=0, high=MOST_LEVELS)
        if not clock.started:
            if counts.any() or tops.any():
                raise DamagedBytesError("arrivals without a time")
            return
        # A ring that was ever split is at least half full.
        if np.any((counts < self.size * 2.0**tops) & (tops > 0)):
            raise DamagedBytesError("more levels than so few arrivals can have")
        self._counts, self._tops = counts, tops
        self._allot(np.where(counts > 0, tops.astype(np.int64) + 2, 0), reader, clock)
        for level in self._levels():
            written = reader.integers(self._kept(level), np.uint64, low=0, high=2**63 - 1)
            if not decode_times(level, written, *self._coding(clock)):
                raise DamagedBytesError("a time that is not between its neighbours")

    def _coding(self, clock: Clock) -> tuple[Any, ...]:
        """What both directions of the time coding need, with the clock relative to the base."""
        state = self._counts, self._tops, self._directory, self._pool, np.uint64(self.size)
        return *state, clock.edge - self._base, clock.first - self._base, clock.newest - self._base

    def _levels(self) -> list[int]:
        """The rings first, then levels from the highest down: a time is coded by its neighbours on higher levels."""
        return [RINGS, *range(int(self._tops.max(initial=0)) - 1, -1, -1)]

    def _kept(self, level: int) -> int:
        """How many times that level has in all cells."""
        if level == RINGS:
            return int(np.minimum(self._counts >> self._tops, 2 * self.size).sum())
        having = self._counts[self._tops > level]
        return int(np.minimum(((having >> level) + 1) >> 1, self.size).sum())


def _top_for(arrivals: int, size: int) -> int:
    """The level of a ring that holds that many arrivals."""
    return max(0, (max(arrivals, 1) - 1) // (2 * size)).bit_length()
