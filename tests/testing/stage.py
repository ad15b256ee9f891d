"""Puppets on a simulated network: machines that do what a function says, and note what they were given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from catchment.monitor.machine import Action, Received, Send
from catchment.testing.host import Node
from catchment.testing.network import Network

Act = Callable[["Puppet", Any, int], list[Action]]


class Puppet:
    """Does what a function says, and notes what it was given and when, over all its lives."""

    def __init__(self, act: Act, log: list[tuple[int, Any, int]], due: int | None, blobs: dict[str, bytes], life: int):
        self.act = act
        self.log = log
        self.due = due
        self.blobs = blobs
        self.life = life
        self.count = 0

    def handle(self, event: Any, now: int) -> list[Action]:
        self.log.append((self.life, event, now))
        return self.act(self, event, now)


def nothing(machine: Puppet, _event: Any, _now: int) -> list[Action]:
    machine.due = None
    return []


class Stage:
    """Puppets on a network, and their logs."""

    def __init__(self, acts: dict[str, Act], *, feeds: dict[str, Any] | None = None, **options: Any) -> None:
        self.logs: dict[str, list[tuple[int, Any, int]]] = {name: [] for name in acts}
        due = options.pop("due", None)
        nodes = [
            Node(
                name,
                functools.partial(Puppet, act, self.logs[name], due),
                (feeds or {}).get(name),
                **options.pop(name, {}),
            )
            for name, act in acts.items()
        ]
        self.network = Network(nodes, **{"seed": 1, **options})

    def frames(self, name: str) -> list[bytes]:
        return [event.frame for _, event, _ in self.logs[name] if isinstance(event, Received)]


def every(gap: int, count: int) -> Callable[[Any], Iterator[tuple[int, Any]]]:
    """A feed of numbers that begins again in each life."""
    return lambda _machine: ((number * gap, number) for number in range(count))


def tell(*to: str) -> Act:
    """Send each number that is fed to these nodes."""

    def act(machine: Puppet, event: Any, _now: int) -> list[Action]:
        machine.due = None
        return [Send(name, b"%d" % event) for name in to] if isinstance(event, int) else []

    return act
