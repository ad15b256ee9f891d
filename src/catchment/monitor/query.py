"""Query: the coordinator's part in one watch. It adds the sites' vectors up, and claims only what is proven.

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

A message changes what is known of its sender alone, unless a step or a round follows from it. So who is waited for and
who is due next are kept, and not looked for among all sites. What still looks at all is short: the rule adds levels up,
and a claim that moves notes every site's cut.
"""

from __future__ import annotations

from dataclasses import replace

from catchment.errors import DamagedBytesError
from catchment.monitor.claim import Claim
from catchment.monitor.contributions import Contributions
from catchment.monitor.machine import NEVER, Action, Purpose, Send
from catchment.monitor.messages import WANT_FLUSH, WANT_STATISTIC, Order, Report
from catchment.monitor.owner import Owner
from catchment.monitor.part import Part
from catchment.monitor.peer import Peer
from catchment.monitor.rules.base import Ask, Collect, Decision, Hold, Keep, SiteView, Steersman, Terms
from catchment.monitor.states import ASKING, COLLECTING, HOLDING
from catchment.monitor.watch import Watch
from catchment.monitor.wire import Message, write_frame

__all__ = ["Query"]


class Query(Part[Peer]):
    """Holds everyone's vector, the rule of the round, and what each site knows."""

    hears = Report

    def __init__(self, owner: Owner, watch: Watch, sites: tuple[str, ...], blobs: dict[str, bytes]) -> None:
        self._watch, self._contributions = watch, Contributions(watch, sites, blobs)
        super().__init__(owner, watch.fingerprint, self._contributions.peers)
        self._views = {site: SiteView() for site in sites}
        self._round = 0
        self._state = COLLECTING
        self._asked: frozenset[str] = frozenset()
        self._awaited: set[str] = set()  # those of them who have not answered
        self._members: dict[str, SiteView] = {}
        self._guards: dict[str, int] = {}  # who has the last round's zone, and in which life
        self._zone_round = 0
        self._rule: Steersman | None = None
        self._claim: Claim | None = None

    def start(self, now: int) -> None:
        for peer in self._peers.values():
            peer.seen, peer.acked = now, 0
        self._agenda.touch(*self._peers)
        self._collect(self._alive())
        self._go_on()  # at once, if all have left

    def _alive(self) -> tuple[str, ...]:
        return tuple(site for site, peer in self._peers.items() if peer.alive and not peer.left)

    # -- reports ----------------------------------------------------------------------------------------------

    def was_told_more(self, site: str, report: Message) -> bool:
        assert isinstance(report, Report)
        return report.acked > self._peers[site].order

    def hear(self, site: str, report: Message, now: int) -> list[Action]:
        assert isinstance(report, Report)
        peer = self._news_of(site, report)
        if peer is None:
            return []
        view = self._views[site]
        here = report.epoch == self._owner.epoch and report.round == self._round and report.step <= view.step
        if here:  # of an earlier round it may be one of another rule, and does not matter any more
            self._check_statistic(site, peer, view, report)
        change = self._contributions.read(site, report)
        self._agenda.touch(site)
        reborn = report.incarnation != peer.incarnation
        peer.incarnation, peer.seq = report.incarnation, report.seq
        if reborn:
            peer.acked, peer.speak = 0, True  # the new life has heard nothing of what the old one acknowledged
            self._welcome_back(peer, report, now)
        back = self._note_whether_it_hears(site, peer, report, now)
        pushes = self._rule is not None and self._rule.pushes
        kept = self._contributions.keep(site, report, change)
        actions: list[Action] = [] if kept is None else [kept]
        if kept is not None and report.flush is not None:
            if not report.flush.partial:
                view.statistic = ()  # it was about the flush before
            if self._rule is not None and pushes:
                self._rule.flushed(self._contributions.total, report.flush.size, grows=self._contributions.grows)
        unasked = kept is not None and self._state != COLLECTING and not (pushes and here)
        if report.flush is not None and pushes:
            peer.speak = True  # it cannot flush again before it hears that this one is safe
        elif report.urgent or report.flush is not None:
            peer.answer_at = min(peer.answer_at, now + self._owner.resend // 3)  # something else may be said before
        awaited = self._state == COLLECTING and site in self._awaited
        current = (report.incarnation, report.number) == peer.stored
        if here and current:
            self._note(site, view, report)
            peer.cut = report.position, report.time
        if report.leaving and current and (not peer.left or kept is not None):  # not each time that it says so
            actions.append(self._contributions.leave(site))
            self._collect(self._alive())
        elif back or ((unasked or (peer.alive and (reborn or not current))) and not awaited):
            self._collect(self._alive())
        self._go_on()
        return actions

    def _check_statistic(self, site: str, peer: Peer, view: SiteView, report: Report) -> None:
        """Refuse a statistic that no site of ours gives in this round, and none where there must be one."""
        rule = None if self._state == COLLECTING else self._rule  # a flush comes without
        fits = not report.statistic if rule is None else rule.fits(report.statistic, report.level)
        if not fits or (peer.want == WANT_STATISTIC and report.step == view.step and not report.statistic):
            raise DamagedBytesError(f"a statistic of {site!r} that is none of this rule's")

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

    def _note(self, site: str, view: SiteView, report: Report) -> None:
        """What a report of this round says of its site."""
        view.confirmed, view.level, view.pending = report.step, report.level, report.pending
        view.statistic = report.statistic if report.step == view.step else ()
        if view.confirmed == view.step:
            self._awaited.discard(site)
        elif site in self._asked:
            self._awaited.add(site)

    # -- what to do -------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._state != HOLDING and not self._awaited:
            if self._state == COLLECTING:
                self._begin()
            else:
                assert self._rule is not None
                self._await(())
                self._follow(self._rule.weigh(self._members))
        if self._state == HOLDING and self._rule is not None:
            self._move()
            self._follow(self._rule.decide(self._members))

    def _follow(self, decision: Decision) -> None:
        if isinstance(decision, Keep):
            return
        if isinstance(decision, Collect):
            self._collect(decision.sites)
            if decision.guarded:
                self._guards = {site: self._peers[site].incarnation for site in decision.sites}
        elif isinstance(decision, Ask):
            self._state = ASKING
            self._await(decision.sites)
            for site in decision.sites:
                self._step(site, WANT_STATISTIC, Terms())
        else:
            self._hold(decision)

    def _await(self, sites: tuple[str, ...]) -> None:
        self._asked, self._awaited = frozenset(sites), set(sites)

    def _hold(self, hold: Hold) -> None:
        self._state = HOLDING
        self._await(())
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
        self._agenda.touch(site)

    def _collect(self, sites: tuple[str, ...]) -> None:
        """A new round, which begins when these sites have flushed."""
        self._state, self._guards = COLLECTING, {}
        self._await(sites)
        self._round += 1
        for site, view in self._views.items():
            asked = site in self._asked
            view.step, view.level, view.slack = 0, 0, ()
            view.confirmed = -1 if asked else 0
            self._peers[site].want = 0  # what it was asked for in the round before is over
            if asked:
                view.statistic = ()
                self._step(site, WANT_FLUSH, Terms())

    def _begin(self) -> None:
        """All flushes are in: a value, a rule, a zone."""
        self._members = {site: self._views[site] for site in self._alive()}
        if not self._members:
            self._rest()
            return
        self._contributions.end_round()
        self._rule = self._kept_zone() or self._new_zone()
        self._contributions.begin_round()
        for site in self._members:
            self._peers[site].zone_in = 0
        self._state = HOLDING
        self._follow(self._rule.open(self._members))

    def _kept_zone(self) -> Steersman | None:
        """Another round with the last one's zone, if all who take part have that, and it is worth it."""
        if self._rule is None or self._guards != {site: self._peers[site].incarnation for site in self._members}:
            return None
        given = self._contributions
        return self._rule.rebalanced(given.total, given.flush_bytes, grows=given.grows)

    def _new_zone(self) -> Steersman:
        self._zone_round = self._round
        given = self._contributions
        plans = self._rule is not None and self._watch.rule == "auto"
        past = given.past(self.rule_name, self._members) if plans else None
        sites, settling = len(self._members), self._owner.settling
        return self._watch.steer(given.total, sites, past, grows=given.grows, settling=settling)

    # -- claims -----------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nobody is there: what was flushed is all there is, and stays so."""
        self._state, self._rule = HOLDING, None
        total = self._contributions.total
        value = self._watch.value(total)
        band = self._watch.band(total, value)
        self._say(value, band.low, band.high)

    def _move(self) -> None:
        """Move the claim to the newest cut, if that is proven."""
        assert self._rule is not None
        if self._rule.proven(self._members):
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
        answer = replace(self._claim.answer, sites=self._present(), missing=self._missing())
        return replace(self._claim, state=self._state, left=self._left(), answer=answer)

    # -- time -------------------------------------------------------------------------------------------------

    def _speaks_at(self, peer: Peer) -> int:
        if peer.speak:
            return peer.said
        again = peer.said + (peer.wait or self._owner.resend) if peer.alive and peer.acked < peer.needed else NEVER
        return min(again, peer.answer_at)

    def act(self, now: int) -> list[Action]:
        """What is due by now: sites are lost, orders said."""
        lost = self._lapsed(now)
        for site in lost:
            self._contributions.lose(site)
            self._agenda.touch(site)
        if lost:
            self._collect(self._alive())
            self._go_on()
        return [self._word(site, self._peers[site], now) for site in self._to_tell(now)]

    # -- orders -----------------------------------------------------------------------------------------------

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
        self._agenda.touch(site)
        purpose = Purpose.RESEND if again else Purpose.DATA if zone else Purpose.CONTROL
        self._owner.traffic.add(purpose, len(frame))
        return Send(site, frame, purpose)
