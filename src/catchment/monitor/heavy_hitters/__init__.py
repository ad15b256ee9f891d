"""Distributed heavy hitters: which items make up at least theta of all sites' events? After DHHE (see `site.py`)."""

from catchment.monitor.heavy_hitters.claim import Claim, HeavyHitter, Mark
from catchment.monitor.heavy_hitters.coordinator import HeavyHitterCoordinator
from catchment.monitor.heavy_hitters.plan import HeavyHitterPlan
from catchment.monitor.heavy_hitters.site import Arrivals, HeavyHitterSite

__all__ = [
    "Arrivals",
    "Claim",
    "HeavyHitter",
    "HeavyHitterCoordinator",
    "HeavyHitterPlan",
    "HeavyHitterSite",
    "Mark",
]
