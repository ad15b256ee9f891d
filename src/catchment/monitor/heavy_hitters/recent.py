"""Recent: what a site knows of the events in a sliding window, and who is heavy among them.

Time goes by panes. The window ends at T, the end of the pane of the newest time known, and begins at T - window, which
is the end of a pane too. So no pane is ever cut: counters of panes are added up and taken away whole, the number of
events in the window is exact, and sites in the same pane speak of the same stretch of time. An event that comes late
goes into its own pane; one from before the window is counted in `too_late` and is in no window that is spoken of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError
from catchment.monitor.heavy_hitters.names import Key, hashes_of, in_order
from catchment.monitor.heavy_hitters.plan import HeavyHitterPlan
from catchment.monitor.heavy_hitters.tally import Tally
from catchment.sketch.checks import check_total, read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.sketch.space_saving import SpaceSaving
from catchment.window.clock import TIME_LIMIT, as_times, check_times
from catchment.window.runs import split_into_runs

__all__ = ["Recent"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@dataclass(slots=True)
class _Pane:
    tally: Tally
    heaviest: SpaceSaving

    @property
    def total(self) -> int:
        return int(self.heaviest.total().value)


class Recent:
    """Counts of the events in the window, and the candidates: the items whose count is at least theta of them.

    **Every item that is heavy here is a candidate**, also one whose share rose because others left. Each pane has a
    Space Saving with an error of theta/4; merged over the window's panes it keeps every item with a count above
    theta/4 of the events in the window, always, and names it. Candidates are those of its items whose upper bound, the
    smaller one of Space Saving's and Count-Min's, is at least theta of the events. They are looked for after each batch
    and whenever the window moves, with or without an arrival.
    """

    def __init__(self, plan: HeavyHitterPlan, site: str) -> None:
        if plan.window is None:
            raise ParameterError("a plan without a window", "give window=, or use History")
        self._plan, self._site = plan, site
        self._panes: dict[int, _Pane] = {}
        self._newest: int | None = None  # the pane of the newest time known
        self.position = self.too_late = 0
        self._settle()

    def _empty(self) -> SpaceSaving:
        return SpaceSaving(epsilon=self._plan.theta / 4)

    def _new_pane(self) -> _Pane:
        return _Pane(Tally(self._plan, self._site), self._empty())

    @property
    def time(self) -> int:
        """T; 0 before any time is known."""
        return 0 if self._newest is None else (self._newest + 1) * self._plan.pane

    @property
    def total(self) -> int:
        return sum(pane.total for pane in self._panes.values())

    @property
    def slack(self) -> int:
        return self._window.slack()

    @property
    def candidates(self) -> Mapping[int, Key]:
        """The candidates' names by their hashes."""
        if self._names is None:
            self._names = self._found()
        return self._names

    def _found(self) -> dict[int, Key]:
        total = self.total
        if not total:
            return {}
        keys = in_order(self._heaviest().heavy_hitters(self._plan.share).keys)
        hashes = hashes_of(keys)
        heavy = self.counts(hashes) >= self._plan.share * total
        return {hash_: key for hash_, key, is_heavy in zip(hashes.tolist(), keys, heavy, strict=True) if is_heavy}

    def _heaviest(self) -> SpaceSaving:
        """Space Saving over the window; all panes but the newest are merged once while the window stands still."""
        if self._merged is None:
            if self._older is None:
                older = [pane.heaviest for number, pane in self._panes.items() if number != self._newest]
                self._older = SpaceSaving.merge([self._empty(), *older])
            newest = [pane.heaviest for number, pane in self._panes.items() if number == self._newest]
            self._merged = SpaceSaving.merge([self._older, *newest])
        return self._merged

    # -- events -----------------------------------------------------------------------------------------------

    def take(self, batch: KeyBatch, at: Any = None, until: int | None = None) -> None:
        """Count a batch, each event in its pane; then let time go on to `until`, if that is given."""
        batch.spans(np.zeros(0, dtype=np.int64))  # refuses keys that are hashes only: items must be named
        times = as_times(at, len(batch)) if len(batch) else np.zeros(0, dtype=np.int64)
        last = np.array([] if until is None else [until], dtype=np.int64)
        check_times(np.concatenate([times, last]))
        check_total("events", self.position + len(batch))
        numbers = (times - 1) // self._plan.pane
        known = [] if self._newest is None else [self._newest]
        newest = [*known, *numbers.max(keepdims=True, initial=-(2**62))[: times.size], *((last - 1) // self._plan.pane)]
        if newest:
            self._move(int(max(newest)))
        self.position += len(batch)
        if times.size:
            self._count(batch, numbers, times)
        self._merged = self._names = None

    def _move(self, newest: int) -> None:
        if newest == self._newest:
            return
        self._newest = newest
        for number in [number for number in self._panes if number <= newest - self._plan.panes]:
            self._window.cells -= self._panes.pop(number).tally.cells
        self._older = self._merged = self._names = None

    def _count(self, batch: KeyBatch, numbers: I64, times: I64) -> None:
        assert self._newest is not None
        for run in split_into_runs(numbers, times, {"keys": batch}):
            keys: KeyBatch = run.columns["keys"]
            if run.number <= self._newest - self._plan.panes:
                self.too_late += len(keys)
                continue
            if run.number not in self._panes:
                self._panes[run.number] = self._new_pane()
            if run.number != self._newest:
                self._older = None
            pane = self._panes[run.number]
            before = pane.tally.cells.copy() if len(keys) > self._plan.width else None
            pane.tally.add(keys)
            if before is None:
                self._window.add(keys)
            else:  # adding up the counters is less work than counting twice
                self._window.cells += pane.tally.cells - before
            pane.heaviest.update(keys)

    def counts(self, hashes: U64) -> I64:
        """Upper bounds: of two, the smaller one."""
        tallied = self._window.counts(hashes)
        kept = self._heaviest().estimate(KeyBatch.of_hashes(hashes))
        return np.minimum(tallied, np.asarray(kept.high, dtype=np.int64))

    def onsets(self, hashes: U64) -> tuple[int, ...]:
        """For how many panes up to now each item has been heavy in every pane that had events."""
        found = np.zeros(hashes.size, dtype=np.int64)
        lasting = np.ones(hashes.size, dtype=bool)
        for number in sorted(self._panes, reverse=True):
            assert self._newest is not None
            pane = self._panes[number]
            if number != self._newest:  # that one has only begun
                lasting &= pane.tally.counts(hashes) >= self._plan.share * pane.total
            found[lasting] = self._newest - number + 1
        return tuple(found.tolist())

    # -- bytes ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer) -> None:
        newest = -TIME_LIMIT if self._newest is None else self._newest
        writer.numbers("qqqI", self.position, self.too_late, newest, len(self._panes))
        for number, pane in sorted(self._panes.items()):
            blob = pane.heaviest.to_bytes()
            writer.numbers("qI", number, len(blob))
            writer.raw(blob)
            pane.tally.write(writer)

    def read(self, reader: Reader) -> None:
        position, too_late, newest, count = reader.numbers("qqqI")
        self.position, self.too_late = read_mass(position), read_mass(too_late)
        self._newest = None if newest == -TIME_LIMIT else newest
        self._panes = {}
        for _ in range(count):
            number, size = reader.numbers("qI")
            if self._newest is None or not newest - self._plan.panes < number <= newest or number in self._panes:
                raise DamagedBytesError(f"a pane {number} in the window up to {newest}")
            pane = self._new_pane()
            heaviest = SpaceSaving.from_bytes(reader.raw(size))
            if heaviest.parameters != pane.heaviest.parameters:
                raise DamagedBytesError("a pane whose Space Saving has another size")
            pane.heaviest = heaviest
            pane.tally.read(reader)
            if np.any(pane.tally.cells.sum(axis=1) != pane.total):
                raise DamagedBytesError(f"rows of pane {number} that do not hold {pane.total} events")
            self._panes[number] = pane
        self._settle()

    def _settle(self) -> None:
        """Add the panes up anew."""
        self._window = Tally(self._plan, self._site)
        for pane in self._panes.values():
            self._window.cells += pane.tally.cells
        self._older: SpaceSaving | None = None
        self._merged: SpaceSaving | None = None
        self._names: dict[int, Key] | None = None
