"""Grid: many counters in time, side by side. One of its cells is a counter; ECM-sketches are made of thousands.

A grid counts arrivals at registered times, in order, and answers for any cell how many came after a moment: at least
and at most. It knows its own `error`: of the arrivals after any moment in the window, the middle of these two misses
at most that share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import Clock

__all__ = ["Grid"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Grid(ABC):
    """`cells` counters over one clock's window; the clock is its owner's, who moves it."""

    largest_size: ClassVar[int] = 2**20
    """The largest size that it can be built with."""

    keeps_own_times: ClassVar[bool] = False
    """True when a late event can be counted at its own time instead of the time at which it was registered."""

    def __init__(self, cells: int, size: int, window: int) -> None:
        self.cells, self.size, self.window = cells, size, window

    @classmethod
    @abstractmethod
    def size_for(cls, epsilon: float, height: int = 0) -> int:
        """The smallest size whose error is at most epsilon, after merging through a tree of that height."""

    @property
    @abstractmethod
    def error(self) -> float:
        """The most by which a cell's middle misses, as a share of the arrivals in question."""

    @property
    def replay_error(self) -> float:
        """The most by which the stream that a merge takes this for misses the true one, as a share; 0: no loss."""
        return 0.0

    def reach(self, times: I64, start: int) -> int:
        """Up to where the times from `start` on can be added at once; to be called before they are."""
        return times.size

    @abstractmethod
    def add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        """Arrivals at those times, which never decrease, each in one cell of every row of `cells`.

        One each where weights are None.
        """

    @abstractmethod
    def after(self, start: int, *, delta: float = 0.0) -> tuple[I64, I64]:
        """The fewest and the most arrivals after `start` in each cell.

        Where the grid is random, each by itself fails with probability at most delta.
        """

    def settle(self, clock: Clock) -> None:
        """Forget what has left the window, where that was put off; nothing that can be asked about changes."""
        return

    @abstractmethod
    def counts(self) -> I64 | None:
        """All arrivals of each cell, if it knows: those in the window while none has left it."""

    @abstractmethod
    def absorb(self, parts: list[tuple[Any, int]], merged: Clock) -> None:
        """Become, from empty, the grid of all parts, each with the earliest time that it can have been given."""

    @abstractmethod
    def write(self, writer: Writer, clock: Clock) -> None: ...

    @abstractmethod
    def read(self, reader: Reader, clock: Clock) -> None: ...

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in vars(self).values() if hasattr(value, "nbytes"))
