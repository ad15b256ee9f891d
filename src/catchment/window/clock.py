"""Clock: what "the last hour" means to a sketch, and what becomes of events that come late.

Every sketch in time has one. It is a clock of `time`, whose ticks are any integer unit of the user's, or of
`arrivals`, which ticks once for each event, whatever its weight.

**Late events.** Structures that are built for events in order cannot be told of an earlier time afterwards, and a
buffer that holds events back until they are in order would outweigh the sketch. So an event that is late by no more
than `lateness` is *registered* at the newest time seen, and the bounds include what that can do: of the events
registered after a moment s, only late ones that were registered in (s, s + delay] can belong before s, where `delay`
is the longest delay there was. Sketches count their late events by one more counter in time, so this costs a few
hundred bytes, and nothing while events are in order. An event that is later still is not taken: it is counted in
`too_late`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError, QueryError, TimeError
from catchment.kernel.clock import LATE, TOO_LATE, out_of_order, register_times
from catchment.sketch.checks import MASS_LIMIT, check_choice, check_whole
from catchment.sketch.codec import Reader, Writer

__all__ = ["ARRIVALS", "CLOCKS", "TIME", "TIME_LIMIT", "Clock", "Stamps", "check_times", "clock_parameters"]

I64 = NDArray[np.int64]

TIME, ARRIVALS = "time", "arrivals"
CLOCKS = (TIME, ARRIVALS)

TIME_LIMIT = 2**60
"""Times and windows stay within this, so that no sum of two of them can overflow."""


def clock_parameters(window: int | None, arrivals: int | None, lateness: int | None) -> dict[str, Any]:
    """The parameters of a clock from what a constructor was given.

    >>> clock_parameters(3600, None, None)
    {'window': 3600, 'clock': 'time', 'lateness': 3600}
    >>> clock_parameters(None, 1000, None)
    {'window': 1000, 'clock': 'arrivals', 'lateness': 0}
    """
    if (window is None) == (arrivals is None):
        raise ParameterError(
            f"window={window!r} and arrivals={arrivals!r}", "give one: ticks of time, or a number of events"
        )
    if arrivals is not None:
        if lateness:
            raise ParameterError(f"lateness={lateness!r} with arrivals", "leave it out: arrivals are never late")
        return {"window": arrivals, "clock": ARRIVALS, "lateness": 0}
    return {"window": window, "clock": TIME, "lateness": window if lateness is None else lateness}


@dataclass(frozen=True, slots=True)
class Stamps:
    """What a batch's times come to, before anything is changed."""

    times: I64
    """The registered time of each event, never decreasing."""
    fates: NDArray[np.uint8] | None
    """Each event in order, late or too late; None when all are in order."""
    delay: int
    own: I64
    """The time that each event itself states."""

    @property
    def taken(self) -> NDArray[np.bool_] | None:
        """Which events count; None for all."""
        if self.fates is None or not np.any(self.fates == TOO_LATE):
            return None
        return np.asarray(self.fates != TOO_LATE)

    @property
    def late(self) -> NDArray[np.bool_] | None:
        """Which events are late, but taken; None for none."""
        return None if self.fates is None or not np.any(self.fates == LATE) else self.fates == LATE


