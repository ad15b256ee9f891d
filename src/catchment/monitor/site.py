"""Site: the machine beside the stream. It keeps the vectors, guards the zones, and says only what it must.

For each query a site is in one of these states:

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
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from catchment.errors import BytesError, DamagedBytesError, ParameterError, TimeError
from catchment.monitor.items.bands import PART_BYTES
from catchment.monitor.items.messages import ItemsOrder
from catchment.monitor.items.post import ItemsPost
from catchment.monitor.items.table import ItemTable
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import COORDINATOR, Action, Persist, Purpose, Received, Send, Tick
from catchment.monitor.messages import Flush, Order, Report
from catchment.monitor.patience import Patience
from catchment.monitor.rules.base import Guard, Terms
from catchment.monitor.traffic import Traffic
from catchment.monitor.vectors import Drift, Vector
from catchment.monitor.watch import Watch
from catchment.monitor.wire import Message, read_frame, write_frame
from catchment.sketch.checks import are_ones, as_weights
from catchment.sketch.codec import Writer, open_envelope, seal_envelope
from catchment.sketch.keys import as_keys
from catchment.window.clock import TIME_LIMIT, as_times, check_times

__all__ = ["Arrived", "Leave", "Site"]

I64 = NDArray[np.int64]

LIFE, STATE = "life", "state"
_FAMILY = 26
WANT_STATISTIC, WANT_FLUSH = 1, 2
NEVER = 1 << 60
_ONE = np.ones(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events in the order of the source: keys, their times for windows, their weights, and which stream they are of.

    With no keys and a time it says only that time has gone on: `Arrived(time=t)`.
    """

    keys: Any = ()
    times: Any = None
    weights: Any = 1
    stream: int = 0
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """The stream is over: flush everything, and go when that is acknowledged."""


