"""Where a machine lives on the simulated network: its disk, its clock, its queue of actions, and the paths from it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from catchment.errors import ParameterError
from catchment.monitor.machine import Action, Machine
from catchment.testing.disk import Disk

__all__ = ["Build", "Feed", "Host", "Node", "Path"]

Build = Callable[[dict[str, bytes], int], Machine]
"""Make a machine from its durable blobs, none the first time; the number of its life counts from 1."""

Feed = Callable[[Any], Iterator[tuple[int, Any]]]
"""Given the machine as it was built, each next batch as (virtual time, event), from the machine's position on."""


@dataclass(frozen=True, slots=True)
class Node:
    """A member of the network: how its machine is made, after every crash anew, and what it is fed.

    `feed` stands for a replayable source: it is called once in each life, reads the position from the machine that it
    is given, and yields what comes after. A batch is handed over at its time; those that are overdue, as after a
    crash, at the pace of `Faults.feed_mean`.

    `joins` and `leaves` are virtual times, in place of what the faults would draw. A node that leaves is handed
    `farewell` first, if there is one, and goes when its actions are carried out; otherwise it is just gone.
    """

    name: str
    build: Build
    feed: Feed | None = None
    joins: int | None = None
    leaves: int | None = None
    farewell: Any = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ParameterError("a node without a name", "name it")


class Path:
    """One direction between two nodes, and what is on it."""

    __slots__ = ("clogged", "cut", "flight", "held", "label", "newest", "sender", "to")

    def __init__(self, sender: str, to: Host) -> None:
        self.sender = sender
        self.to = to
        self.label = f"{sender} → {to.name}"
        self.flight = 0
        self.cut = 0
        """Who has cut it, one bit each: the chance, or a hand."""
        self.clogged = 0
        """Until when nothing leaves it."""
        self.held: list[Any] = []
        self.newest = 0


class Host:
    """A node's machine and all that outlives it."""

    __slots__ = (
        "crash", "disk", "feed", "feed_mean", "flushing", "gone", "last_now", "leaving", "life", "machine", "name",
        "node", "offset", "paths", "queue", "rate", "tick_at", "tick_due",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.machine: Machine | None = None
        self.life = 0
        self.gone = False
        self.leaving = False
        self.disk = Disk()
        self.queue: deque[Action] = deque()
        """Blobs that are not durable yet, and what waits behind them."""
        self.flushing = 0
        """When the last of them will be durable."""
        self.paths: dict[str, Path] = {}
        self.crash = 0.0
        self.feed: Iterator[tuple[int, Any]] | None = None
        self.feed_mean = 0.0
        self.rate = 1.0
        self.offset = 0
        self.last_now = 0
        self.tick_at: int | None = None
        self.tick_due = 0
        """The virtual time of the tick that is to come, and what the clock will show then."""

    def now(self, time: int) -> int:
        """What the node's clock shows at a virtual time: never less than it has shown in this life."""
        shown = int(time * self.rate) + self.offset
        if shown < self.last_now:
            return self.last_now
        self.last_now = shown
        return shown

    def when(self, due: int, time: int) -> int:
        """The next virtual time after this one at which the clock shows `due` or more, give or take one."""
        if due <= self.last_now:
            return time + 1
        return max(math.ceil((due - self.offset) / self.rate), time + 1)

    def end(self) -> None:
        """The machine is gone, with all that was not durable."""
        self.machine = None
        self.feed = None
        self.tick_at = None
        self.flushing = 0
        self.queue.clear()
