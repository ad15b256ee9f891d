"""Site: the machine beside the stream. It keeps the vectors and tables, feeds them, and makes them durable.

What it says about a query, and when, is in `post` (a value of everyone's vector), in `items.post` (items above a
threshold) and in `heavy_hitters.post` (items with a share of all): tables of their transitions are at the top of each.
Here is what the queries of a site share: its events, its life, its disk and its books.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from catchment.errors import BytesError, DamagedBytesError, ParameterError, TimeError
from catchment.monitor.heavy_hitters.history import History
from catchment.monitor.heavy_hitters.local import Local
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyHeard
from catchment.monitor.heavy_hitters.post import HeavyPost
from catchment.monitor.heavy_hitters.recent import Recent
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.monitor.items.bands import PART_BYTES
from catchment.monitor.items.messages import ItemsOrder
from catchment.monitor.items.post import ItemsPost
from catchment.monitor.items.table import ItemTable
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import COORDINATOR, NEVER, Action, Persist, Received, Stopping, Tick
from catchment.monitor.messages import Order
from catchment.monitor.post import Post
from catchment.monitor.traffic import Traffic
from catchment.monitor.vectors import Vector
from catchment.monitor.watch import Watch
from catchment.monitor.wire import read_frame
from catchment.sketch.checks import are_ones, as_weights
from catchment.sketch.codec import Writer, open_envelope, seal_envelope
from catchment.sketch.keys import as_keys
from catchment.window.clock import TIME_LIMIT, as_times, check_times

__all__ = ["Arrived", "Leave", "Site"]

I64 = NDArray[np.int64]

AnyOrder = Order | ItemsOrder | HeavyAsk | HeavyHeard

LIFE, STATE = "life", "state"
_FAMILY = 26
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
        A number that no earlier life had, nor another process under this name, for the case that the disk is older than
        the last life; the time will do, if it is fine enough.
    heartbeat, resend
        Milliseconds after which a report is sent though nothing happened, and after which an urgent one is repeated;
        the time between repetitions doubles up to the heartbeat, until the coordinator is heard.
    keep
        How many events may be taken before the state is made durable again.
    keep_every
        Milliseconds after which it is made durable in any case, if there were events; None: only `keep` counts.
    part_bytes
        About how long a list of `Items` may be in one message; longer ones are told in parts.

    `jumps` counts batches in which time goes ahead by more than the longest window at once, so that nothing from before
    is left in any; `too_late` counts events that were in no window any more when they came. Both are of this life.
    `superseded` says that the coordinator has heard of a later life under this name: that of another process, for this
    one goes on. Nothing that it says would be heard any more, so it falls silent.
    """

    def __init__(
        self,
        name: str,
        watches: tuple[Watch | Items | HeavyHitters, ...],
        *,
        blobs: dict[str, bytes] | None = None,
        life: int = 0,
        heartbeat: int = 10_000,
        resend: int = 1_000,
        keep: int = 1_000_000,
        keep_every: int | None = None,
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
        self.gone = self.superseded = False
        self.heartbeat, self.resend, self._keep, self.part_bytes = heartbeat, resend, keep, part_bytes
        self._keep_every = NEVER if keep_every is None else keep_every
        self._durable = 0
        self._keep_at = NEVER  # when what is not durable must be
        self._leaving = False
        self._vectors: dict[Any, Vector] = {}
        self._tables: dict[Any, ItemTable | Local] = {}
        for watch in watches:
            if isinstance(watch, Watch):
                self._vectors.setdefault(watch.vector_key, watch.new_vector())
            else:
                self._tables.setdefault(watch.table_key, self._table(watch))
        blobs = blobs or {}
        self.incarnation = max(life, 1 + (int.from_bytes(blobs[LIFE], "little") if LIFE in blobs else 0))
        if STATE in blobs:
            self._read(blobs[STATE])
        self._posts = {watch.number: self._post(watch) for watch in watches}
        self._opening: list[Action] = [Persist(LIFE, self.incarnation.to_bytes(8, "little"))]

    def _table(self, watch: Items | HeavyHitters) -> ItemTable | Local:
        if isinstance(watch, Items):
            return ItemTable(watch.window)
        return History(watch, self.name) if watch.window is None else Recent(watch, self.name)

    def _post(self, watch: Watch | Items | HeavyHitters) -> Post | ItemsPost | HeavyPost:
        if isinstance(watch, Watch):
            return Post(self, watch, self._vectors[watch.vector_key])
        table = self._tables[watch.table_key]
        if isinstance(watch, Items):
            assert isinstance(table, ItemTable)
            return ItemsPost(self, watch, table)
        assert isinstance(table, Local)
        return HeavyPost(self, watch, table)

    @property
    def vectors(self) -> tuple[Vector, ...]:
        return tuple(self._vectors.values())

    # -- the machine ------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        if self.gone or self.superseded:
            return None
        due = min((post.due for post in self._posts.values()), default=NEVER)
        due = min(due, self._keep_at)
        return None if due >= NEVER else due

    def handle(self, event: Any, now: int) -> list[Action]:
        if isinstance(event, Arrived):
            self._arrive(event)
        elif isinstance(event, Received):
            self._receive(event.frame, now)
        elif isinstance(event, Leave):
            self._leaving = True
            for post in self._posts.values():
                post.leave()
        elif not isinstance(event, Tick | Stopping):
            raise TypeError(f"a site cannot handle {type(event).__name__}")
        actions, self._opening = self._opening, []  # not before: an event that is refused must not take them along
        for post in self._posts.values():
            post.look(now)
        actions += self._kept(event, now)
        if self.superseded:
            return actions
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
        begin = self.time if self._timed else int(times[0])
        reached = np.maximum.accumulate(np.concatenate(([begin], times)))  # how late it was when each event came
        self.time, self._timed = int(reached[-1]), True
        if self._longest is not None:
            self.jumps += int(np.any(np.diff(reached) > self._longest))
            self.too_late += int(np.count_nonzero(times <= reached[1:] - self._longest))

    def _all_tables(self) -> tuple[ItemTable | Local, ...]:
        return tuple(self._tables.values())

    def _receive(self, frame: bytes, now: int) -> None:
        try:
            order = read_frame(frame)
            post = self._posts.get(order.query) if isinstance(order, AnyOrder) else None
            if post is None or not isinstance(order, AnyOrder):
                raise DamagedBytesError(f"a {type(order).__name__} that is no order for a query here")
            post.obey(order, now)
            self.superseded = self.superseded or order.incarnation > self.incarnation
        except BytesError:
            self.refused += 1

    # -- the disk ---------------------------------------------------------------------------------------------

    def _kept(self, event: Any, now: int) -> list[Action]:
        """Make the state durable if there is enough that is not, or if it has waited for long enough."""
        fresh = self.position - self._durable
        if not fresh:
            return []
        self._keep_at = min(self._keep_at, now + self._keep_every)
        if fresh < self._keep and now < self._keep_at and not isinstance(event, Stopping):
            return []
        self._durable, self._keep_at = self.position, NEVER
        return [Persist(STATE, self._write())]

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
            raise ParameterError(
                "a state of other watches", "give these watches a folder of their own, or remove this one"
            )
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
