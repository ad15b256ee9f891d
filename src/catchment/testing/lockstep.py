"""Lockstep: a coordinator and its sites over a perfect network, all messages delivered before anything else happens.

For experiments and for running a protocol over recorded events in one process. Where messages are lost or late, and
machines die, is another driver's matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from catchment.monitor.machine import COORDINATOR, Action, Machine, Persist, Received, Send, Tick

__all__ = ["Lockstep"]


class Lockstep:
    """Owns the machines and a clock of milliseconds; blobs are kept in `durable`, by machine and name."""

    def __init__(self, coordinator: Machine, sites: Mapping[str, Machine]) -> None:
        self._machines: dict[str, Machine] = {COORDINATOR: coordinator, **sites}
        self.now = 0
        self.durable: dict[tuple[str, str], bytes] = {}
        for name in self._machines:
            self.give(name, Tick())

    def give(self, name: str, event: Any) -> None:
        """Let a machine handle an event, and deliver whatever follows from it until all is quiet."""
        waiting: deque[tuple[str, Send]] = deque()
        self._act(name, self._machines[name].handle(event, self.now), waiting)
        while waiting:
            sender, sent = waiting.popleft()
            received = Received(sender, sent.frame)
            self._act(sent.to, self._machines[sent.to].handle(received, self.now), waiting)

    def _act(self, name: str, actions: list[Action], waiting: deque[tuple[str, Send]]) -> None:
        for action in actions:
            if isinstance(action, Persist):
                self.durable[name, action.name] = action.blob
            else:
                waiting.append((name, action))

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by, with a tick for each machine that is due on the way."""
        end = self.now + milliseconds
        while True:
            due = [(machine.due, name) for name, machine in self._machines.items() if machine.due is not None]
            when, name = min(((at, name) for at, name in due if at is not None and at <= end), default=(None, ""))
            if when is None:
                break
            self.now = max(self.now, when)
            self.give(name, Tick())
        self.now = end
