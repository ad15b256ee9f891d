"""JumpingCountMin: what windowed Count-Min sketches share that know whole windows, laid end to end.

Time is cut into *jump windows*, each as long as the window. A question reaches the jump window that its end lies in,
the *current* one, up to that end, and a part of the one before, the *previous*. Of these two, a sketch knows the whole
and not the part: that is the error in time, and the bounds include it.

Jump windows start at multiples of the window in absolute time (the thesis starts them at the first event), so that the
sketches of all sites cut time alike and can be added. Arrivals are cut after each `window` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.count_min import add_weights, look_up_smallest
from catchment.sketch.bounds import empirical_slack
from catchment.sketch.checks import check_mass, read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.window.clock import ARRIVALS, Stamps
from catchment.window.windowed_count_min import WindowedCountMin

__all__ = ["JumpingCountMin", "Phase"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Phase:
    """How the end of a question lies to the jump windows that a sketch holds."""

    passed: int
    """Jump windows from the newest event's to that of the end: 0 while it lasts."""
    elapsed: int
    """Ticks of the jump window of the end that are over at the end, from 1 to the whole."""
    window: int

    @property
    def left(self) -> float:
        """The share of the previous jump window that the question reaches."""
        return 1 - self.elapsed / self.window

    def seen(self, held: Any) -> tuple[Any, Any]:
        """Of what was `held` of the newest jump window and the one before: what is of the end's, and of its previous.

        The previous one is nothing where the question does not reach it.
        """
        nothing = held[0] * 0
        if self.passed == 0:
            return held[0], held[1] if self.left else nothing
        return nothing, held[0] if self.passed == 1 and self.left else nothing


