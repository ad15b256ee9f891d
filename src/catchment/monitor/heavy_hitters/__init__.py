"""Distributed heavy hitters: which items make up at least phi of all sites' events? After DHHE (see `watch.py`)."""

from catchment.monitor.heavy_hitters.claim import HeavyClaim, HeavyHitter, Mark
from catchment.monitor.heavy_hitters.detector import Alarm, Detector
from catchment.monitor.heavy_hitters.watch import HeavyHitters

__all__ = ["Alarm", "Detector", "HeavyClaim", "HeavyHitter", "HeavyHitters", "Mark"]
