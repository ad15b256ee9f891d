"""Coordinator: the machine in the middle. It hears the sites' reports, and each goes to the query that it is about.

The state machine of a query is in `query` (a value of everyone's vector), in `items.query` (items above a threshold)
and in `heavy_hitters.query` (items with a share of all): tables of their transitions are at the top of each. Here is
what queries share: the coordinator's life, its books, and what a frame must be to reach one of them.
"""

from __future__ import annotations

from typing import Any, TypeVar

from catchment.errors import BytesError, DamagedBytesError, NameNotFoundError, ParameterError
from catchment.monitor.claim import Claim
from catchment.monitor.heavy_hitters.claim import HeavyClaim
from catchment.monitor.heavy_hitters.query import HeavyQuery
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.monitor.items.claim import ItemsClaim
from catchment.monitor.items.query import ItemsQuery
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import COORDINATOR, NEVER, Action, Persist, Received, Tick
from catchment.monitor.messages import Report
from catchment.monitor.packing import LARGEST
from catchment.monitor.part import AnyReport
from catchment.monitor.query import Query
from catchment.monitor.traffic import Traffic
from catchment.monitor.watch import Watch
from catchment.monitor.wire import read_frame

__all__ = ["Coordinator"]

EPOCH = "epoch"
_APART = 1 << 20
"""Lives whose numbers end differently, by this, never have one epoch above one that both know."""

AnyQuery = Query | ItemsQuery | HeavyQuery
Q = TypeVar("Q", Query, ItemsQuery, HeavyQuery)


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
        A number that no earlier life had, for the case that the disk is older than the last life; the time will do, if
        it is fine enough.
    lease, resend
        Milliseconds without a word that shows that a site hears us after which it is missing, and after which an order
        is repeated; of a value, the time between repetitions doubles up to a quarter of the lease.
    settling
        Watches of a value with the rule `"auto"` choose anew when sites have flushed so much that a new round is little
        beside it: so many times that. Small numbers are for worlds that are over before it.

    `refused` counts reports that were none; `refusals` has the reason for the last of each sender.
    """

    def __init__(
        self,
        watches: tuple[Watch | Items | HeavyHitters, ...],
        sites: tuple[str, ...],
        *,
        blobs: dict[str, bytes] | None = None,
        life: int = 0,
        lease: int = 30_000,
        resend: int = 1_000,
        settling: float = 1.0,
    ) -> None:
        if len({watch.number for watch in watches}) != len(watches):
            raise ParameterError("two watches of one number", "number them apart")
        if COORDINATOR in sites or len(set(sites)) != len(sites):
            raise ParameterError(f"sites {sites!r}", "give each its own name, and none the coordinator's")
        blobs = blobs or {}
        self.traffic = Traffic()
        self.refused = 0
        self.refusals: dict[str, str] = {}
        self._life, self._sites = life, frozenset(sites)
        self.epoch = _epoch_of(life, int.from_bytes(blobs[EPOCH], "little") if EPOCH in blobs else 0)
        self.lease, self.resend, self.settling = lease, resend, settling
        self._queries = {watch.number: self._part(watch, sites, blobs) for watch in watches}
        self._opening: list[Action] = [Persist(EPOCH, self.epoch.to_bytes(8, "little"))]
        self._started = False

    def _part(self, watch: Watch | Items | HeavyHitters, sites: tuple[str, ...], blobs: dict[str, bytes]) -> AnyQuery:
        if isinstance(watch, Items):
            return ItemsQuery(self, watch, sites, blobs)
        if isinstance(watch, HeavyHitters):
            return HeavyQuery(self, watch, sites, blobs)
        return Query(self, watch, sites, blobs)

    # -- the machine ------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        due = min((query.due for query in self._queries.values()), default=NEVER)
        if due < NEVER:
            return due
        return None if self._started else 0  # all have left: it still has to say so

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
            actions += query.act(now)
        return actions

    def _receive(self, event: Received, now: int) -> list[Action]:
        try:
            report = read_frame(event.frame)
            query = self._queries.get(report.query) if isinstance(report, AnyReport) else None
            if event.sender not in self._sites:
                raise DamagedBytesError(f"a report of {event.sender!r}, which takes no part")
            if query is None or not isinstance(report, query.hears):
                raise DamagedBytesError(f"a {type(report).__name__} that is no report on a query here")
            newest = max(report.epoch, report.heard if isinstance(report, Report) else 0)
            twin = newest == self.epoch and query.was_told_more(event.sender, report)
            if (twin or self.epoch < newest) and newest < LARGEST:
                self._rise_above(newest, now)
                return [Persist(EPOCH, self.epoch.to_bytes(8, "little"))]
            return query.hear(event.sender, report, now)
        except BytesError as problem:
            self.refused += 1
            self.refusals[event.sender] = problem.problem
            return []

    def _rise_above(self, epoch: int, now: int) -> None:
        """A site has heard of a later life of ours than this one: the disk is an old one. Begin again, above it.

        So it is, too, where a site has heard more of this life than it has said: an earlier one had the same number.
        """
        self.epoch = _epoch_of(self._life, epoch)
        for query in self._queries.values():
            query.start(now)

    # -- questions --------------------------------------------------------------------------------------------

    def claim(self, query: int) -> Claim | None:
        """What is claimed now; None before the first round."""
        return self._query_of(query, Query).claimed()

    def items(self, query: int) -> ItemsClaim | None:
        """What is claimed now by a watch of items; None before every site was heard."""
        return self._query_of(query, ItemsQuery).claimed()

    def heavy_hitters(self, query: int) -> HeavyClaim | None:
        """What is claimed now by a watch of heavy hitters; None before a site was heard."""
        return self._query_of(query, HeavyQuery).claimed()

    def _query(self, number: int) -> AnyQuery:
        if number not in self._queries:
            raise NameNotFoundError(f"no query {number}", f"there are {', '.join(map(str, self._queries))}")
        return self._queries[number]

    def _query_of(self, number: int, kind: type[Q]) -> Q:
        found = self._query(number)
        if not isinstance(found, kind):
            what = {Query: "a value", ItemsQuery: "items", HeavyQuery: "heavy hitters"}
            asked = {Query: "claim", ItemsQuery: "items", HeavyQuery: "heavy_hitters"}
            raise NameNotFoundError(
                f"query {number} is no watch of {what[kind]}", f"ask {asked[type(found)]}({number})"
            )
        return found

    def rounds(self, query: int) -> int:
        """How often the sites were asked together in this life, by a watch of heavy hitters."""
        return self._query_of(query, HeavyQuery).rounds

    def rule(self, query: int) -> str:
        """The name of the rule in force; empty before the first round."""
        return self._query(query).rule_name


def _epoch_of(life: int, known: int) -> int:
    """The life itself; and above what is known of earlier ones, where that is ahead of the clock.

    Two lives may know the same, from an old disk that comes back a second time or from a site. If both took the next
    number, what sites say of the one would be taken for the other's. So the life is in it, too.
    """
    return life if life > known else known + 1 + life % _APART
