"""A grid of textbook exponential histograms: the reference that the fast waves are measured against."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.exponential_histogram import (
    add_ones,
    add_weights,
    bracket_cells,
    decode_level,
    encode_level,
    expire_cells,
    list_steps,
)
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import Clock
from catchment.window.pooled import MOST_LEVELS, ReplayedGrid, leaf_error

__all__ = ["HistogramGrid"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class HistogramGrid(ReplayedGrid):
    """Exponential histograms in which every size but the largest has `size` or `size` + 1 buckets.

    *Error.* A cut bucket of 2^l arrivals is preceded by at least size (2^l - 1) newer ones, and at least one of its
    own is counted, so the middle of what it can hold misses by at most (2^l - 1)/2: less than 1/(2 size) of the count.
    """

    largest_size: ClassVar[int] = 2**15  # of which one more must fit in 16 bits

    def __init__(self, cells: int, size: int, window: int) -> None:
        super().__init__(cells, size, window, block=size + 1)
        self._heads, self._fills = np.zeros((2, cells, 2), dtype=np.uint16)
        self._tops = np.zeros(cells, dtype=np.uint8)

    @classmethod
    def size_for(cls, epsilon: float, height: int = 0) -> int:
        """Half of k = ceil(1/epsilon), rounded up; for a tree, all of it, since a replay misses by 1/(size + 1)."""
        k = math.ceil(1 / leaf_error(epsilon, height) - 1e-9)
        return max(2, k - 1 if height else math.ceil(k / 2))

    @property
    def error(self) -> float:
        return 1 / (2 * self.size)

    @property
    def replay_error(self) -> float:
        """Half of a bucket of 2^l may be replayed on the wrong side of a cut, of at least 1 + size (2^l - 1).

        That is the largest for a bucket of two. The paper's invariant 1 would make it 1/(2 size), but needs twice as
        many buckets of one arrival as of every other size.
        """
        return 1 / (self.size + 1) if self._fills[:, 1:].any() else 0.0

    def _make_levels(self, levels: int) -> None:
        self._make_places(levels)
        missing = self._directory.shape[1] - self._fills.shape[1]
        if missing > 0:
            new = np.zeros((self.cells, missing), dtype=np.uint16)
            self._heads, self._fills = (np.concatenate([old, new], axis=1) for old in (self._heads, self._fills))

    def _add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        most = self.block
        done = 0
        while done < times.size:
            state = self._tops, self._heads, self._fills, self._directory, self._pool, self._used
            if weights is None:
                done = add_ones(*state, most, self.window, cells, times, self._base, done)
            else:
                done = add_weights(*state, most, self.window, cells, times, weights, self._base, done)
            if done < 0:
                self._make_levels(self._fills.shape[1] + 1)
                done = -1 - done
            elif done < times.size:
                self._make_blocks()

    def after(self, start: int, *, delta: float = 0.0) -> tuple[I64, I64]:
        asked = np.arange(self.cells)
        low, high = np.zeros((2, asked.size), dtype=np.int64)
        if self._begun:
            relative = max(start - self._base, 0)
            bracket_cells(self._heads, self._fills, self._directory, self._pool, self.block, asked, relative, low, high)
        return low, high

    def counts(self) -> I64:
        sizes = np.left_shift(1, np.arange(self._fills.shape[1], dtype=np.int64))
        return np.asarray(self._fills.astype(np.int64) @ sizes)

    # -- merging ----------------------------------------------------------------------------------------------

    def _step_room(self, cells: I64) -> I64:
        buckets = self._fills[cells].sum(axis=1, dtype=np.int64)
        return np.where(buckets > 0, buckets + 1, 0)

    def _list_steps(self, origin: int, edge: int, cells: I64, rooms: I64, times: I64, weights: I64, out: I64) -> None:
        if self._begun:
            list_steps(
                self._heads, self._fills, self._directory, self._pool, self.block, self._base, origin, edge,
                cells, rooms, times, weights, out,
            )  # fmt: skip

    def _fill(self, cells: I64, rooms: I64, lengths: I64, times: I64, weights: I64, largest: int) -> None:
        """Insert the steps as the textbook would, oldest first."""
        places = (
            np.repeat(rooms + lengths, lengths)
            - 1
            - (np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths))
        )
        self._add(np.repeat(cells, lengths).astype(np.int32), times[places], weights[places])

    # -- bytes ------------------------------------------------------------------------------------------------

    def settle(self, clock: Clock) -> None:
        if self._begun:
            edge = max(clock.edge - self._base, 0)
            expire_cells(self._tops, self._heads, self._fills, self._directory, self._pool, self.block, edge)

    def write(self, writer: Writer, clock: Clock) -> None:
        self.settle(clock)
        levels = int(np.flatnonzero(self._fills.any(axis=0)).max(initial=-1)) + 1
        writer.numbers("B", levels)
        writer.integers(self._fills[:, :levels].T)
        if not self._begun:
            return
        having = np.cumsum(self._fills[:, :levels][:, ::-1] > 0, axis=1)[:, ::-1] > 0
        used = having.sum(axis=1)
        writer.claim(self._claimed(int(used.sum()) * self.block, int(used.max(initial=0))))
        before = np.full(self.cells, clock.newest - self._base)
        out = np.empty(self._pool.size, dtype=np.uint64)
        for level in range(levels):
            found = encode_level(self._heads, self._fills, self._directory, self._pool, self.block, level, before, out)
            writer.integers(out[:found])

    def read(self, reader: Reader, clock: Clock) -> None:
        (levels,) = reader.numbers("B")
        if levels > MOST_LEVELS:
            raise DamagedBytesError(f"{levels} levels of buckets")
        fills = reader.integers(levels * self.cells, np.uint16, low=0, high=self.block).reshape(levels, self.cells).T
        if not clock.started:
            if levels:
                raise DamagedBytesError("arrivals without a time")
            return
        # Below a cell's largest size, every size has `size` buckets or one more.
        having = np.cumsum(fills[:, ::-1] > 0, axis=1)[:, ::-1] > 0
        if np.any(fills[:, :-1][having[:, 1:]] < self.size) or (levels and not fills[:, -1].any()):
            raise DamagedBytesError("a size with fewer buckets than a histogram keeps")
        if np.any(fills @ 2.0 ** np.arange(levels) >= MASS_LIMIT):
            raise DamagedBytesError("more arrivals than can be counted")
        self._allot(having.sum(axis=1), reader, clock)
        self._make_levels(self._directory.shape[1])
        self._fills[:, :levels] = fills
        self._tops[:] = having.sum(axis=1)
        before = np.full(self.cells, clock.newest - clock.edge + 1)
        for level in range(levels):
            written = reader.integers(int(fills[:, level].sum(dtype=np.int64)), np.uint64, low=0, high=2**63 - 1)
            if not decode_level(
                self._heads, self._fills, self._directory, self._pool, self.block, level, before, 1, written
            ):
                raise DamagedBytesError("a time that has left the window")
