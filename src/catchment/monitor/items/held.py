"""Held: what the coordinator holds of one site's bands, and how that is made durable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.names import Key, hashes_of, in_order
from catchment.monitor.items.messages import BandList
from catchment.monitor.packing import unpack_updates
from catchment.monitor.top_k.counts import COUNT_LIMIT

__all__ = ["Held", "Told"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A list that was read and checked against what it builds upon."""

    whole: bool
    numbers: I64
    lows: I64
    fresh: NDArray[np.bool_]
    names: tuple[Key, ...]
    hashes: U64


class Held:
    """The bands of a site by the numbers of their items; a band that begins at 0 is a free number.

    `sites` is the number of sites that their widths are made for; 0 as long as nothing was told.
    """

    def __init__(self) -> None:
        self.sites = 0
        self._clear()

    def _clear(self) -> None:
        self.hashes = np.zeros(0, dtype=np.uint64)
        self.lows = np.zeros(0, dtype=np.int64)
        self.names: list[Key] = []

    def copy(self) -> Held:
        """The same, to be changed apart from this one."""
        twin = Held()
        twin.sites = self.sites
        twin.hashes, twin.lows, twin.names = self.hashes.copy(), self.lows.copy(), self.names.copy()
        return twin

    def read(self, bands: BandList) -> Told:
        """Raise a `BytesError`, before anything is changed, for a list that no site of ours writes."""
        wide, weights = unpack_updates(bands.lows)
        numbers, lows = wide.astype(np.int64), weights - 1
        names = () if bands.names is None else bands.names.keys()
        in_use = np.zeros(0, dtype=np.int64) if bands.whole else self.lows
        room = in_use.size + len(names)
        if numbers.size and (int(numbers[-1]) >= room or int(lows.min()) < 0 or int(lows.max()) >= COUNT_LIMIT):
            raise DamagedBytesError(f"bands of items up to number {int(numbers[-1])}, of {room}")
        fresh = np.ones(numbers.size, dtype=bool)
        inside = numbers < in_use.size
        fresh[inside] = in_use[numbers[inside]] == 0
        if int(fresh.sum()) != len(names) or bool(np.any(lows[fresh] == 0)):
            raise DamagedBytesError(f"{len(names)} names for {int(fresh.sum())} new items")
        beyond = numbers[~inside]
        if not np.array_equal(beyond, np.arange(in_use.size, in_use.size + beyond.size)):
            raise DamagedBytesError("numbers of items that leave some out")
        hashes = hashes_of(names)
        if not bands.whole and bool(np.isin(hashes, self.hashes[self.lows > 0]).any()):
            raise DamagedBytesError("a new item that is an old one")
        if np.unique(hashes).size != hashes.size:
            raise DamagedBytesError("an item twice among the new ones")
        return Told(bool(bands.whole), numbers, lows, fresh, names, hashes)

    def take(self, told: Told) -> None:
        """Take a list in that was read here."""
        if told.whole:
            self._clear()
        more = int(told.numbers[-1]) + 1 - self.lows.size if told.numbers.size else 0
        if more > 0:
            self.hashes = np.concatenate([self.hashes, np.zeros(more, dtype=np.uint64)])
            self.lows = np.concatenate([self.lows, np.zeros(more, dtype=np.int64)])
            self.names += [b""] * more
        self.lows[told.numbers] = told.lows
        for place in told.numbers[told.lows == 0].tolist():
            self.names[place] = b""  # its number is free, and what it was called is not kept
        places = told.numbers[told.fresh]
        self.hashes[places] = told.hashes
        for place, name in zip(places.tolist(), told.names, strict=True):
            self.names[place] = name

    def restore(self, names: tuple[Key, ...], numbers: I64, lows: I64, size: int) -> None:
        """Become what was held once: items in the order of their names, so many numbers in all."""
        self._clear()
        self.hashes, self.lows = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int64)
        self.names = [b""] * size
        self.hashes[numbers], self.lows[numbers] = hashes_of(names), lows
        for place, name in zip(numbers.tolist(), names, strict=True):
            self.names[place] = name

    def active(self) -> tuple[tuple[Key, ...], I64, I64]:
        """The items with a band in the order of their names, their numbers, and where the bands begin."""
        places = np.flatnonzero(self.lows).tolist()
        number_of = {self.names[place]: place for place in places}
        names = in_order(number_of)
        numbers = np.array([number_of[name] for name in names], dtype=np.int64)
        return names, numbers, self.lows[numbers]
