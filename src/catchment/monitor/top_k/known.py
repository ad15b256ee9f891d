"""Known: the lists of several sites as one, with bounds on the sum of every item that any of them names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.top_k.items import NO_ITEMS
from catchment.monitor.top_k.shortlist import Shortlist
from catchment.sketch.keys import KeyBatch
from catchment.window.listed_events import joined

__all__ = ["Known", "combine"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Items by hash, with bounds on the sum of their counts, and a bound for every item that is not among them."""

    keys: KeyBatch
    low: I64
    high: I64
    unknown: int

    def lowest_of(self, k: int) -> int:
        """At least so much has the item of rank k in truth: k items have a sum of at least this, or it is 0."""
        return int(np.partition(self.low, self.low.size - k)[self.low.size - k]) if self.low.size >= k else 0


def combine(parts: Sequence[tuple[Shortlist, U64 | None]]) -> Known:
    """Add lists up; beside each the hashes of the items that its site looked for (None: all that the others name).

    The sums of all items are made anew each time, from the newest list of each site: an item that has left a list
    loses that site's part at once, where lines 9 to 12 of Algorithm 1 would leave it standing.

    A site that lists an item adds its bounds. One that does not adds [0, floor], or [0, beyond] if it looked for it:
    by what a `Shortlist` states, the truth is in the sum of these. An item that none of them lists has at most the
    sum of the floors.
    """
    filled = [shortlist for shortlist, _ in parts if len(shortlist)]
    unknown = sum(shortlist.floor for shortlist, _ in parts)
    if not filled:
        none = np.zeros(0, dtype=np.int64)
        return Known(NO_ITEMS, none, none, unknown)
    every = np.concatenate([shortlist.hashes for shortlist in filled])
    hashes, firsts, places = np.unique(every, return_index=True, return_inverse=True)
    low = np.zeros(hashes.size, dtype=np.int64)
    high = np.full(hashes.size, unknown, dtype=np.int64)
    start = 0
    for shortlist, looked_for in parts:
        mine = places[start : start + len(shortlist)]
        start += len(shortlist)
        low[mine] += shortlist.low
        absent = shortlist.floor - shortlist.beyond
        if absent and looked_for is None:
            high -= absent
            high[mine] += absent
        elif absent and looked_for is not None and looked_for.size:
            spots = np.searchsorted(hashes, looked_for)
            spots[spots == hashes.size] = 0
            found = np.zeros(hashes.size, dtype=np.bool_)
            found[spots[hashes[spots] == looked_for]] = True
            found[mine] = False
            high[found] -= absent
        high[mine] += shortlist.high - shortlist.floor
    return Known(joined([shortlist.keys for shortlist in filled]).take(firsts), low, high, unknown)
