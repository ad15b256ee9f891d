"""GridSketch: a sketch made of counters in time; what the single counters and the ECM-sketch share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, MergeError
from catchment.kernel.hashing import draws
from catchment.sketch.checks import are_ones, as_weights, check_mass, check_total, read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.window.base import WindowSketch
from catchment.window.clock import TIME_LIMIT, Stamps
from catchment.window.grid import Grid
from catchment.window.histogram_grid import HistogramGrid
from catchment.window.pane_grid import PaneGrid
from catchment.window.randomized_grid import RandomizedGrid
from catchment.window.wave_grid import WaveGrid

__all__ = ["COUNTERS", "Counts", "GridSketch"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

COUNTERS: dict[str, type[Grid]] = {
    "wave": WaveGrid,
    "eh": HistogramGrid,
    "randomized": RandomizedGrid,
    "panes": PaneGrid,
}
"""The counters in time, by the name that `counter=` takes."""

_BLOCK = 1 << 18


class Counts(NamedTuple):
    """Arrivals of each cell in a range: the estimate, and between what the truth lies."""

    value: I64
    low: I64
    high: I64

    def minus(self, later: Counts) -> Counts:
        """These without what came later: the range between two moments."""
        low, high = np.maximum(self.low - later.high, 0), np.maximum(self.high - later.low, 0)
        return Counts(np.clip(self.value - later.value, low, high), low, high)


class GridSketch(WindowSketch):
    """Owns a grid of `_cells()` counters and one more for late events.

    `_slack` is the error that the counters inherited from the merges behind them: after any moment in the window, the
    arrivals that they were given are within that share of the true ones. They were given none at or before `_since`.
    """

    counter: str
    size: int
    delta: float
    seed: int

    @abstractmethod
    def _cells(self) -> int:
        """How many counters there are, without the one for late events."""

    def _clear(self) -> None:
        self._set_clock(self.window, self.clock, self.lateness)
        self._grid = self._new_grid()
        self._slack = 0.0
        self._since = -TIME_LIMIT
        self._mass = 0
        self._forget_answers()

    def _new_grid(self) -> Grid:
        cells = self._cells() + 1
        if self.counter == "randomized":
            return RandomizedGrid(cells, self.size, self.window, draw=int(draws(self.seed, 1)[0]))
        return COUNTERS[self.counter](cells, self.size, self.window)

    @property
    def counter_error(self) -> float:
        """The relative error of one counter, with what it inherited from merging."""
        return self._slack + self._grid.error + self._slack * self._grid.error

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Panes add up; the other counters keep only the guarantee."""
        return self.counter == "panes"

    @property
    def merge_adds_error(self) -> bool:  # type: ignore[override]
        """Replaying buckets does; panes do not."""
        return self.counter != "panes"

    # -- events -----------------------------------------------------------------------------------------------

    def _arrive(
        self, stamps: Stamps, weights: Any, cells_of: Callable[[NDArray[np.bool_] | None], Callable[[slice], I32]]
    ) -> None:
        """Count events; `cells_of(taken)` gives for any slice of those taken their cells, a row for each."""
        count = stamps.times.size
        shares = None if are_ones(weights) else as_weights(weights, count)
        taken = stamps.taken
        mass = self._new_mass(count, shares, taken)
        place = cells_of(taken)
        late = None if self._grid.keeps_own_times else stamps.late
        times, kept = stamps.own if self._grid.keeps_own_times else stamps.times, shares
        if taken is not None:
            times, late = times[taken], None if late is None else late[taken]
            kept = None if shares is None else shares[taken]
        self._count(times, kept, late, place)
        self._time.commit(stamps)
        self._mass = mass

    def replay(self, times: I64, cells: I32, counts: I64) -> None:
        """Events that were counted by tick and cell before: `counts` of them at that time in that cell.

        Each event is in one cell of every row. The state becomes, byte for byte, that of the events themselves in
        order of time, since a counter cannot tell the events of one tick apart. A late event adds its weight to
        `late`, where it would count as one: for events of weight 1 there is no difference.
        """
        stamps = self._time.read(times, times.size)
        events = np.where(cells < self._row_length(), counts, 0)  # each once: as the first row has them
        taken = stamps.taken
        mass = check_mass("weights", self._mass, events if taken is None else events[taken])
        registered, late = stamps.times, stamps.late
        kept = cells, counts, registered, late, events
        if taken is not None:
            kept = cells[taken], counts[taken], registered[taken], None if late is None else late[taken], events[taken]
        cells, counts, registered, late, once = kept
        self._count(registered, counts, late, lambda part: cells[None, part], once)
        self._time.commit(stamps, events)
        self._mass = mass

    def _count(
        self,
        times: I64,
        weights: I64 | None,
        late: NDArray[np.bool_] | None,
        place: Callable[[slice], I32],
        events: I64 | None = None,
    ) -> None:
        """Add arrivals block by block; of late ones, the weights, or where entries are not events, `events`."""
        once = weights if events is None else events
        at = 0
        while at < times.size:
            stop = min(self._grid.reach(times, at), at + _BLOCK)
            part = slice(at, stop)
            self._grid.add(place(part), times[part], None if weights is None else weights[part])
            chosen = None if late is None else late[part] if events is None else late[part] & (events[part] > 0)
            if chosen is not None and chosen.any():
                self._add_late(times[part][chosen], None if once is None else once[part][chosen])
            at = stop
        self._forget_answers()

    def _new_mass(self, count: int, shares: I64 | None, taken: NDArray[np.bool_] | None) -> int:
        if shares is None:
            return check_total("events", self._mass + (count if taken is None else int(taken.sum())))
        return check_mass("weights", self._mass, shares if taken is None else shares[taken])

    def _add_late(self, times: I64, weights: I64 | None) -> None:
        self._grid.add(np.full((1, times.size), self._cells(), dtype=np.int32), times, weights)

    # -- questions --------------------------------------------------------------------------------------------

    def _forget_answers(self) -> None:
        self._answered: dict[Any, Any] = {}

    def _between(self, start: int, end: int, *, delta: float = 0.0) -> Counts:
        """The arrivals of every cell after start, up to and including end; remembered until the next update.

        A random counter fails with probability at most delta, each cell by itself.
        """
        key = start, end, delta
        if key not in self._answered:
            cut = end < self._time.newest
            share = delta / 2 if cut else delta
            counts = self._after(start, share)
            self._answered = {key: counts.minus(self._after(end, share)) if cut else counts}
        found: Counts = self._answered[key]
        return found

    def _after(self, start: int, delta: float) -> Counts:
        if not self._time.started or start >= self._time.newest:
            nothing = np.zeros(self._cells(), dtype=np.int64)
            return Counts(nothing, nothing, nothing)
        late = self._time.late > 0 and not self._grid.keeps_own_times
        share = delta / 3 if late else delta
        counts = self._registered_after(start, share)
        value, low, high = (part[:-1] for part in counts)
        if late:
            # Of what was registered after start, only late events, within the longest delay, can belong before it.
            settled = self._registered_after(start + self._time.delay, share)
            moved = int(counts.high[-1] - settled.low[-1])
            low = np.maximum(np.maximum(low - moved, settled.low[:-1]), 0)
            value = np.clip(value - moved // 2, low, high)
        return Counts(value, low, high)

    def _registered_after(self, start: int, delta: float) -> Counts:
        """The arrivals of every cell, the late one's too, that were registered after start."""
        whole = self._grid.counts() if start < self._time.first else None
        if whole is not None:  # nothing has left the window: the counters know how many arrivals they were given
            return Counts(whole, whole, whole)
        whole = self._grid.counts() if start <= self._since else None
        low, high = self._grid.after(start, delta=delta) if whole is None else (whole, whole)
        value = low + (high - low) // 2
        if self._slack:
            # A hair outwards, lest rounding in floating point cut off a truth that meets the bound.
            low = np.ceil(low / (1 + self._slack) - 1e-9 * low).astype(np.int64)
            high = np.floor(high / (1 - self._slack) + 1e-9 * high).astype(np.int64)
        return Counts(value, low, high)

    # -- parts ------------------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[Self]) -> None:
        parts = [part for part in (self, *others) if part._time.started]
        for part in parts:
            part._grid.settle(part._time)
        if len(parts) > 1:
            slack = max((1 + part._slack) * (1 + part._grid.replay_error) for part in parts) - 1
            if slack >= 1:
                raise MergeError(
                    f"after this merge a counter could be off by {slack:.0%} of its count",
                    "build the parts with for_tree(height=…), or merge more parts at a time, through fewer levels",
                )
            masses = np.array([part._mass for part in parts], dtype=np.int64)
            mass = check_mass("merging", 0, masses)
            clock = copy(self._time)
            clock.absorb([other._time for other in others])
            grid = self._new_grid()
            grid.absorb([(part._grid, max(part._time.first, part._since + 1)) for part in parts], clock)
            self._grid, self._slack, self._mass, self._time = grid, slack, mass, clock
            self._since = -TIME_LIMIT if grid.keeps_own_times else max(clock.edge, clock.first - 1)
        elif parts and parts[0] is not self:
            twin = parts[0].copy()
            self._grid, self._slack, self._mass, self._time = twin._grid, twin._slack, twin._mass, twin._time
            self._since = twin._since
        self._forget_answers()

    def _write_state(self, writer: Writer) -> None:
        writer.numbers("dqq", self._slack, self._since, self._mass)
        writer.claim(self._claimed())
        self._grid.write(writer, self._time)

    def _read_state(self, reader: Reader) -> None:
        slack, since, mass = reader.numbers("dqq")
        if not 0 <= slack < 1 or not -TIME_LIMIT <= since <= self._time.newest:
            raise DamagedBytesError(f"an inherited error of {slack} since {since}")
        self._slack, self._since, self._mass = slack, since, read_mass(mass)
        reader.claim(self._claimed())
        self._grid = self._new_grid()
        self._grid.read(reader, self._time)
        self._check_counts()
        self._forget_answers()

    def _check_counts(self) -> None:
        """Refuse counters that hold more than all events weigh: their sums could overflow."""
        if not self._time.started:
            return
        known = self._grid.counts()
        low, _ = self._grid.after(self._time.edge, delta=1e-12)
        rows = (low if known is None else known)[:-1].reshape(-1, self._row_length()).sum(axis=1, dtype=np.float64)
        if np.any(rows > self._mass * (1 + 1e-9)):
            raise DamagedBytesError(f"counters that hold {rows.max():.0f} of {self._mass} in all")

    def _row_length(self) -> int:
        """How many cells hold each event once."""
        return self._cells()

    def _claimed(self) -> int:
        """The memory of an empty grid, in cells of 4 bytes."""
        return (self._cells() + 1) * (2 * (self.size + 2) if self.counter == "panes" else 8)

    @property
    def nbytes(self) -> int:
        return self._grid.nbytes
