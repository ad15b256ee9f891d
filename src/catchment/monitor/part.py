"""Part: what the coordinator's parts in queries share: whom they hear, who is due to be told, who is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from catchment.errors import DamagedBytesError
from catchment.monitor.agenda import Agenda
from catchment.monitor.heavy_hitters.messages import HeavyReport
from catchment.monitor.items.messages import ItemsReport
from catchment.monitor.machine import NEVER
from catchment.monitor.messages import Report
from catchment.monitor.owner import Owner
from catchment.monitor.wire import Message

__all__ = ["AnyReport", "Part"]

AnyReport = Report | ItemsReport | HeavyReport


class _Peer(Protocol):
    """What is known of a site in any query."""

    incarnation: int
    seq: int
    seen: int
    alive: bool
    left: bool
    speak: bool


P = TypeVar("P", bound=_Peer)


class Part(ABC, Generic[P]):
    """The coordinator's part in the query of this fingerprint, and what it knows of each site."""

    def __init__(self, owner: Owner, fingerprint: int, peers: Mapping[str, P]) -> None:
        self._owner, self._fingerprint, self._peers = owner, fingerprint, peers
        self._agenda = Agenda(peers, self._due)

    @abstractmethod
    def was_told_more(self, site: str, report: Message) -> bool:
        """Whether a report of this epoch shows that its site was told what this life has not said."""

    @abstractmethod
    def _speaks_at(self, peer: P) -> int:
        """When it is to be told something."""

    def _news_of(self, site: str, report: AnyReport) -> P | None:
        """The sender of a report, if that is newer than all that was heard of it.

        A process that still speaks in an earlier life is told at once of the later one, while it is on the line: two
        under one name push each other out of it, and neither need ever be told anything else.
        """
        peer = self._peers[site]
        if report.watch not in (0, self._fingerprint):
            raise DamagedBytesError(f"{site!r} watches something else under the number {report.query}")
        if report.incarnation < peer.incarnation:
            peer.speak = True
            self._agenda.touch(site)
            return None
        return peer if (report.incarnation, report.seq) > (peer.incarnation, peer.seq) else None

    @staticmethod
    def _welcome_back(peer: P, report: AnyReport, now: int) -> None:
        """A new life of a site that had left: it takes part again, and its lease begins now."""
        if peer.left and not report.leaving:
            peer.left, peer.seen = False, now

    @property
    def due(self) -> int:
        """When `act` has something to do."""
        return self._agenda.first

    def _due(self, site: str) -> int:
        peer = self._peers[site]
        ends = peer.seen + self._owner.lease + 1 if peer.alive and not peer.left else NEVER
        return min(self._speaks_at(peer), ends)

    def _lapsed(self, now: int) -> list[str]:
        """Whose lease has ended."""
        due = {site: self._peers[site] for site in self._agenda.by(now)}
        return [
            site for site, peer in due.items() if peer.alive and not peer.left and now - peer.seen > self._owner.lease
        ]

    def _to_tell(self, now: int) -> list[str]:
        """Who is to be told something now."""
        return [site for site in self._agenda.by(now) if now >= self._speaks_at(self._peers[site])]

    def _left(self) -> tuple[str, ...]:
        return tuple(site for site, peer in self._peers.items() if peer.left)

    def _missing(self) -> tuple[str, ...]:
        return tuple(site for site, peer in self._peers.items() if not peer.alive and not peer.left)

    def _present(self) -> tuple[str, ...]:
        """Who is in a claim as of now: also those who have left, for nothing more will come of them."""
        return tuple(site for site, peer in self._peers.items() if peer.alive or peer.left)
