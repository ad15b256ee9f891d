"""ItemStore: the items themselves, for sketches that must name what they counted; any key type, no Python per item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.items import copy_spans
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import BINARY, INTEGER, TEXT, KeyBatch, is_utf8

__all__ = ["ItemStore"]

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

_SMALLEST_ARENA = 1024


class ItemStore:
    """One item a slot, as bytes in a shared arena; overwritten items leave holes that the next growth closes."""

    def __init__(self, slots: int) -> None:
        self._kinds = np.zeros(slots, dtype=np.uint8)
        self._starts = np.zeros(slots, dtype=np.int64)
        self._lengths = np.zeros(slots, dtype=np.int64)
        self._arena = np.empty(0, dtype=np.uint8)
        self._end = 0

    @property
    def nbytes(self) -> int:
        return self._kinds.nbytes + self._starts.nbytes + self._lengths.nbytes + self._arena.nbytes

    def make_slots(self, slots: int) -> None:
        """Have that many slots; more than before, or as many."""
        more = slots - self._kinds.size
        self._kinds, self._starts, self._lengths = (
            np.concatenate([old, np.zeros(more, dtype=old.dtype)]) for old in (self._kinds, self._starts, self._lengths)
        )

    def put(self, slots: I64, batch: KeyBatch, places: I64) -> None:
        """Keep the keys at `places` of the batch in these slots."""
        sources, lengths = batch.spans(places)
        self._lengths[slots] = 0
        self._make_room(int(lengths.sum()))
        starts = np.empty(slots.size, dtype=np.int64)
        self._end = int(copy_spans(batch.data, sources, lengths, self._arena, self._end, starts))
        self._kinds[slots], self._starts[slots], self._lengths[slots] = batch.kind, starts, lengths
        if batch.kind == TEXT and not is_utf8(self._batch(slots, TEXT)):
            # Arrow does not check its strings; one that is none is kept as the bytes that it is.
            self._kinds[[slot for slot in slots if not is_utf8(self._batch(slot[None], TEXT))]] = BINARY

    def _make_room(self, size: int) -> None:
        if self._end + size <= self._arena.size:
            return
        live = int(self._lengths.sum())
        arena = np.empty(max(2 * (live + size), _SMALLEST_ARENA), dtype=np.uint8)
        starts = np.empty_like(self._starts)
        self._end = int(copy_spans(self._arena, self._starts, self._lengths, arena, 0, starts))
        self._arena, self._starts = arena, starts

    def kinds(self, count: int) -> U8:
        """Whether the first slots hold integers, text or bytes."""
        return self._kinds[:count]

    def get(self, slots: I64) -> tuple[int | str | bytes, ...]:
        """The items of these slots as Python values."""
        return tuple(self._value(int(slot)) for slot in slots)

    def _value(self, slot: int) -> int | str | bytes:
        start = self._starts[slot]
        raw = self._arena[start : start + self._lengths[slot]].tobytes()
        if self._kinds[slot] == INTEGER:
            return int.from_bytes(raw, "little", signed=True)
        return raw.decode() if self._kinds[slot] == TEXT else raw

    def take(self, stores: list[ItemStore], sources: I64, places: I64) -> None:
        """Hold in the first slots what is at `places` of the stores with these numbers, and nothing else."""
        arenas, slots = (
            np.cumsum([0, *sizes]) for sizes in ([s._end for s in stores], [s._kinds.size for s in stores])
        )
        chosen = slots[sources] + places
        kinds, starts, lengths = (
            np.concatenate(kept)[chosen]
            for kept in zip(*((s._kinds, s._starts, s._lengths) for s in stores), strict=True)
        )
        arena = np.concatenate([store._arena[: store._end] for store in stores])
        count, self._end = chosen.size, 0
        self._lengths[:] = 0
        self._make_room(int(lengths.sum()))
        self._kinds[:count], self._lengths[:count] = kinds, lengths
        self._end = int(copy_spans(arena, starts + arenas[sources], lengths, self._arena, 0, self._starts[:count]))

    def _batch(self, slots: I64, kind: int) -> KeyBatch:
        offsets = np.zeros(slots.size + 1, dtype=np.int64)
        np.cumsum(self._lengths[slots], out=offsets[1:])
        return KeyBatch(kind, scalar=False, data=self._joined(slots), offsets=offsets)

    def _joined(self, slots: I64) -> U8:
        """The bytes of these items, one after the other."""
        data = np.empty(int(self._lengths[slots].sum()), dtype=np.uint8)
        copy_spans(self._arena, self._starts[slots], self._lengths[slots], data, 0, np.empty_like(slots))
        return data

    def hashes(self, slots: I64) -> U64:
        """The hashes of the items, from the items."""
        out = np.empty(slots.size, dtype=np.uint64)
        for kind in (INTEGER, TEXT, BINARY):
            chosen = np.flatnonzero(self._kinds[slots] == kind)
            out[chosen] = self._batch(slots[chosen], kind).hashes()
        return out

    def write(self, writer: Writer, slots: I64) -> None:
        """The items of these slots, in their order."""
        writer.integers(self._kinds[slots])
        writer.integers(self._lengths[slots])
        writer.raw(self._joined(slots))

    @classmethod
    def read(cls, reader: Reader, used: int) -> ItemStore:
        """A store of `used` slots that hold what `write` wrote."""
        kinds = reader.integers(used, np.uint8, low=INTEGER, high=BINARY)
        lengths = reader.integers(used, np.int64, low=0, high=reader.left)
        # In floating point, since many lengths could wrap around to a sum that looks right.
        if np.any(lengths[kinds == INTEGER] != 8) or lengths.sum(dtype=np.float64) > reader.left:
            raise DamagedBytesError("items of impossible lengths")
        store = cls(used)
        store._end = int(lengths.sum())
        store._arena = np.frombuffer(reader.raw(store._end), dtype=np.uint8).copy()
        store._kinds, store._lengths, store._starts = kinds, lengths, np.cumsum(lengths) - lengths
        texts = store._batch(np.flatnonzero(kinds == TEXT), TEXT)
        if not is_utf8(texts):
            raise DamagedBytesError("a text item that is not UTF-8")
        return store
