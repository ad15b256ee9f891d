"""HeavyQuery: the coordinator's part in a watch of heavy hitters (Listing 4.5, with the batching of 5.1).

    event                              what changes                             what is sent
    ─────────────────────────────────  ───────────────────────────────────────  ─────────────────────────────────
    a life begins                      the list of the last life is asked anew  Ask to all
    Report, newest of its site         the claim; then, if no round is open,
      something unresolved, not asked    a round opens: a longer list, kept     Ask to all
      who is heavy has changed           a new version, once in a while         Ask to all
    Report that answers an old list    the claim as well                        Ask to its site, if not just sent
    Report of an older epoch           nothing                                  Ask to its site, if not just sent
    Report that says not of what       nothing, until one has said it           Ask to its site, if not just sent
    farewell                           the site has left; its word is kept      Heard to its site
    any Report                         its site was heard                       Heard to its site, if nothing else
    a site owes an answer for long     nothing                                  Ask to that site
    a lease has run out                the site is missing, rounds go on        (an open round may end)

A round is open while a site that is not missing has not answered the newest list. What sites warn of meanwhile waits
for its end, and goes into one list then. A site that speaks and does not answer does not hear us, and is missing after
the lease; its words are in the claim all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.claim import HeavyClaim, Known, Mark, claim_of
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyHeard, HeavyReport
from catchment.monitor.heavy_hitters.names import Key, Names, hashes_of, in_order
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.monitor.machine import NEVER, Action, Persist, Purpose, Send
from catchment.monitor.owner import Owner
from catchment.monitor.part import Part
from catchment.monitor.vectors import WEIGHT_LIMIT
from catchment.monitor.wire import Message, write_frame
from catchment.sketch.codec import open_envelope, seal_envelope

__all__ = ["HeavyQuery"]

U64 = NDArray[np.uint64]

_FAMILY = 29
_LISTS_KEPT = 16
"""Versions whose answers can still be read; a later answer is asked for again."""

_STILL_NEAR = 0.5
"""An item leaves the list when its count is below this share of the threshold: near ones would soon come back."""


@dataclass(frozen=True, slots=True, eq=False)
class _List:
    """What was asked for in one version."""

    names: tuple[Key, ...]
    hashes: U64
    heavy: frozenset[int] | None
    """None: it is not known any more; the names of a round are, as long as it lasts."""

    @classmethod
    def of(cls, named: Mapping[int, Key], heavy: frozenset[int]) -> _List:
        names = in_order(named.values())
        return cls(names, hashes_of(names), heavy)

    @property
    def named(self) -> dict[int, Key]:
        return dict(zip(self.hashes.tolist(), self.names, strict=True))

    @property
    def flags(self) -> bytes:
        return HeavyAsk.packed(tuple(hash_ in (self.heavy or ()) for hash_ in self.hashes.tolist()))


_NOTHING = _List.of({}, frozenset())


@dataclass(slots=True)
class HeavyPeer:
    """What the coordinator knows of a site, and what it has told it."""

    known: Known | None = None
    incarnation: int = 0
    seq: int = 0  # of the report that is known
    asked: int = 0  # the version of this life that it answers
    verified: bool = False  # it has said in this life of ours that it watches the same
    seen: int = 0
    alive: bool = True
    left: bool = False
    speak: bool = True
    said: int = -(1 << 60)
    sent: int = 0  # the newest version that it was sent
    sent_at: int = -(1 << 60)


class HeavyQuery(Part[HeavyPeer]):
    """Puts the sites' reports together, and asks for the counts that are missing."""

    hears = HeavyReport
    rule_name = "dhhe"

    def __init__(self, owner: Owner, watch: HeavyHitters, sites: tuple[str, ...], blobs: dict[str, bytes]) -> None:
        super().__init__(owner, watch.fingerprint, {site: HeavyPeer() for site in sites})
        self._watch = watch
        self._mark = watch.fingerprint.to_bytes(4, "little")
        self.rounds = 0
        self._version = self._round = 1
        self._lists = {1: self._kept_list(blobs)}
        for site, peer in self._peers.items():
            self._restore(site, peer, blobs)
        self._news = False
        self._flagged_at = -(1 << 60)
        self._flags_wait = False
        self._claim: HeavyClaim | None = None

    def start(self, now: int) -> None:
        """A new life: what sites say of the lists of another cannot be read any more."""
        current = self._lists[self._version]
        self._version = self._round = 1
        self._lists = {1: _List(current.names, current.hashes, frozenset())}
        for peer in self._peers.values():
            peer.seen, peer.speak, peer.verified = now, not peer.left, False
            peer.asked = peer.sent = 0
        self._agenda.touch(*self._peers)

    # -- reports ----------------------------------------------------------------------------------------------

    def was_told_more(self, site: str, report: Message) -> bool:
        assert isinstance(report, HeavyReport)
        return report.asked > self._version

    def hear(self, site: str, report: Message, now: int) -> list[Action]:
        assert isinstance(report, HeavyReport)
        peer = self._news_of(site, report)
        if peer is None:
            return []
        verified = report.watch != 0 or (peer.verified and report.incarnation == peer.incarnation)
        listed = self._list_of(report) if verified else None
        known = None if listed is None else self._opened(report, listed)  # it may be refused, and nothing has changed
        self._agenda.touch(site)
        kept, was_gone = peer.left and report.incarnation == peer.incarnation, peer.left
        if report.incarnation != peer.incarnation:
            self._welcome_back(peer, report, now)
            peer.incarnation = report.incarnation
            peer.seq = peer.asked = peer.sent = 0
        peer.speak, peer.verified = True, verified
        actions: list[Action] = []
        if was_gone and not peer.left:  # its farewell was not its last word
            actions.append(Persist(self._farewell_name(site), b""))
            self._news, self._claim = True, None
        if known is None:
            return actions
        peer.known, peer.seq, peer.asked = known, report.seq, report.asked
        if not self._owes(peer):
            peer.seen, peer.alive = now, True
        self._news, self._claim = True, None
        if report.leaving and not kept:
            peer.left = True
            blob = seal_envelope(_FAMILY, self._mark, report.to_bytes())
            actions.append(Persist(self._farewell_name(site), blob))
        return actions

    def _list_of(self, report: HeavyReport) -> _List | None:
        """The list that it answers; None if that is not known any more."""
        if report.asked == 0:
            return _NOTHING
        if report.epoch != self._owner.epoch:
            return None
        current = self._lists[self._version]
        same = self._round <= report.asked <= self._version  # only who is heavy has changed since
        return self._lists.get(report.asked, _List(current.names, current.hashes, None) if same else None)

    def _opened(self, report: HeavyReport, listed: _List) -> Known:
        """A report with its counts put to their items; nothing in it is believed that contradicts itself."""
        others = report.named()
        hashes = np.concatenate([listed.hashes, hashes_of(others)])
        counts = np.array(report.counts, dtype=np.uint64)
        flagged = [hash_ for hash_ in listed.hashes.tolist() if hash_ in (listed.heavy or ())]
        timed = self._watch.window is not None and listed.heavy is not None
        onsets = report.onsets if timed else (0,) * len(flagged)
        order = np.argsort(hashes)
        if counts.size != hashes.size or len(onsets) != len(flagged):
            raise DamagedBytesError(f"{counts.size} counts for {hashes.size} items, {len(onsets)} onsets")
        if np.unique(hashes).size != hashes.size:
            raise DamagedBytesError("an item twice in a report")
        if (counts.size and int(counts.max()) > report.total) or report.total > report.position:
            raise DamagedBytesError(f"a count above the total of {report.total}, or that above {report.position}")
        if max(report.position, report.slack) >= WEIGHT_LIMIT or max(onsets, default=0) > self._watch.panes:
            raise DamagedBytesError(f"a report at event {report.position} with a slack of {report.slack}")
        if report.leaving and report.asked:
            raise DamagedBytesError("a farewell that does not name its items")
        # A slack for fewer sites than there are fails too often for all of them to hold together.
        slack = report.slack if report.sites >= len(self._peers) else report.total
        names = listed.named | dict(zip(hashes_of(others).tolist(), others, strict=True))
        return Known(
            Mark(report.position, report.time, report.total), slack, hashes[order], counts[order].astype(np.int64),
            names, dict(zip(flagged, onsets, strict=True)),
        )  # fmt: skip

    def _owes(self, peer: HeavyPeer) -> bool:
        """Whether a site has not answered the newest list."""
        return peer.asked < self._round

    # -- questions --------------------------------------------------------------------------------------------

    def claimed(self) -> HeavyClaim | None:
        """What the newest reports say, true at its cut; None before there is any."""
        known = self._known()
        if self._claim is None and known:  # worked out when asked for: in a round there is a report from every site
            missing = tuple(
                site for site, peer in self._peers.items() if not peer.left and not (peer.alive and site in known)
            )
            self._claim = claim_of(self._watch, known, missing, self._left())
        return self._claim

    def _known(self) -> dict[str, Known]:
        return {site: peer.known for site, peer in self._peers.items() if peer.known is not None}

    # -- rounds -----------------------------------------------------------------------------------------------

    def act(self, now: int) -> list[Action]:
        """What is due by now: sites are missing, rounds open, sites are asked and told."""
        lost = self._lapsed(now)
        for site in lost:
            self._peers[site].alive = False
            self._news, self._claim = True, None
        self._agenda.touch(*lost)
        actions = self._next_round(now) if self._news or now >= self._flags_due else []
        self._news = False
        return actions + [self._word(site, self._peers[site], now) for site in self._to_tell(now)]

    @property
    def due(self) -> int:
        return min(super().due, self._flags_due)

    @property
    def _flags_due(self) -> int:
        """When sites may be told who is heavy; if two items take turns around phi, not each time."""
        return self._flagged_at + self._owner.resend if self._flags_wait else NEVER

    def _next_round(self, now: int) -> list[Action]:
        """Unless a round is open: ask for what is unresolved, or tell who is heavy now."""
        self._flags_wait = False
        claim = None if any(self._awaited(peer) for peer in self._peers.values()) else self.claimed()
        if claim is None:
            return []
        current = self._lists[self._version]
        asked = current.named
        wanted, heavy = _hashed(claim.unresolved), _hashed(claim.heavy)
        if wanted.keys() - asked.keys():
            near = self._near(current, claim.total)
            named = {hash_: asked[hash_] for hash_ in near} | heavy | wanted
            self.rounds += 1
            self._round = self._version + 1
            return self._ask_all(_List.of(named, frozenset(heavy)))
        flags = frozenset(heavy) & frozenset(asked)
        self._flags_wait = flags != current.heavy and now < self._flagged_at + self._owner.resend
        if flags == current.heavy or self._flags_wait:
            return []
        self._flagged_at = now
        return self._ask_all(_List(current.names, current.hashes, flags))

    def _awaited(self, peer: HeavyPeer) -> bool:
        return peer.alive and not peer.left and self._owes(peer)

    def _near(self, current: _List, total: int) -> list[int]:
        """The items of the list that are not far below the threshold, or that some site would name again at once."""
        sums = np.zeros(current.hashes.size, dtype=np.int64)
        named = np.zeros(current.hashes.size, dtype=bool)
        for report in self._known().values():
            if not report.hashes.size:
                continue
            at = np.minimum(np.searchsorted(report.hashes, current.hashes), report.hashes.size - 1)
            there = report.hashes[at] == current.hashes
            counts = report.counts[at[there]]
            sums[there] += counts
            named[there] |= counts >= self._watch.share * report.mark.total
        near: list[int] = current.hashes[named | (sums >= _STILL_NEAR * self._watch.share * total)].tolist()
        return near

    def _ask_all(self, asked: _List) -> list[Action]:
        changed = asked.names != self._lists[self._version].names
        self._version += 1
        self._lists[self._version] = asked
        self._lists.pop(self._version - _LISTS_KEPT, None)
        for site, peer in self._peers.items():
            if peer.alive and not peer.left:
                peer.speak = True
                self._agenda.touch(site)
        return [self._keep_list()] if changed else []

    # -- what is sent -----------------------------------------------------------------------------------------

    def _speaks_at(self, peer: HeavyPeer) -> int:
        if peer.speak:
            return peer.said
        return peer.sent_at + self._owner.resend if self._awaited(peer) else NEVER

    def _word(self, site: str, peer: HeavyPeer, now: int) -> Send:
        again, peer.speak, peer.said = not peer.speak, False, now
        self._agenda.touch(site)
        header: dict[str, Any] = {
            "query": self._watch.number, "epoch": self._owner.epoch, "incarnation": peer.incarnation, "heard": peer.seq,
        }  # fmt: skip
        # The list may still be on its way to a site that does not know it; it is not sent a second time at once.
        new = peer.sent < self._version
        if peer.left or not (peer.asked < self._version and (new or now >= peer.sent_at + self._owner.resend)):
            return self._send(site, HeavyHeard(**header), Purpose.CONTROL)
        peer.sent, peer.sent_at = self._version, now
        asked = self._lists[self._version]
        ask = HeavyAsk(
            **header, version=self._version, items=Names.of(asked.names), heavy=asked.flags, sites=len(self._peers)
        )
        return self._send(site, ask, Purpose.RESEND if again else Purpose.DATA if new else Purpose.CONTROL)

    def _send(self, site: str, message: Message, purpose: str) -> Send:
        frame = write_frame(message)
        self._owner.traffic.add(purpose, len(frame))
        return Send(site, frame, purpose)

    # -- what is kept -----------------------------------------------------------------------------------------

    @property
    def _list_name(self) -> str:
        return f"{self._watch.number}.heavy"

    def _farewell_name(self, site: str) -> str:
        return f"{self._watch.number}.heavy.{site}"

    def _keep_list(self) -> Persist:
        names = Names.of(self._lists[self._version].names)
        return Persist(self._list_name, seal_envelope(_FAMILY, self._mark, b"" if names is None else names.to_bytes()))

    def _kept_list(self, blobs: dict[str, bytes]) -> _List:
        """What was watched last; no more than a hint of what to ask for first."""
        content = self._content(blobs.get(self._list_name, b""))
        names = Names.from_bytes(content).keys() if content else ()
        return _List(names, hashes_of(names), frozenset())

    def _restore(self, site: str, peer: HeavyPeer, blobs: dict[str, bytes]) -> None:
        """The last word of a site that has left."""
        content = self._content(blobs.get(self._farewell_name(site), b""))
        if not content:
            return
        report = HeavyReport.from_bytes(content)
        peer.known, peer.left = self._opened(report, _NOTHING), True
        peer.incarnation, peer.seq = report.incarnation, report.seq

    def _content(self, blob: bytes) -> bytes:
        """What a blob says, if it is about this watch."""
        if not blob:
            return b""
        family, mark, reader = open_envelope(blob)
        ours = family == _FAMILY and bytes(mark.raw(mark.left)) == self._mark
        return bytes(reader.raw(reader.left)) if ours else b""


def _hashed(found: tuple[Any, ...]) -> dict[int, Key]:
    keys = in_order(hitter.key for hitter in found)
    return dict(zip(hashes_of(keys).tolist(), keys, strict=True))
