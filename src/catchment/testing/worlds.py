"""Which world a seed is: of a monitored value, or, one in five, of the items above a threshold."""

from __future__ import annotations

from catchment.testing.items_world import build_items_world
from catchment.testing.monitor_world import build_monitor_world
from catchment.testing.network import Network

__all__ = ["build_world"]


def build_world(seed: int) -> Network:
    """The world of a seed, for `catchment simulate`."""
    return build_items_world(seed) if seed % 5 == 4 else build_monitor_world(seed)
