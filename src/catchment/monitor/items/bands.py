"""Bands: what a site has told of its items, which of its counts have left their bands, and the lists that tell so."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.items.messages import BandList
from catchment.monitor.items.table import ItemTable
from catchment.monitor.items.watch import Items
from catchment.monitor.packing import pack_updates
from catchment.monitor.top_k.items import values_of
from catchment.sketch.keys import KeyBatch

__all__ = ["PART_BYTES", "Bands"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

PART_BYTES = 1 << 20
"""A list takes about so much in one message, or less: what is longer is told in parts."""
_BAND_BYTES = 12  # of a number and a low, at most, and of the length of a name
_NO_HASHES = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """A list that is being told: bands of items that have a number, then those of new ones; and where parts end."""

    whole: bool
    numbers: I64
    lows: I64
    fresh: U64
    names: KeyBatch
    fresh_lows: I64
    ends: list[int]


class Bands:
    """The bands of a site's items, for one watch; `sites` is 0 as long as it is not known how wide they are."""

    def __init__(self, watch: Items, table: ItemTable, part_bytes: int = PART_BYTES) -> None:
        self._watch, self._table, self._part_bytes = watch, table, part_bytes
        self.sites = 0
        self._touched: list[U64] = []
        self._outside = _NO_HASHES
        self._clear()
        table.listeners.append(self)

    def _clear(self) -> None:
        # By hash, in order: the items that were told, their numbers, and where their bands begin.
        self._hashes = _NO_HASHES
        self._numbers = np.zeros(0, dtype=np.int64)
        self._lows = np.zeros(0, dtype=np.int64)
        self._next = 0
        self._free: list[int] = []
        self._freed: list[int] = []  # by the list that is being told
        self._listed: _Listed | None = None
        self._told = 0  # parts of it

    def touch(self, hashes: U64) -> None:
        if self.sites:
            self._touched.append(hashes)

    @property
    def fit(self) -> bool:
        """Whether every count is in its band; works that out for the items that have changed."""
        if self._touched:
            changed = np.concatenate(self._touched)
            self._touched.clear()
            counts, lows = self._table.counts_of(changed), self._lows_of(changed)
            out = (counts < lows) | (counts > lows + self._watch.widths(lows, self.sites))
            self._outside = _with(_without(self._outside, changed[~out]), np.unique(changed[out]))
        return not self._outside.size

    def _places_of(self, hashes: U64) -> tuple[I64, NDArray[np.bool_]]:
        """Where these items are among those that were told, and which of them are."""
        if not self._hashes.size:
            return np.zeros(hashes.size, dtype=np.int64), np.zeros(hashes.size, dtype=np.bool_)
        places = np.minimum(np.searchsorted(self._hashes, hashes), self._hashes.size - 1)
        return places, self._hashes[places] == hashes

    def _lows_of(self, hashes: U64) -> I64:
        places, known = self._places_of(hashes)
        found = np.zeros(hashes.size, dtype=np.int64)
        found[known] = self._lows[places[known]]
        return found

    # -- lists ------------------------------------------------------------------------------------------------

    def whole(self, sites: int) -> BandList:
        """All bands anew, for so many sites: of the items that need one. It may be a part: see `unfinished`."""
        self.sites = sites
        self._touched.clear()
        self._clear()
        self._outside = np.sort(self._table.above(self._watch.narrowest(sites)))
        return self._list(whole=True)

    def changes(self) -> BandList:
        """New bands for the items whose counts are outside theirs; without any it is an empty list."""
        assert not self._touched  # `fit` was asked
        return self._list(whole=False)

    @property
    def unfinished(self) -> bool:
        """Whether there are more parts of the last list."""
        return self._listed is not None

    def rest(self) -> BandList:
        """The next part."""
        listed = self._listed
        assert listed is not None
        start, end = listed.ends[self._told], listed.ends[self._told + 1]
        self._told += 1
        more = self._told < len(listed.ends) - 1
        if not more:
            self._listed = None
        known = listed.numbers.size
        old = slice(min(start, known), min(end, known))
        new = slice(max(start - known, 0), max(end - known, 0))
        values = values_of(listed.names.part(new.start, new.stop))
        order = np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
        fresh, numbers = listed.fresh[new][order], self._numbered(len(values))
        self._numbers[np.searchsorted(self._hashes, fresh)] = numbers
        all_numbers = np.concatenate([listed.numbers[old], numbers])
        lows = np.concatenate([listed.lows[old], listed.fresh_lows[new][order]])
        sort = np.argsort(all_numbers)
        packed = pack_updates(all_numbers[sort].astype(np.uint64), lows[sort] + 1)
        named = Names.of(tuple(values[place] for place in order.tolist()))
        return BandList(int(listed.whole and start == 0), packed, named, int(more))

    def _list(self, *, whole: bool) -> BandList:
        """Take new bands in, for the counts of now, and tell of them."""
        changed, self._outside = self._outside, _NO_HASHES
        self._give_back()
        lows = self._watch.lows_for(self._table.counts_of(changed), self.sites)
        places, known = self._places_of(changed)
        numbers = self._numbers[places[known]]
        fresh, fresh_lows = changed[~known], lows[~known]
        names = self._table.keys_of(fresh)
        lengths = np.full(fresh.size, 8) if not names.offsets.size else np.diff(names.offsets)
        costs = np.concatenate([np.zeros(numbers.size, dtype=np.int64), lengths]) + _BAND_BYTES
        self._listed = _Listed(whole, numbers, lows[known], fresh, names, fresh_lows, self._ends(costs))
        self._told = 0
        self._freed = numbers[lows[known] == 0].tolist()
        self._keep(places[known], lows[known], fresh, fresh_lows)
        return self.rest()

    def _ends(self, costs: I64) -> list[int]:
        """Where the parts of a list begin, and the end; there is at least one part, and one item in each but that."""
        sums = np.cumsum(costs)
        ends = [0]
        while ends[-1] < costs.size:
            before = int(sums[ends[-1] - 1]) if ends[-1] else 0
            ends.append(max(int(np.searchsorted(sums, before + self._part_bytes, side="right")), ends[-1] + 1))
        return ends if len(ends) > 1 else [0, 0]

    def _numbered(self, count: int) -> I64:
        """Free numbers for new items, ascending; those that are freed by this very list are not among them."""
        reused = [heappop(self._free) for _ in range(min(count, len(self._free)))]
        more = count - len(reused)
        found = np.concatenate([np.array(reused, dtype=np.int64), np.arange(self._next, self._next + more)])
        self._next += more
        return found

    def _give_back(self) -> None:
        """The numbers that the last list has freed may be used again."""
        freed, self._freed = self._freed, []
        if len(freed) > len(self._free):
            self._free += freed
            heapify(self._free)
        else:
            for number in freed:
                heappush(self._free, number)

    def _keep(self, places: I64, lows: I64, fresh: U64, fresh_lows: I64) -> None:
        """Take new bands in: of items at these places, without those that have none any more, and of new items."""
        self._lows[places] = lows
        if bool(np.any(lows == 0)):
            stays = np.ones(self._hashes.size, dtype=np.bool_)
            stays[places[lows == 0]] = False
            self._hashes, self._numbers, self._lows = self._hashes[stays], self._numbers[stays], self._lows[stays]
        if fresh.size:
            order = np.argsort(fresh)
            at = np.searchsorted(self._hashes, fresh[order])
            self._hashes = np.insert(self._hashes, at, fresh[order])
            self._lows = np.insert(self._lows, at, fresh_lows[order])
            self._numbers = np.insert(self._numbers, at, -1)  # until their part is told


def _without(some: U64, others: U64) -> U64:
    """Of some in order, those that are not among others."""
    if not some.size or not others.size:
        return some
    places = np.minimum(np.searchsorted(some, others), some.size - 1)
    kept = np.ones(some.size, dtype=np.bool_)
    kept[places[some[places] == others]] = False
    return some if kept.all() else some[kept]


def _with(some: U64, more: U64) -> U64:
    """Some in order together with more in order, each once."""
    new = more[~_among(some, more)]
    return np.insert(some, np.searchsorted(some, new), new) if new.size else some


def _among(some: U64, others: U64) -> NDArray[np.bool_]:
    if not some.size:
        return np.zeros(others.size, dtype=np.bool_)
    found: NDArray[np.bool_] = some[np.minimum(np.searchsorted(some, others), some.size - 1)] == others
    return found
