"""CountedEvents: how many arrivals each cell has at each tick. A counter in time cannot tell them apart, so no loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.gather import (
    add_list,
    count_list,
    count_ones,
    count_runs,
    count_times,
    count_weights,
    list_counts,
)
from catchment.sketch.checks import MASS_LIMIT, check_mass, check_total
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.window.clock import TIME_LIMIT
from catchment.window.ecm import ECMSketch
from catchment.window.events import (
    Arrivals,
    Events,
    Gatherer,
    check_sum,
    check_weights,
    in_order,
    runs_of,
    stretch_ends,
    weigh,
)
from catchment.window.grid_sketch import GridSketch

__all__ = ["CountedEvents", "CountingGatherer"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

TABLE_CELLS = 1 << 23
"""The most counters that a task holds at once: 64 MB."""


class CountedEvents(Events):
    """A list of counts that are not zero, tick by tick: at most (ticks x cells) of them, however many the events."""

    using: GridSketch

    def __init__(self, using: GridSketch) -> None:
        super().__init__(using)
        self.ticks = np.zeros(0, dtype=np.int64)
        self.sizes = np.zeros(0, dtype=np.int64)
        self.cells = np.zeros(0, dtype=np.int32)
        self.counts = np.zeros(0, dtype=np.int64)

    @classmethod
    def of(cls, using: GridSketch, ticks: I64, sizes: I64, cells: I32, counts: I64) -> Self:
        """The events of such a list, in order; ticks without any are left out."""
        events = cls(using)
        kept = sizes > 0
        events.ticks, events.sizes, events.cells, events.counts = ticks[kept], sizes[kept], cells, counts
        events.newest = int(events.ticks[-1]) if events.ticks.size else -TIME_LIMIT
        events.weight = check_mass("weights", 0, counts[cells < using._row_length()])
        return events

    def add(self, others: Sequence[Self]) -> None:
        parts = [part for part in (self, *others) if part.ticks.size]
        merged = parts[0] if len(parts) == 1 else self._sum(parts) if parts else self
        self.ticks, self.sizes, self.cells, self.counts = merged.ticks, merged.sizes, merged.cells, merged.counts
        self.newest, self.weight = merged.newest, merged.weight

    def _sum(self, parts: list[Self]) -> Self:
        """All parts added up, as many ticks at a time as a small table holds."""
        check_total("weights", sum(part.weight for part in parts))  # before any count of them can wrap around
        cells = self.using._cells()
        ticks = np.unique(np.concatenate([part.ticks for part in parts]))
        step = max(1, (1 << 20) // cells)
        ends = [np.concatenate([[0], np.cumsum(part.sizes)]) for part in parts]
        sizes = np.zeros(ticks.size, dtype=np.int64)
        lists: list[tuple[I32, I64]] = []
        for start in range(0, ticks.size, step):
            these = ticks[start : start + step]
            table = np.zeros(these.size * cells, dtype=np.int64)
            for part, end in zip(parts, ends, strict=True):
                first, last = np.searchsorted(part.ticks, [these[0], these[-1] + 1])
                entries = slice(end[first], end[last])
                places = np.searchsorted(these, part.ticks[first:last])
                add_list(table, cells, places, part.sizes[first:last], part.cells[entries], part.counts[entries])
            lists.append(_listed(table, cells, sizes[start : start + step]))
        own_cells, counts = (np.concatenate([each[side] for each in lists]) for side in (0, 1))
        return self.of(self.using, ticks, sizes, own_cells, counts)

    def split(self, until: int) -> tuple[Self, Self]:
        tick = int(np.searchsorted(self.ticks, until, side="right"))
        entry = int(self.sizes[:tick].sum())
        return (
            self.of(self.using, self.ticks[:tick], self.sizes[:tick], self.cells[:entry], self.counts[:entry]),
            self.of(self.using, self.ticks[tick:], self.sizes[tick:], self.cells[entry:], self.counts[entry:]),
        )

    def ends(self, every: int) -> list[int]:
        ends: list[int] = np.unique(stretch_ends(self.ticks, every)).tolist()
        return ends

    def replay(self, sketch: GridSketch) -> None:
        sketch.replay(np.repeat(self.ticks, self.sizes), self.cells, self.counts)

    def _write(self, writer: Writer) -> None:
        writer.numbers("II", self.ticks.size, self.cells.size)
        writer.integers(np.diff(self.ticks, prepend=self.ticks[:1]))
        writer.integers(self.ticks[:1])
        writer.integers(self.sizes)
        # Gaps between the cells of a tick: none, where most cells have something.
        gaps = np.diff(self.cells, prepend=np.int32(-1)) - 1
        starts = (np.cumsum(self.sizes) - self.sizes)[self.sizes > 0]
        gaps[starts] = self.cells[starts]
        writer.integers(gaps)
        writer.integers(self.counts)

    def _read(self, reader: Reader) -> None:
        ticks, entries = reader.numbers("II")
        cells = self.using._cells()
        steps = reader.integers(ticks, np.int64, low=0, high=2 * TIME_LIMIT)
        first = reader.integers(min(ticks, 1), np.int64, low=-TIME_LIMIT, high=TIME_LIMIT)
        self.ticks = np.cumsum(steps) + (int(first[0]) if ticks else 0)
        self.sizes = reader.integers(ticks, np.int64, low=1, high=cells)
        gaps = reader.integers(entries, np.int32, low=0, high=cells - 1)
        self.counts = reader.integers(entries, np.int64, low=1, high=MASS_LIMIT - 1)
        # Compared as they came out, not by their steps: enough of these could wrap around.
        if ticks and (np.any(self.ticks[1:] <= self.ticks[:-1]) or steps[0] or int(self.ticks[-1]) != self.newest):
            raise DamagedBytesError("ticks that are out of order")
        if int(self.sizes.sum()) != entries or bool(ticks) != (self.weight > 0):
            raise DamagedBytesError(f"{entries} counts for ticks with {self.sizes.sum()}")
        run = np.cumsum(gaps.astype(np.int64) + 1)
        starts = np.cumsum(self.sizes) - self.sizes
        before = np.repeat(run[starts] - gaps[starts] if ticks else run[:0], self.sizes)
        places = run - before
        if entries and int(places.max()) >= cells:
            raise DamagedBytesError(f"a count for cell {places.max()} of {cells}")
        check_sum(self.counts[places < self.using._row_length()], self.weight)
        self.cells = places.astype(np.int32)


def _listed(table: I64, cells: int, sizes: I64) -> tuple[I32, I64]:
    """What of a table of so many cells for each tick is not zero; `sizes` becomes how many of each tick."""
    found = count_list(table, cells, sizes)
    out_cells, out_counts = np.empty(found, dtype=np.int32), np.empty(found, dtype=np.int64)
    list_counts(table, cells, out_cells, out_counts)
    return out_cells, out_counts


class CountingGatherer(Gatherer):
    """One table for all groups, over the ticks that are at hand. It is emptied when these would outgrow it."""

    using: GridSketch

    def __init__(self, using: GridSketch, every: int = 0) -> None:
        super().__init__(using, every)
        self._cells = using._cells()
        self._clear()

    def _clear(self) -> None:
        self._table = np.zeros(0, dtype=np.int64)
        self._groups, self._origin, self._ticks = 0, 0, 0
        self._mass = 0

    def add(self, arrivals: Arrivals) -> Iterator[tuple[int, Events]]:
        if not len(arrivals):
            return
        weights = check_weights(arrivals.columns)
        groups = max(self._groups, int(arrivals.groups.max()) + 1)
        first, last = int(arrivals.times.min()), int(arrivals.times.max())
        mass = weigh(arrivals, weights)
        if not self._reaches(groups, first, last) or self._mass + mass >= MASS_LIMIT:
            yield from self.flush()
            groups = int(arrivals.groups.max()) + 1
        if self._reaches(groups, first, last):
            self._mass += mass
            self._stretch(groups, first, last)
            self._count(arrivals, weights)
        else:
            yield from self._sorted(in_order(arrivals))

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """The ticks of the table with these: the first, and how many."""
        if not self._ticks:
            return first, last - first + 1
        start = min(self._origin, first)
        return start, max(self._origin + self._ticks, last + 1) - start

    def _reaches(self, groups: int, first: int, last: int) -> bool:
        return groups * self._span(first, last)[1] * self._cells <= TABLE_CELLS

    def _stretch(self, groups: int, first: int, last: int) -> None:
        """Make the table reach these groups and ticks, and a little more, for those that come next."""
        origin, ticks = self._span(first, last)
        if groups <= self._groups and ticks == self._ticks:
            return
        spare = ticks + max(ticks // 2, 16)
        if self._ticks and groups * spare * self._cells <= TABLE_CELLS and origin == self._origin:
            ticks = spare
        table = np.zeros((groups, ticks, self._cells), dtype=np.int64)
        if self._ticks:
            place = self._origin - origin
            old = self._table.reshape(self._groups, self._ticks, self._cells)
            table[: self._groups, place : place + self._ticks] = old
        self._table, self._groups, self._origin, self._ticks = table.reshape(-1), groups, origin, ticks

    def _count(self, arrivals: Arrivals, weights: I64 | None) -> None:
        keys: KeyBatch | None = arrivals.columns.get("keys")
        if keys is None:
            each = np.ones(1, dtype=np.int64) if weights is None else weights
            count_times(self._table, self._ticks, arrivals.groups, self._origin, arrivals.times, each)
            return
        assert isinstance(self.using, ECMSketch)  # the only grid with keys
        table = self._table, self._ticks, self.using.width, self.using._rows
        if weights is None:
            count_ones(*table, arrivals.groups, self._origin, arrivals.times, keys.hashes())
        else:
            count_weights(*table, arrivals.groups, self._origin, arrivals.times, keys.hashes(), weights)

    def _sorted(self, arrivals: Arrivals) -> Iterator[tuple[int, Events]]:
        """Many groups, or ticks far apart: a table would be empty for the most part."""
        weights = check_weights(arrivals.columns)
        starts = runs_of(arrivals.groups, arrivals.times)
        sizes = np.zeros(starts.size - 1, dtype=np.int64)
        ones = np.ones(len(arrivals), dtype=np.int64)
        keys: KeyBatch | None = arrivals.columns.get("keys")
        if keys is None:
            counts = np.add.reduceat(ones if weights is None else weights, starts[:-1])
            sizes[:] = counts > 0
            cells, counts = np.zeros(int(sizes.sum()), dtype=np.int32), counts[counts > 0]
        else:
            assert isinstance(self.using, ECMSketch)
            room = len(arrivals) * self.using.depth
            cells, counts = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64)
            found = count_runs(
                starts, self.using.width, self.using._rows, keys.hashes(), ones if weights is None else weights,
                sizes, cells, counts,
            )  # fmt: skip
            cells, counts = cells[:found], counts[:found]
        runs, times = arrivals.groups[starts[:-1]], arrivals.times[starts[:-1]]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        borders = runs_of(runs)
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            entries = slice(ends[start], ends[stop])
            yield (
                int(runs[start]),
                CountedEvents.of(self.using, times[start:stop], sizes[start:stop], cells[entries], counts[entries]),
            )

    def flush(self) -> Iterator[tuple[int, Events]]:
        table = self._table.reshape(self._groups, self._ticks * self._cells)
        ticks = self._origin + np.arange(self._ticks)
        for group in range(self._groups):
            sizes = np.zeros(self._ticks, dtype=np.int64)
            events = CountedEvents.of(self.using, ticks, sizes, *_listed(table[group], self._cells, sizes))
            if events.weight:
                yield group, events
        self._clear()
