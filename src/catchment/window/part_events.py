"""PartEvents: a sketch of each part, for sketches whose parts merged are the whole, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from catchment.errors import DamagedBytesError
from catchment.sketch.base import Sketch
from catchment.sketch.codec import Reader, Writer
from catchment.window.base import WindowSketch
from catchment.window.clock import TIME_LIMIT
from catchment.window.events import Arrivals, Events, Gatherer, in_order, runs_of, stretch_ends

__all__ = ["PartEvents", "PartGatherer"]

HELD_BYTES = 64 << 20
"""How much memory the sketches of a task may take before they are sent on."""

ALWAYS = -TIME_LIMIT
"""The end of the only stretch, where snapshots cut no stretches: it is over at any time."""


class _Part(NamedTuple):
    sketch: Sketch
    newest: int
    weight: int

    @classmethod
    def of_all(cls, parts: list[_Part]) -> _Part:
        if len(parts) == 1:
            return parts[0]
        sketch = type(parts[0].sketch).merge([part.sketch for part in parts])
        return cls(sketch, max(part.newest for part in parts), sum(part.weight for part in parts))


class PartEvents(Events):
    """Sketches of the stretches of `every` ticks, by the last of them; one for all where `every` is 0."""

    def __init__(self, using: Sketch) -> None:
        super().__init__(using)
        self.parts: dict[int, _Part] = {}

    def _keep(self, parts: dict[int, _Part]) -> Self:
        self.parts = parts
        self.newest = max((part.newest for part in parts.values()), default=-TIME_LIMIT)
        self.weight = sum(part.weight for part in parts.values())
        return self

    def add(self, others: Sequence[Self]) -> None:
        sides = [side.parts for side in (self, *others)]
        ends = sorted({end for side in sides for end in side})
        self._keep({end: _Part.of_all([side[end] for side in sides if end in side]) for end in ends})

    def split(self, until: int) -> tuple[Self, Self]:
        """Whole stretches only: one that ends later is later, though it may hold events up to `until`."""
        before = {end: part for end, part in self.parts.items() if end <= until}
        after = {end: part for end, part in self.parts.items() if end > until}
        return type(self)(self.using)._keep(before), type(self)(self.using)._keep(after)

    def ends(self, every: int) -> list[int]:
        return sorted(end for end in self.parts if end != ALWAYS)

    def replay(self, sketch: Any) -> None:
        if self.parts:
            sketch._absorb([self.parts[end].sketch for end in sorted(self.parts)])

    def _write(self, writer: Writer) -> None:
        writer.numbers("I", len(self.parts))
        for end in sorted(self.parts):
            blob = self.parts[end].sketch.to_bytes()
            writer.numbers("qqqQ", end, self.parts[end].newest, self.parts[end].weight, len(blob))
            writer.raw(blob)

    def _read(self, reader: Reader) -> None:
        (count,) = reader.numbers("I")
        parts: dict[int, _Part] = {}
        before = ALWAYS - 1
        stated = self.newest, self.weight
        for _ in range(count):
            end, newest, weight, size = reader.numbers("qqqQ")
            if not before < end <= 2 * TIME_LIMIT or weight < 0 or abs(newest) > TIME_LIMIT:
                raise DamagedBytesError(f"a part up to {end} after one up to {before}, of weight {weight}")
            sketch = type(self.using).from_bytes(reader.raw(size))
            if sketch.parameters != self.using.parameters:
                raise DamagedBytesError("a part with other parameters")
            parts[end] = _Part(sketch, newest, weight)
            before = end
        self._keep(parts)
        if (self.newest, self.weight) != stated:
            raise DamagedBytesError(f"parts of weight {self.weight} up to {self.newest}")


class PartGatherer(Gatherer):
    """A sketch for each group and stretch, fed batch by batch, in order of time within each."""

    def __init__(self, using: Sketch, every: int = 0) -> None:
        super().__init__(using, every)
        self._blank = using.to_bytes()
        self._timed = isinstance(using, WindowSketch)
        self._parts: dict[int, PartEvents] = {}
        self._held = 0

    def add(self, arrivals: Arrivals) -> Iterator[tuple[int, Events]]:
        if not len(arrivals):
            return
        arrivals = in_order(arrivals)
        ends = stretch_ends(arrivals.times, self.every) if self.every else np.full(len(arrivals), ALWAYS)
        borders = runs_of(arrivals.groups, ends)
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            run = arrivals.take(np.arange(start, stop)) if stop - start < len(arrivals) else arrivals
            events = self._parts.setdefault(int(run.groups[0]), PartEvents(self.using))
            end = int(ends[start])
            before = events.parts.get(end)
            self._held -= 0 if before is None else before.sketch.nbytes
            fed = self._fed(before, run)
            self._held += fed.sketch.nbytes
            events._keep({**events.parts, end: fed})
            if self._held > HELD_BYTES:  # one batch can have as many groups as rows
                yield from self.flush()

    def _fed(self, part: _Part | None, run: Arrivals) -> _Part:
        """The part with these events too; none of them may seem late to its sketch, only because of how they came."""
        first, last = int(run.times[0]), int(run.times[-1])
        fresh = part is None or (self._timed and first < part.newest)
        sketch = type(self.using).from_bytes(self._blank) if part is None or fresh else part.sketch
        sketch.update(**run.columns, **({"at": run.times} if self._timed else {}))
        if part is None or not fresh:
            weight = len(run) + (0 if part is None else part.weight)
            return _Part(sketch, last if part is None else max(last, part.newest), weight)
        return _Part.of_all([part, _Part(sketch, last, len(run))])

    def flush(self) -> Iterator[tuple[int, Events]]:
        parts, self._parts, self._held = self._parts, {}, 0
        yield from parts.items()
