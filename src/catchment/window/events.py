"""Events: what has come and is not yet in a sketch, without loss: it can be added up, split in time and sent.

Streams come in pieces: tasks of a job, micro-batches of a stream, each in no order. Sketching each piece and merging
the sketches would add an error for each merge, and make the result depend on how the stream was cut. So the pieces are
first brought together as *events*, exactly, and only then put into the sketch, tick by tick. There are three ways to
keep events exactly in little room, and `kind_of` knows which serves a sketch:

- `CountedEvents`: how many in each cell at each tick, for sketches whose counters live in time (ECM);
- `PartEvents`: a sketch of the part, for linear ones, where the parts merged are the whole, byte for byte;
- `ListedEvents`: each key with its weight at each tick, for all others.

The order in which events enter a sketch is by tick, then by the hash of the key. It does not depend on the order in
which they came, so neither do the sketch's bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, InputError, ParameterError, UnknownFormatError
from catchment.sketch.base import Sketch
from catchment.sketch.checks import check_mass
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope
from catchment.sketch.keys import KeyBatch
from catchment.window.clock import ARRIVALS, TIME_LIMIT

__all__ = ["EVENTS_FAMILY", "Arrivals", "Events", "Gatherer"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

EVENTS_FAMILY = 24
"""The number of events in the envelope that sketches use too; no sketch has it."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A batch of events in the order in which they came: one entry for each in every column."""

    groups: I32
    """The number of the group of each event."""
    times: I64
    columns: Mapping[str, Any]
    """What else the sketch's `update` takes, by name: keys as a `KeyBatch`, weights, values, attributes."""

    def __len__(self) -> int:
        return self.times.size

    def take(self, places: NDArray[Any]) -> Arrivals:
        """The events at these places, in that order."""
        columns = {
            name: column.take(places) if isinstance(column, KeyBatch) else column[places]
            for name, column in self.columns.items()
        }
        return Arrivals(self.groups[places], self.times[places], columns)


class Events(ABC):
    """Events of one group. `newest` is the last of their ticks, `weight` how many there are, or what they weigh."""

    newest: int
    weight: int

    def __init__(self, using: Sketch) -> None:
        self.using = using
        self.newest, self.weight = -TIME_LIMIT, 0

    @abstractmethod
    def add(self, others: Sequence[Self]) -> None:
        """Take in others' events: the result is as if they had been gathered together."""

    @abstractmethod
    def split(self, until: int) -> tuple[Self, Self]:
        """The events up to and including that tick, and those after it."""

    @abstractmethod
    def ends(self, every: int) -> list[int]:
        """The ends of the stretches of `every` ticks in which there are events, in order."""

    @abstractmethod
    def replay(self, sketch: Any) -> None:
        """Put the events into a sketch, in order."""

    @abstractmethod
    def _write(self, writer: Writer) -> None: ...

    @abstractmethod
    def _read(self, reader: Reader) -> None: ...

    def write(self, writer: Writer) -> None:
        """The events as part of other bytes."""
        writer.numbers("qq", self.newest, self.weight)
        self._write(writer)

    @classmethod
    def read(cls, using: Sketch, reader: Reader) -> Self:
        """The events that were written; raise a `DamagedBytesError` for anything else."""
        events = cls(using)
        events.newest, events.weight = reader.numbers("qq")
        if not -TIME_LIMIT <= events.newest <= TIME_LIMIT or not 0 <= events.weight < 2**62:
            raise DamagedBytesError(f"events that weigh {events.weight} up to {events.newest}")
        events._read(reader)
        return events

    def to_bytes(self) -> bytes:
        """The events; which sketch they are for is not in the bytes: who reads them must know."""
        writer = Writer()
        self.write(writer)
        return seal_envelope(EVENTS_FAMILY, b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, using: Sketch, blob: bytes) -> Self:
        """The events that gave these bytes, for a sketch with the same parameters."""
        family, parameters, payload = open_envelope(blob)
        if family != EVENTS_FAMILY:
            raise UnknownFormatError(f"bytes of family {family}, not events", "read a sketch with Sketch.from_bytes")
        parameters.finish()
        events = cls.read(using, payload)
        payload.finish()
        return events


class Gatherer(ABC):
    """Makes events of arrivals, of many groups at once, in bounded memory."""

    def __init__(self, using: Sketch, every: int = 0) -> None:
        if getattr(using, "clock", None) == ARRIVALS:
            raise ParameterError(
                f"a {type(using).__name__} with a window of arrivals",
                "build it with window= ticks: which of many partitions' events are the last has no answer",
            )
        self.using = using
        self.every = every

    @abstractmethod
    def add(self, arrivals: Arrivals) -> Iterator[tuple[int, Events]]:
        """Take arrivals in; what comes out had to make room."""

    @abstractmethod
    def flush(self) -> Iterator[tuple[int, Events]]:
        """All that is still here, by group."""


def in_order(arrivals: Arrivals) -> Arrivals:
    """The same by group, then by time; events of one group and time in the order in which they came."""
    groups, times = arrivals.groups, arrivals.times
    same = groups[1:] == groups[:-1]
    if np.all((groups[1:] > groups[:-1]) | (same & (times[1:] >= times[:-1]))):
        return arrivals
    span, groups_there = int(times.max()) - int(times.min()) + 1, int(groups.max()) + 1
    if span * groups_there <= 1 << 16:  # numbers of 16 bits are sorted by their digits, ten times as fast
        ranks = groups.astype(np.int64) * span + (times - times.min())
        return arrivals.take(np.argsort(ranks.astype(np.uint16), kind="stable"))
    return arrivals.take(np.lexsort((times, groups)))


def stretch_ends(times: I64, every: int) -> I64:
    """The end of the stretch of `every` ticks in which each time lies."""
    return np.asarray(-(-times // every) * every)


def runs_of(*columns: NDArray[Any]) -> I64:
    """Where the runs of equal entries start, and last the end of all."""
    size = columns[0].size
    if not size:
        return np.zeros(1, dtype=np.int64)
    differs = np.zeros(size - 1, dtype=np.bool_)
    for column in columns:
        differs |= column[1:] != column[:-1]
    return np.concatenate([[0], np.flatnonzero(differs) + 1, [size]])


def check_sum(weights: I64, stated: int) -> None:
    """Refuse weights out of bytes that do not come to what the bytes state."""
    roughly = float(weights.astype(np.float64).sum())
    # Roughly first: the exact sum could wrap around, and the rough one cannot tell neighbours above 2^53 apart.
    if roughly > 2.0**62 or int(weights.sum()) != stated:
        raise DamagedBytesError(f"weights that come to {roughly:.0f} of {stated}")


def weigh(arrivals: Arrivals, weights: I64 | None) -> int:
    """What arrivals weigh together; raise a `WeightError` where that is more than can be counted."""
    return len(arrivals) if weights is None else check_mass("weights", 0, weights)


def check_weights(columns: Mapping[str, Any]) -> I64 | None:
    """The weights, none of them negative; None where each event counts once."""
    weights: I64 | None = columns.get("weights")
    if weights is not None and weights.size and int(weights.min()) < 0:
        raise InputError(f"the weight {weights.min()} is negative", "this sketch cannot take events back; FastAMS can")
    return weights
