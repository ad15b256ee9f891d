"""ExactCounts: how often each item came in the window, exactly, for the memory that this takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.slots import claim_slots
from catchment.kernel.space_saving import build_table, find_slots
from catchment.monitor.top_k.counts import COUNT_LIMIT, Batch, Counted, LocalCounts
from catchment.monitor.top_k.items import read_items, write_items
from catchment.monitor.top_k.key_store import KeyStore
from catchment.sketch.checks import check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.window.clock import TIME_LIMIT
from catchment.window.events import runs_of

__all__ = ["ExactCounts"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

_FIRST_ROOM = 64


class ExactCounts(LocalCounts):
    """A count for each item, and a log of what to take back when it leaves the window: (time, item, weight), sorted.

    Events of one item and tick are one entry of the log. `window.ListedEvents` has the same entries but is made
    for sums of whole lists; here a batch costs its own length, whatever the window holds.

    Parameters
    ----------
    window
        Its length in ticks; None counts the whole history, and needs no log.

    Examples
    --------
    >>> counts = ExactCounts(window=100)
    >>> counts.update(["a", "b", "a"], at=[10, 20, 60])
    >>> counts.update([], until=110)
    >>> dict(zip(["a", "b"], counts.counted().low.tolist(), strict=True))
    {'a': 1, 'b': 1}
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__(None if window is None else check_whole("window", window, 1, TIME_LIMIT))
        self._weighs_itself = window is not None
        self._clear(_FIRST_ROOM)

    def _clear(self, room: int) -> None:
        self._used = 0
        self._hashes = np.zeros(room, dtype=np.uint64)
        self._counts = np.zeros(room, dtype=np.int64)
        self._table = np.full(1 << (2 * room - 1).bit_length(), -1, dtype=np.int32)
        self._items = KeyStore()
        self._keep(*(np.zeros(0, dtype=np.int64) for _ in range(3)))

    def _keep(self, times: I64, slots: I64, weights: I64) -> None:
        self._times, self._slots, self._weights = times, slots, weights
        self._first, self._end = 0, times.size

    # -- events -----------------------------------------------------------------------------------------------

    def _take(self, batch: Batch) -> None:
        if self.window is not None and batch.time is not None:
            self._expire(batch.time - self.window)
        if not len(batch.keys):
            return
        chosen = self._in_window(batch)
        keys, at, weights = batch.keys, batch.at, batch.weights
        if chosen is not None:
            keys, at = keys.take(chosen), None if at is None else at[chosen]
            weights = None if weights is None else weights[chosen]
        slots = self._claim(keys)
        if self.window is None or at is None:
            np.add.at(self._counts, slots, 1 if weights is None else weights)
        else:
            times, slots, weights = _summed(at, slots, weights, self._used)
            np.add.at(self._counts, slots, weights)
            self._mass += int(weights.sum())
            self._append(times, slots, weights)

    def _in_window(self, batch: Batch) -> I64 | None:
        """Which events count; None for all of them."""
        keep = None
        if self.window is not None and batch.at is not None and batch.time is not None:
            keep = batch.at > batch.time - self.window
        if batch.weights is not None:
            keep = batch.weights > 0 if keep is None else keep & (batch.weights > 0)
        return None if keep is None or bool(keep.all()) else np.flatnonzero(keep)

    def _claim(self, keys: KeyBatch) -> I64:
        slots = np.empty(len(keys), dtype=np.int64)
        done = 0
        for block in keys.blocks():
            self._make_room(self._used + len(block))
            origin = np.empty(len(block), dtype=np.int64)
            hashes = block.hashes()
            part = slots[done : done + len(block)]
            used = int(claim_slots(self._table, self._hashes, self._used, hashes, part, origin))
            if used > self._used:
                self._items.add(block.take(origin[: used - self._used]))
            self._used = used
            done += len(block)
        return slots

    def _make_room(self, slots: int) -> None:
        room = self._counts.size
        if slots <= room:
            return
        room = max(slots, 2 * room)
        more = room - self._counts.size
        self._hashes = np.concatenate([self._hashes, np.zeros(more, dtype=np.uint64)])
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
        self._table = np.full(1 << (2 * room - 1).bit_length(), -1, dtype=np.int32)
        build_table(self._table, self._hashes, self._used)

    def _append(self, times: I64, slots: I64, weights: I64) -> None:
        if not times.size:
            return
        end = self._end + times.size
        if end > self._times.size:
            self._move_log(times.size)
            end = self._end + times.size
        new = slice(self._end, end)
        self._times[new], self._slots[new], self._weights[new] = times, slots, weights
        start = self._first + int(np.searchsorted(self._times[self._first : self._end], times[0], side="right"))
        if start < self._end:  # some came late: what is newer than the first of them is put in order again
            tail = slice(start, end)
            order = np.argsort(self._times[tail], kind="stable")
            for log in (self._times, self._slots, self._weights):
                log[tail] = log[tail][order]
        self._end = end

    def _move_log(self, more: int) -> None:
        """The live part of the log at the front of arrays that hold half as much again."""
        live, size = slice(self._first, self._end), self._end - self._first
        room = max(_FIRST_ROOM, (size + more) * 3 // 2)
        self._times, self._slots, self._weights = (
            np.concatenate([log[live], np.zeros(room - size, dtype=np.int64)])
            for log in (self._times, self._slots, self._weights)
        )
        self._first, self._end = 0, size

    def _expire(self, edge: int) -> None:
        """Take back what came up to and including `edge`."""
        first = self._first + int(np.searchsorted(self._times[self._first : self._end], edge, side="right"))
        if first == self._first:
            return
        gone = slice(self._first, first)
        np.subtract.at(self._counts, self._slots[gone], self._weights[gone])
        self._mass -= int(self._weights[gone].sum())
        self._first = first
        if self._used > _FIRST_ROOM and 2 * np.count_nonzero(self._counts[: self._used]) < self._used:
            self._compact()

    def _compact(self) -> None:
        """Forget the items that are not in the window."""
        live = np.flatnonzero(self._counts[: self._used])
        places = np.full(self._used, -1, dtype=np.int64)
        places[live] = np.arange(live.size)
        keys, counts, hashes = self._items.take(live), self._counts[live], self._hashes[live]
        log = slice(self._first, self._end)
        kept = self._times[log].copy(), places[self._slots[log]], self._weights[log].copy()
        self._clear(max(_FIRST_ROOM, 2 * live.size))
        self._fill(keys, hashes, counts)
        self._keep(*kept)

    def _fill(self, keys: KeyBatch, hashes: U64, counts: I64) -> None:
        self._items, self._used = KeyStore(keys), len(keys)
        self._hashes[: self._used], self._counts[: self._used] = hashes, counts
        build_table(self._table, self._hashes, self._used)

    # -- what there is ----------------------------------------------------------------------------------------

    def _keys(self) -> KeyBatch:
        return self._items.all()

    def counted(self) -> Counted:
        counts = self._counts[: self._used]
        return Counted(self._keys(), self._hashes[: self._used], counts, counts, 0, self._find)

    def _find(self, hashes: U64) -> I64:
        slots = np.empty(hashes.size, dtype=np.int64)
        find_slots(self._table, self._hashes, hashes, slots)
        return slots

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        if np.count_nonzero(self._counts[: self._used]) < self._used:
            self._compact()
        writer = Writer()
        self._write_head(writer)
        writer.numbers("I", self._used)
        write_items(writer, self._keys())
        writer.integers(self._counts[: self._used])
        log = slice(self._first, self._end)
        writer.numbers("I", self._end - self._first)
        for part in (self._times, self._slots, self._weights):
            writer.integers(part[log])
        return writer.getvalue()

    def load(self, blob: bytes) -> None:
        reader = Reader(memoryview(blob))
        head = self._read_head(reader)
        (used,) = reader.numbers("I")
        keys = read_items(reader, used)
        counts = reader.integers(used, np.int64, low=1, high=COUNT_LIMIT)
        (size,) = reader.numbers("I")
        times = reader.integers(size, np.int64, low=-TIME_LIMIT, high=TIME_LIMIT)
        slots = reader.integers(size, np.int64, low=0, high=max(used - 1, 0))
        weights = reader.integers(size, np.int64, low=1, high=COUNT_LIMIT)
        reader.finish()
        hashes = keys.hashes()
        sums = np.zeros(max(used, 1), dtype=np.int64)
        np.add.at(sums, slots, weights)
        if (
            np.unique(hashes).size != used
            or (used > 0 and head["kind"] != keys.kind)
            or bool(np.any(times[1:] < times[:-1]))
            or (size > 0 and (head["_newest"] is None or int(times[-1]) > head["_newest"]))
            or (size > 0 if self.window is None else not np.array_equal(sums[:used], counts))
        ):
            raise DamagedBytesError(f"counts of {used} items at position {head['position']} that do not add up")
        self._clear(max(_FIRST_ROOM, used))
        self._fill(keys, hashes, counts)
        self._keep(times, slots, weights)
        if self._weighs_itself:
            head["_mass"] = int(weights.sum())
        vars(self).update(head)


def _summed(at: I64, slots: I64, weights: I64 | None, used: int) -> tuple[I64, I64, I64]:
    """The weight of each item at each time, in order of time."""
    if not at.size:
        return at, slots, at
    first = int(at.min())
    if (int(at.max()) - first + 1) * used < 2**62:
        codes = (at - first) * used + slots
        order = None
        if weights is None:
            codes = np.sort(codes)
        else:
            order = np.argsort(codes, kind="stable")
            codes = codes[order]
        starts = runs_of(codes)
        firsts = codes[starts[:-1]]
        times, slots = firsts // used + first, firsts % used
    else:
        order = np.lexsort((slots, at))
        at, slots = at[order], slots[order]
        starts = runs_of(at, slots)
        times, slots = at[starts[:-1]], slots[starts[:-1]]
    if weights is None:
        return times, slots, np.diff(starts)
    return times, slots, np.add.reduceat(weights[order], starts[:-1])
