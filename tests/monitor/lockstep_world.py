"""A coordinator and its sites on a perfect network, some of them silent."""

from __future__ import annotations

from collections import deque

from catchment.monitor.claim import Claim
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.machine import Action, Send
from catchment.monitor.site import Site
from catchment.monitor.watch import Watch
from catchment.testing.lockstep import Lockstep

__all__ = ["Watched"]


class Watched(Lockstep):
    """Feed sites, and read the claim."""

    def __init__(self, *watches: Watch, sites: int, silent: tuple[str, ...] = ()) -> None:
        self.silent = set(silent)  # what they say, and what is said to them, is lost
        self.names = tuple(f"site-{number}" for number in range(sites))
        self.sites = {name: Site(name, watches) for name in self.names}
        self.coordinator = Coordinator(watches, self.names)
        super().__init__(self.coordinator, self.sites)

    def _act(self, name: str, actions: list[Action], waiting: deque[tuple[str, Send]]) -> None:
        heard = [one for one in actions if not (isinstance(one, Send) and self.silent & {name, one.to})]
        super()._act(name, heard, waiting)

    def tick(self, now: int) -> None:
        self.pass_time(max(now - self.now, 0))

    def claim(self, query: int = 1) -> Claim:
        claim = self.coordinator.claim(query)
        assert claim is not None
        return claim

    @property
    def bytes(self) -> int:
        return self.coordinator.traffic.bytes() + sum(site.traffic.bytes() for site in self.sites.values())
