"""ItemsPost: a site's part in a watch of items.

state     event                                next      says
new       begins                               new       a report, until an order comes
any       an order for another number of sites telling   a whole list of bands
quiet     a batch, all counts in their bands   quiet     nothing
quiet     a batch, some count outside          telling   a list of the bands that are new
quiet     time alone, some count outside       quiet     nothing; its position and time stay where all fitted
quiet     a heartbeat is due, some outside     telling   a list of the bands that are new
telling   a batch                              telling   nothing; its position stays where the list was true
telling   an order: the list is stored         quiet     nothing, or the next part of it, or the next list
any       an order: an older list is stored    telling   a whole list
any       an order of a new life               same      a report
telling   nothing acknowledged in time         same      its newest report again, and waits twice as long
quiet     a heartbeat is due                   same      a report: all in their bands up to here
"""

from __future__ import annotations

from catchment.errors import DamagedBytesError
from catchment.monitor.items.bands import Bands
from catchment.monitor.items.messages import BandList, ItemsOrder, ItemsReport
from catchment.monitor.items.table import ItemTable
from catchment.monitor.items.watch import MOST_SITES, Items
from catchment.monitor.machine import COORDINATOR, Action, Purpose, Send
from catchment.monitor.owner import SiteOwner
from catchment.monitor.patience import Patience
from catchment.monitor.wire import Message, write_frame

__all__ = ["ItemsPost"]

_LONG_AGO = -(1 << 60)


class ItemsPost:
    """Keeps the bands of one watch, and tells the coordinator what it must know."""

    def __init__(self, site: SiteOwner, watch: Items, table: ItemTable) -> None:
        self._site, self._watch = site, watch
        self._bands = Bands(watch, table, site.part_bytes)
        self._number = 0  # of the last list in this life
        self._pending: BandList | None = None  # the last list, as long as it is not stored
        self._cut = (0, 0)
        self._epoch = self._order = 0
        self._seq = self._acked = self._needed = 0
        self._left = False
        self._speak = True
        self._said = _LONG_AGO
        self._patience = Patience(site.resend, site.heartbeat)

    # -- what comes in ----------------------------------------------------------------------------------------

    def obey(self, order: Message, now: int) -> None:
        if not isinstance(order, ItemsOrder):
            raise DamagedBytesError(f"a {type(order).__name__} for query {self._watch.number}")
        if not 0 < order.sites <= MOST_SITES:
            raise DamagedBytesError(f"an order for {order.sites} sites")
        if (order.epoch, order.seq) <= (self._epoch, self._order):
            return
        mine = order.incarnation == self._site.incarnation
        stored = order.stored if mine else 0
        self._patience.regain()
        self._speak = self._speak or order.epoch != self._epoch
        self._epoch, self._order = order.epoch, order.seq
        if mine:
            self._acked = max(self._acked, order.acked)
        pending = self._pending
        if order.sites != self._bands.sites:
            self._tell(self._bands.whole(order.sites))
        elif stored == self._number:
            self._pending = None
            if self._bands.unfinished:
                self._pending, self._speak = self._bands.rest(), True  # of the same list, so of the same cut
                self._number += 1
        elif pending is None or not (pending.whole or stored == self._number - 1):
            self._tell(self._bands.whole(order.sites))

    def leave(self) -> None:
        self._left = self._speak = True
        self._needed = self._seq + 1
        if self._bands.sites and not self._bands.fit:
            # Upon a list that may never have arrived nothing can be built, and there is no later.
            whole = self._pending is not None
            self._tell(self._bands.whole(self._bands.sites) if whole else self._bands.changes())

    @property
    def settled(self) -> bool:
        return self._bands.sites > 0 and self._pending is None and self._acked >= self._needed

    # -- what goes out ----------------------------------------------------------------------------------------

    def look(self, now: int) -> None:
        if not self._bands.sites:
            return
        if self._bands.fit:
            self._cut = self._site.position, self._site.time
        elif self._pending is None:
            # What only time has moved waits for the next events or the next heartbeat; the cut waits with it.
            arrived = self._site.position != self._cut[0]
            if arrived or now >= self._said + self._site.heartbeat:
                self._tell(self._bands.changes())

    def _tell(self, bands: BandList) -> None:
        self._pending, self._speak = bands, True
        self._patience.regain()
        self._number += 1
        self._cut = self._site.position, self._site.time

    @property
    def _urgent(self) -> bool:
        return self._pending is not None or not self._bands.sites or self._acked < self._needed

    @property
    def due(self) -> int:
        if self._speak:
            return self._said
        return self._said + (self._patience.wait if self._urgent else self._site.heartbeat)

    def word(self, now: int) -> list[Action]:
        if now < self.due:
            return []
        again = not self._speak and self._urgent
        if again:
            self._patience.lose()
        self._speak, self._said = False, now
        self._seq += 1
        named = not self._epoch or (self._pending is not None and self._pending.whole)
        frame = write_frame(
            ItemsReport(
                query=self._watch.number, epoch=self._epoch, incarnation=self._site.incarnation, seq=self._seq,
                position=self._cut[0], time=self._cut[1], sites=self._bands.sites, number=self._number,
                bands=self._pending, watch=self._watch.fingerprint if named else 0, leaving=int(self._left),
            )
        )  # fmt: skip
        purpose = Purpose.RESEND if again else Purpose.DATA if self._pending is not None else Purpose.CONTROL
        self._site.traffic.add(purpose, len(frame))
        return [Send(COORDINATOR, frame, purpose)]
