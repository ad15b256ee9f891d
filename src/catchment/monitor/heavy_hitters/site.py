"""HeavyHitterSite: the machine at a site (Listings 4.2 and 4.4, over a network that loses, doubles and delays).

    event                          what changes                              what is sent
    ─────────────────────────────  ────────────────────────────────────────  ──────────────────────────────────
    first event of a life          a new incarnation, kept first             Report
    Arrivals                       counts, candidates, buffers               Report if a buffer is full or ripe
    Ask of a newer epoch, version  the list, and who on it is heavy          Report if the items have changed
    Ask of an older epoch          nothing                                   Report, which tells the newer epoch
    Ask, Heard                     which report has arrived                  nothing
    Tick, nothing heard in time    nothing                                   Report of the state as it is now
    Tick, lease/3 without a word   nothing                                   Report of the state as it is now

Buffers hold the candidates that the coordinator should be told of: not those that it calls heavy (the thesis's J, here
the coordinator's whole list and not the last few), and not those that it has asked for and found too light, until they
have rested for the time of one timer. A report tells everything, so it empties every buffer.

What a batch changes: a site looks at its buffers and timers when a batch ends, so an item is noticed at the latest at
the end of its batch, and positions in reports are ends of batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.errors import DamagedBytesError, ParameterError
from catchment.monitor.heavy_hitters.buffers import GradedBuffers
from catchment.monitor.heavy_hitters.history import History
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyHeard, HeavyReport, HeavySiteState
from catchment.monitor.heavy_hitters.names import Key, Names, hashes_of, in_order
from catchment.monitor.heavy_hitters.plan import HeavyHitterPlan
from catchment.monitor.heavy_hitters.recent import Recent
from catchment.monitor.machine import COORDINATOR, Action, Persist, Purpose, Received, Send
from catchment.monitor.traffic import Traffic
from catchment.monitor.wire import read_frame, write_frame
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import as_keys

__all__ = ["Arrivals", "HeavyHitterSite"]


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """A batch of a site's events: keys of any kind, their times where the plan has a window, and how late it is now."""

    keys: Any
    at: Any = None
    until: int | None = None
    """Time goes on to this tick, events or not; only with a window."""


