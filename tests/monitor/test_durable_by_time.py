"""A slow site is durable too: by the clock, and when its source has ended. And what is said was durable before."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from catchment.monitor import Arrived, Coordinator, HeavyHitters, Items, Leave, Site
from catchment.monitor.machine import Action, Persist, Send, Stopping, Tick
from catchment.monitor.quantities import SelfJoin, Total
from catchment.monitor.site import STATE
from catchment.testing.lockstep import Lockstep

WATCH = Total(rule="centralise")


def kept(site: Site, event: Any, now: int) -> bool:
    """Whether the site makes its state durable at this event; what it then keeps is all that it has."""
    blobs = [act.blob for act in site.handle(event, now) if isinstance(act, Persist) and act.name == STATE]
    assert all(Site("a", (WATCH,), blobs={STATE: blob}).position == site.position for blob in blobs)
    return bool(blobs)


def test_events_are_durable_so_long_after_the_first_of_them_and_a_tick_is_due_then() -> None:
    site = Site("a", (WATCH,), heartbeat=10**9, resend=10**9, keep_every=30_000)
    assert not kept(site, Tick(), 0)
    idle = site.due
    assert idle is not None
    assert idle > 10**8
    assert not kept(site, Arrived(["x"]), 1_000)
    assert not kept(site, Arrived(["y"]), 20_000)
    assert site.due == 31_000
    assert not kept(site, Tick(), 30_999)
    assert kept(site, Tick(), 31_000)
    assert site.due != 31_000
    assert not kept(site, Tick(), 90_000)  # nothing has come since
    assert not kept(site, Arrived(["z"]), 100_000)
    assert kept(site, Arrived(["z"]), 130_000)


def test_the_end_of_a_source_makes_durable_what_is_not() -> None:
    site = Site("a", (WATCH,))
    assert not kept(site, Arrived(["x"]), 0)
    assert kept(site, Stopping(), 1)
    assert not kept(site, Stopping(), 2)


def test_without_the_clock_only_events_count() -> None:
    site = Site("a", (WATCH,), keep=3)
    assert not kept(site, Arrived(["x", "y"]), 0)
    assert not kept(site, Tick(), 10**9)
    assert kept(site, Arrived(["z"]), 10**9)


class Watching(Lockstep):
    """Refuses a machine that says something before it has made durable what it has to."""

    together = 0
    """How often something was made durable and said in one go."""

    def _act(self, name: str, actions: list[Action], waiting: deque[tuple[str, Send]]) -> None:
        kinds = [type(action) for action in actions]
        said = kinds.index(Send) if Send in kinds else len(kinds)
        assert Persist not in kinds[said:], (name, actions)
        self.together += Persist in kinds and Send in kinds
        super()._act(name, actions, waiting)


@pytest.mark.parametrize(
    "watch",
    [
        Total(theta=0.1),
        SelfJoin(theta=0.2, epsilon=0.05, rule="push"),
        SelfJoin(theta=0.2, epsilon=0.05, rule="near"),
        Items(threshold=50),
        HeavyHitters(phi=0.1),
    ],
    ids=["total", "push", "near", "items", "heavy hitters"],
)
def test_what_must_be_durable_is_so_before_anything_is_said(watch: Any) -> None:
    """Of a farewell that is acknowledged first, a crash would leave nothing: who has left says it only once."""
    names = ("a", "b")
    coordinator = Coordinator((watch,), names)
    world = Watching(coordinator, {name: Site(name, (watch,), keep=100) for name in names})
    rng = np.random.default_rng(1)
    for _ in range(20):
        for name in names:
            world.give(name, Arrived(rng.zipf(1.5, 100)))
        world.pass_time(2_000)
    world.give("a", Leave())
    world.pass_time(2_000)
    assert world.together > 5
