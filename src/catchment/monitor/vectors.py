"""Vectors: what a site's events add up to, cell by cell, so that the sites' vectors add up to everyone's.

A vector is rows of cells: over the whole history Fast-AMS rows of one stream or two (`SignedVector`), or one count
(`CountVector`); `window_vectors` has those of windows, `presence` those of distinct keys. Several monitors share one
vector; each keeps a `Drift`: how far the vector has moved since that monitor's last flush.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, InputError, ParameterError, WeightError
from catchment.kernel.fast_ams import add_signed, add_signed_tracked
from catchment.kernel.hashing import draws
from catchment.kernel.slots import claim_slots
from catchment.monitor.packing import (
    KEY_BITS,
    LARGEST,
    LARGEST_LISTED,
    pack_cells,
    pack_updates,
    unpack_cells,
    unpack_updates,
)
from catchment.monitor.shift import NOTHING, Shift
from catchment.sketch.codec import Reader, Writer

__all__ = ["CountVector", "Drift", "SignedVector", "Vector", "check_cells", "mass_of", "read_change"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_COMPACT = 1 << 16
_DROPPED = np.uint64(64 - KEY_BITS)

MOST_CELLS = 1 << 26
"""Of a vector: half a gigabyte, of which a site has three copies and the coordinator two for each site."""
WEIGHT_LIMIT = 1 << 54
"""No cell of a site's reaches this, so that the sums over 256 sites are what a coordinator takes."""


