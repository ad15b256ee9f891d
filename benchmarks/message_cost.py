"""What a report costs the coordinator, by how many sites there are: what it does for one should not grow with them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.machine import Action
from catchment.monitor.quantities import SelfJoin
from catchment.monitor.site import Arrived, Site
from catchment.testing.lockstep import Lockstep

__all__ = ["seconds_a_report"]


class _Recorded(Coordinator):
    """Keeps what it was given, and when."""

    def __init__(self, watch: SelfJoin, sites: tuple[str, ...]) -> None:
        super().__init__((watch,), sites)
        self.record: list[tuple[Any, int]] = []

    def handle(self, event: Any, now: int) -> list[Action]:
        self.record.append((event, now))
        return super().handle(event, now)


def seconds_a_report(sites: int, events: int) -> float:
    """The processor's time for a report with a flush, of one watched self-join with a small sketch.

    Events come one by one, site after site, and each is told at once. What the coordinator was given is recorded and
    then given to another one, which does the same again: a machine has no clock and no chance in it.
    """
    watch = SelfJoin(theta=0.2, epsilon=0.1, delta=0.1, rule="centralise")
    names = tuple(f"s{place}" for place in range(sites))
    first = _Recorded(watch, names)
    network = Lockstep(first, {name: Site(name, (watch,), keep=1 << 60) for name in names})
    opening = len(first.record)
    keys = np.random.default_rng(1).zipf(1.3, events) % 10_000
    for at in range(events):
        network.give(names[at % sites], Arrived(keys[at : at + 1]))
        network.pass_time(1)
    again = Coordinator((watch,), names)
    for event, now in first.record[:opening]:
        again.handle(event, now)
    start = time.process_time()
    for event, now in first.record[opening:]:
        again.handle(event, now)
        _ = again.due  # as any driver asks after each event
    spent = time.process_time() - start
    assert again.traffic.to_dict() == first.traffic.to_dict()
    return spent / (len(first.record) - opening)
