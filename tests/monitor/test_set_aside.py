"""What is durable of another watch is known by its number and its sites."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catchment.monitor import Arrived, Coordinator, HeavyHitters, Items, Site, Total
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.set_aside import set_aside
from catchment.monitor.site import Leave
from catchment.monitor.watch import Watch
from catchment.testing.lockstep import Lockstep


@pytest.mark.parametrize("watch", [Total(number=7), Items(number=7, threshold=3), HeavyHitters(number=7, phi=0.1)])
def test_a_watch_that_has_changed_sets_aside_what_was_kept(watch: Watch | Items | HeavyHitters) -> None:
    network = Lockstep(Coordinator((watch,), ("a", "b")), {name: Site(name, (watch,)) for name in "ab"})
    for site in "ab":
        network.give(site, Arrived(["x"] * 9))
        network.give(site, Leave())
    blobs = {name: blob for (machine, name), blob in network.durable.items() if machine == COORDINATOR}
    assert set_aside((watch,), ("a", "b"), blobs) == {}
    other = Total(number=7, theta=0.3)
    assert set_aside((other,), ("a", "b"), blobs) == {7: ["a", "b"]}
    assert set_aside((other,), ("b",), blobs) == {7: ["b"]}
    assert set_aside((replace(other, number=1),), ("a", "b"), blobs) == {}
