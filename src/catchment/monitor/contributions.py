"""Contributions: what the sites have flushed, checked, added up to everyone's vector, and made durable.

Arrays are replaced here and never written to. So what a site had when a round began is one more name for an array, not
a copy for each site and round.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.kernel.contributions import reach_after
from catchment.monitor.machine import Persist
from catchment.monitor.messages import Report
from catchment.monitor.packing import LARGEST
from catchment.monitor.peer import Ledger, Peer
from catchment.monitor.planner import Past, Purse, Tally
from catchment.monitor.vectors import read_change
from catchment.monitor.watch import Watch

__all__ = ["Contributions"]

I64 = NDArray[np.int64]


class Contributions:
    """The sites' vectors as they were flushed, in `peers`; `total` is their sum.

    With `grows` no site has ever had an event of negative weight.
    """

    def __init__(self, watch: Watch, sites: tuple[str, ...], blobs: dict[str, bytes]) -> None:
        self._watch, self._vector = watch, watch.new_vector()
        self._ledger = Ledger(watch, self._vector)
        nothing = np.zeros(self._vector.shape, dtype=np.int64)
        self.peers = {site: Peer(nothing, nothing) for site in sites}
        self.total: I64 = nothing
        for site, peer in self.peers.items():
            self._ledger.read(site, peer, blobs)
            self.total = self.total + peer.contribution
        self.grows = not any(peer.fell for peer in self.peers.values())
        self._tally, self._purse = Tally(), Purse()

    def read(self, site: str, report: Report) -> I64 | None:
        """The change in a report; refuse what no site of ours says, before anything is changed by it."""
        flush, peer = report.flush, self.peers[site]
        if flush is None:
            return None
        if max(flush.whole, flush.fell, flush.partial) > 1:
            raise DamagedBytesError(f"a flush of {site!r} that is neither this nor that")
        if flush.partial and (flush.whole or flush.cells):
            raise DamagedBytesError(f"a part of a vector of {site!r} that is all of it")
        if flush.whole and report.watch != self._watch.fingerprint:
            raise DamagedBytesError(f"a vector of {site!r} that does not say what it is of")
        if report.position < flush.behind or abs(report.time - flush.older) >= LARGEST:
            raise DamagedBytesError(f"a flush of {site!r} from before its first event")
        change = read_change(self._vector, flush.cells, flush.updates)
        if self._builds(peer, report):  # otherwise it has been added already, or is not going to be
            least, most, furthest = reach_after(self.total, peer.contribution, change, bool(flush.whole))
            if not self._vector.possible(least, most) or furthest >= LARGEST:
                raise DamagedBytesError(f"counts of {site!r} that cannot be")
        return change

    @staticmethod
    def _builds(peer: Peer, report: Report) -> bool:
        """Whether its flush is a new one, and all of the vector or a change upon what is stored."""
        assert report.flush is not None
        if (report.incarnation, report.number) <= peer.stored:
            return False
        return bool(report.flush.whole) or (report.incarnation, report.number - 1) == peer.stored

    def keep(self, site: str, report: Report, change: I64 | None) -> Persist | None:
        """Add the change that was read up, if it fits what is stored; what comes back makes it durable."""
        flush, peer = report.flush, self.peers[site]
        if flush is None or not self._builds(peer, report):
            return None
        assert change is not None
        if flush.partial and not peer.alive:
            # A site that was lost is in the claim as it was at a flush of all of it, and must tell all of it again: it
            # waits for its part to be stored as long as that would follow upon what is stored.
            peer.stored = 0, 0
            return None
        if flush.whole:
            change = change - peer.contribution
        peer.add(change, partial=bool(flush.partial))
        self.total = self.total + change
        tally = self._tally
        if flush.partial:
            tally.parts += 1
            tally.part_bytes += flush.size
        else:
            position, time = report.position - flush.behind, report.time - flush.older
            tally.events += max(position - peer.flushed[0], 0)
            tally.flushes += 1
            tally.flush_bytes += flush.size
            peer.flushed = peer.cut = position, time
        peer.fell = peer.fell or bool(flush.fell)
        self.grows = self.grows and not peer.fell
        peer.stored = report.incarnation, report.number
        return self._ledger.change(site, peer, flush)

    def leave(self, site: str) -> Persist:
        """It has said farewell: what it flushed stays, and is made durable with that."""
        peer = self.peers[site]
        peer.left = True
        return self._ledger.whole(site, peer)

    def lose(self, site: str) -> None:
        """Go on without it, with its vector as it was at the last flush of all of it."""
        peer = self.peers[site]
        peer.alive = False
        if peer.ahead is not None:
            peer.contribution = peer.contribution - peer.ahead
            self.total = self.total - peer.ahead
            peer.ahead, peer.stored = None, (0, 0)  # should it come back, it must tell all

    # -- rounds -----------------------------------------------------------------------------------------------

    @property
    def flush_bytes(self) -> int:
        """What the flushes of this round have taken, without parts."""
        return self._tally.flush_bytes

    def past(self, rule: str, members: Iterable[str]) -> Past:
        """The round so far, for the planner; who has not flushed in it has not moved."""
        peers = map(self.peers.__getitem__, members)
        moves = tuple(peer.contribution - peer.start for peer in peers if peer.contribution is not peer.start)
        return Past(rule, self._tally, moves, self._purse)

    def end_round(self) -> None:
        """All of its flushes are in: the planner may judge by it."""
        self._purse.note(self._tally.events, self._tally.size)

    def begin_round(self) -> None:
        self._tally = Tally()
        for peer in self.peers.values():
            peer.start = peer.contribution
