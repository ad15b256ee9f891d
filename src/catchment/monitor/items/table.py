"""ItemTable: the exact counts of a site's items, which tell whoever listens what has changed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError
from catchment.monitor.top_k.counts import Batch
from catchment.monitor.top_k.exact_counts import ExactCounts
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch

__all__ = ["ItemTable", "Listener"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class Listener(Protocol):
    def touch(self, hashes: U64) -> None:
        """The counts of these items may have changed; some may be named twice."""


class ItemTable(ExactCounts):
    """Exact counts, shared by all watches of one window."""

    def __init__(self, window: int | None) -> None:
        super().__init__(window)
        self.listeners: list[Listener] = []

    # -- events -----------------------------------------------------------------------------------------------

    def check(self, keys: KeyBatch, times: Any, weights: Any, stream: int) -> Batch:
        """Refuse what cannot be counted, before anything is changed."""
        if stream:
            raise InputError(f"events of stream {stream}", "items are counted in stream 0 alone")
        if self.window is not None and times is None:
            raise InputError("events without times for a window", "give times= with every event")
        return self._checked(keys, times if self.window is not None else None, weights, None)

    def add(self, batch: Batch) -> None:
        """Count what was checked."""
        self._commit(batch)

    def advance(self, time: int) -> None:
        """Let time pass without an event."""
        if self.window is not None:
            self.update((), until=time)

    def _claim(self, keys: KeyBatch) -> I64:
        slots = super()._claim(keys)
        self._tell(self._hashes[slots])
        return slots

    def _expire(self, edge: int) -> None:
        first = self._first + int(np.searchsorted(self._times[self._first : self._end], edge, side="right"))
        if first > self._first:
            self._tell(self._hashes[self._slots[self._first : first]])
        super()._expire(edge)

    def _tell(self, hashes: U64) -> None:
        for listener in self.listeners:
            listener.touch(hashes)

    # -- what there is ----------------------------------------------------------------------------------------

    def counts_of(self, hashes: U64) -> I64:
        """The count of each, 0 for those that are not here."""
        places = self._find(hashes)
        found: I64 = np.where(places >= 0, self._counts[np.maximum(places, 0)], 0)
        return found

    def keys_of(self, hashes: U64) -> KeyBatch:
        """The items with these hashes, which are all here."""
        return self._items.take(self._find(hashes))

    def above(self, count: int) -> U64:
        """The items with more than that."""
        return self._hashes[: self._used][self._counts[: self._used] > count]

    # -- bytes ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer) -> None:
        blob = self.to_bytes()
        writer.numbers("Q", len(blob))
        writer.raw(blob)

    def read(self, reader: Reader) -> None:
        (size,) = reader.numbers("Q")
        self.load(bytes(reader.raw(size)))
