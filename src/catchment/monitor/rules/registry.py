"""The rules by name and number."""

from __future__ import annotations

from catchment.errors import ParameterError, UnknownFormatError
from catchment.monitor.rules.base import Guard, Steersman
from catchment.monitor.rules.countdown import CountdownGuard, CountdownSteersman
from catchment.monitor.safe import Zone, read_zone
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band

__all__ = ["guard_of", "steersman_of"]

NUMBERS = {"near": 1, "full": 2}


def steersman_of(rule: str, value: float, band: Band, zones: dict[str, Zone], sites: int) -> Steersman:
    name = next(iter(zones)) if rule == "auto" else rule
    if name not in zones:
        raise ParameterError(f"rule={rule!r}", f"there are {', '.join(zones)} for this quantity")
    return CountdownSteersman(name, NUMBERS[name], value, band, zones[name], sites)


def guard_of(rule: int, zone: bytes, drift: Drift) -> Guard:
    if rule not in NUMBERS.values():
        raise UnknownFormatError(f"rule {rule}", "upgrade catchment to what wrote this")
    return CountdownGuard(drift, read_zone(zone[4:], *drift.cells.shape), int.from_bytes(zone[:4], "little"))
