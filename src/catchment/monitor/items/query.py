"""ItemsQuery: the coordinator's part in a watch of items. It adds bands up; what it claims is true of its cut.

A site is in one of these states:

    state     event                                      next      does
    unheard   (a life begins)                            unheard   sends an order, until a report is current
    any       a report with a list that builds on mine   current   keeps it, durably, then acknowledges
    any       a report with a part of such a list        behind    lays it beside what is held, and acknowledges
    any       a report about the list that is held       current   moves the site's cut
    any       a report about another list                behind    says which list is held: a whole one will come
    current   a farewell                                 left      keeps that; its bands stay, at their cut
    any       its cut old for longer than a lease        missing   names it; its bands stay, at their cut
    missing   a report that shows a new cut              (by it)   goes on with it

There are no rounds: a band is true of its site alone, and the bands of all sites add up, whatever each of them is
doing. So a bad network makes the cut old at the sites that it has cut off, and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace

from catchment.errors import DamagedBytesError, ParameterError
from catchment.monitor.items.claim import ItemsClaim, items_of, leaves_room
from catchment.monitor.items.held import Held, Told
from catchment.monitor.items.ledger import ItemsLedger, ItemsPeer
from catchment.monitor.items.messages import BandList, ItemsOrder, ItemsReport
from catchment.monitor.items.watch import MOST_SITES, Items
from catchment.monitor.machine import NEVER, Action, Purpose, Send
from catchment.monitor.owner import Owner
from catchment.monitor.part import Part
from catchment.monitor.states import COLLECTING, HOLDING
from catchment.monitor.wire import Message, write_frame

__all__ = ["ItemsQuery"]


class ItemsQuery(Part[ItemsPeer]):
    """Holds the bands of all sites in one watch."""

    hears = ItemsReport

    def __init__(self, owner: Owner, watch: Items, sites: tuple[str, ...], blobs: dict[str, bytes]) -> None:
        if not 0 < len(sites) <= MOST_SITES:
            raise ParameterError(f"{len(sites)} sites", f"give from 1 to {MOST_SITES}")
        super().__init__(owner, watch.fingerprint, {site: ItemsPeer() for site in sites})
        self._watch = watch
        self._ledger = ItemsLedger(watch)
        for site, peer in self._peers.items():
            self._ledger.read(site, peer, blobs)
        gone = [peer.held for peer in self._peers.values() if peer.left]
        if not leaves_room(watch, [*gone, *[Held()] * (len(sites) - len(gone))], len(sites)):
            raise ParameterError(
                f"{len(gone)} sites that have left, with bands made for fewer sites than {len(sites)}",
                "leave the oldest of them out, or give the watch another number, to begin anew",
            )
        self._begun = False
        self._claim: ItemsClaim | None = None

    def start(self, now: int) -> None:
        for peer in self._peers.values():
            peer.seen, peer.current, peer.speak = now, False, True
        self._agenda.touch(*self._peers)

    # -- reports ----------------------------------------------------------------------------------------------

    def was_told_more(self, site: str, report: Message) -> bool:
        """It takes a list for stored that is not: it says nothing of it any more, or builds upon it."""
        assert isinstance(report, ItemsReport)
        if report.bands is not None and report.bands.whole:
            return False
        stored = report.number - int(report.bands is not None)
        return stored > 0 and (report.incarnation, stored) > self._peers[site].stored

    def hear(self, site: str, report: Message, now: int) -> list[Action]:
        assert isinstance(report, ItemsReport)
        peer = self._news_of(site, report)
        if peer is None:
            return []
        told = self._read(site, peer, report)
        self._agenda.touch(site)
        if report.incarnation != peer.incarnation:
            self._welcome_back(peer, report, now)
        peer.incarnation, peer.seq = report.incarnation, report.seq
        in_parts = False
        if told is not None and report.bands is not None:
            in_parts = self._take(peer, told, report.bands, report.sites)
            peer.stored = report.incarnation, report.number
        current = report.sites == len(self._peers) and (report.incarnation, report.number) == peer.stored
        peer.current = current and peer.coming is None
        actions: list[Action] = []
        if peer.current:
            # A list that is safe here and is told all the same: it does not hear us, and may have gone on since.
            if told is not None or report.bands is None or peer.cut != (report.position, report.time):
                peer.seen, peer.alive = now, True
            peer.cut = report.position, report.time
            peer.heard = True
            farewell = bool(report.leaving) and not peer.left
            peer.left = peer.left or farewell
            if farewell or in_parts:
                actions.append(self._ledger.whole(site, peer))
            elif told is not None and report.bands is not None:
                actions.append(self._ledger.change(site, peer, report.bands))
        answered = peer.current and report.bands is None and report.epoch == self._owner.epoch and not report.leaving
        peer.speak = peer.speak or not answered
        self._claim = None
        return actions

    def _read(self, site: str, peer: ItemsPeer, report: ItemsReport) -> Told | None:
        """Its list, if that is a new one that builds upon what is held; nothing is changed yet."""
        bands = report.bands
        if bands is None or report.sites != len(self._peers):
            return None
        if max(bands.whole, bands.more) > 1:
            raise DamagedBytesError(f"a list of {site!r} that is neither all nor a change")
        if bands.whole and report.watch != self._fingerprint:
            raise DamagedBytesError(f"a list of {site!r} that does not say what it is of")
        if (report.incarnation, report.number) <= peer.stored:
            return None
        if not bands.whole and (report.incarnation, report.number - 1) != peer.stored:
            return None
        return _base(peer, bands).read(bands)

    @staticmethod
    def _take(peer: ItemsPeer, told: Told, bands: BandList, sites: int) -> bool:
        """Take a list in; whether it was the last part of one. What is held stays as it is until then."""
        if not bands.more and (bands.whole or peer.coming is None):
            peer.coming = None
            peer.held.take(told)
            peer.held.sites = sites
            return False
        if bands.whole:
            peer.coming = Held()
            peer.coming.sites = sites
        elif peer.coming is None:
            peer.coming = peer.held.copy()
        peer.coming.take(told)
        if bands.more:
            return False
        peer.held, peer.coming = peer.coming, None
        return True

    # -- questions --------------------------------------------------------------------------------------------

    @property
    def rule_name(self) -> str:
        return self._watch.rule

    def claimed(self) -> ItemsClaim | None:
        there = [peer for peer in self._peers.values() if peer.alive and not peer.left]
        self._begun = self._begun or all(peer.heard for peer in there)
        if not self._begun or not leaves_room(
            self._watch, [peer.held for peer in self._peers.values()], len(self._peers)
        ):
            return None
        if self._claim is None:
            self._claim = ItemsClaim(
                self._watch.number, self._watch.threshold, self._watch.theta,
                items_of(self._watch, {site: peer.held for site, peer in self._peers.items()}),
                {site: peer.cut for site, peer in self._peers.items()}, self._owner.epoch, COLLECTING,
            )  # fmt: skip
        state = HOLDING if all(peer.current for peer in there) else COLLECTING
        return replace(self._claim, state=state, sites=self._present(), missing=self._missing(), left=self._left())

    # -- time -------------------------------------------------------------------------------------------------

    def _speaks_at(self, peer: ItemsPeer) -> int:
        if peer.speak:
            return peer.said
        waits = peer.alive and not peer.left and not peer.current
        return peer.said + self._owner.resend if waits else NEVER

    def act(self, now: int) -> list[Action]:
        """What is due by now: sites are missing, orders said."""
        lost = self._lapsed(now)
        for site in lost:
            self._peers[site].alive = False
        self._agenda.touch(*lost)
        return [self._word(site, self._peers[site], now) for site in self._to_tell(now)]

    # -- orders -----------------------------------------------------------------------------------------------

    def _word(self, site: str, peer: ItemsPeer, now: int) -> Send:
        purpose = Purpose.CONTROL if peer.speak else Purpose.RESEND
        peer.order += 1
        peer.speak, peer.said = False, now
        stored = peer.stored[1] if peer.stored[0] == peer.incarnation else 0
        frame = write_frame(
            ItemsOrder(
                query=self._watch.number, epoch=self._owner.epoch, incarnation=peer.incarnation, seq=peer.order,
                acked=peer.seq, stored=stored, sites=len(self._peers),
            )
        )  # fmt: skip
        self._agenda.touch(site)
        self._owner.traffic.add(purpose, len(frame))
        return Send(site, frame, purpose)


def _base(peer: ItemsPeer, bands: BandList) -> Held:
    """What a list builds upon."""
    return peer.held if peer.coming is None or bands.whole else peer.coming
