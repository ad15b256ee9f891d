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
LONGEST_LOG = 1024
"""So many lists of a site are made durable one by one, if they are small, before all of its bands are again: each is a
file. What mostly ends a log is that it has grown as long as all of the bands."""


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
    """Made for one watch: bands for others mean something else, and are not read.

    Each blob says for how many sites its bands are: those of sites that have left stay what they were when the number
    changes.
    """

    def __init__(self, watch: Items) -> None:
        self._number = watch.number
        self._fingerprint = watch.fingerprint.to_bytes(4, "little")

    def _sealed(self, peer: ItemsPeer, writer: Writer) -> bytes:
        mark = self._fingerprint + peer.held.sites.to_bytes(4, "little")
        return seal_envelope(_FAMILY, mark, writer.getvalue())

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
        sealed = self._sealed(peer, writer)
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
        sealed = self._sealed(peer, writer)
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
        opened = self._opened(blob) if blob else None
        if opened is None:
            return
        peer.held.sites, reader = opened
        self._set_head(peer, reader.numbers("QQQqB"))
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
        opened = self._opened(blob)
        if opened is None or opened[0] != peer.held.sites:
            return False
        before, reader = peer.stored, opened[1]
        head = reader.numbers("QQQqB")
        if (head[0], head[1] - 1) != before:
            return False
        peer.held.take(peer.held.read(BandList.from_bytes(reader.raw(reader.left))))
        self._set_head(peer, head)
        return True

    def _opened(self, blob: bytes) -> tuple[int, Reader] | None:
        """For how many sites, and the rest; None if it is about something else."""
        family, mark, reader = open_envelope(blob)
        found = bytes(mark.raw(mark.left))
        if family != _FAMILY or found[:4] != self._fingerprint or len(found) != 8:
            return None
        return int.from_bytes(found[4:], "little"), reader

    @staticmethod
    def _set_head(peer: ItemsPeer, head: tuple[int, ...]) -> None:
        life, number, position, time, left = head
        peer.stored, peer.cut, peer.left = (life, number), (position, time), bool(left)
