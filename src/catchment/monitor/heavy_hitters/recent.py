"""Recent: what a site knows of the events in a sliding window, and who is heavy among them.

Time goes by panes. The window ends at T, the end of the pane of the newest time known, and begins at T - window, which
is the end of a pane too. So no pane is ever cut: counters of panes are added up and taken away whole, the number of
events in the window is exact, and sites in the same pane speak of the same stretch of time. An event that comes late
goes into its own pane; one from before the window is in no window that is spoken of (`Site.too_late`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, InputError, ParameterError
from catchment.monitor.heavy_hitters.local import Local
from catchment.monitor.heavy_hitters.names import Key, hashes_of, in_order
from catchment.monitor.heavy_hitters.tally import Tally
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.sketch.checks import read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.sketch.space_saving import SpaceSaving
from catchment.window.clock import TIME_LIMIT, as_times
from catchment.window.runs import split_into_runs

__all__ = ["Recent"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What a Space Saving, or several, keep: hashes in order, and by how much each count is above the floor."""

    hashes: U64
    excess: I64
    floor: int

    @classmethod
    def of(cls, heaviest: SpaceSaving) -> tuple[_Kept, dict[int, Key]]:
        top = heaviest.top(heaviest.capacity)
        above = {key: int(answer.value) - heaviest.floor for key, answer in top} if len(top) else {}
        keys = in_order(above)
        hashes = hashes_of(keys)
        order = np.argsort(hashes)
        excess = np.array([above[key] for key in keys], dtype=np.int64)[order]
        return cls(hashes[order], excess, heaviest.floor), dict(zip(hashes.tolist(), keys, strict=True))

    @classmethod
    def together(cls, parts: list[_Kept]) -> _Kept:
        """Of several: counts add up, with the floor of each part that does not keep the item."""
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *(part.hashes for part in parts)])
        excess = np.concatenate([np.zeros(0, dtype=np.int64), *(part.excess for part in parts)])
        unique, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(unique.size, dtype=np.int64)
        np.add.at(sums, places, excess)
        return cls(unique, sums, sum(part.floor for part in parts))

    def high(self, hashes: U64) -> I64:
        """The most that each item can have been seen."""
        high = np.full(hashes.size, self.floor, dtype=np.int64)
        if self.hashes.size:
            at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
            high += np.where(self.hashes[at] == hashes, self.excess[at], 0)
        return high


@dataclass(slots=True)
class _Pane:
    tally: Tally
    heaviest: SpaceSaving
    total: int = 0
    kept: _Kept | None = None
    names: dict[int, Key] | None = None

    def summary(self) -> _Kept:
        """What its Space Saving keeps, worked out once it is over."""
        if self.kept is None:
            self.kept, self.names = _Kept.of(self.heaviest)
        return self.kept


