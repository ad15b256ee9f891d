"""HeavyPost: a site's part in a watch of heavy hitters (Listings 4.2 and 4.4, over a network that loses and delays).

    event                          what changes                              what is said
    ─────────────────────────────  ────────────────────────────────────────  ──────────────────────────────────
    a life begins                  nothing                                   a report
    events, or time goes on        counts, candidates, buffers               a report if a buffer is full or ripe
    Ask of a newer epoch, version  the list, and who on it is heavy          a report if the items have changed
    Ask of an older epoch          nothing                                   a report, which tells the newer epoch
    Ask, Heard                     which report has arrived                  nothing
    nothing heard in time          nothing                                   a report of the state as it is now
    a heartbeat is due             nothing                                   a report of the state as it is now
    the stream is over             nothing                                   a farewell, until it is heard

Buffers hold the candidates that the coordinator should be told of: not those that it calls heavy (the thesis's J, here
the coordinator's whole list and not the last few), and not those that it has asked for and found too light, until they
have rested for the time of one timer. A report tells everything, so it empties every buffer.

What a batch changes: a site looks at its buffers and timers when a batch ends, so an item is noticed at the latest at
the end of its batch, and positions in reports are ends of batches.
"""

from __future__ import annotations

import numpy as np

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.buffers import GradedBuffers
from catchment.monitor.heavy_hitters.local import Local
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyHeard, HeavyReport
from catchment.monitor.heavy_hitters.names import Key, Names, hashes_of, in_order
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.monitor.items.watch import MOST_SITES
from catchment.monitor.machine import COORDINATOR, Action, Purpose, Send
from catchment.monitor.owner import SiteOwner
from catchment.monitor.patience import Patience
from catchment.monitor.wire import Message, write_frame

__all__ = ["HeavyPost"]

_LONG_AGO = -(1 << 60)


class HeavyPost:
    """Watches a site's candidates, and tells the coordinator of them and of what it asks for."""

    def __init__(self, site: SiteOwner, watch: HeavyHitters, local: Local) -> None:
        self._site, self._watch, self._local = site, watch, local
        self._sites = 0
        self._buffers = GradedBuffers(watch, 1)
        self._epoch = self._asked = 0
        self._list: tuple[Key, ...] = ()
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._heavy: frozenset[int] = frozenset()
        self._seq = self._heard = 0
        self._unproven = 0  # the last report before this epoch: what came after it says what is watched
        self._needed = 0
        self._left = False
        self._why: str | None = Purpose.CONTROL  # there is something to say
        self._said = _LONG_AGO
        self._reported, self._told_time = local.position, local.time
        self._looked = local.position, local.time
        self._patience = Patience(site.resend, site.heartbeat)

    # -- what comes in ----------------------------------------------------------------------------------------

    def obey(self, order: Message, now: int) -> None:
        if not isinstance(order, HeavyAsk | HeavyHeard):
            raise DamagedBytesError(f"a {type(order).__name__} for query {self._watch.number}")
        if order.epoch < self._epoch:
            if isinstance(order, HeavyAsk):
                self._why = self._why or Purpose.CONTROL
            return
        if isinstance(order, HeavyAsk) and (order.epoch, order.version) > (self._epoch, self._asked):
            self._follow(order)
        if order.incarnation == self._site.incarnation:
            self._heard = max(self._heard, min(order.heard, self._seq))
        self._patience.regain()

    def _follow(self, ask: HeavyAsk) -> None:
        names, flags = ask.named(), ask.flags()
        hashes = hashes_of(names)
        if np.unique(hashes).size != hashes.size:
            raise DamagedBytesError("an item twice on the list")
        if not 0 < ask.sites <= MOST_SITES:
            raise DamagedBytesError(f"a list for {ask.sites} sites")
        if names != self._list or ask.epoch != self._epoch:
            self._why = Purpose.DATA
        if ask.epoch != self._epoch:
            self._unproven = self._seq
        if ask.sites != self._sites:
            self._sites, self._buffers = ask.sites, GradedBuffers(self._watch, ask.sites)
        self._epoch, self._asked = ask.epoch, ask.version
        self._list, self._hashes = names, hashes
        self._heavy = frozenset(hash_ for hash_, heavy in zip(hashes.tolist(), flags, strict=True) if heavy)

    def leave(self) -> None:
        self._left, self._needed = True, self._seq + 1
        self._why = Purpose.DATA

    @property
    def settled(self) -> bool:
        return self._left and self._heard >= self._needed

    # -- what goes out ----------------------------------------------------------------------------------------

    def look(self, now: int) -> None:
        at = self._local.position, self._local.time
        if at != self._looked:
            self._looked = at
            self._why = Purpose.DATA if self._should_warn() else self._why

    def _should_warn(self) -> bool:
        local = self._local
        rested = local.position - self._reported > self._watch.timer
        resting = self._heavy if rested else self._heavy.union(self._hashes.tolist())
        waiting = [hash_ for hash_ in local.candidates if hash_ not in resting]
        counts = local.counts(np.array(waiting, dtype=np.uint64)) if waiting else np.zeros(0)
        shares = (counts / max(local.total, 1)).tolist()
        self._buffers.hold(dict(zip(waiting, shares, strict=True)), local.position)
        # Without arrivals no timer runs, so the end of a pane sends what waits.
        moved = local.time != self._told_time and len(self._buffers) > 0
        return moved or self._buffers.ripe(local.position)

    @property
    def due(self) -> int:
        if self._why is not None:
            return self._said
        return self._said + (self._patience.wait if self._heard < self._seq else self._site.heartbeat)

    def word(self, now: int) -> list[Action]:
        if now < self.due:
            return []
        purpose = self._why
        if purpose is None:
            purpose = Purpose.RESEND if self._heard < self._seq else Purpose.CONTROL
        if purpose == Purpose.RESEND:
            self._patience.lose()
        self._why, self._said = None, now
        frame = write_frame(self._report())
        self._site.traffic.add(purpose, len(frame))
        return [Send(COORDINATOR, frame, purpose)]

    def _report(self) -> HeavyReport:
        local = self._local
        self._seq += 1
        self._reported, self._told_time = local.position, local.time
        self._buffers.clear()
        # A farewell names all of its items itself: it must be readable when no list is remembered any more.
        # Items are told apart by their hashes: a text and the same bytes are one.
        listed = dict(zip(self._hashes.tolist(), self._list, strict=True))
        if self._left:
            hashes, others = self._hashes[:0], listed | dict(local.candidates)
        else:
            hashes = self._hashes
            others = {hash_: name for hash_, name in local.candidates.items() if hash_ not in listed}
        named = in_order(others.values())
        counts = np.concatenate([local.counts(hashes), local.counts(hashes_of(named))])
        heavy = np.array([hash_ for hash_ in hashes.tolist() if hash_ in self._heavy], dtype=np.uint64)
        return HeavyReport(
            query=self._watch.number, epoch=self._epoch, asked=0 if self._left else self._asked,
            incarnation=self._site.incarnation, seq=self._seq, position=local.position, total=local.total,
            time=local.time, slack=local.slack(self._sites) if self._sites else 0, others=Names.of(named),
            counts=tuple(counts.tolist()), onsets=local.onsets(heavy), sites=self._sites,
            watch=self._watch.fingerprint if self._heard <= self._unproven else 0, leaving=int(self._left),
        )  # fmt: skip