class Site:
    """A site of some queries.

    Parameters
    ----------
    name
        What the coordinator calls it.
    watches
        What is monitored; the coordinator must have the same.
    blobs
        What an earlier life has made durable.
    life
        A number that no earlier life had, for the case that the disk is older than the last life; the time will do.
    heartbeat, resend
        Milliseconds after which a report is sent though nothing happened, and after which an urgent one is repeated;
        the time between repetitions doubles up to the heartbeat, until the coordinator is heard.
    keep
        How many events may be taken before the state is made durable again.
    part_bytes
        About how long a list of items may be in one message; longer ones are told in parts.

    `jumps` counts batches whose times go further ahead than the longest window, so that nothing from before is left in
    any; `too_late` counts events that were in no window any more when they came. Both are of this life.
    """

    def __init__(
        self,
        name: str,
        watches: tuple[Watch | Items, ...],
        *,
        blobs: dict[str, bytes] | None = None,
        life: int = 0,
        heartbeat: int = 10_000,
        resend: int = 1_000,
        keep: int = 1_000_000,
        part_bytes: int = PART_BYTES,
    ) -> None:
        if len({watch.number for watch in watches}) != len(watches):
            raise ParameterError("two watches of one number", "number them apart")
        if name == COORDINATOR:
            raise ParameterError(f"a site named {name!r}", "that is the coordinator's name: choose another")
        self.name = name
        self.traffic = Traffic()
        self.position = 0
        self.time = 0
        self._timed = False  # times may be negative
        self.refused = 0
        self.jumps = self.too_late = 0
        self._longest = max((watch.window for watch in watches if watch.window is not None), default=None)
        self.gone = False
        self.heartbeat, self.resend, self._keep, self.part_bytes = heartbeat, resend, keep, part_bytes
        self._durable = 0
        self._leaving = False
        self._vectors: dict[Any, Vector] = {}
        self._tables: dict[Any, ItemTable] = {}
        for watch in watches:
            if isinstance(watch, Items):
                self._tables.setdefault(watch.table_key, ItemTable(watch.window))
            else:
                self._vectors.setdefault(watch.vector_key, watch.new_vector())
        blobs = blobs or {}
        self.incarnation = max(life, 1 + (int.from_bytes(blobs[LIFE], "little") if LIFE in blobs else 0))
        if STATE in blobs:
            self._read(blobs[STATE])
        self._posts = {watch.number: self._post(watch) for watch in watches}
        self._opening: list[Action] = [Persist(LIFE, self.incarnation.to_bytes(8, "little"))]

    def _post(self, watch: Watch | Items) -> _Post | ItemsPost:
        if isinstance(watch, Items):
            return ItemsPost(self, watch, self._tables[watch.table_key])
        return _Post(self, watch, self._vectors[watch.vector_key])

    @property
    def vectors(self) -> tuple[Vector, ...]:
        return tuple(self._vectors.values())

    # -- the machine ------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        if self.gone:
            return None
        return min((post.due for post in self._posts.values()), default=None)

    def handle(self, event: Any, now: int) -> list[Action]:
        if isinstance(event, Arrived):
            self._arrive(event)
        elif isinstance(event, Received):
            self._receive(event.frame, now)
        elif isinstance(event, Leave):
            self._leaving = True
            for post in self._posts.values():
                post.leave()
        elif not isinstance(event, Tick):
            raise TypeError(f"a site cannot handle {type(event).__name__}")
        actions, self._opening = self._opening, []  # not before: an event that is refused must not take them along
        for post in self._posts.values():
            post.look(now)
        if self.position - self._durable >= self._keep:
            actions.append(Persist(STATE, self._write()))
            self._durable = self.position
        for post in self._posts.values():
            actions += post.word(now)
        if self._leaving and all(post.settled for post in self._posts.values()):
            self.gone = True
        return actions

    def _arrive(self, event: Arrived) -> None:
        """Take events in: everything is checked before anything is changed, so that an error changes nothing."""
        batch = as_keys(event.keys) if len(event.keys) else None
        times = None if event.times is None else as_times(event.times, 0 if batch is None else len(batch))
        if times is not None:
            check_times(times)
        reached = None if event.time is None else _checked_time(event.time)
        weights, checked = _ONE, []
        if batch is not None:
            if not are_ones(event.weights):
                weights = as_weights(event.weights, len(batch), signed=True)
            for vector in self._vectors.values():
                vector.check(weights, len(batch), times, event.stream)
            checked = [(table, table.check(batch, times, event.weights, event.stream)) for table in self._all_tables()]
        hashes = batch.hashes() if batch is not None and self._vectors else None
        # From here on nothing is refused.
        if batch is not None:
            for vector in self._vectors.values():
                assert hashes is not None
                vector.add(hashes, weights, times, event.stream)
            for table, counted in checked:
                table.add(counted)
            self.position += len(batch)
            if times is not None:
                self._pass_to(times)
        if reached is not None and (reached > self.time or not self._timed):
            self.time, self._timed = reached, True
            for vector in self._vectors.values():
                vector.advance(reached)
            for table in self._all_tables():
                table.advance(reached)

    def _pass_to(self, times: I64) -> None:
        """The time after events; `jumps` and `too_late` count what a wrong time may have done to the windows."""
        newest, before = int(times.max()), self.time if self._timed else int(times.min())
        self.time, self._timed = max(before, newest), True
        if self._longest is not None:
            self.jumps += newest - before > self._longest
            self.too_late += int(np.count_nonzero(times <= self.time - self._longest))

    def _all_tables(self) -> tuple[ItemTable, ...]:
        return tuple(self._tables.values())

    def _receive(self, frame: bytes, now: int) -> None:
        try:
            order = read_frame(frame)
            post = self._posts.get(order.query) if isinstance(order, Order | ItemsOrder) else None
            if post is None:
                raise DamagedBytesError(f"a {type(order).__name__} that is no order for a query here")
            post.obey(order, now)
        except BytesError:
            self.refused += 1

    # -- the disk ---------------------------------------------------------------------------------------------

    def _write(self) -> bytes:
        writer = Writer()
        writer.numbers("QqBI", self.position, self.time, self._timed, len(self._vectors))
        for vector in self._vectors.values():
            vector.write(writer)
        for table in self._all_tables():
            table.write(writer)
        return seal_envelope(_FAMILY, self._kinds(), writer.getvalue())

    def _kinds(self) -> bytes:
        """What the vectors and tables are of, in their order."""
        return crc32(repr([*self._vectors, *self._tables]).encode()).to_bytes(4, "little")

    def _read(self, blob: bytes) -> None:
        family, kinds, reader = open_envelope(blob)
        if family != _FAMILY or bytes(kinds.raw(kinds.left)) != self._kinds():
            raise ParameterError("a state of other watches", "give these watches a folder of their own, or remove it")
        self.position, self.time, timed, count = reader.numbers("QqBI")
        self._timed = bool(timed)
        if count != len(self._vectors):
            raise DamagedBytesError(f"a state of {count} vectors where {len(self._vectors)} are needed")
        for vector in self._vectors.values():
            vector.read(reader)
        for table in self._all_tables():
            table.read(reader)
        reader.finish()
        self._durable = self.position


def _checked_time(time: Any) -> int:
    if isinstance(time, bool) or not isinstance(time, int | np.integer) or not -TIME_LIMIT <= time <= TIME_LIMIT:
        raise TimeError(f"time={time!r}", f"give an integer of ticks, within 2^60 = {TIME_LIMIT} of zero")
    return int(time)


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


class _Post:
    """A site's part in one query."""

    def __init__(self, site: Site, watch: Watch, vector: Vector) -> None:
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
            )
        )  # fmt: skip
        purpose = Purpose.RESEND if again else Purpose.DATA if self._pending is not None else Purpose.CONTROL
        self._site.traffic.add(purpose, len(frame))
        return [Send(COORDINATOR, frame, purpose)]