class Recent(Local):
    """Counts of the events in the window, and the candidates: the items whose count is at least phi of them.

    **Every item that is heavy here is a candidate**, also one whose share rose because others left. Each pane has a
    Space Saving with an error of phi/4: an item's count in the pane is at most the count that it keeps, or its floor,
    always, and floors add up to at most phi/4 of the events in the window. So an item with more than that is kept
    and named by some pane, and the sum of these bounds over the panes is never below its count. Candidates are the
    named items whose upper bound, the smaller one of this sum and Count-Min's, is at least phi of the events. They
    are looked for after each batch and whenever the window moves, with or without an arrival.
    """

    def __init__(self, watch: HeavyHitters, site: str) -> None:
        if watch.window is None:
            raise ParameterError("a watch without a window", "give window=, or use History")
        super().__init__()
        self._watch, self._site = watch, site
        self._panes: dict[int, _Pane] = {}
        self._newest: int | None = None  # the pane of the newest time known
        self._older: _Kept | None = None
        self._names: dict[int, Key] | None = None
        self._settle()

    def _new_pane(self) -> _Pane:
        return _Pane(Tally(self._watch, self._site), SpaceSaving(epsilon=self._watch.phi / 4))

    @property
    def total(self) -> int:
        return sum(pane.total for pane in self._panes.values())

    def slack(self, sites: int) -> int:
        return self._window.slack(sites)

    @property
    def candidates(self) -> Mapping[int, Key]:
        if self._names is None:
            self._names = self._found()
        return self._names

    def _found(self) -> dict[int, Key]:
        total = self.total
        if not total:
            return {}
        need = self._watch.share * total
        older = self._summary()
        named = self._named_now(need - older.floor)
        hashes = np.unique(np.concatenate([older.hashes, np.fromiter(named, dtype=np.uint64, count=len(named))]))
        heavy: list[int] = hashes[self.counts(hashes) >= need].tolist()
        return {hash_: named[hash_] if hash_ in named else self._name(hash_) for hash_ in heavy}

    def _named_now(self, need: float) -> dict[int, Key]:
        """The items of the newest pane that older panes may not name, and that can be heavy all the same."""
        if self._newest not in self._panes:
            return {}
        keys = in_order(self._panes[self._newest].heaviest.heavy_hitters(count=max(1, math.ceil(need))).keys)
        return dict(zip(hashes_of(keys).tolist(), keys, strict=True))

    def _name(self, hash_: int) -> Key:
        return next(pane.names[hash_] for pane in self._panes.values() if pane.names and hash_ in pane.names)

    def _summary(self) -> _Kept:
        """All panes but the newest, added up once while the window stands still."""
        if self._older is None:
            older = [pane.summary() for number, pane in self._panes.items() if number != self._newest]
            self._older = _Kept.together(older)
        return self._older

    # -- events -----------------------------------------------------------------------------------------------

    def _timed(self, batch: KeyBatch, times: Any) -> tuple[KeyBatch, I64]:
        if times is None:
            raise InputError("events without times for a window", "give times= with every event")
        return batch, as_times(times, len(batch))

    def add(self, checked: tuple[KeyBatch, I64]) -> None:
        """Count a batch, each event in its pane."""
        batch, times = checked
        numbers = (times - 1) // self._watch.pane
        self._move(int(numbers.max()))
        self.position += len(batch)
        self._count(batch, numbers, times)
        self._names = None

    def advance(self, time: int) -> None:
        self._move((time - 1) // self._watch.pane)

    def _move(self, newest: int) -> None:
        if self._newest is not None and newest <= self._newest:
            return
        self._newest, self.time = newest, (newest + 1) * self._watch.pane
        for number in [number for number in self._panes if number <= newest - self._watch.panes]:
            self._window.cells -= self._panes.pop(number).tally.cells
        self._older = self._names = None

    def _count(self, batch: KeyBatch, numbers: I64, times: I64) -> None:
        assert self._newest is not None
        for run in split_into_runs(numbers, times, {"keys": batch}):
            keys: KeyBatch = run.columns["keys"]
            if run.number <= self._newest - self._watch.panes:
                continue  # too late
            if run.number not in self._panes:
                self._panes[run.number] = self._new_pane()
            if run.number != self._newest:
                self._older = None
            pane = self._panes[run.number]
            before = pane.tally.cells.copy() if len(keys) > self._watch.width else None
            pane.tally.add(keys)
            if before is None:
                self._window.add(keys)
            else:  # adding up the counters is less work than counting twice
                self._window.cells += pane.tally.cells - before
            pane.heaviest.update(keys)
            pane.total, pane.kept, pane.names = pane.total + len(keys), None, None

    def counts(self, hashes: U64) -> I64:
        """Upper bounds: of two, the smaller one."""
        kept = self._summary().high(hashes)
        if self._newest in self._panes:
            now = self._panes[self._newest].heaviest.estimate(KeyBatch.of_hashes(hashes))
            kept += np.asarray(now.high, dtype=np.int64)
        return np.minimum(self._window.counts(hashes), kept)

    def onsets(self, hashes: U64) -> tuple[int, ...]:
        """For how many panes up to now each item has been heavy in every pane that had events."""
        found = np.zeros(hashes.size, dtype=np.int64)
        lasting = np.ones(hashes.size, dtype=bool)
        for number in sorted(self._panes, reverse=True):
            assert self._newest is not None
            pane = self._panes[number]
            if number != self._newest:  # that one has only begun
                lasting &= pane.tally.counts(hashes) >= self._watch.share * pane.total
            found[lasting] = self._newest - number + 1
        return tuple(found.tolist())

    # -- bytes ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer) -> None:
        newest = -TIME_LIMIT if self._newest is None else self._newest
        writer.numbers("qqI", self.position, newest, len(self._panes))
        for number, pane in sorted(self._panes.items()):
            blob = pane.heaviest.to_bytes()
            writer.numbers("qI", number, len(blob))
            writer.raw(blob)
            pane.tally.write(writer)

    def read(self, reader: Reader) -> None:
        position, newest, count = reader.numbers("qqI")
        self.position = read_mass(position)
        self._newest = None if newest == -TIME_LIMIT else newest
        self.time = 0 if self._newest is None else (newest + 1) * self._watch.pane
        self._panes = {}
        for _ in range(count):
            number, size = reader.numbers("qI")
            if self._newest is None or not newest - self._watch.panes < number <= newest or number in self._panes:
                raise DamagedBytesError(f"a pane {number} in the window up to {newest}")
            pane = self._new_pane()
            heaviest = SpaceSaving.from_bytes(reader.raw(size))
            if heaviest.parameters != pane.heaviest.parameters:
                raise DamagedBytesError("a pane whose Space Saving has another size")
            pane.heaviest, pane.total = heaviest, int(heaviest.total().value)
            pane.tally.read(reader)
            if np.any(pane.tally.cells.sum(axis=1) != pane.total):
                raise DamagedBytesError(f"rows of pane {number} that do not hold {pane.total} events")
            self._panes[number] = pane
        self._settle()

    def _settle(self) -> None:
        """Add the panes up anew."""
        self._window = Tally(self._watch, self._site)
        for pane in self._panes.values():
            self._window.cells += pane.tally.cells
        self._older = self._names = None
