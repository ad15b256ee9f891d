"""A slow site is durable too: by the clock, and when its source has ended."""

from __future__ import annotations

from typing import Any

from catchment.monitor import Arrived, Site
from catchment.monitor.machine import Persist, Stopping, Tick
from catchment.monitor.quantities import Total
from catchment.monitor.site import STATE

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