class HeavyHitterSite:
    """One site of a `HeavyHitterPlan`.

    Parameters
    ----------
    plan, name
        What is asked, and which of the plan's sites this is.
    query
        A number that tells this question's messages from others'.
    durable
        The newest blob that the last life kept, or None. The site then stands at the `position` of that blob and is
        to be fed from there.
    """

    def __init__(self, plan: HeavyHitterPlan, name: str, *, query: int = 0, durable: bytes | None = None) -> None:
        if name not in plan.sites:
            raise ParameterError(f"a site {name!r}", f"the plan has {', '.join(plan.sites)}")
        self.plan, self.name, self._query = plan, name, query
        self.traffic = Traffic()
        self._local: History | Recent = History(plan, name) if plan.window is None else Recent(plan, name)
        self._incarnation = 1
        if durable is not None:
            self._restore(durable)
        self._buffers = GradedBuffers(plan)
        self._epoch = self._asked = self._digest = 0
        self._list: tuple[Key, ...] = ()
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._heavy: frozenset[int] = frozenset()
        self._seq = self._heard = 0
        self._spoke: int | None = None
        self._reported = self._kept = self._local.position
        self._told_time = self._local.time

    # -- what others see --------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many events of the source were taken."""
        return self._local.position

    @property
    def too_late(self) -> int:
        """Events that came after the window had left them behind; they are in no answer."""
        return self._local.too_late if isinstance(self._local, Recent) else 0

    @property
    def due(self) -> int | None:
        if self._spoke is None:
            return 0
        return self._spoke + (self.plan.resend if self._heard < self._seq else self.plan.lease // 3)

    # -- events -----------------------------------------------------------------------------------------------

    def handle(self, event: Any, now: int) -> list[Action]:
        actions: list[Action] = []
        purpose: str | None = None
        if self._spoke is None:
            actions.append(self._persist())
            purpose = Purpose.CONTROL
        if isinstance(event, Arrivals):
            self._local.take(as_keys(event.keys), event.at, event.until)
            purpose = Purpose.DATA if self._should_warn() else purpose
        elif isinstance(event, Received):
            purpose = self._receive(event) or purpose
        if purpose is None and now >= (self.due or 0):
            purpose = Purpose.RESEND if self._heard < self._seq else Purpose.CONTROL
        if purpose is not None:
            actions.append(self._report(now, purpose))
        if self.position - self._kept >= self.plan.persist_every:
            actions.append(self._persist())
        return actions

    def _should_warn(self) -> bool:
        local = self._local
        rested = local.position - self._reported > self.plan.timer
        resting = self._heavy if rested else self._heavy.union(self._hashes.tolist())
        waiting = [hash_ for hash_ in local.candidates if hash_ not in resting]
        counts = local.counts(np.array(waiting, dtype=np.uint64)) if waiting else np.zeros(0)
        shares = (counts / max(local.total, 1)).tolist()
        self._buffers.hold(dict(zip(waiting, shares, strict=True)), local.position)
        # Without arrivals no timer runs, so the end of a pane sends what waits.
        moved = local.time != self._told_time and len(self._buffers) > 0
        return moved or self._buffers.ripe(local.position)

    def _receive(self, event: Received) -> str | None:
        """Take a message in; says why there should be a report now, if there should."""
        message = read_frame(event.frame)
        if event.sender != COORDINATOR or not isinstance(message, HeavyAsk | HeavyHeard):
            raise DamagedBytesError(f"a {type(message).__name__} from {event.sender!r} at a site")
        if message.query != self._query:
            return None
        if message.epoch < self._epoch:
            return Purpose.CONTROL if isinstance(message, HeavyAsk) else None
        if message.incarnation == self._incarnation:
            self._heard = max(self._heard, min(message.heard, self._seq))
        if isinstance(message, HeavyHeard):
            return None
        if (message.epoch, message.version) <= (self._epoch, self._asked):
            return None
        return self._follow(message)

    def _follow(self, ask: HeavyAsk) -> str | None:
        names, flags = ask.named(), ask.flags()
        hashes = hashes_of(names)
        if np.unique(hashes).size != hashes.size:
            raise DamagedBytesError("an item twice on the list")
        changed = names != self._list or ask.epoch != self._epoch
        self._epoch, self._asked, self._digest = ask.epoch, ask.version, ask.digest
        self._list, self._hashes = names, hashes
        self._heavy = frozenset(hash_ for hash_, heavy in zip(hashes.tolist(), flags, strict=True) if heavy)
        return Purpose.DATA if changed else None

    # -- what is sent and kept --------------------------------------------------------------------------------

    def _report(self, now: int, purpose: str) -> Send:
        local = self._local
        listed = set(self._hashes.tolist())
        others = in_order(name for hash_, name in local.candidates.items() if hash_ not in listed)
        counts = np.concatenate([local.counts(self._hashes), local.counts(hashes_of(others))])
        heavy = np.array([hash_ for hash_ in self._hashes.tolist() if hash_ in self._heavy], dtype=np.uint64)
        self._seq += 1
        self._spoke, self._reported, self._told_time = now, local.position, local.time
        self._buffers.clear()
        report = HeavyReport(
            query=self._query, epoch=self._epoch, asked=self._asked, incarnation=self._incarnation, seq=self._seq,
            position=local.position, total=local.total, time=local.time, slack=local.slack,
            others=Names.of(others), counts=tuple(counts.tolist()), onsets=local.onsets(heavy),
            digest=self._digest,
        )  # fmt: skip
        frame = write_frame(report)
        self.traffic.add(purpose, len(frame))
        return Send(COORDINATOR, frame, purpose)

    def _persist(self) -> Persist:
        writer = Writer()
        self._local.write(writer)
        self._kept = self.position
        return Persist("site", write_frame(HeavySiteState(self._query, self._incarnation, writer.getvalue())))

    def _restore(self, durable: bytes) -> None:
        state = read_frame(durable)
        if not isinstance(state, HeavySiteState) or state.query != self._query:
            raise DamagedBytesError("this is not the state of a site of this question")
        reader = Reader(memoryview(state.local))
        self._local.read(reader)
        reader.finish()
        self._incarnation = state.incarnation + 1
