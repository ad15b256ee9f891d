"""ListedEvents: each key with its weight at each tick, for sketches that take keys in order and forget them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, KeyTypeError
from catchment.sketch.base import Sketch
from catchment.sketch.checks import MASS_LIMIT, check_mass, check_total
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import BINARY, HASHED, INTEGER, TEXT, KeyBatch, is_utf8
from catchment.window.base import WindowSketch
from catchment.window.clock import TIME_LIMIT
from catchment.window.events import Arrivals, Events, Gatherer, check_sum, check_weights, runs_of, stretch_ends, weigh

__all__ = ["ListedEvents", "ListingGatherer"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

HELD_EVENTS = 1 << 20
"""How many events a task gathers before it lists them and sends them on."""

HELD_BYTES = 64 << 20
"""How much memory their keys may take before that: keys can be long."""


class ListedEvents(Events):
    """Sorted by tick and hash of the key, each pair of them once: as many as there are such pairs."""

    def __init__(self, using: Sketch) -> None:
        super().__init__(using)
        self.ticks = np.zeros(0, dtype=np.int64)
        self.keys = KeyBatch.of_integers(np.zeros(0, dtype=np.int64))
        self.weights = np.zeros(0, dtype=np.int64)

    @classmethod
    def of(cls, using: Sketch, ticks: I64, keys: KeyBatch, weights: I64) -> Self:
        """The events of such a list, in order."""
        events = cls(using)
        events.ticks, events.keys, events.weights = ticks, keys, weights
        events.newest = int(ticks[-1]) if ticks.size else -TIME_LIMIT
        events.weight = check_mass("weights", 0, weights)
        return events

    def add(self, others: Sequence[Self]) -> None:
        parts = [part for part in (self, *others) if part.ticks.size]
        if not parts:
            return
        summed = parts[0] if len(parts) == 1 else self._sum(parts)
        self.ticks, self.keys, self.weights = summed.ticks, summed.keys, summed.weights
        self.newest, self.weight = summed.newest, summed.weight

    def _sum(self, parts: list[Self]) -> Self:
        check_total("weights", sum(part.weight for part in parts))  # before any weight of them can wrap around
        ticks = np.concatenate([part.ticks for part in parts])
        keys = joined([part.keys for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        groups = np.zeros(ticks.size, dtype=np.int32)
        ((_, summed),) = listed(self.using, groups, ticks, keys, weights)
        return self.of(self.using, summed.ticks, summed.keys, summed.weights)

    def split(self, until: int) -> tuple[Self, Self]:
        place, end = int(np.searchsorted(self.ticks, until, side="right")), self.ticks.size
        return (
            self.of(self.using, self.ticks[:place], self.keys.part(0, place), self.weights[:place]),
            self.of(self.using, self.ticks[place:], self.keys.part(place, end), self.weights[place:]),
        )

    def ends(self, every: int) -> list[int]:
        ends: list[int] = np.unique(stretch_ends(self.ticks, every)).tolist()
        return ends

    def replay(self, sketch: Any) -> None:
        if self.ticks.size:
            times = {"at": self.ticks} if isinstance(sketch, WindowSketch) else {}
            sketch.update(self.keys, weights=self.weights, **times)

    def _write(self, writer: Writer) -> None:
        writer.numbers("IB", self.ticks.size, self.keys.kind)
        writer.integers(self.ticks)
        writer.integers(self.weights)
        if self.keys.kind in (INTEGER, HASHED):
            writer.integers(self.keys.data.view(np.int64))
            return
        lengths = np.diff(self.keys.offsets)
        writer.integers(lengths)
        writer.raw(self.keys.data[int(self.keys.offsets[0]) : int(self.keys.offsets[-1])])

    def _read(self, reader: Reader) -> None:
        count, kind = reader.numbers("IB")
        if kind not in (INTEGER, TEXT, BINARY, HASHED) or (kind == HASHED and self.using.names_keys):
            raise DamagedBytesError(f"keys of kind {kind}")
        self.ticks = reader.integers(count, np.int64, low=-TIME_LIMIT, high=TIME_LIMIT)
        self.weights = reader.integers(count, np.int64, low=1, high=MASS_LIMIT - 1)
        if kind in (INTEGER, HASHED):
            words = reader.integers(count, np.int64, low=-(2**63), high=2**63 - 1)
            self.keys = KeyBatch(kind, False, words.view(np.uint8), KeyBatch.of_integers(words).offsets)
        else:
            lengths = reader.integers(count, np.int64, low=0, high=reader.left)
            size = float(lengths.astype(np.float64).sum())
            data = np.frombuffer(reader.raw(int(min(size, 2.0**62))), dtype=np.uint8)
            self.keys = KeyBatch(kind, False, data, np.concatenate([[0], np.cumsum(lengths)]))
            if kind == TEXT and not is_utf8(self.keys):
                raise DamagedBytesError("text that is not UTF-8")
        same = self.ticks[1:] == self.ticks[:-1]
        hashes = self.keys.hashes()
        if np.any(self.ticks[1:] < self.ticks[:-1]) or np.any(same & (hashes[1:] <= hashes[:-1])):
            raise DamagedBytesError("events out of order")
        stated = int(self.ticks[-1]) if count else -TIME_LIMIT
        if stated != self.newest:
            raise DamagedBytesError(f"events up to {stated} where {self.newest} is stated")
        check_sum(self.weights, self.weight)


def joined(batches: Sequence[KeyBatch]) -> KeyBatch:
    """One batch of all these keys, in order."""
    kinds = {batch.kind for batch in batches if len(batch)}
    if len(kinds) > 1:
        raise KeyTypeError("keys of more than one type in a stream", "cast them to one type, for instance to string")
    batches = [batch for batch in batches if len(batch)] or list(batches[:1])
    kind = batches[0].kind
    if kind in (INTEGER, HASHED):
        return KeyBatch(kind, False, np.concatenate([batch.data for batch in batches]), batches[0].offsets)
    data = [batch.data[int(batch.offsets[0]) : int(batch.offsets[-1])] for batch in batches]
    lengths = np.concatenate([np.diff(batch.offsets) for batch in batches])
    return KeyBatch(kind, False, np.concatenate(data), np.concatenate([[0], np.cumsum(lengths)]))


def listed(
    using: Sketch, groups: NDArray[np.int32], ticks: I64, keys: KeyBatch, weights: I64 | None
) -> Iterator[tuple[int, ListedEvents]]:
    """The events of each group in order, those of one key and tick as one; weight 0 is no event."""
    hashes = keys.hashes()
    order = np.lexsort((hashes, ticks, groups))
    if weights is not None:
        order = order[weights[order] > 0]
    if not order.size:
        return
    groups, ticks = groups[order], ticks[order]
    starts = runs_of(groups, ticks, hashes[order])
    firsts = starts[:-1]
    sums = np.diff(starts) if weights is None else np.add.reduceat(weights[order], firsts)
    groups, ticks, places = groups[firsts], ticks[firsts], order[firsts]
    borders = runs_of(groups)
    for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        part = slice(start, stop)
        yield int(groups[start]), ListedEvents.of(using, ticks[part], keys.take(places[part]), sums[part])


class ListingGatherer(Gatherer):
    """Holds some batches back, so that keys that come often are sent less often."""

    def __init__(self, using: Sketch, every: int = 0) -> None:
        super().__init__(using, every)
        self._held: list[Arrivals] = []
        self._mass = 0

    def add(self, arrivals: Arrivals) -> Iterator[tuple[int, Events]]:
        mass = weigh(arrivals, check_weights(arrivals.columns))
        if self._mass + mass >= MASS_LIMIT:
            yield from self.flush()
        self._mass += mass
        if len(arrivals):
            self._held.append(arrivals)
        bytes_held = sum(batch.columns["keys"].data.nbytes for batch in self._held)
        if sum(map(len, self._held)) >= HELD_EVENTS or bytes_held >= HELD_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[int, Events]]:
        held, self._held, self._mass = self._held, [], 0
        if held:
            weights = None
            if "weights" in held[0].columns:
                weights = np.concatenate([batch.columns["weights"] for batch in held])
            yield from listed(
                self.using,
                np.concatenate([batch.groups for batch in held]),
                np.concatenate([batch.times for batch in held]),
                joined([batch.columns["keys"] for batch in held]),
                weights,
            )
