"""A grid of randomised waves: larger by an order, and merging loses nothing."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, MergeError
from catchment.kernel.hashing import mixed
from catchment.kernel.randomized_wave import add_ones, add_weights, code_level, count_cells, fill_cells, list_levels
from catchment.kernel.steps import merge_steps
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import Clock
from catchment.window.pooled import MOST_LEVELS, PooledGrid

__all__ = ["RandomizedGrid"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]

_MOST_SOURCES = 2**16
_WORKSPACE = 2**20


class RandomizedGrid(PooledGrid):
    """Randomised waves that keep the last `size` entries of each level (see kernel/randomized_wave.py).

    *Error.* On level l, x̂ = 2^l times the entries after s estimates the x arrivals after s. Going from level j - 1 to
    j, a pair of entries that both came after s adds exactly what it should; only the pair cut by s and the one that is
    not yet complete add a fair coin's ±2^(j-1) each. Over all levels and K independent streams these are martingale
    differences with squared ranges summing to less than (8/3) K 4^l, so by Azuma and Hoeffding |x̂ - x| is at most
    2^l sqrt(4/3 K ln(2/d)) but with probability d; and always at most K 2^(l+1). The level is the lowest that reaches
    back to s, so it depends on the coins: d is delta/(l (l + 1)), which sums to delta over all levels.

    K counts the sketches that were merged, and the merged ones, which toss coins of their own. A stream's coins come
    from the seed and its first arrival; streams with the same first arrival would toss the same, and then their errors
    add up: K is the sum of the squared number of streams with equal coins.
    """

    largest_size: ClassVar[int] = 2**22

    def __init__(self, cells: int, size: int, window: int, *, draw: int = 0) -> None:
        super().__init__(cells, size, window, block=size)
        self._draw = draw
        self._tops = np.zeros(cells, dtype=np.uint8)
        self._pushes = np.zeros((cells, 2), dtype=np.int64)
        self._sources = np.zeros(0, dtype=np.uint64)

    @classmethod
    def size_for(cls, epsilon: float, height: int = 0, *, constant: float = 6.0) -> int:
        return max(2, math.ceil(constant / epsilon**2 - 1e-9))

    @property
    def error(self) -> float:
        """The relative error at confidence 0.95 of one level above a full one: at least size/2 entries."""
        return 2 * math.sqrt(4 / 3 * self._streams() * math.log(2 / 0.025)) / self.size

    def _streams(self) -> int:
        """The K of the error."""
        _, alike = np.unique(self._sources, return_counts=True)
        return max(1, int((alike**2).sum()))

    @property
    def _salt(self) -> np.uint64:
        return np.uint64(self._sources[-1])

    def _make_levels(self, levels: int) -> None:
        self._make_places(levels)
        missing = self._directory.shape[1] - self._pushes.shape[1]
        if missing > 0:
            self._pushes = np.concatenate([self._pushes, np.zeros((self.cells, missing), dtype=np.int64)], axis=1)

    def _add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        if not self._sources.size:
            first = np.array([times[0]], dtype=np.int64).view(np.uint64)[0]
            self._sources = np.array([_stirred(_stirred(first, np.uint64(int(cells[0]))), np.uint64(self._draw))])
        heaviest = 1 if weights is None else int(weights.max())
        done = 0
        while done < times.size:
            self._make_levels(int(self._tops.max()) + 4 + (heaviest // self.size).bit_length())
            state = self._tops, self._directory, self._pool, self._pushes, self._used
            if weights is None:
                done = add_ones(*state, self.size, self.window, self._salt, cells, times, self._base, done)
            else:
                done = add_weights(*state, self.size, self.window, self._salt, cells, times, weights, self._base, done)
            if done < times.size:
                self._make_blocks(2)

    # -- questions --------------------------------------------------------------------------------------------

    def after(self, start: int, *, delta: float = 0.0) -> tuple[I64, I64]:
        asked = np.arange(self.cells)
        levels, found = np.zeros((2, asked.size), dtype=np.int64)
        if not self._begun:
            return levels, found
        count_cells(
            self._tops, self._directory, self._pool, self._pushes, self.size, asked, max(start - self._base, 0),
            levels, found,
        )  # fmt: skip
        scale = np.left_shift(1, levels)
        streams = self._streams()
        doubt = delta / np.maximum(levels * (levels + 1), 1)
        radius = np.sqrt(4 / 3 * streams * np.log(2 / doubt)) if delta else np.full(asked.size, np.inf)
        radius = np.where(levels > 0, scale * np.minimum(radius, 2.0 * streams), 0)
        middle = found * scale
        low = np.maximum(np.ceil(middle - radius), found).astype(np.int64)
        return low, np.floor(middle + radius).astype(np.int64)

    def counts(self) -> I64 | None:
        return self._pushes[:, 0] if self._sources.size == 1 else None

    # -- merging ----------------------------------------------------------------------------------------------

    def absorb(self, parts: list[tuple[RandomizedGrid, int]], merged: Clock) -> None:
        sources = np.sort(np.concatenate([grid._sources for grid, _ in parts]))
        if sources.size >= _MOST_SOURCES:
            raise MergeError(f"more than {_MOST_SOURCES} sketches in one", "merge fewer, or use the counter 'panes'")
        own = np.uint64(self._draw)
        for source in np.sort([grid._salt for grid, _ in parts]):
            own = _stirred(own, source)
        self._sources = np.append(sources, own)
        self._base, self._begun = merged.edge - 1, True
        cells = np.arange(self.cells)
        deepest = 1 + max(int(grid._tops.max()) for grid, _ in parts)
        step = max(1, _WORKSPACE // (deepest * len(parts) * self.size))
        for start in range(0, self.cells, step):
            self._absorb_cells(cells[start : start + step], parts, merged.edge)
        self._trim()

    def _absorb_cells(self, cells: I64, parts: list[tuple[RandomizedGrid, int]], edge: int) -> None:
        levels = 1 + max(int(grid._tops[cells].max()) for grid, _ in parts)
        shape = levels, cells.size, len(parts)
        # The runs of one level of one cell lie one after the other, as merge_steps wants them.
        rooms = (np.arange(np.prod(shape)) * self.size).reshape(shape)
        times, weights, other_times, other_weights = np.empty((4, rooms.size * self.size), dtype=np.int64)
        lengths, lost = np.zeros(shape, dtype=np.int64), np.zeros(shape[:2], dtype=np.uint8)
        for number, (grid, _) in enumerate(parts):
            length = np.zeros(shape[:2], dtype=np.int64)
            list_levels(
                grid._tops, grid._directory, grid._pool, grid._pushes, self.size, grid._salt, grid._base, edge,
                cells, levels, np.ascontiguousarray(rooms[:, :, number]), times, weights, length, lost,
            )  # fmt: skip
            lengths[:, :, number] = length
        runs = np.ascontiguousarray(rooms.reshape(-1, len(parts)).T)
        merged = np.empty(runs.shape[1], dtype=np.int64)
        counted = np.ascontiguousarray(lengths.reshape(-1, len(parts)).T)
        merge_steps(runs, counted, times, weights, other_times, other_weights, merged)
        self._make_levels(levels + 4 + len(parts).bit_length())
        done = 0
        while done < cells.size:
            done = fill_cells(
                self._tops, self._directory, self._pool, self._pushes, self._used, self.size, self._salt,
                self._base, cells, levels, rooms[:, :, 0].copy(), merged.reshape(shape[:2]), times, weights, lost, done,
            )  # fmt: skip
            if done < cells.size:
                self._make_blocks(levels + 8)

    # -- bytes ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer, clock: Clock) -> None:
        writer.numbers("I", self._sources.size)
        writer.raw(self._sources.tobytes())
        if not self._begun:
            return
        levels = np.where(self._pushes[:, 0] > 0, self._tops.astype(np.int64) + 1, 0)
        writer.integers(levels)
        writer.claim(self._claimed(int(levels.sum()) * self.block, int(levels.max())))
        out = np.empty(self._pool.size, dtype=np.uint64)
        for level in range(int(levels.max())):
            writer.integers(self._pushes[levels > level, level])
            found = code_level(out, False, *self._coding(level, clock))
            writer.integers(out[:found])

    def read(self, reader: Reader, clock: Clock) -> None:
        (sources,) = reader.numbers("I")
        if sources > _MOST_SOURCES or (sources > 0) != clock.started:
            raise DamagedBytesError(f"{sources} streams")
        self._sources = np.frombuffer(reader.raw(8 * sources), dtype=np.uint64).copy()
        if not clock.started:
            return
        levels = reader.integers(self.cells, np.int64, low=0, high=MOST_LEVELS)
        if self.size * 2.0 ** int(levels.max()) > 4 * MASS_LIMIT:
            raise DamagedBytesError(f"{int(levels.max())} levels of {self.size} entries")
        self._tops = np.maximum(levels - 1, 0).astype(np.uint8)
        self._allot(levels, reader, clock)
        self._make_levels(self._directory.shape[1])
        for level in range(int(levels.max())):
            having = np.flatnonzero(levels > level)
            pushes = reader.integers(having.size, np.int64, low=1 if level == 0 else 0, high=MASS_LIMIT)
            self._pushes[having, level] = pushes
            kept = int(np.minimum(pushes, self.size).sum())
            written = reader.integers(kept, np.uint64, low=0, high=2**63 - 1)
            if code_level(written, True, *self._coding(level, clock)) < 0:
                raise DamagedBytesError("a time out of order")

    def _coding(self, level: int, clock: Clock) -> tuple[Any, ...]:
        state = self._directory, self._pool, self._pushes, self.size
        return *state, level, clock.newest - self._base, clock.edge - self._base


def _stirred(one: np.uint64, other: np.uint64) -> np.uint64:
    """One number out of two, for the coins of a stream."""
    return np.uint64(mixed(np.uint64(mixed(one, np.uint64(0x5851F42D4C957F2D))), other))
