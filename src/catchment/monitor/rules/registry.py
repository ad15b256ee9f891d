"""The rules by name and number: how each is built at the coordinator, and what guard it has at a site."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError, UnknownFormatError
from catchment.monitor.planner import Past, Plan, plan
from catchment.monitor.regions import Region, read_region
from catchment.monitor.rules.balance import BalanceGuard, BalanceSteersman
from catchment.monitor.rules.base import Guard, Steersman
from catchment.monitor.rules.countdown import CountdownGuard, CountdownSteersman
from catchment.monitor.rules.push import PushGuard, PushSteersman
from catchment.monitor.rules.relative import RelativeGuard, RelativeSteersman
from catchment.monitor.safe import Zone, read_zone
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band, drift_share

__all__ = ["NAMES", "Question", "guard_of", "steersman_of"]

I64 = NDArray[np.int64]

_COUNTDOWN, _PUSH, _RELATIVE, _BALANCE = 1, 2, 4, 5
NAMES = ("near", "full", "push", "centralise", "relative", "eager", "lazy", "two-phase")


class Question(Protocol):
    """What rules must know of a watch."""

    @property
    def theta(self) -> float: ...

    def value(self, total: I64) -> float: ...

    def band(self, total: I64, value: float) -> Band: ...

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]: ...

    def regions(self, total: I64, band: Band) -> dict[str, Region]: ...

    def sketch_error(self) -> float: ...


def steersman_of(rule: str, question: Question, total: I64, sites: int, past: Past | None = None) -> Steersman:
    """The coordinator's half of a rule, for a round that begins with this vector at so many sites.

    `auto` chooses by the round before.
    """
    value = question.value(total)
    band = question.band(total, value)
    zones, regions = question.zones(total, value, band), question.regions(total, band)
    chosen = plan(zones, sites, past) if rule == "auto" else Plan(rule, 0.0)
    name = chosen.rule

    def around(vector: I64) -> tuple[float, Band, float]:
        value = question.value(vector)
        band = question.band(vector, value)
        return value, band, next(iter(question.zones(vector, value, band).values())).at_zero

    if name in ("push", "centralise"):
        return PushSteersman(name, _PUSH, around, total, sites, budgets=name == "push", settles=rule == "auto")
    if name == "relative":
        share = drift_share(question.sketch_error(), question.theta)
        return RelativeSteersman(lambda vector: around(vector)[:2], share, total, sites)
    if name in regions:
        return BalanceSteersman(name, _BALANCE, value, band, regions[name], sites)
    if name not in zones:
        known = ", ".join(["auto", "push", "centralise", *zones, *regions])
        raise ParameterError(f"rule={rule!r}", f"there are {known} for this quantity")
    return CountdownSteersman(name, _COUNTDOWN, value, band, zones[name], sites, chosen.enough)


def guard_of(rule: int, zone: bytes, drift: Drift) -> Guard:
    """The site's half of a rule; raise a `BytesError` if these bytes are none."""
    sites = int.from_bytes(zone[:4], "little")
    if len(zone) < 4 or not sites:
        raise DamagedBytesError(f"a zone of {len(zone)} bytes for {sites} sites")
    if rule == _PUSH:
        return PushGuard(drift, sites)
    if rule == _RELATIVE:
        return RelativeGuard(drift, sites)
    if rule == _BALANCE:
        return BalanceGuard(drift, read_region(zone[4:], drift.cells.shape[0]), sites)
    if rule == _COUNTDOWN:
        return CountdownGuard(drift, read_zone(zone[4:], *drift.cells.shape), sites)
    raise UnknownFormatError(f"rule {rule}", "upgrade catchment to what wrote this")
