"""Monitors: "tell me when" and "keep me posted" over many sites, as machines without IO."""

from __future__ import annotations

from catchment.monitor import heavy_hitters, messages, top_k
from catchment.monitor.claim import Claim
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.heavy_hitters import HeavyClaim, HeavyHitter, HeavyHitters
from catchment.monitor.items import ItemCount, Items, ItemsClaim
from catchment.monitor.quantities import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.watch import Watch

__all__ = [
    "Arrived",
    "Claim",
    "Coordinator",
    "Distinct",
    "Frequency",
    "HeavyClaim",
    "HeavyHitter",
    "HeavyHitters",
    "InnerProduct",
    "ItemCount",
    "Items",
    "ItemsClaim",
    "Leave",
    "RangeSum",
    "SelfJoin",
    "Site",
    "Total",
    "Watch",
    "heavy_hitters",
    "messages",
    "top_k",
]
