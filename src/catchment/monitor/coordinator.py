"""Coordinator: the machine in the middle. It adds the sites' vectors up, and claims only what is proven.

For each query it is in one of these states:

    state        event                                  next         does
    collecting   a flush                                collecting   keeps it, durably, and acknowledges
    collecting   the last flush that it waits for       holding      adds up, chooses a rule, sends zone and terms
    holding      a report, the rule keeps on            holding      moves the claim's cut, if that is proven
    holding      a report, the rule asks                asking       asks sites for a statistic
    holding      a report, the rule collects            collecting   begins a round: asks sites for a flush
    asking       the last statistic that it waits for   holding      sends new terms; or asks more; or collects
    any          a site does not hear us for a lease    collecting   goes on without it, and names it
    any          a site comes back, new life or not     collecting   begins a round with it
    any          nothing acknowledged in time           same         sends the newest order again, waits twice as long

A **claim** is a value, the interval that holds the truth, and the cut that it is about: for every site the number of
its events that are in it, and its time. It is made when a round begins, at the cut of the flushes, and moved when the
sites' reports prove it for a later cut; it stays true of its cut for ever, whatever is lost. What moves on is only how
new the cut is. A site that was lost is in the claim with what it flushed last, at that cut, and is named as missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import BytesError, DamagedBytesError, NameNotFoundError, ParameterError
from catchment.monitor.items.claim import ItemsClaim
from catchment.monitor.items.messages import ItemsReport
from catchment.monitor.items.query import ItemsQuery
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import COORDINATOR, Action, Persist, Purpose, Received, Send, Tick
from catchment.monitor.messages import Order, Report
from catchment.monitor.packing import LARGEST
from catchment.monitor.peer import Ledger, Peer
from catchment.monitor.planner import Past
from catchment.monitor.rules.base import Ask, Collect, Decision, Hold, Keep, SiteView, Steersman, Terms
from catchment.monitor.site import NEVER, WANT_FLUSH, WANT_STATISTIC
from catchment.monitor.states import ASKING, COLLECTING, HOLDING
from catchment.monitor.traffic import Traffic
from catchment.monitor.vectors import read_change
from catchment.monitor.watch import Watch
from catchment.monitor.wire import Message, read_frame, write_frame

__all__ = ["Claim", "Coordinator"]

I64 = NDArray[np.int64]

EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the coordinator says about one query, and about which events.

    `answer` holds for the events up to `cut`: by site, how many of its events are in it, and its time. `estimate` is
    between `low` and `high` there, by the sketch alone and for certain; the answer adds the sketch's own error.
    """

    query: int
    answer: Answer
    estimate: float
    low: float
    high: float
    cut: dict[str, tuple[int, int]]
    epoch: int
    round: int
    state: str
    left: tuple[str, ...] = ()


