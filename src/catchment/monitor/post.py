"""Post: a site's part in one query. It guards the zone that it was given, and says only what it must.

    state      event                          next       says
    new        an order that wants a flush    asked      the flush: all of its vector
    asked      an order with terms            guarding   a report: at this position, level so
    guarding   a batch, level as reported     guarding   nothing
    guarding   a batch, level higher          guarding   an urgent report
    guarding   a batch, the guard flushes     guarding   a flush: what changed since the last one
    guarding   an order that wants a number   asked      a report with the statistic; it stands still there
    guarding   an order that wants a flush    asked      a flush
    any        an order of an older life      same       nothing
    any        nothing acknowledged in time   same       its newest report again, and waits twice as long
    any        a heartbeat is due             same       its newest report

`asked` means: the coordinator has, or is being sent, the site's exact state at one position, and the reports stand
still there until new terms come. A flush is named by the site's life and a number, and builds upon the one before it in
the same life; the first of a life is all of the vector. So a site needs to make durable only its vectors and the
position that they belong to, now and then: after a crash it is fed again from there, and what it flushed in an earlier
life is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from catchment.errors import DamagedBytesError
from catchment.monitor.machine import COORDINATOR, NEVER, Action, Purpose, Send
from catchment.monitor.messages import WANT_FLUSH, WANT_STATISTIC, Flush, Order, Report
from catchment.monitor.owner import SiteOwner
from catchment.monitor.patience import Patience
from catchment.monitor.planner import CHEAP_ZONE
from catchment.monitor.rules.base import Guard, Terms
from catchment.monitor.vectors import Drift, Vector
from catchment.monitor.watch import Watch
from catchment.monitor.wire import Message, write_frame

__all__ = ["Post"]


@dataclass(frozen=True, slots=True)
class _Taken:
    """The last flush: its number is the post's, and without `whole` it builds upon the one before.

    With `partial` it is some of the change, and the site's vector is at no position what the coordinator then has.
    """

    whole: bool
    position: int
    time: int
    fell: bool
    cells: bytes
    updates: bytes
    partial: bool


class Post:
    """A site's part in one query."""

    def __init__(self, site: SiteOwner, watch: Watch, vector: Vector) -> None:
        self._site, self._watch = site, watch
        self._drift = Drift(vector)
        self._number = 0  # of the last flush in this life
        self._part_bytes = 0  # of parts since the last that was none
        self._pending: _Taken | None = None  # the last flush, as long as it is not stored at the coordinator
        self._left = False
        # What the coordinator has said, and to which of its lives and rounds that belongs.
        self._epoch = self._order = 0
        self._at = (0, 0, 0)  # epoch, round and step
        self._guarded = self._zoned = (0, 0)  # epoch and round of the guard, and of its zone
        self._guard: Guard | None = None
        self._guarding = False
        self._cut = (0, 0)
        self._level = 0
        self._statistic: tuple[float, ...] = ()
        # The register: what was said last, and what must be acknowledged.
        self._seq = self._acked = self._needed = 0
        self._speak = True
        self._answer_at = NEVER
        self._last_said = -NEVER
        self._patience = Patience(site.resend, site.heartbeat)

    # -- what comes in ----------------------------------------------------------------------------------------

    def obey(self, order: Message, now: int) -> None:
        if not isinstance(order, Order):
            raise DamagedBytesError(f"a {type(order).__name__} for query {self._watch.number}")
        if (order.epoch, order.seq) < (self._epoch, self._order):
            return
        self._patience.regain()
        mine = order.incarnation == self._site.incarnation
        stored = order.stored if mine else 0
        if mine:
            self._acked = max(self._acked, order.acked)
        if self._pending is not None and stored == self._number:
            self._pending = None
        self._epoch, self._order = order.epoch, order.seq
        if order.urgent:
            self._answer_at = min(self._answer_at, now + self._site.resend // 3)  # something else may be said before
        target = order.epoch, order.round, order.step
        if target <= self._at:
            return
        if (
            order.want & WANT_FLUSH
            and self._pending is not None
            and self._pending.partial
            and stored == self._number - 1
        ):
            self._speak = True  # all of it can be told when this is stored, in a change; else it takes the whole vector
        elif order.want & WANT_FLUSH:
            self._at = target
            self._flush_for(stored)
        elif not mine or stored != self._number or not self._number:
            self._speak = True  # it is about another life, or about another flush than the last: the report tells
        else:
            self._guard_for(order)
            if self._guard is None:
                return
            if order.want & WANT_STATISTIC:
                self._statistic = self._guard.statistic()
                self._stand((self._site.position, self._site.time))
                self._need()
            else:
                self._speak = self._guard.hold(Terms(order.quantum, order.slack)) or self._speak
                self._guarding, self._level, self._statistic = True, 0, ()
            self._at = target  # not before the terms are known to be some

    def _guard_for(self, order: Order) -> None:
        """A guard for a new round: with a new zone, or with that of a round before; or none."""
        if self._guarded == (order.epoch, order.round):
            return
        if order.zone:
            self._guard = self._watch.guard(order.rule, order.zone, self._drift)
            self._zoned = order.epoch, order.round
            # Until it is acknowledged it is said with every order, and a long one must not be said twice.
            self._speak = self._speak or len(order.zone) > CHEAP_ZONE
        elif self._guard is not None and self._zoned == (order.epoch, order.keeps):
            self._guard.restart(order.share)
        else:
            self._guard, self._zoned = None, (0, 0)
        self._guarded = (order.epoch, order.round) if self._guard is not None else (0, 0)

    def _flush_for(self, stored: int) -> None:
        """Flush, unless a flush that will do is still on its way."""
        pending = self._pending
        if pending is None or pending.partial or not (pending.whole or stored == self._number - 1):
            self._take_flush(stored)
        assert self._pending is not None
        self._statistic = ()
        self._stand((self._pending.position, self._pending.time))
        self._need()

    def _stand(self, cut: tuple[int, int]) -> None:
        self._guarding, self._level, self._cut = False, 0, cut

    def _take_flush(self, stored: int, part: bytes = b"") -> None:
        """The change since the flush that the coordinator has, or a part of it; all, if that is not the last one."""
        fits = stored == self._number and self._number > 0
        fell = self._drift.fell
        if part:
            cells, updates = b"", part
        else:
            cells, updates = self._drift.taken() if fits else (self._drift.whole(), b"")
        self._part_bytes = self._part_bytes + len(part) if part else 0
        self._number += 1
        site = self._site
        self._pending = _Taken(not fits, site.position, site.time, fell, cells, updates, bool(part))
        self._need()

    def leave(self) -> None:
        self._left = True
        self._take_flush(self._number if self._pending is None else 0)
        self._stand((self._site.position, self._site.time))

    @property
    def settled(self) -> bool:
        return self._pending is None and self._acked >= self._needed

    # -- what goes out ----------------------------------------------------------------------------------------

    def _need(self) -> None:
        """The next report must be acknowledged."""
        self._speak = True
        self._patience.regain()
        self._needed = self._seq + 1

    def look(self, now: int) -> None:
        if not self._guarding or self._guard is None:
            return
        guard = self._guard
        if self._pending is None and guard.must_flush():
            # Parts, until they have cost as much as all of it: the coordinator can go back to that only.
            part = guard.part() if self._part_bytes <= self._drift.cells.size else b""
            self._take_flush(self._number, part)
        level = guard.look()
        if level > self._level:
            if guard.stands:
                self._statistic = guard.statistic()
                self._stand((self._site.position, self._site.time))
            self._level = level
            self._need()
        elif guard.falls:
            self._level = level

    @property
    def due(self) -> int:
        if self._speak:
            return self._last_said
        urgent = self._acked < self._needed or self._pending is not None
        return min(self._answer_at, self._last_said + (self._patience.wait if urgent else self._site.heartbeat))

    def word(self, now: int) -> list[Action]:
        if now < self.due:
            return []
        urgent = self._acked < self._needed or self._pending is not None
        again = not self._speak and urgent and now < self._answer_at
        if again:
            self._patience.lose()
        self._speak, self._answer_at = False, NEVER
        self._seq += 1
        self._last_said = now
        if self._guarding:
            self._cut = self._site.position, self._site.time
        taken = self._pending
        flush = None if taken is None else Flush(
            whole=int(taken.whole), behind=self._cut[0] - taken.position, older=self._cut[1] - taken.time,
            fell=int(taken.fell), cells=taken.cells, updates=taken.updates, partial=int(taken.partial),
        )  # fmt: skip
        frame = write_frame(
            Report(
                query=self._watch.number, epoch=self._at[0], round=self._at[1], step=self._at[2],
                incarnation=self._site.incarnation, seq=self._seq, acked=self._order, position=self._cut[0],
                time=self._cut[1], level=self._level, statistic=self._statistic, flush=flush, number=self._number,
                pending=self._drift.updates, urgent=int(urgent and flush is None), watch=self._watch.fingerprint if
                self._at[0] == 0 or (self._pending and self._pending.whole) else 0, leaving=int(self._left),
                heard=self._epoch if self._epoch > self._at[0] else 0,
            )
        )  # fmt: skip
        purpose = Purpose.RESEND if again else Purpose.DATA if self._pending is not None else Purpose.CONTROL
        self._site.traffic.add(purpose, len(frame))
        return [Send(COORDINATOR, frame, purpose)]
