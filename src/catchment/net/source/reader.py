"""Reader: bytes of a feed through a decoder, as batches with positions.

A position counts events. To find it again without reading everything before it, the reader marks now and then at which
byte so many events had been read: the newest mark at or before a position, and then the few events after it, lead there
exactly. Without marks it reads from the beginning.

With an `IdleClock` a reader whose source has been silent for a while gives batches without events that say how late it
is, so that windows go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError, ParameterError
from catchment.net.source.base import BadLines, Batch
from catchment.net.source.decoders import Decoder
from catchment.net.source.feeds import END, Feed

__all__ = ["IdleClock", "Reader"]

_LONGEST = 1 << 20
_MARKS = 64


@dataclass(frozen=True, slots=True)
class _Mark:
    """Before byte `offset` and line `line` there are `events` events and `bad` bad lines."""

    events: int
    offset: int
    line: int
    bad: int


class IdleClock:
    """The time of day in ticks, less a lag, for a source that has been silent for that lag; a new one each tick.

    - `lag`, `tick`: in microseconds. What comes with a time that is older than the lag is late.
    - `wall`: the time of day in seconds since 1970; `steady`: seconds that only measure how long.
    """

    def __init__(
        self,
        lag: int,
        tick: int,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lag, self._tick, self._wall, self._steady = lag, tick, wall, steady
        self._since: float | None = None
        self._told: int | None = None

    def heard(self) -> None:
        """Something came."""
        self._since = None

    def reached(self) -> int | None:
        """Nothing came: the time that this shows, if it is a new one."""
        now = self._steady()
        if self._since is None:
            self._since = now
        if (now - self._since) * 1e6 < self._lag:
            return None
        shown = int(self._wall() * 1e6 - self._lag) // self._tick
        if self._told is not None and shown <= self._told:
            return None
        self._told = shown
        return shown


class Reader:
    """A source out of a feed and a decoder; a `Source`.

    - `batch`: the most events of one batch.
    - `idle`: lets time go on while nothing comes.

    A line may have up to a MiB; longer ones are bad and are passed over without being kept.
    """

    def __init__(self, feed: Feed, decoder: Decoder, *, batch: int = 50_000, idle: IdleClock | None = None) -> None:
        if batch < 1:
            raise ParameterError(f"batch={batch}", "give 1 or more")
        self.bad = BadLines()
        self._feed, self._decoder, self._most, self._idle = feed, decoder, batch, idle
        self._marks: list[_Mark] = []
        self._rest = b""
        self._ended = self._stopped = self._too_long = self._begun = False
        self._next = _Mark(0, 0, 1, 0)
        self._skip = self._position = 0
        self._ready: tuple[Any, NDArray[np.int64] | None] | None = None

    @property
    def replayable(self) -> bool:
        return self._feed.replayable

    def start(self, position: int, marks: bytes = b"") -> None:
        self._position = position
        if not self.replayable:
            self._next = _Mark(position, 0, 1, 0)
            self._feed.open(0)
            return
        known, fingerprint = _read_marks(marks)
        self._feed.check(fingerprint)
        self._marks = [mark for mark in known if mark.events <= position]
        self._next = self._marks[-1] if self._marks else self._next
        self._skip = position - self._next.events
        self.bad.count = self._next.bad
        if self._next.offset:
            self._read_head()
        self._feed.open(self._next.offset)

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._feed.close()

    def marks(self) -> bytes:
        if not self.replayable:
            return b""
        marks = {"marks": [astuple(mark) for mark in tuple(self._marks)], "head": self._feed.fingerprint()}
        return json.dumps(marks, separators=(",", ":")).encode()

    def next(self) -> Batch | None:
        try:
            found = self._following()
        except BaseException:
            self.close()
            raise
        if found is None:
            self.close()
        return found

    def _following(self) -> Batch | None:
        while not self._stopped:
            if self._ready is None:
                block = self._block()
                if block is None:
                    self._check_reached()
                    return None
                if block:
                    self._decode(block)
                if self._idle is not None and (reached := self._silence(self._idle, block)) is not None:
                    return Batch((), None, self._position, reached)
                continue
            keys, times = self._ready
            more = len(keys) > self._most
            self._ready = (keys[self._most :], None if times is None else times[self._most :]) if more else None
            keys, times = keys[: self._most], None if times is None else times[: self._most]
            self._position += len(keys)
            return Batch(keys, times, self._position)
        return None

    @staticmethod
    def _silence(idle: IdleClock, block: bytes) -> int | None:
        if not block:
            return idle.reached()
        idle.heard()
        return None

    # -- blocks -----------------------------------------------------------------------------------------------

    def _decode(self, block: bytes) -> None:
        self._mark()
        keys, times = self._decoder.decode(block, self._next.line, self.bad)
        self._move(len(block), self._decoder.count(block), len(keys))
        skipped = min(self._skip, len(keys))
        self._skip -= skipped
        if len(keys) > skipped:
            self._ready = keys[skipped:], None if times is None else times[skipped:]

    def _mark(self) -> None:
        """Old marks thin out, so that there are few, and one not far before any position."""
        if not self._begun or (self._marks and self._marks[-1].offset >= self._next.offset):
            return
        self._marks.append(self._next)
        if len(self._marks) > _MARKS:
            half = len(self._marks) // 2
            self._marks = self._marks[:half:2] + self._marks[half:]

    def _check_reached(self) -> None:
        if self._skip and self.replayable:
            raise InputError(
                f"the source ends {self._skip} events before position {self._position}",
                "put back the file that was read before",
            )

    def _block(self) -> bytes | None:
        """The next bytes that are whole lines; b"" if there are none yet, None at the end."""
        if self._ended:
            return None
        data = self._feed.read()
        if data is END:
            self._ended = True
            rest, self._rest = self._rest, b""
            if not self._begun:
                rest = self._without_head(rest if self._decoder.begin(rest) >= 0 else rest + b"\n")
            return self._shortened(rest, at_end=True) or None
        data = self._rest + data
        self._rest = data
        if not self._begun and not (data := self._without_head(data)):
            return b""
        return self._shortened(data, at_end=False)

    def _shortened(self, data: bytes, *, at_end: bool) -> bytes:
        """Whole lines; of one that is too long nothing is kept."""
        if self._too_long:
            over = data.find(b"\n") + 1 or (len(data) if at_end else 0)
            self._move(over or len(data), 1 if over else 0)
            self._rest = b""
            if not over:
                return b""
            self._too_long = False
            data = data[over:]
        whole = len(data) if at_end else self._decoder.whole(data)
        self._rest = data[whole:]
        if not whole and len(self._rest) > _LONGEST:
            start = self._rest
            self.bad.add(f"it has more than {_LONGEST} bytes", np.array([self._next.line]), lambda _: start)
            self._too_long = True
            self._move(len(self._rest), 0)
            self._rest = b""
        return data[:whole]

    def _without_head(self, data: bytes) -> bytes:
        head = self._decoder.begin(data)
        if head < 0:
            if len(data) > _LONGEST:
                raise InputError(f"no end of the first line in {len(data)} bytes", "check that this is a file of lines")
            return b""
        self._begun = True
        self._move(head, 1 if head else 0)
        self._rest = data[head:]
        return self._rest

    def _read_head(self) -> None:
        """The names of the columns are before the mark: read them, and no more."""
        self._feed.open(0)
        data = b""
        while (size := self._decoder.begin(data)) < 0:
            data += self._feed.read() or b"\n"
        assert size <= self._next.offset
        self._begun = True
        self._feed.close()

    def _move(self, size: int, lines: int, events: int = 0) -> None:
        here = self._next
        self._next = _Mark(here.events + events, here.offset + size, here.line + lines, self.bad.count)


def _read_marks(marks: bytes) -> tuple[list[_Mark], tuple[int, int]]:
    if not marks:
        return [], (0, 0)
    kept = json.loads(marks)
    return [_Mark(*mark) for mark in kept["marks"]], tuple(kept["head"])
