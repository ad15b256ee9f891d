"""KeyStore: keys that are only ever added, and found again by their places without joining all of them each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.top_k.items import NO_ITEMS
from catchment.sketch.keys import KeyBatch
from catchment.window.listed_events import joined

__all__ = ["KeyStore"]

I64 = NDArray[np.int64]


class KeyStore:
    """Keys of one kind in the order in which they came.

    They are held in parts, each at least twice as long as the one after it: adding n keys in batches copies each key
    some log n times, and there are never more than that many parts to look into.

    >>> store = KeyStore()
    >>> for start in range(0, 10, 2):
    ...     store.add(KeyBatch.of_integers(np.arange(start, start + 2)))
    >>> store.take(np.array([9, 0, 4])).data.view(np.int64).tolist()
    [9, 0, 4]
    """

    def __init__(self, keys: KeyBatch = NO_ITEMS) -> None:
        self._parts = [keys] if len(keys) else []

    def add(self, keys: KeyBatch) -> None:
        if not len(keys):
            return
        parts = [keys]
        while self._parts and len(self._parts[-1]) < 2 * sum(map(len, parts)):
            parts.append(self._parts.pop())
        self._parts.append(joined(parts[::-1]) if len(parts) > 1 else keys)

    def take(self, places: I64) -> KeyBatch:
        """The keys at these places, in that order."""
        if len(self._parts) == 1:
            return self._parts[0].take(places)
        starts = np.cumsum([0, *map(len, self._parts)])
        part_of = np.searchsorted(starts, places, side="right") - 1
        found, order = [], []
        for number in np.unique(part_of).tolist():
            mine = np.flatnonzero(part_of == number)
            found.append(self._parts[number].take(places[mine] - starts[number]))
            order.append(mine)
        if not found:
            return NO_ITEMS
        back = np.empty(places.size, dtype=np.int64)
        back[np.concatenate(order)] = np.arange(places.size)
        return joined(found).take(back)

    def all(self) -> KeyBatch:
        """All of them, joined for good."""
        if len(self._parts) > 1:
            self._parts = [joined(self._parts)]
        return self._parts[0] if self._parts else NO_ITEMS
