"""A grid of plain counts, one for each pane: merging is addition, and the error is what the cut pane holds."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.panes import add_ones, add_weights
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import Clock
from catchment.window.grid import Grid

__all__ = ["PaneGrid"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

_NONE = -(2**62)


class PaneGrid(Grid):
    """`size` panes to a window; pane p holds the times in (p length, (p + 1) length], the same at all sites.

    *Error.* Panes that lie wholly in the range are counted exactly, and the pane that is cut by its start in full or
    not at all. When arrivals come evenly, that is 1/size of the window's; when they come in bursts, it may be all.
    """

    largest_size: ClassVar[int] = 2**16
    keeps_own_times: ClassVar[bool] = True

    def __init__(self, cells: int, size: int, window: int) -> None:
        super().__init__(cells, size, window)
        self.length = -(-window // size)
        # A window can touch size + 1 panes, and one more while a late event is about to leave it.
        self._panes = np.zeros((size + 2, cells), dtype=np.int64)
        self._numbers = np.full(size + 2, _NONE, dtype=np.int64)

    @classmethod
    def size_for(cls, epsilon: float, height: int = 0) -> int:
        return math.ceil(1 / epsilon - 1e-9)

    @property
    def error(self) -> float:
        """The share of one pane in the window: the error when arrivals come evenly."""
        return 1 / self.size

    def add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        if weights is None:
            add_ones(self._panes, self._numbers, self.length, cells, times)
        else:
            add_weights(self._panes, self._numbers, self.length, cells, times, weights)

    def after(self, start: int, *, delta: float = 0.0) -> tuple[I64, I64]:
        begins = self._numbers * self.length
        return self._panes[begins >= start].sum(axis=0), self._panes[begins + self.length > start].sum(axis=0)

    def counts(self) -> I64 | None:
        return None

    def absorb(self, parts: list[tuple[PaneGrid, int]], merged: Clock) -> None:
        for grid, _ in parts:
            for row in grid._rows(merged):
                number = int(grid._numbers[row])
                into = number % self._numbers.size
                self._numbers[into] = number
                self._panes[into] += grid._panes[row]

    def _rows(self, clock: Clock) -> I64:
        """The rows with panes that reach into the window, oldest first, without those that hold nothing."""
        reaching = (self._numbers + 1) * self.length > clock.edge
        rows = np.flatnonzero((self._numbers != _NONE) & reaching & self._panes.any(axis=1))
        return rows[np.argsort(self._numbers[rows])]

    def write(self, writer: Writer, clock: Clock) -> None:
        rows = self._rows(clock)
        writer.numbers("I", rows.size)
        writer.integers(self._numbers[rows])
        writer.integers(self._panes[rows])

    def read(self, reader: Reader, clock: Clock) -> None:
        (count,) = reader.numbers("I")
        if count > self._numbers.size or (count and not clock.started):
            raise DamagedBytesError(f"{count} panes")
        newest = (clock.newest - 1) // self.length
        numbers = reader.integers(count, np.int64, low=newest - self.size - 1, high=newest)
        if np.any(numbers[1:] <= numbers[:-1]) or np.any((numbers + 1) * self.length <= clock.edge):
            raise DamagedBytesError("panes out of order, or out of the window")
        panes = reader.integers(count * self.cells, np.int64, low=0, high=MASS_LIMIT).reshape(count, self.cells)
        if not np.all(panes.any(axis=1)) or np.any(panes.sum(axis=0, dtype=np.float64) >= MASS_LIMIT):
            raise DamagedBytesError("an empty pane, or one that holds too much")
        rows = numbers % self._numbers.size
        self._numbers[rows], self._panes[rows] = numbers, panes
