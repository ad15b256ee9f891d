"""A coordinator and its sites in one place, every message delivered at once: what a perfect network would do."""

from __future__ import annotations

from collections import deque
from typing import Any

from catchment.monitor.coordinator import Claim, Coordinator
from catchment.monitor.machine import COORDINATOR, Action, Received, Send, Tick
from catchment.monitor.site import Site
from catchment.monitor.watch import Watch


class Lockstep:
    """Feed sites, and read the claim."""

    def __init__(self, *watches: Watch, sites: int, silent: tuple[str, ...] = ()) -> None:
        self.names = tuple(f"site-{number}" for number in range(sites))
        self.sites = {name: Site(name, watches) for name in self.names}
        self.coordinator = Coordinator(watches, self.names)
        self.now = 0
        self.silent = set(silent)  # what they say, and what is said to them, is lost
        self._waiting: deque[tuple[str, str, bytes]] = deque()
        self.tick()

    def machine(self, name: str) -> Any:
        return self.coordinator if name == COORDINATOR else self.sites[name]

    def tick(self, now: int = 0) -> None:
        self.now = max(self.now, now)
        for name in (COORDINATOR, *self.names):
            due = self.machine(name).due
            if due is not None and due <= self.now:
                self.hand(name, Tick())

    def hand(self, name: str, event: Any) -> None:
        self._post(name, self.machine(name).handle(event, self.now))
        while self._waiting:
            sender, to, frame = self._waiting.popleft()
            self._post(to, self.machine(to).handle(Received(sender, frame), self.now))

    def _post(self, name: str, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send) and not self.silent & {name, action.to}:
                self._waiting.append((name, action.to, action.frame))

    def claim(self, query: int = 1) -> Claim:
        claim = self.coordinator.claim(query)
        assert claim is not None
        return claim

    @property
    def bytes(self) -> int:
        return self.coordinator.traffic.bytes() + sum(site.traffic.bytes() for site in self.sites.values())