class Clock:
    """The newest time seen, the window behind it, and the count of what came late.

    >>> clock = Clock(window=100, kind="time", lateness=10)
    >>> stamps = clock.read(np.array([5, 20, 15, 2]), 4)
    >>> stamps.times.tolist(), stamps.taken.tolist(), stamps.delay
    ([5, 20, 20, 20], [True, True, True, False], 5)
    >>> clock.commit(stamps)
    >>> clock.newest, clock.late, clock.too_late
    (20, 1, 1)
    >>> clock.span(last=10, now=None)
    (10, 20)
    """

    def __init__(self, *, window: int, kind: str, lateness: int) -> None:
        self.window = check_whole("window" if kind == TIME else "arrivals", window, 1, TIME_LIMIT)
        self.kind = check_choice("clock", kind, CLOCKS)
        self.lateness = check_whole("lateness", lateness, 0, self.window)
        self.first = self.newest = 0
        self.started = False
        self.late = self.too_late = self.delay = 0

    # -- events -----------------------------------------------------------------------------------------------

    def read(self, at: Any, count: int | None) -> Stamps:
        """Check and put in order the times of a batch of `count` events; nothing is changed yet.

        A count of None means that the times say how many events there are.
        """
        if self.kind == ARRIVALS:
            if at is not None:
                raise TimeError("times given to a window of arrivals", "leave `at` out, or build with window=")
            numbers = self.newest + np.arange(1, (count or 0) + 1)
            return Stamps(numbers, None, 0, numbers)
        times = as_times(at, count)
        ordered = out_of_order(times, self._before()) == times.size
        # In order, the first and the last time are the smallest and the largest.
        if times.size and not within_limits(times[[0, -1]] if ordered else times):
            raise _too_far(times)
        if ordered:
            return Stamps(times, None, 0, times)
        registered, fates = np.empty_like(times), np.empty(times.size, dtype=np.uint8)
        delay = register_times(times, self._before(), self.lateness, registered, fates)
        return Stamps(registered, fates, int(delay), times)

    def _before(self) -> int:
        return self.newest if self.started else -TIME_LIMIT

    def commit(self, stamps: Stamps, events: I64 | None = None) -> None:
        """Go on to the last of these times, and count the events that were late: one each, or so many."""
        if not stamps.times.size:
            return
        if not self.started:
            self.first, self.started = int(stamps.times[0]), True
        self.newest = int(stamps.times[-1])
        self.delay = max(self.delay, stamps.delay)
        if stamps.fates is not None:
            each = np.ones(1, dtype=np.int64) if events is None else events
            self.late += int(np.sum((stamps.fates == LATE) * each))
            self.too_late += int(np.sum((stamps.fates == TOO_LATE) * each))

    # -- questions --------------------------------------------------------------------------------------------

    @property
    def edge(self) -> int:
        """Events at or before this have left the window."""
        return self.newest - self.window

    def span(self, last: int | None, now: int | None) -> tuple[int, int]:
        """The question's `(start, end)`: events after start, up to and including end."""
        end = self.newest if now is None else check_whole("now", now, -TIME_LIMIT, TIME_LIMIT)
        length = self.window if last is None else last
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or not 1 <= length <= self.window:
            raise QueryError(
                f"last={last!r}", f"ask for 1 to {self.window} ticks, the window, or build with a longer one"
            )
        start = end - int(length)
        if self.started and start < self.edge:
            longest = end - self.edge
            cure = f"ask for a `last` of at most {longest}" if longest > 0 else f"give a `now` after {self.edge}"
            raise QueryError(
                f"the question starts after {start}, and what came up to {self.edge} has left the window",
                f"{cure}: the newest time seen is {self.newest}",
            )
        return start, end

    # -- parts and bytes --------------------------------------------------------------------------------------

    def absorb(self, others: list[Clock]) -> None:
        """The clock of all events together."""
        clocks = [clock for clock in (self, *others) if clock.started]
        if clocks:
            self.first = min(clock.first for clock in clocks)
            self.newest = max(clock.newest for clock in clocks)
            self.started = True
        self.late = min(self.late + sum(clock.late for clock in others), MASS_LIMIT - 1)
        self.too_late = min(self.too_late + sum(clock.too_late for clock in others), MASS_LIMIT - 1)
        self.delay = max([self.delay, *(clock.delay for clock in others)])

    def write(self, writer: Writer) -> None:
        writer.numbers("?qqqqq", self.started, self.first, self.newest, self.late, self.too_late, self.delay)

    def read_bytes(self, reader: Reader) -> None:
        self.started, self.first, self.newest, self.late, self.too_late, self.delay = reader.numbers("?qqqqq")
        sane = (
            -TIME_LIMIT <= self.first <= self.newest <= TIME_LIMIT
            and min(self.late, self.too_late) >= 0
            and max(self.late, self.too_late) < MASS_LIMIT
            and 0 <= self.delay <= self.lateness
            and (self.late == 0) == (self.delay == 0)
            and (self.started or not (self.first or self.newest or self.late or self.too_late))
        )
        if not sane:
            raise DamagedBytesError(f"a clock from {self.first} to {self.newest} with {self.late} late events")


def within_limits(times: I64) -> bool:
    return bool(int(times.min()) >= -TIME_LIMIT and int(times.max()) <= TIME_LIMIT)


def check_times(times: I64) -> None:
    """Refuse times that are further from zero than can be counted with."""
    if times.size and not within_limits(times):
        raise _too_far(times)


def _too_far(times: NDArray[Any]) -> TimeError:
    return TimeError(f"times from {times.min()} to {times.max()}", f"keep them within 2^60 = {TIME_LIMIT} of zero")


def as_times(at: Any, count: int | None) -> I64:
    """One int64 time for each event; a single one is repeated."""
    if at is None:
        raise TimeError("no times", "give at=, one integer for each event, or build with arrivals= instead of window=")
    try:
        times = np.asarray(at)
    except ValueError:
        raise TimeError("times of uneven shape", "give one for each event, or a single one") from None
    if np.ma.is_masked(at):
        raise TimeError("times that are masked", "leave those events out")
    if times.dtype.kind in "mM":
        raise TimeError(
            f"times of type {times.dtype}",
            "give integers in the window's unit: .astype('datetime64[us]').astype('int64')",
        )
    if times.dtype.kind not in "iu" and times.size:
        raise TimeError(f"times of type {times.dtype}", "give integers, in any unit: milliseconds, microseconds")
    if times.dtype.kind == "u" and times.size and int(times.max()) > TIME_LIMIT:
        raise _too_far(times)
    if times.ndim == 0:
        times = np.full(1 if count is None else count, times, dtype=np.int64)
    if times.ndim != 1 or (count is not None and times.size != count):
        raise TimeError(f"times of shape {times.shape} for {count} events", "give one for each event, or a single one")
    return np.ascontiguousarray(times, dtype=np.int64)
