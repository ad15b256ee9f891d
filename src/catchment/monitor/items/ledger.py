"""ItemsLedger: the sites' bands as blobs, each list as it was once in whole, and the lists since."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.items.held import Held
from catchment.monitor.items.messages import BandList
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import Persist
from catchment.monitor.top_k.counts import COUNT_LIMIT
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope

__all__ = ["ItemsLedger", "ItemsPeer"]

_FAMILY = 28
LONGEST_LOG = 64
"""So many lists of a site are made durable one by one before all of its bands are again."""


@dataclass(slots=True)
class ItemsPeer:
    """What the coordinator knows of a site in one watch of items, and what it wants it to know."""

    held: Held = field(default_factory=Held)
    coming: Held | None = None  # what is held, with the parts so far of a list that is not complete
    incarnation: int = 0
    seq: int = 0
    stored: tuple[int, int] = (0, 0)  # life and number of the last list, or of the last part of one
    cut: tuple[int, int] = (0, 0)
    current: bool = False  # its newest report was about the bands that are held
    heard: bool = False  # it was current once in this life of the coordinator
    seen: int = 0
    alive: bool = True
    left: bool = False
    # The order, the register for this site.
    order: int = 0
    speak: bool = True
    said: int = -(1 << 60)
    # What is durable: all of it as it was once, in so many bytes, and the lists since, with theirs.
    whole_bytes: int = 0
    log_bytes: int = 0
    log: int = 0


class ItemsLedger:
    """Made for one watch and one number of sites: bands for others mean something else, and are not read."""

    def __init__(self, watch: Items, sites: int) -> None:
        self._number = watch.number
        self._mark = watch.fingerprint.to_bytes(4, "little") + sites.to_bytes(4, "little")

    def _whole_name(self, site: str) -> str:
        return f"{self._number}.items.{site}"

    def _entry_name(self, site: str, entry: int) -> str:
        return f"{self._number}.items-{entry}.{site}"

    def whole(self, site: str, peer: ItemsPeer) -> Persist:
        """All bands."""
        names, numbers, lows = peer.held.active()
        named = Names.of(names)
        blob = b"" if named is None else named.to_bytes()
        writer = self._headed(peer)
        writer.numbers("III", peer.held.lows.size, len(names), len(blob))
        writer.raw(blob)
        writer.integers(numbers)
        writer.integers(lows)
        sealed = seal_envelope(_FAMILY, self._mark, writer.getvalue())
        peer.whole_bytes, peer.log_bytes, peer.log = len(sealed), 0, 0
        return Persist(self._whole_name(site), sealed)

    def change(self, site: str, peer: ItemsPeer, bands: BandList) -> Persist:
        """A list as it came, beside what it builds upon; all of it anew when that costs no more.

        Entries are numbered from 0 after each whole. One that is left from before builds upon a list that is not the
        last any more, and is not read.
        """
        if bands.whole or peer.log_bytes > peer.whole_bytes or peer.log >= LONGEST_LOG:
            return self.whole(site, peer)
        writer = self._headed(peer)
        writer.raw(bands.to_bytes())
        sealed = seal_envelope(_FAMILY, self._mark, writer.getvalue())
        name = self._entry_name(site, peer.log)
        peer.log_bytes += len(sealed)
        peer.log += 1
        return Persist(name, sealed)

    @staticmethod
    def _headed(peer: ItemsPeer) -> Writer:
        writer = Writer()
        writer.numbers("QQQqB", *peer.stored, *peer.cut, peer.left)
        return writer

    def read(self, site: str, peer: ItemsPeer, blobs: dict[str, bytes]) -> None:
        """Put into a new peer what is durable of its site, if anything is."""
        blob = blobs.get(self._whole_name(site), b"")
        reader = self._opened(blob) if blob else None
        if reader is None:
            return
        self._read_head(peer, reader)
        size, count, length = reader.numbers("III")
        names = Names.from_bytes(reader.raw(length)).keys() if length else ()
        numbers = reader.integers(count, np.int64, low=0, high=max(size - 1, 0))
        lows = reader.integers(count, np.int64, low=1, high=COUNT_LIMIT)
        reader.finish()
        if len(names) != count or np.unique(numbers).size != count:
            raise DamagedBytesError(f"{len(names)} names of {count} items")
        peer.held.restore(names, numbers, lows, size)
        peer.incarnation = peer.stored[0]
        peer.whole_bytes = len(blob)
        while (blob := blobs.get(self._entry_name(site, peer.log), b"")) and self._read_change(peer, blob):
            peer.log_bytes += len(blob)
            peer.log += 1

    def _read_change(self, peer: ItemsPeer, blob: bytes) -> bool:
        """Take an entry in, if it builds upon what is there."""
        reader = self._opened(blob)
        if reader is None:
            return False
        before = peer.stored
        head = reader.numbers("QQQqB")
        if (head[0], head[1] - 1) != before:
            return False
        peer.held.take(peer.held.read(BandList.from_bytes(reader.raw(reader.left))))
        self._set_head(peer, head)
        return True

    def _opened(self, blob: bytes) -> Reader | None:
        family, mark, reader = open_envelope(blob)
        return reader if family == _FAMILY and bytes(mark.raw(mark.left)) == self._mark else None

    def _read_head(self, peer: ItemsPeer, reader: Reader) -> None:
        self._set_head(peer, reader.numbers("QQQqB"))

    @staticmethod
    def _set_head(peer: ItemsPeer, head: tuple[int, ...]) -> None:
        life, number, position, time, left = head
        peer.stored, peer.cut, peer.left = (life, number), (position, time), bool(left)
