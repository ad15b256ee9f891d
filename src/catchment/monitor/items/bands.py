"""Bands: what a site has told of its items, which of its counts have left their bands, and the list that tells so."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.heavy_hitters.names import Names, in_order
from catchment.monitor.items.messages import BandList
from catchment.monitor.items.table import ItemTable
from catchment.monitor.items.watch import Items
from catchment.monitor.packing import pack_updates
from catchment.sketch.keys import hash_keys

__all__ = ["Bands"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_NO_HASHES = np.zeros(0, dtype=np.uint64)


class Bands:
    """The bands of a site's items, for one watch; `sites` is 0 as long as it is not known how wide they are."""

    def __init__(self, watch: Items, table: ItemTable) -> None:
        self._watch, self._table = watch, table
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

    def touch(self, hashes: U64) -> None:
        if self.sites:
            self._touched.append(hashes)

    @property
    def fit(self) -> bool:
        """Whether every count is in its band; works that out for the items that have changed."""
        if self._touched:
            changed = np.concatenate([self._outside, *self._touched])
            self._touched.clear()
            counts, lows = self._table.counts_of(changed), self._lows_of(changed)
            out = (counts < lows) | (counts > lows + self._watch.widths(lows, self.sites))
            self._outside = np.unique(changed[out])
        return not self._outside.size

    def _lows_of(self, hashes: U64) -> I64:
        if not self._hashes.size:
            return np.zeros(hashes.size, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._hashes, hashes), self._hashes.size - 1)
        found: I64 = np.where(self._hashes[places] == hashes, self._lows[places], 0)
        return found

    # -- lists ------------------------------------------------------------------------------------------------

    def whole(self, sites: int) -> BandList:
        """All bands anew, for so many sites: of the items that need one."""
        self.sites = sites
        self._touched.clear()
        self._clear()
        self._outside = self._table.above(self._watch.narrowest(sites))
        return self._list(whole=True)

    def changes(self) -> BandList:
        """New bands for the items whose counts are outside theirs; without any it is an empty list."""
        assert not self._touched  # `fit` was asked
        return self._list(whole=False)

    def _list(self, *, whole: bool) -> BandList:
        changed, self._outside = self._outside, _NO_HASHES
        lows = self._watch.lows_for(self._table.counts_of(changed), self.sites)
        known = np.isin(changed, self._hashes, assume_unique=True)
        fresh, names = self._named(changed[~known])
        old = changed[known]
        numbers = np.concatenate([self._numbers[np.searchsorted(self._hashes, old)], self._numbered(fresh.size)])
        begins = np.concatenate([lows[known], self._watch.lows_for(self._table.counts_of(fresh), self.sites)])
        self._keep(np.concatenate([old, fresh]), numbers, begins)
        order = np.argsort(numbers)
        packed = pack_updates(numbers[order].astype(np.uint64), begins[order] + 1)
        return BandList(int(whole), packed, names)

    def _named(self, hashes: U64) -> tuple[U64, Names | None]:
        """New items in the order of their names, with these."""
        if not hashes.size:
            return hashes, None
        names = in_order(self._table.names_of(hashes))
        return hash_keys(list(names))[0], Names.of(names)

    def _numbered(self, count: int) -> I64:
        """Free numbers for new items, ascending; those that are freed by this very list are not among them."""
        reused = [heappop(self._free) for _ in range(min(count, len(self._free)))]
        more = count - len(reused)
        found = np.concatenate([np.array(reused, dtype=np.int64), np.arange(self._next, self._next + more)])
        self._next += more
        return found

    def _keep(self, hashes: U64, numbers: I64, lows: I64) -> None:
        """Take the new bands in, and free the numbers of those that are none."""
        stays = ~np.isin(self._hashes, hashes, assume_unique=True)
        there = lows > 0
        all_hashes = np.concatenate([self._hashes[stays], hashes[there]])
        order = np.argsort(all_hashes)
        self._numbers = np.concatenate([self._numbers[stays], numbers[there]])[order]
        self._lows = np.concatenate([self._lows[stays], lows[there]])[order]
        self._hashes = all_hashes[order]
        freed = numbers[~there].tolist()
        if len(freed) > len(self._free):
            self._free += freed
            heapify(self._free)
        else:
            for number in freed:
                heappush(self._free, number)
