"""PerfectCountMin: a Count-Min of the window with nothing lost in time, for all the memory that takes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError
from catchment.kernel.count_min import add_weights, look_up_smallest
from catchment.sketch.bounds import empirical_slack
from catchment.sketch.checks import MASS_LIMIT, check_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import hash_keys
from catchment.window.clock import Stamps
from catchment.window.windowed_count_min import WindowedCountMin

__all__ = ["PerfectCountMin"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_FIRST_ROOM = 64


class PerfectCountMin(WindowedCountMin):
    """The Count-Min sketch of exactly the events in the window, which it keeps to take them back when they leave.

    **Guarantee.** Let N be the weight in the range that is asked about, f a key's true frequency in it. The estimate
    is never below f, and exceeds it by more than `epsilon * N` with probability at most `delta`: that of `CountMin`,
    since the counters are those that a Count-Min of these events alone would have (thesis, Theorem 3.3).

    Since the events are kept, each at its own time, late ones go where they belong and cost no accuracy, any range in
    the window can be asked about, and parts merged are the whole: events in order give the same bytes either way.

    **What it costs.** 24 bytes for each event in the window. It is the yardstick for the other three; who can afford it
    can afford a dictionary of exact counts, which is simpler.

    Parameters
    ----------
    epsilon, delta
        The error as a fraction of the weight asked about, and the probability of failure; they choose the size.
    window, arrivals
        The length of the window: in ticks of time, or in a number of events. Give one.
    lateness
        How late an event may be and still be taken, in ticks; the window by default.
    seed
        Chooses the hash functions.

    Examples
    --------
    >>> sketch = PerfectCountMin(epsilon=0.01, delta=0.01, window=100)
    >>> sketch.update(["a", "b", "a", "a"], at=[10, 20, 60, 130])
    >>> print(sketch.estimate("a"))
    2 in [2, 2] with confidence 0.99
    >>> print(sketch.estimate("a", last=10))
    1 in [1, 1] with confidence 0.99

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.1.
    """

    family: ClassVar[int] = 20
    linear = True

    def _clear(self) -> None:
        self._cells = np.zeros((self.depth, self.width), dtype=np.int64)
        self._total = 0
        self._slack: int | None = None
        self._keep(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))

    def _keep(self, times: I64, hashes: U64, weights: I64) -> None:
        """Hold these events and no others, in order of time."""
        self._times, self._hashes, self._weights = times, hashes, weights
        self._first, self._used = 0, times.size

    @property
    def guarantee(self) -> str:
        return (
            f"truth <= estimate always; estimate <= truth + {self.epsilon:.3g} * weight in the window "
            f"with probability {1 - self.delta:g}"
        )

    @property
    def _mass(self) -> int:
        return self._total

    # -- events -----------------------------------------------------------------------------------------------

    def _take(self, hashes: U64, stamps: Stamps, weights: I64) -> None:
        edge = int(stamps.times[-1]) - self.window
        self._expire(edge)
        kept = (stamps.own > edge) & (weights > 0)
        if stamps.taken is not None:
            kept &= stamps.taken
        times, hashes, weights = stamps.own[kept], hashes[kept], weights[kept]
        self._append(times, hashes, weights)
        add_weights(self._cells, self._rows, hashes, weights)
        self._total += int(weights.sum())
        self._slack = None

    def _expire(self, edge: int) -> None:
        """Take back the events up to and including `edge`."""
        first = self._first + int(np.searchsorted(self._times[self._first : self._used], edge, side="right"))
        gone = slice(self._first, first)
        add_weights(self._cells, self._rows, self._hashes[gone], -self._weights[gone])
        self._total -= int(self._weights[gone].sum())
        self._first = first

    def _append(self, times: I64, hashes: U64, weights: I64) -> None:
        if self._used + times.size > self._times.size:
            self._make_room(times.size)
        live = slice(self._used, self._used + times.size)
        self._times[live], self._hashes[live], self._weights[live] = times, hashes, weights
        self._used = live.stop
        kept = self._times[self._first : self._used]
        tail = kept[-times.size - 1 :]
        if np.any(tail[1:] < tail[:-1]):
            self._arrange(np.argsort(kept, kind="stable"))

    def _make_room(self, more: int) -> None:
        """Move the live events to the front of arrays that hold half as many again."""
        live = slice(self._first, self._used)
        count = self._used - self._first
        room = max(_FIRST_ROOM, (count + more) * 3 // 2)
        self._times, self._hashes, self._weights = (
            np.concatenate([old[live], np.zeros(room - count, dtype=old.dtype)])
            for old in (self._times, self._hashes, self._weights)
        )
        self._first, self._used = 0, count

    def _arrange(self, order: I64) -> None:
        live = slice(self._first, self._used)
        for array in (self._times, self._hashes, self._weights):
            array[live] = array[live][order]

    # -- questions --------------------------------------------------------------------------------------------

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the range; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        span = self._time.span(last, now)
        cells, total, slack = self._range(*span)
        value = np.empty(hashes.size, dtype=np.int64)
        look_up_smallest(cells, self._rows, hashes, value)
        return self._answer(value, self._low(value, total, slack), value.copy(), span, scalar)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight in the range, exactly."""
        span = self._time.span(last, now)
        total = int(self._weights[self._live(*span)].sum())
        return Answer(total, total, total, confidence=1.0, epsilon=0.0, window=span)

    def _live(self, start: int, end: int) -> slice:
        """The events after start, up to and including end."""
        kept = self._times[self._first : self._used]
        low, high = np.searchsorted(kept, [start, end], side="right")
        return slice(self._first + int(low), self._first + int(high))

    def _range(self, start: int, end: int) -> tuple[I64, int, int]:
        """The counters, their weight and their slack for the events after start, up to and including end."""
        chosen = self._live(start, end)
        if chosen == slice(self._first, self._used):
            if self._slack is None:
                self._slack = empirical_slack(self._cells, self.delta / 2)
            return self._cells, self._total, self._slack
        cells = np.zeros_like(self._cells)
        add_weights(cells, self._rows, self._hashes[chosen], self._weights[chosen])
        return cells, int(self._weights[chosen].sum()), empirical_slack(cells, self.delta / 2)

    # -- parts and bytes --------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[PerfectCountMin]) -> None:
        check_mass("merging", self._total, np.array([other._total for other in others], dtype=np.int64))
        self._time.absorb([other._time for other in others])
        for other in others:
            self._cells += other._cells
            self._total += other._total
        self._keep(*self._canonical([self, *others]))
        self._expire(self._time.edge)
        self._slack = None

    @staticmethod
    def _canonical(parts: list[PerfectCountMin]) -> tuple[I64, U64, I64]:
        """The events of all parts by time and hash, those alike in both made one."""
        times, hashes, weights = (
            np.concatenate([getattr(part, name)[part._first : part._used] for part in parts])
            for name in ("_times", "_hashes", "_weights")
        )
        order = np.lexsort((hashes, times))
        times, hashes, weights = times[order], hashes[order], weights[order]
        new = np.ones(times.size, dtype=np.bool_)
        new[1:] = (times[1:] != times[:-1]) | (hashes[1:] != hashes[:-1])
        starts = np.flatnonzero(new)
        return times[starts], hashes[starts], np.add.reduceat(weights, starts) if starts.size else weights

    def _write_state(self, writer: Writer) -> None:
        times, hashes, weights = self._canonical([self])
        writer.numbers("Q", times.size)
        writer.integers(times)
        writer.raw(hashes.astype("<u8").tobytes())
        writer.integers(weights)
        # The counters follow from the events. They are written so that a reader takes no memory that it was not sent.
        writer.integers(self._cells)

    def _read_state(self, reader: Reader) -> None:
        (count,) = reader.numbers("Q")
        low, high = self._time.edge + 1, self._time.newest
        times = reader.integers(count, np.int64, low=low, high=high)
        hashes = np.frombuffer(reader.raw(8 * count), dtype="<u8").astype(np.uint64)
        weights = reader.integers(count, np.int64, low=1, high=MASS_LIMIT - 1)
        if float(weights.sum(dtype=np.float64)) >= MASS_LIMIT:
            raise DamagedBytesError(f"weights of {float(weights.sum(dtype=np.float64)):.4g} in all")
        later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (hashes[1:] > hashes[:-1]))
        if not np.all(later) or (count and not self._time.started):
            raise DamagedBytesError("events out of order")
        self._total = int(weights.sum())
        cells = reader.integers(self.depth * self.width, np.int64, low=0, high=self._total)
        self._cells = np.zeros((self.depth, self.width), dtype=np.int64)
        add_weights(self._cells, self._rows, hashes, weights)
        if not np.array_equal(self._cells.reshape(-1), cells):
            raise DamagedBytesError("counters that are not those of the events")
        self._keep(times, hashes, weights)
        self._slack = None
