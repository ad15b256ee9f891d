"""StreamState: a sketch of an endless stream that comes in batches, and the events that still wait to be in order.

A tick is *over* once an event came that is more than `lateness` ticks newer. Events of ticks that are over are in the
sketch; the others wait, exactly (see `events`). So events that are at most `lateness` late enter in order, and the
state depends on which events came, not on how they were cut into batches, nor on their order: any two ways give the
same bytes, and the sketch is the one that `build` makes of all events in one go.

An event of a tick that is over already is *late*. It is not lost: it goes into the sketch at once, which treats it as
its class says. An ECM-sketch widens its bounds; panes take it at its own time. Only then may the state depend on how
the stream was cut.

With `every`, the end of each stretch of that many ticks gives a *snapshot* when it is over: the sketch of all events up
to that tick and of none after it. The last tick with events of a stretch that has begun waits until then, though it may
be over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.sketch.base import Sketch
from catchment.sketch.checks import check_whole
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope
from catchment.window.clock import TIME_LIMIT
from catchment.window.events import Events
from catchment.window.gather import kind_of

__all__ = ["STATE_FAMILY", "Snapshot", "StreamState"]

STATE_FAMILY = 25
"""The number of a stream's state in the envelope that sketches use too; no sketch has it."""

_NEVER = -TIME_LIMIT


class Snapshot(NamedTuple):
    """The sketch of all events up to and including tick `at`."""

    at: int
    sketch: Sketch


class StreamState:
    """What one key of a stream (a site, a tenant) keeps between batches.

    Parameters
    ----------
    using
        An empty sketch: the state's is built like it.
    lateness
        How many ticks an event may be behind the newest one and still be put in order. Waiting costs memory: for an
        ECM-sketch at most its cells for each tick, however many the events; for sketches that name keys, each key once
        a tick.
    every
        Ticks between snapshots; 0 for none.

    Examples
    --------
    >>> from catchment.window.ecm import ECMSketch
    >>> from catchment.window.gather import gathered
    >>> using = ECMSketch(0.1, 0.1, window=60)
    >>> state = StreamState(using, lateness=2, every=10)
    >>> [snapshot.at for snapshot in state.take([gathered(using, ["a", "b"], at=[9, 8])])]
    []
    >>> [(snapshot.at, snapshot.sketch.total().value) for snapshot in state.take([gathered(using, ["a"], at=[13])])]
    [(10, 2)]
    >>> state.current().total().value, state.late
    (3, 0)
    """

    def __init__(self, using: Sketch, *, lateness: int = 0, every: int = 0) -> None:
        self.using = using
        self.lateness = check_whole("lateness", lateness, 0, TIME_LIMIT)
        self.every = check_whole("every", every, 0, TIME_LIMIT)
        self._kind = kind_of(using).events
        self.sketch = using.copy()
        self.waiting = self._kind(using)
        self.newest = self.settled = _NEVER
        self.events = self.late = 0

    def take(self, parts: Iterable[Events]) -> list[Snapshot]:
        """Take a batch's events in; the snapshots of the stretches that are over now, in order."""
        batch = self._kind(self.using)
        batch.add(list(parts))
        if not batch.weight:
            return []
        late, rest = batch.split(self.settled)
        self.events += batch.weight
        self.late += late.weight if self.settled > _NEVER and self._waits else 0
        late.replay(self.sketch)
        self.newest = max(self.newest, batch.newest)
        self.waiting.add([rest])
        over = self.newest - self.lateness - 1
        snapshots = []
        for end in self.ends:
            if end > over:
                break
            self._settle(end)
            snapshots.append(Snapshot(end, self.sketch.copy()))
        self._settle(self._in_time(over))
        return snapshots

    def _in_time(self, over: int) -> int:
        """Up to where events may leave: of the stretch that is not over yet the last tick stays, to remember it by.

        Otherwise a stretch whose events all left before its end, and after which nothing came for a while, would have
        no snapshot. What is left when the stretches that are over are gone belongs to that stretch.
        """
        begun, _ = self.waiting.split(over)
        return begun.newest - 1 if self.every and begun.weight else over

    @property
    def _waits(self) -> bool:
        """Whether events wait at all: parts of a linear sketch need no order, unless snapshots cut them."""
        return self.every > 0 or not self.using.linear

    def _settle(self, until: int) -> None:
        ready, self.waiting = self.waiting.split(until)
        ready.replay(self.sketch)
        self.settled = max(self.settled, until)

    def current(self) -> Sketch:
        """The sketch of all events so far; the state stays as it is."""
        sketch = self.sketch.copy()
        self.waiting.replay(sketch)
        return sketch

    def unfinished(self, until: int) -> Snapshot | None:
        """The last snapshot that waits although `until` has passed elsewhere: this stream has fallen silent.

        The state stays as it is. Should the stream go on, the snapshot is made again when it is over here, with
        the events that came in between.
        """
        ends = [end for end in self.ends if end <= until]
        if not ends:
            return None
        ready, _ = self.waiting.split(ends[-1])
        sketch = self.sketch.copy()
        ready.replay(sketch)
        return Snapshot(ends[-1], sketch)

    @property
    def ends(self) -> list[int]:
        """The ends of the stretches in which events wait, in order."""
        return self.waiting.ends(self.every) if self.every else []

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The whole state: one BINARY in a state store, portable, and readable by every later version."""
        writer = Writer()
        writer.numbers("QQqqqq", self.lateness, self.every, self.newest, self.settled, self.events, self.late)
        for sketch in (self.using, self.sketch):
            blob = sketch.to_bytes()
            writer.numbers("Q", len(blob))
            writer.raw(blob)
        self.waiting.write(writer)
        return seal_envelope(STATE_FAMILY, b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """The state that gave these bytes; raise a `BytesError`, and nothing else, for any others."""
        family, parameters, payload = open_envelope(blob)
        if family != STATE_FAMILY:
            raise UnknownFormatError(f"bytes of family {family}, not a state", "read a sketch with Sketch.from_bytes")
        parameters.finish()
        lateness, every, newest, settled, events, late = payload.numbers("QQqqqq")
        using, sketch = (_sketch(payload) for _ in range(2))
        sane = (
            max(lateness, every) <= TIME_LIMIT
            and -TIME_LIMIT <= newest <= TIME_LIMIT
            and _NEVER <= settled <= newest
            and 0 <= late <= events < 2**62
            and type(using) is type(sketch)
            and using.parameters == sketch.parameters
            and getattr(using, "clock", "time") == "time"
        )
        if not sane:
            raise DamagedBytesError(f"a state of {events} events up to {newest}, {late} late, settled to {settled}")
        state = cls(using, lateness=lateness, every=every)
        state.sketch, state.newest, state.settled, state.events, state.late = sketch, newest, settled, events, late
        state.waiting = state._kind.read(using, payload)
        payload.finish()
        return state


def _sketch(payload: Reader) -> Sketch:
    (size,) = payload.numbers("Q")
    return Sketch.from_bytes(payload.raw(size))
