"""History: what a site knows of all its events since the beginning, and who is heavy among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.heavy_hitters import count_and_notice, remember
from catchment.monitor.heavy_hitters.local import Local
from catchment.monitor.heavy_hitters.names import Key, Names, hashes_of, in_order, keys_of
from catchment.monitor.heavy_hitters.tally import Tally
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.sketch.checks import read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch

__all__ = ["History"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_ROOM = 1 << 10


class History(Local):
    """Counts of all events, and the candidates: the items whose count is at least phi of them.

    **Every item that is heavy here is a candidate.** Its share only falls between its arrivals. So if it is at least
    phi of the first p events, it was at least phi of the first j when it last arrived, at position j <= p. The
    kernel compares each item at its own arrival, with a count that is never too low, so it was noticed then; since then
    it was dropped only if its count was below phi of some q events, j <= q <= p, which is false.

    A batch is looked at when it ends: what was noticed within it and has fallen below by then is no candidate.
    """

    def __init__(self, watch: HeavyHitters, site: str) -> None:
        super().__init__()
        self._share = watch.share
        self._tally = Tally(watch, site)
        self._names: dict[int, Key] = {}

    @property
    def total(self) -> int:
        return self.position

    def slack(self, sites: int) -> int:
        return self._tally.slack(sites)

    @property
    def candidates(self) -> Mapping[int, Key]:
        return self._names

    def _timed(self, batch: KeyBatch, times: Any) -> KeyBatch:
        return batch  # times are for windows beside this one

    def add(self, checked: KeyBatch) -> None:
        for block in checked.blocks():
            self._count(block)
        self._drop()

    def advance(self, time: int) -> None:
        """Nothing changes: only windows keep time."""

    def _count(self, block: KeyBatch) -> None:
        hashes, done = block.hashes(), 0
        while done < hashes.size:
            known = np.fromiter(self._names, dtype=np.uint64, count=len(self._names))
            size = 1 << (2 * (known.size + _ROOM) - 1).bit_length()
            table, used = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint8)
            remember(table, used, known)
            places = np.empty(_ROOM, dtype=np.int64)
            counted, noted = count_and_notice(
                self._tally.cells, self._tally.rows, hashes[done:], self.position, self._share, table, used, places
            )
            found = done + places[:noted]
            self._names.update(zip(hashes[found].tolist(), keys_of(block.take(found)), strict=True))
            self.position += int(counted)
            done += int(counted)

    def _drop(self) -> None:
        """Let go of those that have fallen below the threshold: they must arrive again to come back."""
        hashes = np.fromiter(self._names, dtype=np.uint64, count=len(self._names))
        below = hashes[self.counts(hashes) < self._share * self.position]
        for hash_ in below.tolist():
            del self._names[hash_]

    def counts(self, hashes: U64) -> I64:
        return self._tally.counts(hashes)

    def onsets(self, hashes: U64) -> tuple[int, ...]:
        return ()

    def write(self, writer: Writer) -> None:
        names = Names.of(in_order(self._names.values()))
        content = b"" if names is None else names.to_bytes()
        writer.numbers("qI", self.position, len(content))
        writer.raw(content)
        self._tally.write(writer)

    def read(self, reader: Reader) -> None:
        position, size = reader.numbers("qI")
        self.position = read_mass(position)
        names = Names.from_bytes(reader.raw(size)).keys()
        hashes = hashes_of(names)
        self._names = dict(zip(hashes.tolist(), names, strict=True))
        self._tally.read(reader)
        if np.any(self._tally.cells.sum(axis=1) != self.position) or np.any(self.counts(hashes) == 0):
            raise DamagedBytesError(f"rows that do not hold {position} events, or a candidate without any")
