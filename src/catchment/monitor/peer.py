"""Peer: what the coordinator knows of a site in one query; and the ledger that makes its contribution durable."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.machine import NEVER, Persist
from catchment.monitor.messages import Flush
from catchment.monitor.packing import LARGEST
from catchment.monitor.rules.base import Terms
from catchment.monitor.vectors import Vector, read_change
from catchment.monitor.watch import Watch
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope

__all__ = ["Ledger", "Peer"]

I64 = NDArray[np.int64]

_FAMILY = 27
LONGEST_LOG = 64
"""So many flushes of a site are made durable one by one before all of its vector is again."""


@dataclass(slots=True)
class Peer:
    """What the coordinator knows of a site, and what it wants it to know."""

    contribution: I64
    start: I64  # the contribution when the round began
    ahead: I64 | None = None  # what of it is parts of flushes, beyond its vector at `flushed`
    incarnation: int = 0
    seq: int = 0
    stored: tuple[int, int] = (0, 0)  # life and number of the last flush
    flushed: tuple[int, int] = (0, 0)  # position and time of the last that was not in part
    cut: tuple[int, int] = (0, 0)
    seen: int = 0
    alive: bool = True
    left: bool = False
    fell: bool = False  # it has had events of negative weight
    # The order, the register for this site.
    want: int = 0
    terms: Terms = field(default_factory=Terms)
    order: int = 0
    acked: int = 0
    needed: int = 0
    speak: bool = False
    answer_at: int = NEVER
    zone_in: int = 0
    said: int = -(1 << 60)
    wait: int = 0  # milliseconds before the order is repeated; 0: as at first
    # What is durable: the contribution as it was once, in so many bytes, and the flushes since, with theirs.
    whole_bytes: int = 0
    log_bytes: int = 0
    log: int = 0

    def add(self, change: I64, *, partial: bool) -> None:
        """A flush, or a part of one."""
        self.contribution = self.contribution + change
        if partial:
            self.ahead = change if self.ahead is None else self.ahead + change
        else:
            self.ahead = None


class Ledger:
    """Contributions of sites to one query, as blobs: each as it was once, and the flushes since."""

    def __init__(self, watch: Watch, vector: Vector) -> None:
        self._watch, self._vector = watch, vector

    def _whole_name(self, site: str) -> str:
        return f"{self._watch.number}.whole.{site}"

    def _entry_name(self, site: str, entry: int) -> str:
        return f"{self._watch.number}.{entry}.{site}"

    def whole(self, site: str, peer: Peer) -> Persist:
        """All of the contribution."""
        writer = Writer()
        writer.numbers("QQQq", *peer.stored, *peer.flushed)
        writer.numbers("BBB", peer.left, peer.fell, peer.ahead is not None)
        writer.integers(peer.contribution)
        if peer.ahead is not None:
            writer.integers(peer.ahead)
        blob = self._sealed(writer)
        peer.whole_bytes, peer.log_bytes, peer.log = len(blob), 0, 0
        return Persist(self._whole_name(site), blob)

    def change(self, site: str, peer: Peer, flush: Flush) -> Persist:
        """A flush as it came, beside the contribution that it builds upon; all of it anew when that costs no more.

        Entries are numbered from 0 after each whole contribution, so that old ones are written over. One that is left
        from before builds upon a flush that is not the last any more, and is not read.
        """
        if flush.whole or peer.log_bytes > peer.whole_bytes or peer.log >= LONGEST_LOG:
            return self.whole(site, peer)
        writer = Writer()
        writer.numbers("QQQq", *peer.stored, *peer.flushed)
        writer.numbers("BBI", peer.fell, flush.partial, len(flush.cells))
        writer.raw(flush.cells)
        writer.raw(flush.updates)
        blob = self._sealed(writer)
        name = self._entry_name(site, peer.log)
        peer.log_bytes += len(blob)
        peer.log += 1
        return Persist(name, blob)

    def _sealed(self, writer: Writer) -> bytes:
        """With what is watched in it: a contribution to something else must not be taken for one."""
        return seal_envelope(_FAMILY, self._watch.fingerprint.to_bytes(4, "little"), writer.getvalue())

    def _opened(self, blob: bytes) -> Reader | None:
        family, watch, reader = open_envelope(blob)
        if family != _FAMILY or bytes(watch.raw(watch.left)) != self._watch.fingerprint.to_bytes(4, "little"):
            return None
        return reader

    def read(self, site: str, peer: Peer, blobs: dict[str, bytes]) -> None:
        """Put into a new peer what is durable of its site, if anything is."""
        blob = blobs.get(self._whole_name(site), b"")
        reader = self._opened(blob) if blob else None
        if reader is None:
            return
        life, number, position, time = reader.numbers("QQQq")
        peer.stored, peer.flushed = (life, number), (position, time)
        peer.incarnation = life
        peer.left, peer.fell, ahead = map(bool, reader.numbers("BBB"))
        peer.contribution = _cells(reader, self._vector.shape)
        peer.ahead = _cells(reader, self._vector.shape) if ahead else None
        reader.finish()
        peer.whole_bytes = len(blob)
        while (blob := blobs.get(self._entry_name(site, peer.log), b"")) and self._read_change(peer, blob):
            peer.log_bytes += len(blob)
            peer.log += 1
        peer.cut = peer.flushed

    def _read_change(self, peer: Peer, blob: bytes) -> bool:
        """Add what an entry says, if it builds upon what is there."""
        reader = self._opened(blob)
        if reader is None:
            return False
        life, number, position, time = reader.numbers("QQQq")
        if (life, number - 1) != peer.stored:
            return False
        fell, partial, size = reader.numbers("BBI")
        peer.fell = bool(fell)
        cells, updates = bytes(reader.raw(size)), bytes(reader.raw(reader.left))
        change = read_change(self._vector, cells, updates)
        peer.add(change, partial=bool(partial))
        peer.stored, peer.flushed = (life, number), (position, time)
        return True


def _cells(reader: Reader, shape: tuple[int, int]) -> I64:
    found: I64 = reader.integers(shape[0] * shape[1], np.int64, low=-LARGEST, high=LARGEST).reshape(shape)
    return found