class JumpingCountMin(WindowedCountMin):
    """Weights of the current and the previous jump window, and of the late events among them.

    **Late events** are registered at the newest time seen, so the sketch counts all that are in the window, and some
    that are before it. The lower bounds leave out the weight of all late events of a jump window that such a one can
    be registered in.
    """

    _kept: ClassVar[int] = 2
    """Of how many jump windows there are counters: of both, or of the current one alone."""

    def _clear(self) -> None:
        self._totals = np.zeros(2, dtype=np.int64)
        self._lates = np.zeros(2, dtype=np.int64)
        self._cells = np.zeros((self._kept, self.depth, self.width), dtype=np.int64)
        self._slack: int | None = None

    @property
    def _mass(self) -> int:
        return int(self._totals.sum())

    # -- jump windows -----------------------------------------------------------------------------------------

    @property
    def _origin(self) -> int:
        """A tick at which a jump window starts: the first arrival is number 1."""
        return 1 if self.clock == ARRIVALS else 0

    def _jump(self, time: int) -> int:
        """The number of the jump window that a time lies in."""
        return (time - self._origin) // self.window

    def _starts(self, time: int) -> tuple[int, int]:
        """When the jump window of that time starts, and the one before it."""
        start = self._jump(time) * self.window + self._origin
        return start, start - self.window

    def _phase(self, end: int) -> Phase:
        return Phase(self._passed(end), end - self._starts(end)[0] + 1, self.window)

    def _passed(self, time: int) -> int:
        """How many jump windows begin on the way from the newest event to this time."""
        return self._jump(time) - self._jump(self._time.newest) if self._time.started else 0

    def _parts(self, times: I64) -> list[slice]:
        """Which of these times, in order, are in the jump window of the last of them, and which in the one before."""
        start, before = self._starts(int(times[-1]))
        first, second = np.searchsorted(times, [before, start])
        return [slice(int(second), times.size), slice(int(first), int(second))]

    @staticmethod
    def _shift(held: NDArray[Any], passed: int) -> None:
        """Go on by so many jump windows: what was current is previous, or gone."""
        if passed:
            held[1:] = held[:-1] if passed == 1 else 0
            held[0] = 0

    # -- events -----------------------------------------------------------------------------------------------

    def _take(self, hashes: U64, stamps: Stamps, weights: I64) -> None:
        counted = weights if stamps.taken is None else np.where(stamps.taken, weights, 0)
        late = None if stamps.late is None else np.where(stamps.late, weights, 0)
        passed = self._passed(int(stamps.times[-1]))
        parts = self._parts(stamps.times)
        self._shift(self._lates, passed)
        if late is not None:
            self._lates += [late[part].sum() for part in parts]
        self._count(hashes, stamps.times, counted, passed, parts)
        self._slack = None

    def _count(self, hashes: U64, times: I64, weights: I64, passed: int, parts: list[slice]) -> None:
        """Bring counters and totals up to the last of these times."""
        self._shift(self._totals, passed)
        self._shift(self._cells, passed)
        self._totals += [weights[part].sum() for part in parts]
        for cells, part in zip(self._cells, parts, strict=False):
            add_weights(cells, self._rows, hashes[part], weights[part])

    # -- questions --------------------------------------------------------------------------------------------

    def _current(self, hashes: U64, end: int) -> tuple[I64, I64]:
        """Of each key in the jump window of the end: the Count-Min estimate, and the least that is in the window."""
        value = np.zeros(hashes.size, dtype=np.int64)
        if self._phase(end).passed:
            return value, value
        look_up_smallest(self._cells[0], self._rows, hashes, value)
        if self._slack is None:
            self._slack = empirical_slack(self._cells[0], self.delta / 2)
        return value, self._low(value, int(self._totals[0]), self._slack) - self._misplaced(end)[0]

    def _misplaced(self, end: int) -> tuple[int, int]:
        """The most weight in the current and in the previous jump window that may be from before the window.

        It was registered in (start, start + delay], where start is the window's.
        """
        current, previous = self._phase(end).seen(self._lates)
        reached = self._starts(end)[0] <= end - self.window + self._time.delay
        return int(current) if reached else 0, int(previous)

    # -- parts and bytes --------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[Any]) -> None:
        check_mass("merging", self._mass, np.array([other._mass for other in others], dtype=np.int64))
        newest = max((part._time.newest for part in (self, *others) if part._time.started), default=0)
        for name in ("_totals", "_lates", "_cells"):
            held = getattr(self, name)
            self._shift(held, self._passed(newest))
            for other in others:
                theirs = getattr(other, name).copy()
                self._shift(theirs, other._passed(newest))
                held += theirs
        self._time.absorb([other._time for other in others])
        self._slack = None

    def _write_state(self, writer: Writer) -> None:
        writer.numbers("qqqq", *self._totals.tolist(), *self._lates.tolist())
        for cells in self._cells:
            writer.integers(cells)

    def _read_state(self, reader: Reader) -> None:
        current, previous, *lates = reader.numbers("qqqq")
        read_mass(current)
        read_mass(previous)
        read_mass(current + previous)
        if not (0 <= lates[0] <= current and 0 <= lates[1] <= previous and sum(lates) <= self._time.late):
            raise DamagedBytesError(f"{lates} late events of {[current, previous]}")
        if current + previous and not self._time.started:
            raise DamagedBytesError("counters before the first event")
        self._totals = np.array([current, previous], dtype=np.int64)
        self._lates = np.array(lates, dtype=np.int64)
        kept = self._totals[: self._kept].tolist()
        self._cells = np.stack([self._read_cells(reader, total) for total in kept])
        self._slack = None

    def _read_cells(self, reader: Reader, total: int) -> I64:
        """One jump window's counters, each row of which adds up to the total."""
        cells = reader.integers(self.depth * self.width, np.int64, low=0, high=total).reshape(self.depth, self.width)
        # In floating point too, since forged counters could add up to the total by wrapping around.
        roughly = cells.sum(axis=1, dtype=np.float64)
        if not np.all(cells.sum(axis=1) == total) or float(roughly.max()) > 2.0 * total:
            raise DamagedBytesError("rows that do not add up to the total")
        return cells