class Coordinator:
    """The coordinator of some queries.

    Parameters
    ----------
    watches
        What is monitored; the sites must have the same.
    sites
        Who takes part. Reports of others are refused.
    blobs
        What an earlier life has made durable; it may be old, an old backup say.
    life
        A number that no earlier life had, for the case that the disk is older than the last life; the time will do.
    lease, resend
        Milliseconds without a word that shows that a site hears us after which it is missing, and after which an order
        is repeated: the time between repetitions doubles up to a quarter of the lease.
    """

    def __init__(
        self,
        watches: tuple[Watch | Items, ...],
        sites: tuple[str, ...],
        *,
        blobs: dict[str, bytes] | None = None,
        life: int = 0,
        lease: int = 30_000,
        resend: int = 1_000,
    ) -> None:
        if len({watch.number for watch in watches}) != len(watches):
            raise ParameterError("two watches of one number", "number them apart")
        if COORDINATOR in sites or len(set(sites)) != len(sites):
            raise ParameterError(f"sites {sites!r}", "give each its own name, and none the coordinator's")
        blobs = blobs or {}
        self.traffic = Traffic()
        self.refused = 0
        self.epoch = max(life, 1 + (int.from_bytes(blobs[EPOCH], "little") if EPOCH in blobs else 0))
        self.lease, self.resend = lease, resend
        self._queries = {
            watch.number: ItemsQuery(self, watch, sites, blobs)
            if isinstance(watch, Items)
            else _Query(self, watch, sites, blobs)
            for watch in watches
        }
        self._opening: list[Action] = [Persist(EPOCH, self.epoch.to_bytes(8, "little"))]
        self._started = False

    # -- the machine ------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        due = min((query.due for query in self._queries.values()), default=NEVER)
        return None if due >= NEVER else due

    def handle(self, event: Any, now: int) -> list[Action]:
        if not isinstance(event, Received | Tick):
            raise TypeError(f"a coordinator cannot handle {type(event).__name__}")
        actions, self._opening = self._opening, []
        if not self._started:
            self._started = True
            for query in self._queries.values():
                query.start(now)
        if isinstance(event, Received):
            actions += self._receive(event, now)
        for query in self._queries.values():
            query.expire(now)
            actions += query.words(now)
        return actions

    def _receive(self, event: Received, now: int) -> list[Action]:
        try:
            report = read_frame(event.frame)
            query = self._queries.get(report.query) if isinstance(report, Report | ItemsReport) else None
            if query is None or not isinstance(report, query.hears):
                raise DamagedBytesError(f"a {type(report).__name__} that is no report on a query here")
            if self.epoch < report.epoch < LARGEST:
                self._rise_above(report.epoch, now)
                return [Persist(EPOCH, self.epoch.to_bytes(8, "little"))]
            return query.hear(event.sender, report, now)
        except BytesError:
            self.refused += 1
            return []

    def _rise_above(self, epoch: int, now: int) -> None:
        """A site has heard of a later life of ours than this one: the disk is an old one. Begin again, above it."""
        self.epoch = epoch + 1
        for query in self._queries.values():
            query.start(now)

    # -- questions --------------------------------------------------------------------------------------------

    def claim(self, query: int) -> Claim | None:
        """What is claimed now; None before the first round."""
        found = self._query(query)
        if isinstance(found, ItemsQuery):
            raise NameNotFoundError(f"query {query} is a watch of items", f"ask items({query})")
        return found.claimed()

    def items(self, query: int) -> ItemsClaim | None:
        """What is claimed now by a watch of items; None before every site was heard."""
        found = self._query(query)
        if not isinstance(found, ItemsQuery):
            raise NameNotFoundError(f"query {query} is no watch of items", f"ask claim({query})")
        return found.claimed()

    def _query(self, query: int) -> _Query | ItemsQuery:
        if query not in self._queries:
            known = ", ".join(map(str, self._queries))
            raise NameNotFoundError(f"no query {query}", f"there are {known}")
        return self._queries[query]

    def rule(self, query: int) -> str:
        """The name of the rule in force; empty before the first round."""
        return self._query(query).rule_name


