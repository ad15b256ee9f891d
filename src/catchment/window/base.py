"""WindowSketch: what every sketch in time shares: its clock, the counts of late events, when merging is refused."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from catchment.errors import MergeError
from catchment.sketch.base import Sketch
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import ARRIVALS, CLOCKS, Clock

__all__ = ["CLOCK_LAYOUT", "WindowSketch"]

CLOCK_LAYOUT: dict[str, str | tuple[str, ...]] = {"window": "Q", "clock": CLOCKS, "lateness": "Q"}
"""The parameters of the clock, as they stand in the bytes of every sketch in time."""


class WindowSketch(Sketch):
    """A sketch of the events in the last `window` ticks, or in the last so many arrivals.

    Questions take `last`, the length of the range that is asked about, the whole window by default, and `now`, where
    that range ends, the newest time seen by default. They are about the events after `now - last`, up to and
    including `now`; the range must lie in the window behind the newest time. Answers name it in `window`.
    """

    inputs: ClassVar[tuple[str, ...]] = ("keys", "at")
    example: ClassVar[dict[str, Any]] = {"window": 1000}

    window: int
    clock: str
    lateness: int

    def _set_clock(self, window: int, clock: str, lateness: int) -> None:
        """Take the clock's parameters; part of `_configure`."""
        self._time = Clock(window=window, kind=clock, lateness=lateness)
        self.window, self.clock, self.lateness = self._time.window, clock, self._time.lateness

    @property
    def newest(self) -> int | None:
        """The newest time seen, or the number of arrivals; None before the first event."""
        return self._time.newest if self._time.started else None

    @property
    def late(self) -> int:
        """The number of events that came after a newer one, and were taken."""
        return self._time.late

    @property
    def too_late(self) -> int:
        """The number of events that were later than `lateness` allows, and were not taken."""
        return self._time.too_late

    def _absorb(self, others: list[Self]) -> None:
        if others and self.clock == ARRIVALS:
            raise MergeError(
                "windows of arrivals cannot be merged: which events are the last of all depends on how the streams "
                "interleave, which no part knows",
                "build all parts with window= ticks of a common time",
            )
        self._absorb_parts(others)

    @abstractmethod
    def _absorb_parts(self, others: list[Self]) -> None:
        """Take in the events of sketches that fit; their clocks too."""

    @abstractmethod
    def _write_state(self, writer: Writer) -> None: ...

    @abstractmethod
    def _read_state(self, reader: Reader) -> None: ...

    def _write(self, writer: Writer) -> None:
        self._time.write(writer)
        self._write_state(writer)

    def _read(self, reader: Reader) -> None:
        self._time.read_bytes(reader)
        self._read_state(reader)
