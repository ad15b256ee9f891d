"""PooledGrid: cells that keep times, in blocks out of one pool, and take blocks as they need them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.steps import merge_steps
from catchment.sketch.codec import Reader
from catchment.window.clock import Clock
from catchment.window.grid import Grid

__all__ = ["MOST_LEVELS", "PooledGrid", "ReplayedGrid", "leaf_error"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

MOST_LEVELS = 62
_MOST_PLACES = 96
_NARROW_REACH = 2**32 - 1
_NARROW_WINDOW = _NARROW_REACH * 9 // 10
_WORKSPACE = 2**20


def leaf_error(epsilon: float, height: int) -> float:
    """The error that leaves may have so that the root of a tree of merges has epsilon.

    Each level of the tree replays what the one below it made, and the answer adds the error of the last: (1 + leaf) to
    the power of height + 1 is 1 + epsilon. The paper's h leaf (1 + leaf) + leaf leaves out the products of errors
    from h = 2 on, and so promises a little more than it can keep.

    >>> round(leaf_error(0.1, 0), 4), round(leaf_error(0.1, 8), 4)
    (0.1, 0.0106)
    """
    return float((1 + epsilon) ** (1 / (height + 1)) - 1)


class PooledGrid(Grid):
    """Blocks of `block` times each; `_directory[cell, level]` says where in the pool a cell's level starts.

    Times are kept in 32 bits when the window leaves room for them, relative to a base that moves along, at least 1;
    0 is a time that has left the window.
    """

    def __init__(self, cells: int, size: int, window: int, *, block: int) -> None:
        super().__init__(cells, size, window)
        self.block = block
        self._narrow = window <= _NARROW_WINDOW
        self._base = 0
        self._begun = False
        self._directory = np.full((cells, 2), -1, dtype=np.int32)
        self._pool = np.zeros(0, dtype=np.uint32 if self._narrow else np.int64)
        self._used = np.zeros(1, dtype=np.int64)

    # -- room -------------------------------------------------------------------------------------------------

    def _make_blocks(self, least: int = 8) -> None:
        """A little more room: the pool is the sketch's memory, and half of a doubled one would lie idle."""
        more = max(least, self._pool.size // self.block // 32) * self.block
        self._pool = np.concatenate([self._pool, np.zeros(more, dtype=self._pool.dtype)])

    def _make_places(self, places: int) -> None:
        """Room for that many blocks of each cell in the directory."""
        missing = min(places, _MOST_PLACES) - self._directory.shape[1]
        if missing > 0:
            new = np.full((self.cells, missing), -1, dtype=np.int32)
            self._directory = np.concatenate([self._directory, new], axis=1)

    def _allot(self, used: I64, reader: Reader, clock: Clock) -> None:
        """Blocks for a grid that is being read; refused when its bytes are too few to fill that many."""
        slots = int(used.sum()) * self.block
        reader.claim(self._claimed(slots, int(used.max(initial=0))))
        self._base, self._begun = clock.edge - 1, True
        self._pool = np.zeros(slots, dtype=self._pool.dtype)
        self._used[0] = slots
        self._make_places(int(used.max(initial=0)))
        places = np.arange(self._directory.shape[1])
        firsts = (np.cumsum(used) - used)[:, None]
        self._directory[:] = np.where(places < used[:, None], (firsts + places) * self.block, -1)

    def _claimed(self, slots: int, places: int) -> int:
        """The memory of so many slots and so many places for each cell, in cells of 4 bytes."""
        return slots * self._pool.itemsize // 4 + 3 * self.cells * places

    def _trim(self) -> None:
        self._pool = self._pool[: int(self._used[0])].copy()

    # -- times ------------------------------------------------------------------------------------------------

    def add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        for row in cells:
            self._add(row, times, weights)

    @abstractmethod
    def _add(self, cells: I32, times: I64, weights: I64 | None) -> None:
        """Arrivals in one row's cells."""

    def reach(self, times: I64, start: int) -> int:
        """Move the base so that times from `start` on can be kept, and say up to where they can."""
        if not self._begun:
            self._base, self._begun = int(times[start]) - 1, True
        if not self._narrow or int(times[-1]) - self._base <= _NARROW_REACH:
            return times.size
        self._move_base(max(self._base, int(times[start]) - self.window - 1))
        return max(start + 1, int(np.searchsorted(times, self._base + _NARROW_REACH, side="right")))

    def _move_base(self, base: int) -> None:
        """Keep times relative to a later base; those before it have left the window."""
        wide = self._pool.astype(np.int64) - (base - self._base)
        self._pool[:] = np.maximum(wide, 0)
        self._base = base


class ReplayedGrid(PooledGrid):
    """A grid that merges by replaying its parts' buckets in order of time (Papapetrou et al., section 5.1).

    Half of a bucket is replayed at its start and half at its end. A cut through a bucket then misplaces at most half
    of it, at most the share `replay_error` of what came after the cut: the replayed stream is that near to the true one
    after any moment, and stays so, since what comes later adds to both.

    A bucket that the window's edge cuts loses the half at its start. The oldest bucket of a merged grid is not cut by
    the same edge once more: what was before it is gone. Its start is the part's `origin`. Parts whose newest times
    differ have different edges, though, so tall trees of small grids count too little near the edge, within the error.
    """

    @abstractmethod
    def _step_room(self, cells: I64) -> I64:
        """At least as many steps as each cell will list."""

    @abstractmethod
    def _list_steps(self, origin: int, edge: int, cells: I64, rooms: I64, times: I64, weights: I64, out: I64) -> None:
        """Each cell as arrivals to replay, newest first, without what came up to `edge`."""

    @abstractmethod
    def _fill(self, cells: I64, rooms: I64, lengths: I64, times: I64, weights: I64, largest: int) -> None:
        """Build empty cells from such steps."""

    def absorb(self, parts: list[tuple[ReplayedGrid, int]], merged: Clock) -> None:
        self._base, self._begun = merged.edge - 1, True
        self._make_blocks(max(int(grid._used[0]) for grid, _ in parts) // self.block)
        ends = np.cumsum(np.sum([grid._step_room(np.arange(self.cells)) for grid, _ in parts], axis=0))
        start = 0
        while start < self.cells:
            # As many cells at a time as the workspace holds, and at least one.
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _WORKSPACE, side="right")))
            self._absorb_cells(np.arange(start, stop), parts, merged.edge)
            start = stop
        self._trim()

    def _absorb_cells(self, cells: I64, parts: list[tuple[ReplayedGrid, int]], edge: int) -> None:
        # The runs of one cell lie one after the other, as merge_steps wants them.
        room = np.stack([grid._step_room(cells) for grid, _ in parts], axis=1)
        starts = np.zeros(room.size, dtype=np.int64)
        np.cumsum(room.ravel()[:-1], out=starts[1:])
        rooms = np.ascontiguousarray(starts.reshape(room.shape).T)
        times, weights, other_times, other_weights = np.empty((4, int(room.sum())), dtype=np.int64)
        lengths = np.zeros(rooms.shape, dtype=np.int64)
        for number, (grid, origin) in enumerate(parts):
            grid._list_steps(origin, edge, cells, rooms[number], times, weights, lengths[number])
        merged = np.empty(cells.size, dtype=np.int64)
        largest = merge_steps(rooms, lengths, times, weights, other_times, other_weights, merged)
        self._fill(cells, rooms[0], merged, times, weights, int(largest))
