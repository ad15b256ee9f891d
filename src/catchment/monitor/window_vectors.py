"""Vectors of what is in a window: their cells fall by themselves as time goes on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError
from catchment.monitor.vectors import Vector, mass_of
from catchment.sketch.checks import check_total
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.window.ecm import ECMSketch

__all__ = ["WindowCountVector", "WindowStreamsVector", "WindowVector"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class WindowVector(Vector):
    """The counts of an ECM-sketch in its window up to the newest time."""

    def __init__(self, sketch: ECMSketch) -> None:
        super().__init__()
        self.sketch = sketch
        self.rows, self.width = sketch.depth, sketch.width
        self._time: int | None = None

    def check(self, weights: I64, count: int, times: I64 | None, stream: int) -> None:
        if times is None:
            raise InputError("events without times for a window", "give times= with every event")
        if bool(np.any(weights < 0)):
            raise InputError("a negative weight for a window", "windows count upwards: events leave by growing old")
        super().check(weights, count, times, stream)
        check_total("weights", self.sketch._mass + self._factor * mass_of(weights, count))

    def _largest(self) -> int:
        return int(self.values().sum(axis=1).max(initial=0))

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        self.sketch.update(
            KeyBatch.of_hashes(hashes), at=times, weights=weights if weights.size > 1 else int(weights[0])
        )
        self._moved(hashes.size)

    def advance(self, time: int) -> None:
        self._time = time
        self._moved(0)

    def reach(self, time: int) -> None:
        """It is at least this late."""
        if self._time is None or time > self._time:
            self._time = time

    @property
    def _now(self) -> int | None:
        """The newest time that is known; None before the first."""
        newest = self.sketch.newest
        return self._time if newest is None or self._time is None else max(self._time, newest)

    def values(self) -> I64:
        return self.sketch.counts(now=self._now)

    def write(self, writer: Writer) -> None:
        blob = self.sketch.to_bytes()
        writer.numbers("Bq", self._time is not None, self._time or 0)
        writer.numbers("Q", len(blob))
        writer.raw(blob)

    def read(self, reader: Reader) -> None:
        known, time = reader.numbers("Bq")
        self._time = time if known else None
        (size,) = reader.numbers("Q")
        self.sketch = ECMSketch.from_bytes(reader.raw(size))


class WindowStreamsVector(Vector):
    """The counts of an ECM-sketch for each stream, one stream's rows after the other's, in one window."""

    def __init__(self, *sketches: ECMSketch) -> None:
        super().__init__()
        self._parts = [WindowVector(sketch) for sketch in sketches]
        self.streams, self.width = len(sketches), sketches[0].width
        self.rows = sum(part.rows for part in self._parts)

    def check(self, weights: I64, count: int, times: I64 | None, stream: int) -> None:
        super().check(weights, count, times, stream)
        self._parts[stream].check(weights, count, times, 0)

    def _largest(self) -> int:
        return max(part._largest() for part in self._parts)

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        assert times is not None  # checked
        self._parts[stream].add(hashes, weights, times, 0)
        for part in self._parts:  # the window of one goes on with the events of the other
            part.reach(int(times.max()))
        self._moved(hashes.size)

    def advance(self, time: int) -> None:
        for part in self._parts:
            part.advance(time)
        self._moved(0)

    def values(self) -> I64:
        return np.concatenate([part.values() for part in self._parts])

    def write(self, writer: Writer) -> None:
        for part in self._parts:
            part.write(writer)

    def read(self, reader: Reader) -> None:
        for part in self._parts:
            part.read(reader)


class WindowCountVector(WindowVector):
    """One cell: how often some keys, each times a factor, or anything was in the window; the sketch has no others."""

    def __init__(self, sketch: ECMSketch, keys: U64 | None = None, factors: I64 | None = None) -> None:
        super().__init__(sketch)
        self.rows, self.width = 1, 1
        self._keys, self._factors = keys, factors
        if factors is not None:
            self._factor = int(factors.max(initial=1))

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        assert times is not None  # checked
        events = hashes.size
        if events:
            self.reach(int(times.max()))
        if self._keys is not None and self._factors is not None:
            place = np.minimum(np.searchsorted(self._keys, hashes), self._keys.size - 1)
            mine = np.flatnonzero(self._keys[place] == hashes)
            weights = self._factors[place[mine]] * (weights[mine] if weights.size == events else weights)
            hashes, times = hashes[mine], times[mine]
        if hashes.size:
            each = weights if weights.size == hashes.size else int(weights[0])
            self.sketch.update(KeyBatch.of_hashes(hashes), at=times, weights=each)
        self._moved(events)

    def values(self) -> I64:
        return np.asarray(self.sketch.total(now=self._now).value, dtype=np.int64).reshape(1, 1)
