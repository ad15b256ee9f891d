"""Agenda: who is due when. A coordinator of hundreds of sites must not look at each of them for every message."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from catchment.monitor.machine import NEVER

__all__ = ["Agenda"]


class Agenda:
    """The time of each name, as `due` tells it, which is asked only of the names that were touched since.

    The times are in an array: 256 of them are searched in a few microseconds, and there is no heap to clean.

    >>> times = {"a": 40, "b": 30, "c": 50}
    >>> agenda = Agenda(times, times.__getitem__)
    >>> agenda.first, agenda.by(45)
    (30, ['a', 'b'])
    >>> times["b"] = 60
    >>> agenda.touch("b")
    >>> agenda.first, agenda.by(45)
    (40, ['a'])
    """

    def __init__(self, names: Iterable[str], due: Callable[[str], int]) -> None:
        self._names, self._due = tuple(names), due
        self._places = {name: place for place, name in enumerate(self._names)}
        self._times = np.full(len(self._names), NEVER, dtype=np.int64)
        self._touched = set(self._names)

    def touch(self, *names: str) -> None:
        """Their times may be others now."""
        self._touched.update(names)

    @property
    def first(self) -> int:
        """The earliest time; `NEVER`, if there is none."""
        return int(self._known().min(initial=NEVER))

    def by(self, now: int) -> list[str]:
        """Who is due now, in the order of the names."""
        return [self._names[place] for place in np.flatnonzero(self._known() <= now).tolist()]

    def _known(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        for name in self._touched:
            self._times[self._places[name]] = self._due(name)
        self._touched.clear()
        return self._times
