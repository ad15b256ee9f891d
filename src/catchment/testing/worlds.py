"""Which world a seed is: of ten, seven of a monitored value, two of items above a threshold, one of heavy hitters."""

from __future__ import annotations

from catchment.testing.heavy_world import build_heavy_world
from catchment.testing.items_world import build_items_world
from catchment.testing.monitor_world import build_monitor_world
from catchment.testing.network import Network

__all__ = ["build_world"]


def build_world(seed: int) -> Network:
    """The world of a seed, for `catchment simulate`."""
    if seed % 5 == 4:
        return build_items_world(seed)
    return build_heavy_world(seed) if seed % 10 == 7 else build_monitor_world(seed)
