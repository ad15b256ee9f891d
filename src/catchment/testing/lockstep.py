"""Lockstep: a coordinator and its sites over a perfect network, all messages delivered before anything else happens.

For experiments and for running a protocol over recorded events in one process. Where messages are lost or late, and
machines die, is another driver's matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from catchment.monitor.machine import COORDINATOR, Action, Machine, Persist, Received, Send, Tick

__all__ = ["Lockstep"]


class Lockstep:
    """Owns the machines and a clock of milliseconds; blobs are kept in `durable`, by machine and name.

    Peers have no coordinator: give None.

    `delivered` counts messages: nothing that a machine says of others can have changed while it has not.
    """

    def __init__(self, coordinator: Machine | None, sites: Mapping[str, Machine]) -> None:
        self._machines: dict[str, Machine] = {} if coordinator is None else {COORDINATOR: coordinator}
        self._machines |= sites
        self.now = 0
        self.delivered = 0
        self.durable: dict[tuple[str, str], bytes] = {}
        self._due: dict[str, int | None] = {}
        self._ticks: list[tuple[int, str]] = []  # what was due once; it still is if `_due` says the same
        for name in self._machines:
            self.give(name, Tick())

    def give(self, name: str, event: Any) -> None:
        """Let a machine handle an event, and deliver whatever follows from it until all is quiet."""
        actions = self._handle(name, event)
        if not actions:
            return
        waiting: deque[tuple[str, Send]] = deque()
        self._act(name, actions, waiting)
        while waiting:
            sender, sent = waiting.popleft()
            self.delivered += 1
            self._act(sent.to, self._handle(sent.to, Received(sender, sent.frame)), waiting)

    def _handle(self, name: str, event: Any) -> list[Action]:
        machine = self._machines[name]
        actions = machine.handle(event, self.now)
        due = machine.due
        if due != self._due.get(name):
            self._due[name] = due
            if due is not None:
                heappush(self._ticks, (due, name))
        return actions

    def _act(self, name: str, actions: list[Action], waiting: deque[tuple[str, Send]]) -> None:
        for action in actions:
            if isinstance(action, Persist):
                self.durable[name, action.name] = action.blob
            else:
                waiting.append((name, action))

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by, with a tick for each machine that is due on the way."""
        end = self.now + milliseconds
        while self._ticks and self._ticks[0][0] <= end:
            when, name = heappop(self._ticks)
            if self._due[name] == when:
                self._due[name] = None
                self.now = max(self.now, when)
                self.give(name, Tick())
        self.now = end