class Vector(ABC):
    """A site's own vector; `drifts` are told of every change."""

    rows: int
    width: int
    streams: int = 1
    fell: bool = False
    """Whether there ever was an event of negative weight."""

    _factor: int = 1
    """The most that a weight of 1 may add to a cell."""

    def __init__(self) -> None:
        self.drifts: list[Drift] = []
        self._bound: int = WEIGHT_LIMIT  # no cell is further from 0; worked out anew when it is too much

    def _largest(self) -> int:
        """A number that no cell is further from 0 than; in a window, the weight of all that is in it."""
        return int(np.abs(self.values()).max(initial=0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.width

    def check(self, weights: I64, count: int, times: I64 | None, stream: int) -> None:
        """Refuse what `add` could not take, before anything is changed: so many events, of one weight or one each."""
        if not 0 <= stream < self.streams:
            raise InputError(f"events of stream {stream}", f"streams here are 0 to {self.streams - 1}")
        added = self._factor * mass_of(weights, count)
        if self._bound + added >= WEIGHT_LIMIT:
            self._bound = self._largest()
        if self._bound + added >= WEIGHT_LIMIT:
            raise WeightError(
                f"a weight of {added:.4g} upon {self._bound:.4g}",
                f"keep what is watched at a site below 2^54 = {WEIGHT_LIMIT}, for instance by a coarser unit",
            )
        self._bound += added

    @abstractmethod
    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        """Take events in: checked ones, with one weight for all or one each."""

    @abstractmethod
    def advance(self, time: int) -> None:
        """Let time pass without an event."""

    @abstractmethod
    def values(self) -> I64:
        """All cells, as an array of its own."""

    def _moved(self, events: int) -> None:
        if self.drifts:
            values = self.values()
            for drift in self.drifts:
                drift.moved_to(values, events)

    def possible(self, least: float, most: float) -> bool:
        """Whether a site's cells may be between these, which are at most and at least 0."""
        return max(-least, most) < LARGEST

    def packed(self, cells: I64) -> bytes:
        """Another way to write a change than cell by cell, which may be shorter; nothing, if there is none."""
        return b""

    def unpacked(self, updates: bytes) -> I64:
        """The change that was written the other way; raise a `BytesError` if it is none."""
        raise DamagedBytesError("a list of updates for a vector that has none")

    @abstractmethod
    def write(self, writer: Writer) -> None: ...

    @abstractmethod
    def read(self, reader: Reader) -> None: ...


def check_cells(count: int) -> None:
    """Refuse a sketch that no site could hold."""
    if count > MOST_CELLS:
        raise ParameterError(
            f"an epsilon for which every site needs a sketch of {count:,} counters",
            f"choose a larger epsilon: {MOST_CELLS:,} are the most",
        )


class SignedVector(Vector):
    """The rows of a Fast-AMS sketch for each of `streams` streams, one stream's rows after the other's.

    A key is known by the first 40 bits of its hash, which a list of keys has to carry. Of D keys two share theirs with
    probability 2^-40: that adds at most D/2^40 of a self-join to it, in the mean, as |f|_1² <= D |f|².
    """

    def __init__(self, *, width: int, depth: int, seed: int, streams: int = 1) -> None:
        super().__init__()
        check_cells(depth * streams * width)
        self.depth, self.width, self.streams, self.rows = depth, width, streams, depth * streams
        self._draws = draws(seed, depth)
        self._cells = np.zeros(self.shape, dtype=np.int64)

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        hashes = hashes >> _DROPPED
        part = self.part(stream)
        cells = self._cells[part]
        self.fell = self.fell or bool(weights.min(initial=0) < 0)
        if not self.drifts:
            add_signed(cells, self._draws, hashes, weights)
        for drift in self.drifts:
            reference = drift.reference[part] if drift.reference.size else NOTHING
            add_signed_tracked(
                cells, self._draws, hashes, weights, drift.cells[part], reference, drift.norms[part], drift.dots[part]
            )
            cells = NOTHING  # they have it now; the other drifts are only their own
            drift.note(hashes, weights, stream)

    def part(self, stream: int) -> slice:
        return slice(stream * self.depth, (stream + 1) * self.depth)

    def advance(self, time: int) -> None:
        """The whole history does not change with time."""

    def values(self) -> I64:
        return self._cells.copy()

    def sketched(self, hashes: U64, weights: I64, stream: int) -> I64:
        """The cells that these updates make."""
        cells = np.zeros(self.shape, dtype=np.int64)
        add_signed(cells[self.part(stream)], self._draws, hashes, weights)
        return cells

    def unpacked(self, updates: bytes) -> I64:
        """The keys of each stream, as a drift has noted them (`Drift.taken`)."""
        change = np.zeros(self.shape, dtype=np.int64)
        reader = Reader(memoryview(updates))
        sizes = [reader.numbers("I")[0] for _ in range(self.streams - 1)]
        for stream, size in enumerate([*sizes, None]):
            change += self.sketched(*unpack_updates(reader.raw(reader.left if size is None else size)), stream)
        return change

    def write(self, writer: Writer) -> None:
        writer.numbers("B", self.fell)
        writer.integers(self._cells)

    def read(self, reader: Reader) -> None:
        self.fell = bool(reader.numbers("B")[0])
        self._cells = reader.integers(self._cells.size, np.int64, low=-(2**62), high=2**62).reshape(self.shape)


class CountVector(Vector):
    """One cell: how much weight some keys have had, each times a factor; without keys, the weight of everything."""

    def __init__(self, keys: U64 | None = None, factors: I64 | None = None) -> None:
        super().__init__()
        self.rows, self.width = 1, 1
        self._keys, self._factors = keys, factors
        if factors is not None:
            self._factor = int(np.abs(factors).max(initial=1))
        self._count = 0

    def add(self, hashes: U64, weights: I64, times: I64 | None, stream: int) -> None:
        if self._keys is None or self._factors is None:
            self._count += int(weights.sum()) if weights.size > 1 else int(weights[0]) * hashes.size
        else:
            place = np.minimum(np.searchsorted(self._keys, hashes), self._keys.size - 1)
            found = np.flatnonzero(self._keys[place] == hashes)
            each = weights[found] if weights.size > 1 else weights
            self._count += int((self._factors[place[found]] * each).sum())
        self._moved(hashes.size)

    def advance(self, time: int) -> None:
        """The whole history does not change with time."""

    def values(self) -> I64:
        return np.array([[self._count]], dtype=np.int64)

    def write(self, writer: Writer) -> None:
        writer.numbers("q", self._count)

    def read(self, reader: Reader) -> None:
        (self._count,) = reader.numbers("q")


def mass_of(weights: I64, count: int) -> int:
    """The sum of all weights' sizes, of so many events of one weight or of one each; never too small."""
    sizes = np.abs(weights.astype(np.float64))
    return math.ceil(float(sizes.sum()) * (1 + 1e-9)) if weights.size == count else math.ceil(sizes[0]) * count


class Drift(Shift):
    """How far a vector has moved since `base`, kept up to date; `updates` counts the events that did it."""

    def __init__(self, vector: Vector) -> None:
        super().__init__(np.zeros(vector.shape, dtype=np.int64))
        self._vector = vector
        self.updates = 0
        self.base = vector.values()
        self._noted: list[list[tuple[U64, I64]]] | None = None
        self._fresh = 0
        self._forget()
        vector.drifts.append(self)

    @property
    def fell(self) -> bool:
        """Whether the vector has ever had an event of negative weight."""
        return self._vector.fell

    @property
    def streams(self) -> int:
        """How many streams the vector is of; each has as many rows."""
        return self._vector.streams

    # -- following the vector ---------------------------------------------------------------------------------

    def note(self, hashes: U64, weights: I64, stream: int) -> None:
        """Remember the keys as long as they may be the shorter way to write the change."""
        self.updates += hashes.size
        if self._noted is None:
            return
        each = weights if weights.size == hashes.size else np.full(hashes.size, weights[0])
        self._noted[stream].append((hashes, each))
        self._fresh += hashes.size
        if self._fresh >= _COMPACT:
            self._compact()

    def _compact(self) -> None:
        if self._noted is None:
            return
        self._noted = [[_summed(parts)] if parts else [] for parts in self._noted]
        self._fresh = 0
        if any(np.abs(parts[0][1]).max(initial=0) > LARGEST_LISTED for parts in self._noted if parts):
            self._noted = None
            return
        # A list takes some 28 bits a key, the cells of a long drift 7 and more each: beyond this it hardly is shorter,
        # and only the keys with the largest weights are kept, for parts of the drift.
        most = max(self.cells.size // 4, 64) // len(self._noted)
        for parts in self._noted:
            if parts and parts[0][0].size > most:
                keys, weights = parts[0]
                kept = np.sort(np.argpartition(-np.abs(weights), most // 4)[: most // 4])
                parts[0] = keys[kept], weights[kept]
                self._pruned = True

    def _forget(self) -> None:
        if isinstance(self._vector, SignedVector):
            self._noted = [[] for _ in range(self._vector.streams)]
        self._pruned = False  # whether keys are missing in what is noted
        self._fresh = 0

    def moved_to(self, values: I64, events: int) -> None:
        """The vector is at these values now, by so many events; for vectors that do not move key by key."""
        self.updates += events
        self.cells = values - self.base
        self._measure()

    def rose(self, places: I64, events: int) -> None:
        """These cells of the vector, each named once, are at 1 and were at 0, by so many events."""
        self.updates += events
        if places.size:
            self.cells.reshape(-1)[places] += 1
            self._measure()

    # -- flushing ---------------------------------------------------------------------------------------------

    def taken(self) -> tuple[bytes, bytes]:
        """The change since the base, packed as cells or as updates, the shorter; the base is now here."""
        cells, updates = b"", b""
        if np.any(self.cells):
            updates = self._listed() or self._vector.packed(self.cells)
            if not updates or 8 * len(updates) > self.cells.size:  # cells take a bit each at least, or hardly less
                cells = pack_cells(self.cells)
                if updates and len(updates) <= len(cells):
                    cells = b""
                else:
                    updates = b""
        self._restart()
        return cells, updates

    def taken_part(self, limit: float, counted: int) -> bytes:
        """The keys with the largest weights, packed, without which the drift's `reach` is within `limit`.

        They are taken out of the drift, and what is left stays. Nothing is, if they are no fewer than a fifth less than
        all of it takes, or if they would not do.
        """
        self._compact()
        if self._noted is None or not isinstance(self._vector, SignedVector) or len(self._noted) > 1:
            return b""
        if not self._noted[0]:
            return b""
        keys, weights = self._noted[0][0]
        order = np.argsort(-np.abs(weights), kind="stable")
        # A row's squared norm is the sum of the squared weights, about, and so many rows count.
        left = self.reach(counted) ** 2 - counted * np.cumsum(weights[order].astype(np.float64) ** 2)
        count = 1 + int(np.searchsorted(-left, -(limit**2)))
        if count > (keys.size if self._pruned else 0.8 * keys.size):
            return b""
        chosen = np.sort(order[:count])
        rest = np.ones(keys.size, dtype=np.bool_)
        rest[chosen] = False
        moved = self._vector.sketched(keys[chosen], weights[chosen], 0)
        self.base += moved
        self.cells -= moved
        self._measure()
        self._noted = [[(keys[rest], weights[rest])]]
        return pack_updates(keys[chosen], weights[chosen])

    def whole(self) -> bytes:
        """All of the vector, packed; the base is now here."""
        packed = pack_cells(self._vector.values())
        self._restart()
        return packed

    def _restart(self) -> None:
        self.base = self._vector.values()
        self.cells = np.zeros_like(self.cells)
        self.norms, self.dots = np.zeros_like(self.norms), np.zeros_like(self.dots)
        self.updates = 0
        self._forget()

    def _listed(self) -> bytes:
        """The keys behind the change, packed; nothing, if they were too many to remember."""
        self._compact()
        if self._noted is None or self._pruned:
            return b""
        nothing = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        lists = [pack_updates(*(parts[0] if parts else nothing)) for parts in self._noted]
        writer = Writer()
        for packed in lists[:-1]:
            writer.numbers("I", len(packed))
        for packed in lists:
            writer.raw(packed)
        return writer.getvalue()


def read_change(vector: Vector, cells: bytes, updates: bytes) -> I64:
    """The change that `Drift.taken` packed; raise a `BytesError` if it is none."""
    if cells:
        return unpack_cells(cells, vector.shape)
    if updates:
        return vector.unpacked(updates)
    return np.zeros(vector.shape, dtype=np.int64)


def _summed(parts: list[tuple[U64, I64]]) -> tuple[U64, I64]:
    """Each key once, in ascending order, with the sum of its weights, if that is not 0.

    By a table, and only distinct keys are sorted: of skewed keys twenty times as fast as `np.unique`.
    """
    hashes = np.concatenate([part[0] for part in parts])
    weights = np.concatenate([part[1] for part in parts])
    table = np.full(1 << (2 * hashes.size).bit_length(), -1, dtype=np.int32)
    keys, slots, origin = np.empty_like(hashes), np.empty_like(weights), np.empty_like(weights)
    # Places in the table are by the upper bits of 64.
    used = claim_slots(table, keys, 0, hashes << _DROPPED, slots, origin)
    sums = np.zeros(used, dtype=np.int64)
    np.add.at(sums, slots, weights)
    order = np.argsort(keys[:used])
    order = order[sums[order] != 0]
    return keys[order] >> _DROPPED, sums[order]
