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
_RISING = ("auto", "near", "full", "push")
NAMES = ("near", "full", "push", "centralise", "relative", "eager", "lazy", "two-phase")


class Question(Protocol):
    """What rules must know of a watch."""

    @property
    def theta(self) -> float: ...

    def value(self, total: I64) -> float: ...

    def band(self, total: I64, value: float) -> Band: ...

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]: ...

    def regions(self, total: I64, band: Band) -> dict[str, Region]: ...

    def rising(self, value: float) -> tuple[float, Band] | None: ...

    def sketch_error(self) -> float: ...


def steersman_of(
    rule: str,
    question: Question,
    total: I64,
    sites: int,
    past: Past | None = None,
    *,
    grows: bool = False,
    settling: float = 1.0,
) -> Steersman:
    """The coordinator's half of a rule, for a round that begins with this vector at so many sites.

    `auto` chooses by the round before. With `grows` all weights so far were positive; rules of this library's own make
    use of that, those of the papers are left as they are. After `settling` times the usual bytes `auto`
    chooses anew.
    """

    def bounds(vector: I64, grows: bool) -> tuple[float, float, Band]:
        value = question.value(vector)
        rising = question.rising(value) if grows and rule in _RISING else None
        claim, band = (value, question.band(vector, value)) if rising is None else rising
        return value, claim, band

    value, claim, band = bounds(total, grows)
    rises = grows and rule in _RISING and question.rising(value) is not None
    zones, regions = question.zones(total, value, band), question.regions(total, question.band(total, value))
    chosen = plan(zones, sites, past) if rule == "auto" else Plan(rule, 0.0)
    name = chosen.rule

    def around(vector: I64, grows: bool) -> tuple[float, Band, Zone]:
        value, claim, band = bounds(vector, grows)
        return claim, band, next(iter(question.zones(vector, value, band).values()))

    if name in ("push", "centralise"):
        return PushSteersman(
            name, _PUSH, around, total, sites, grows=grows, rises=rises, budgets=name == "push",
            settles=settling if rule == "auto" else 0.0,
        )  # fmt: skip
    if name == "relative":
        share = drift_share(question.sketch_error(), question.theta)
        return RelativeSteersman(lambda vector: bounds(vector, False)[1:], share, total, sites)
    if name in regions:
        return BalanceSteersman(name, _BALANCE, value, question.band(total, value), regions[name], sites)
    if name not in zones:
        known = ", ".join(["auto", "push", "centralise", *zones, *regions])
        raise ParameterError(f"rule={rule!r}", f"there are {known} for this quantity")
    return CountdownSteersman(
        name, _COUNTDOWN, claim, band, zones[name], sites, reference=total, enough=chosen.enough, rises=rises
    )


def guard_of(rule: int, zone: bytes, drift: Drift) -> Guard:
    """The site's half of a rule; raise a `BytesError` if these bytes are none."""
    sites = int.from_bytes(zone[:4], "little")
    if len(zone) < 4 or not sites:
        raise DamagedBytesError(f"a zone of {len(zone)} bytes for {sites} sites")
    if rule == _PUSH:
        if len(zone) != 6 or not zone[4] <= drift.cells.shape[0]:
            raise DamagedBytesError(f"{len(zone)} bytes for a push")
        return PushGuard(drift, sites, zone[4], rises=bool(zone[5]))
    if rule == _RELATIVE:
        return RelativeGuard(drift, sites)
    if rule == _BALANCE:
        return BalanceGuard(drift, read_region(zone[4:], drift.cells.shape[0]), sites)
    if rule == _COUNTDOWN:
        if len(zone) < 5:
            raise DamagedBytesError("a countdown without a zone")
        return CountdownGuard(drift, read_zone(zone[5:], *drift.cells.shape), sites, rises=bool(zone[4]))
    raise UnknownFormatError(f"rule {rule}", "upgrade catchment to what wrote this")