class _Query:
    """The coordinator's part in one query."""

    hears = Report

    def __init__(self, owner: Coordinator, watch: Watch, sites: tuple[str, ...], blobs: dict[str, bytes]) -> None:
        self._owner, self._watch = owner, watch
        self._vector = watch.new_vector()
        shape = self._vector.shape
        self._peers = {site: Peer(np.zeros(shape, np.int64), np.zeros(shape, np.int64)) for site in sites}
        self._views = {site: SiteView() for site in sites}
        self._ledger = Ledger(watch, self._vector)
        for site, peer in self._peers.items():
            self._ledger.read(site, peer, blobs)
        self._total = np.zeros(self._vector.shape, dtype=np.int64)
        for peer in self._peers.values():
            self._total += peer.contribution
        self._round = 0
        self._events = self._flushes = self._flush_bytes = 0  # of this round
        self._parts = self._part_bytes = 0
        self._state = COLLECTING
        self._asked: tuple[str, ...] = ()
        self._members: tuple[str, ...] = ()
        self._guards: dict[str, int] = {}  # who has the last round's zone, and in which life
        self._zone_round = 0
        self._rule: Steersman | None = None
        self._grows = not any(peer.fell for peer in self._peers.values())
        self._claim: Claim | None = None

    def start(self, now: int) -> None:
        for peer in self._peers.values():
            peer.seen, peer.acked = now, 0
        self._collect(self._alive())

    def _alive(self) -> tuple[str, ...]:
        return tuple(site for site, peer in self._peers.items() if peer.alive and not peer.left)

    # -- reports ----------------------------------------------------------------------------------------------

    def hear(self, site: str, report: Message, now: int) -> list[Action]:
        assert isinstance(report, Report)
        peer = self._peers.get(site)
        if peer is None:
            raise DamagedBytesError(f"a report of {site!r}, which takes no part")
        if report.watch not in (0, self._watch.fingerprint):
            raise DamagedBytesError(f"{site!r} watches something else under the number {report.query}")
        if (report.incarnation, report.seq) <= (peer.incarnation, peer.seq):
            return []
        view = self._views[site]
        here = report.epoch == self._owner.epoch and report.round == self._round and report.step <= view.step
        self._check(site, peer, report, here=here)
        reborn = report.incarnation != peer.incarnation
        peer.incarnation, peer.seq = report.incarnation, report.seq
        if reborn:
            peer.acked, peer.speak = 0, True  # the new life has heard nothing of what the old one acknowledged
            peer.left = peer.left and bool(report.leaving)
        back = self._note_whether_it_hears(site, peer, report, now)
        pushes = self._rule is not None and self._rule.pushes
        actions = self._keep(site, peer, report)
        unasked = bool(actions) and self._state != COLLECTING and not (pushes and here)
        if report.flush is not None and pushes:
            peer.speak = True  # it cannot flush again before it hears that this one is safe
        elif report.urgent or report.flush is not None:
            peer.answer_at = min(peer.answer_at, now + self._owner.resend // 3)  # something else may be said before
        awaited = self._awaits_flush(site)
        current = (report.incarnation, report.number) == peer.stored
        if here and current:
            given = bool(report.statistic) or peer.want != WANT_STATISTIC or report.step < view.step
            view.confirmed = report.step if given else view.confirmed
            view.level = report.level
            view.statistic = report.statistic if report.step == view.step else ()
            view.pending = report.pending
            peer.cut = report.position, report.time
        if report.leaving and current and (not peer.left or actions):  # not each time that it says so
            peer.left = True
            actions.append(self._ledger.whole(site, peer))
            self._collect(self._alive())
        elif back or ((unasked or (peer.alive and (reborn or not current))) and not awaited):
            self._collect(self._alive())
        self._go_on()
        return actions

    def _note_whether_it_hears(self, site: str, peer: Peer, report: Report, now: int) -> bool:
        """Keep the lease, if the report shows that orders reach the site; whether it has come back by that.

        One that speaks and does not hear us cannot go on: its claim's cut stands, and after the lease it is missing. It
        repeats a flush that is safe here, or does not know the order that it is to follow.
        """
        before = peer.acked
        if report.epoch == self._owner.epoch:
            peer.acked = max(peer.acked, report.acked)
        repeats = report.flush is not None and (report.incarnation, report.number) <= peer.stored
        knows = report.epoch == self._owner.epoch and peer.acked >= peer.needed
        if peer.acked > before:
            peer.wait = 0
        elif repeats or not knows:
            # What it lacks is said again. One that was lost before it heard of this life has nothing to answer yet.
            if not peer.alive and not peer.left and report.epoch != self._owner.epoch and peer.want != WANT_FLUSH:
                self._step(site, WANT_FLUSH, Terms())
            peer.answer_at = min(peer.answer_at, now + self._owner.resend // 3)
            return False
        back = not peer.alive
        peer.seen, peer.alive = now, True
        return back

    def _check(self, site: str, peer: Peer, report: Report, *, here: bool) -> None:
        """Refuse what no site of ours says, before anything is changed by it.

        A statistic of an earlier round may be one of another rule, and does not matter any more.
        """
        if here and self._rule is not None and not self._rule.fits(report.statistic, report.level):
            raise DamagedBytesError(f"a statistic of {site!r} that is none of this rule's")
        flush = report.flush
        if flush is None:
            return
        if max(flush.whole, flush.fell, flush.partial) > 1:
            raise DamagedBytesError(f"a flush of {site!r} that is neither this nor that")
        if flush.partial and (flush.whole or flush.cells):
            raise DamagedBytesError(f"a part of a vector of {site!r} that is all of it")
        if flush.whole and report.watch != self._watch.fingerprint:
            raise DamagedBytesError(f"a vector of {site!r} that does not say what it is of")
        if report.position < flush.behind or abs(report.time - flush.older) >= LARGEST:
            raise DamagedBytesError(f"a flush of {site!r} from before its first event")
        change = read_change(self._vector, flush.cells, flush.updates).astype(np.float64)
        if not self._builds(peer, report):
            return  # it has been added already, or is not going to be
        others = self._total.astype(np.float64) - peer.contribution
        counts = change if flush.whole else change + peer.contribution
        if not self._vector.possible(counts) or float(np.abs(others + counts).max(initial=0.0)) >= LARGEST:
            raise DamagedBytesError(f"counts of {site!r} that cannot be")

    @staticmethod
    def _builds(peer: Peer, report: Report) -> bool:
        """Whether its flush is a new one, and all of the vector or a change upon what is stored."""
        assert report.flush is not None
        if (report.incarnation, report.number) <= peer.stored:
            return False
        return bool(report.flush.whole) or (report.incarnation, report.number - 1) == peer.stored

    def _keep(self, site: str, peer: Peer, report: Report) -> list[Action]:
        """Add a flush up, if it fits what is stored, and make it durable before anything else is said."""
        flush = report.flush
        if flush is None or not self._builds(peer, report):
            return []
        if flush.partial and not peer.alive:
            # A site that was lost is in the claim as it was at a flush of all of it, and must tell all of it again: it
            # waits for its part to be stored as long as that would follow upon what is stored.
            peer.stored = 0, 0
            return []
        change = read_change(self._vector, flush.cells, flush.updates)
        if flush.whole:
            change = change - peer.contribution
        position, time = report.position - flush.behind, report.time - flush.older
        size = len(flush.cells) + len(flush.updates)
        peer.add(change, partial=bool(flush.partial))
        if flush.partial:
            self._parts += 1
            self._part_bytes += size
        else:
            self._events += max(position - peer.flushed[0], 0)
            self._flushes += 1
            self._flush_bytes += size
            peer.flushed = peer.cut = position, time
            self._views[site].statistic = ()  # it was about the flush before
        peer.fell = peer.fell or bool(flush.fell)
        self._grows = not any(other.fell for other in self._peers.values())
        self._total += change
        peer.stored = report.incarnation, report.number
        if self._rule is not None and self._rule.pushes:
            self._rule.flushed(self._total, size, grows=self._grows)
        return [self._ledger.change(site, peer, flush)]

    # -- what to do -------------------------------------------------------------------------------------------

    def _waiting(self) -> tuple[str, ...]:
        views, peers = self._views, self._peers
        return tuple(site for site in self._asked if peers[site].alive and views[site].confirmed != views[site].step)

    def _awaits_flush(self, site: str) -> bool:
        return self._state == COLLECTING and site in self._waiting()

    def _go_on(self) -> None:
        if self._state != HOLDING and not self._waiting():
            if self._state == COLLECTING:
                self._begin()
            else:
                assert self._rule is not None
                asked, self._asked = self._asked, ()
                self._follow(self._rule.weigh(self._active(), asked))
        if self._state == HOLDING and self._rule is not None:
            self._move()
            self._follow(self._rule.decide(self._active()))

    def _active(self) -> dict[str, SiteView]:
        return {site: self._views[site] for site in self._members}

    def _follow(self, decision: Decision) -> None:
        if isinstance(decision, Keep):
            return
        if isinstance(decision, Collect):
            self._collect(decision.sites)
            if decision.guarded:
                self._guards = {site: self._peers[site].incarnation for site in decision.sites}
        elif isinstance(decision, Ask):
            self._state, self._asked = ASKING, decision.sites
            for site in decision.sites:
                self._step(site, WANT_STATISTIC, Terms())
        else:
            self._hold(decision)

    def _hold(self, hold: Hold) -> None:
        self._state, self._asked = HOLDING, ()
        for site, terms in hold.terms.items():
            self._step(site, 0, terms)
            view = self._views[site]
            view.slack, view.statistic = terms.slack, ()
        self._move()

    def _step(self, site: str, want: int, terms: Terms) -> None:
        peer, view = self._peers[site], self._views[site]
        view.step += 1
        peer.want, peer.terms = want, terms
        peer.order += 1
        peer.needed = peer.order
        peer.speak, peer.wait = True, 0

    def _collect(self, sites: tuple[str, ...]) -> None:
        """A new round, which begins when these sites have flushed."""
        self._state, self._asked, self._guards = COLLECTING, sites, {}
        self._round += 1
        for site, view in self._views.items():
            asked = site in sites
            view.step, view.level, view.slack = 0, 0, ()
            view.confirmed = -1 if asked else 0
            self._peers[site].want = 0  # what it was asked for in the round before is over
            if asked:
                view.statistic = ()
                self._step(site, WANT_FLUSH, Terms())

    def _begin(self) -> None:
        """All flushes are in: a value, a rule, a zone."""
        self._members = self._alive()
        if not self._members:
            self._rest()
            return
        self._rule = self._kept_zone() or self._new_zone()
        self._events = self._flushes = self._flush_bytes = self._parts = self._part_bytes = 0
        for peer in self._peers.values():
            np.copyto(peer.start, peer.contribution)
        for site in self._members:
            self._peers[site].zone_in = 0
        self._state = HOLDING
        self._follow(self._rule.open(self._active()))

    def _kept_zone(self) -> Steersman | None:
        """Another round with the last one's zone, if all who take part have that, and it is worth it."""
        if self._rule is None or self._guards != {site: self._peers[site].incarnation for site in self._members}:
            return None
        return self._rule.rebalanced(self._total, self._flush_bytes, grows=self._grows)

    def _new_zone(self) -> Steersman:
        self._zone_round = self._round
        return self._watch.steer(self._total.copy(), len(self._members), self._past(), grows=self._grows)

    def _past(self) -> Past | None:
        """The round that has just ended, for the planner."""
        if self._rule is None:
            return None
        moves = tuple(self._peers[site].contribution - self._peers[site].start for site in self._members)
        parts = self._parts, self._part_bytes
        return Past(self._rule.name, self._events, self._flushes, self._flush_bytes, *parts, moves)

    def _rest(self) -> None:
        """Nobody is there: what was flushed is all there is, and stays so."""
        self._state, self._rule = HOLDING, None
        value = self._watch.value(self._total)
        band = self._watch.band(self._total, value)
        self._say(value, band.low, band.high)

    def _move(self) -> None:
        """Move the claim to the newest cut, if that is proven."""
        assert self._rule is not None
        if self._rule.proven(self._active()):
            self._say(self._rule.value, self._rule.low, self._rule.high)

    def _say(self, value: float, low: float, high: float) -> None:
        members, peers = self._members, self._peers
        self._claim = Claim(
            query=self._watch.number, answer=self._watch.answer(value, low, high), estimate=value, low=low, high=high,
            cut={site: peer.cut if site in members else peer.flushed for site, peer in peers.items()},
            epoch=self._owner.epoch, round=self._round, state=self._state,
        )  # fmt: skip

    @property
    def rule_name(self) -> str:
        return "" if self._rule is None else self._rule.name

    def claimed(self) -> Claim | None:
        if self._claim is None:
            return None
        left = tuple(site for site, peer in self._peers.items() if peer.left)
        missing = tuple(site for site, peer in self._peers.items() if not peer.alive and site not in left)
        sites = tuple(site for site in self._peers if site not in missing)
        answer = replace(self._claim.answer, sites=sites, missing=missing)
        return replace(self._claim, state=self._state, left=left, answer=answer)

    # -- time -------------------------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        lost = [site for site in self._alive() if now - self._peers[site].seen > self._owner.lease]
        for site in lost:
            self._lose(self._peers[site])
        if lost:
            self._collect(self._alive())
            self._go_on()

    def _lose(self, peer: Peer) -> None:
        """Go on without it, with its vector as it was at the last flush of all of it."""
        peer.alive = False
        if peer.ahead is not None:
            peer.contribution -= peer.ahead
            self._total -= peer.ahead
            peer.ahead, peer.stored = None, (0, 0)  # should it come back, it must tell all

    @property
    def due(self) -> int:
        times = [peer.seen + self._owner.lease + 1 for peer in self._peers.values() if peer.alive and not peer.left]
        times += [self._due(peer) for peer in self._peers.values()]
        return min(times, default=NEVER)

    def _due(self, peer: Peer) -> int:
        if peer.speak:
            return peer.said
        again = peer.said + (peer.wait or self._owner.resend) if peer.alive and peer.acked < peer.needed else NEVER
        return min(again, peer.answer_at)

    # -- orders -----------------------------------------------------------------------------------------------

    def words(self, now: int) -> list[Action]:
        actions: list[Action] = []
        for site, peer in self._peers.items():
            if now >= self._due(peer):
                actions.append(self._word(site, peer, now))
        return actions

    def _word(self, site: str, peer: Peer, now: int) -> Send:
        again = not peer.speak and peer.acked < peer.needed and now < peer.answer_at
        if again:
            peer.wait = min(2 * (peer.wait or self._owner.resend), max(self._owner.lease // 4, self._owner.resend))
        view = self._views[site]
        terms = peer.terms if view.confirmed < view.step else Terms()
        zone, keeps, share = b"", 0, 0.0
        if self._rule is not None and self._state != COLLECTING and peer.acked < (peer.zone_in or peer.order):
            # The zone is said until an order with it is acknowledged.
            if self._zone_round == self._round:
                zone = self._rule.zone()
            else:
                keeps, share = self._zone_round, self._rule.share
            peer.zone_in = peer.zone_in or peer.order
        frame = write_frame(
            Order(
                query=self._watch.number, epoch=self._owner.epoch, round=self._round, step=view.step,
                incarnation=peer.incarnation, seq=peer.order, acked=peer.seq,
                stored=peer.stored[1] if peer.stored[0] == peer.incarnation else 0, want=peer.want,
                rule=self._rule.number if zone and self._rule else 0, zone=zone,
                quantum=terms.quantum, slack=terms.slack, urgent=int(peer.acked < peer.needed),
                keeps=keeps, share=share,
            )
        )  # fmt: skip
        peer.speak, peer.said, peer.answer_at = False, now, NEVER
        purpose = Purpose.RESEND if again else Purpose.DATA if zone else Purpose.CONTROL
        self._owner.traffic.add(purpose, len(frame))
        return Send(site, frame, purpose)
