"""Shortlist: what a site tells the others of its counts, and how it chooses it (TOPiCo, Algorithm 1, lines 14 to 30).

A list holds the site's *nominations*: its k heaviest items, and every other that passes the candidacy test; then its
*echoes*: its counts of what other sites nominate. It states its `floor`, the most that an item can have here that is
not in the list, and `beyond`, the most of an item that this site cannot even name: 0 where counts are exact.

Algorithm 1 echoes the echoes of others as well (its `candidates` are whole lists), so that an item, once named, is
named until it has left every window. Here only nominations are echoed: an item that no site nominates any more
goes. What the proof of Theorem 1 needs, that a site's nomination draws the counts of all, is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.top_k.counts import COUNT_LIMIT, Counted
from catchment.monitor.top_k.items import NO_ITEMS, read_items, write_items
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch

__all__ = ["Shortlist", "choose"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Items with bounds on their counts at one site; the first `nominated` are its nominations, heaviest first.

    For every item of the world: in the list, its count here is in `[low, high]`; not in it, in `[0, floor]`; not in
    it though the site looked for it, in `[0, beyond]`.
    """

    keys: KeyBatch
    hashes: U64
    low: I64
    high: I64
    nominated: int
    floor: int
    beyond: int

    def __len__(self) -> int:
        return self.hashes.size

    @property
    def nominations(self) -> U64:
        return self.hashes[: self.nominated]

    def to_bytes(self) -> bytes:
        """The items and their bounds; floors stand beside them in the message."""
        if not len(self):
            return b""
        writer = Writer()
        spread = self.high - self.low
        exact = not bool(np.any(spread))
        writer.numbers("IIB", len(self), self.nominated, exact)
        write_items(writer, self.keys)
        writer.integers(self.low)
        if not exact:
            writer.integers(spread)
        return writer.getvalue()

    @classmethod
    def from_bytes(cls, blob: bytes, *, floor: int, beyond: int) -> Shortlist:
        """What `to_bytes` wrote, or a `BytesError`."""
        if not beyond <= floor < COUNT_LIMIT:
            raise DamagedBytesError(f"a floor of {floor} above {beyond}")
        if not blob:
            none = np.zeros(0, dtype=np.int64)
            return cls(NO_ITEMS, none.view(np.uint64), none, none, 0, floor, beyond)
        reader = Reader(memoryview(blob))
        count, nominated, exact = reader.numbers("IIB")
        if exact > 1 or nominated > count or not count:
            raise DamagedBytesError(f"{nominated} nominations among {count} items")
        keys = read_items(reader, count)
        low = reader.integers(count, np.int64, low=0, high=COUNT_LIMIT)
        high = low if exact else low + reader.integers(count, np.int64, low=0, high=COUNT_LIMIT)
        reader.finish()
        hashes = keys.hashes()
        if len(set(hashes.tolist())) != count or int(high.min()) < 1 or (not exact and np.array_equal(low, high)):
            raise DamagedBytesError("an item twice, or a count that cannot be")
        return cls(keys, hashes, low, high, nominated, floor, beyond)


def choose(counted: Counted, wanted: U64, *, k: int, threshold: int, limit: int, ties: bool = False) -> Shortlist:
    """The list of a site: its k heaviest items and those with `threshold` or more; then those of `wanted` it has.

    Counts are taken at their upper ends, so that an item is nominated if it may have to be. No more than `limit` are
    nominated; whatever is left out is under the floor, so a limit makes answers vaguer and never wrong. With `ties`,
    all items that are equal to the k-th are taken, since which of them is first matters to an answer.
    """
    high = counted.high
    places = np.flatnonzero(high >= max(1, threshold))
    size = places.size
    if size < k:
        kth = int(np.partition(high, high.size - k)[high.size - k]) if high.size > k else 1
        places = np.flatnonzero(high >= max(1, kth))
        size = places.size if ties else k
    if places.size > 1:
        places = places[np.lexsort((counted.hashes[places], -high[places]))]
    places = places[: min(size, limit)]
    rest = high.copy()
    rest[places] = 0
    found = counted.find(wanted)
    found = found[found >= 0]
    echoes = np.unique(found[rest[found] > 0])
    rest[echoes] = 0
    listed = np.concatenate([places, echoes])
    return Shortlist(
        keys=counted.keys.take(listed),
        hashes=counted.hashes[listed],
        low=counted.low[listed],
        high=high[listed],
        nominated=places.size,
        floor=max(counted.beyond, int(rest.max(initial=0))),
        beyond=counted.beyond,
    )
