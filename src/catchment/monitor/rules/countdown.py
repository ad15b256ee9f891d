"""Countdown: functional geometric monitoring. Samoladas, Garofalakis, EDBT 2019.

Every site evaluates the same concave safe function ζ at its own drift, scaled by the number k of sites: as long as the
sum of the values is not negative, the mean of the scaled drifts, which is everyone's drift, is in the zone (Jensen).
The sum is counted down. In a step a site starts from its value z and says how many whole quanta θ it has lost at worst,
c; with all c in, the sum is more than Σ (z - (c + 1) θ) = Ψ - (Σc + k) θ, and θ = Ψ/2k makes that positive as long as
Σc ≤ k. Then everyone is asked for his value and a new step begins with the new sum, each about half of the last; when
little is left, drifts are flushed; the next round may keep the zone where that is dear (`rebalanced`). One site may be
far outside as long as others have slack, which is why it does not collapse as k grows; a round costs a few dozen bytes
for each site and step.

In the paper increments of c are sent; here c itself is, with its round and step, and it holds at the cut of the
reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.planner import STEP_BYTES
from catchment.monitor.rules.base import (
    Ask,
    Collect,
    Decision,
    Guard,
    Hold,
    Keep,
    SiteView,
    Steersman,
    Terms,
    check_terms,
)
from catchment.monitor.safe import Zone
from catchment.monitor.shift import Shift
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band

__all__ = ["CountdownGuard", "CountdownSteersman"]

I64 = NDArray[np.int64]

SHARES = tuple(place / 16 for place in range(1, 16))
"""The parts of a kept zone's slack that sites may get."""
NEAR = 0.9
"""The largest share is taken with which at least this much of the largest sum is left."""

ENOUGH = 0.01
"""A round ends when this share of the slack that it began with is left (the paper's ε_ψ)."""


class CountdownGuard(Guard):
    """Counts the quanta that the safe function has lost since the step began."""

    def __init__(self, drift: Drift, zone: Zone, sites: int, *, rises: bool) -> None:
        super().__init__(drift)
        self._zone, self._sites, self._rises = zone, sites, rises
        zone.follow(drift)
        self._start = self._lowest = zone.at_zero  # a round begins at the flush, where the drift is zero
        self._quantum, self._share = 0.0, 1.0

    def restart(self, share: float) -> None:
        if not 0 < share <= 1:
            raise DamagedBytesError(f"a share of {share} of a zone")
        self._share = share
        self._start = self._lowest = share * self._zone.at_zero
        self._quantum = 0.0

    def _slack(self) -> float:
        if self._rises and self.drift.fell:
            return -math.inf  # the zone is for quantities that do not fall: another one is needed
        return self._zone.slack(self.drift, self._sites, self._share)

    def statistic(self) -> tuple[float, ...]:
        self._start = self._lowest = self._slack()
        self._quantum = 0.0
        return (self._start,)

    def hold(self, terms: Terms) -> bool:
        check_terms(terms)
        self._quantum = terms.quantum
        return False

    def look(self) -> int:
        self._lowest = min(self._lowest, self._slack())
        lost = self._start - self._lowest if self._lowest > -math.inf else math.inf
        if not lost > 0:
            return 0
        # What is beyond the number of sites is all the same; with no slack at all, any loss is.
        most = self._sites + 1
        return most if lost >= most * self._quantum else math.floor(lost / self._quantum)


class CountdownSteersman(Steersman):
    """Adds the levels up, and asks when they are more than the sites are."""

    statistic_size = 1

    def __init__(
        self,
        name: str,
        number: int,
        value: float,
        band: Band,
        zone: Zone,
        sites: int,
        *,
        reference: I64,
        enough: float = ENOUGH,
        rises: bool = False,
    ) -> None:
        self.name, self.number, self._enough, self._rises = name, number, enough, rises
        self.value, self.low, self.high, self._band = value, band.low, band.high, band
        self._zone, self._sites, self._reference = zone, sites, reference
        self._balance = 0.0  # the slack of what was flushed since the zone was made, times the sites
        self._whole = zone.at_zero * sites

    def rebalanced(self, total: I64, flushed: int, *, grows: bool) -> CountdownSteersman | None:
        """Rebalancing (EDBT 2019): the zone stays, and what was flushed since, B, gets the rest 1 - λ of its slack.

        λ ζ(X/λ) at the sites and (1-λ) ζ(B/(1-λ)) here are safe together, ζ being concave. The round is shorter than
        one with a new zone, by the slack that is left of it; it is worth that if the zone costs more.
        """
        if self._rises and not grows:
            return None
        moved = Shift(total - self._reference)
        self._zone.follow(moved)
        balances = {share: self._zone.slack(moved, 1, 1 - share) for share in SHARES}
        whole = {share: share * self._zone.at_zero + balances[share] for share in SHARES}
        if not (self._zone.at_zero > 0 and max(whole.values()) > 0):
            return None
        # The more the sites have, the less a drift that bends ζ costs them.
        share = max(share for share in SHARES if whole[share] >= NEAR * max(whole.values()))
        left = whole[share]
        others = flushed + self._sites * STEP_BYTES * math.log2(1 / self._enough)
        if not worth_keeping(left / self._zone.at_zero, others, self._sites * len(self._zone.to_bytes())):
            return None
        again = CountdownSteersman(
            self.name, self.number, self.value, self._band, self._zone, self._sites, reference=self._reference,
            enough=self._enough, rises=self._rises,
        )  # fmt: skip
        again.share, again._balance, again._whole = share, self._sites * balances[share], self._sites * left
        return again

    def _may_be(self, number: float) -> bool:
        return number == -math.inf or super()._may_be(number)  # a zone that does not hold any more says so

    def zone(self) -> bytes:
        return self._sites.to_bytes(4, "little") + bytes([self._rises]) + self._zone.to_bytes()

    def open(self, sites: Mapping[str, SiteView]) -> Decision:
        return self._hold(sites, self._whole)

    def _hold(self, sites: Mapping[str, SiteView], left: float) -> Hold:
        quantum = max(left / (2 * self._sites), 0.0)
        return Hold({site: Terms(quantum=quantum) for site in sites})

    def decide(self, sites: Mapping[str, SiteView]) -> Decision:
        if _levels(sites) <= self._sites:
            return Keep()
        return Ask(tuple(sites))

    def weigh(self, sites: Mapping[str, SiteView]) -> Decision:
        left = math.fsum(view.statistic[0] for view in sites.values()) + self._balance
        if not left > self._enough * self._whole:
            return Collect(tuple(sites), guarded=True)
        return self._hold(sites, left)

    def proven(self, sites: Mapping[str, SiteView]) -> bool:
        # A site that has not got its terms yet stands at the cut of its statistic, where it has lost nothing.
        return all(view.confirmed >= view.step - 1 for view in sites.values()) and _levels(sites) <= self._sites


def worth_keeping(left: float, others: float, zone: int) -> bool:
    """Whether a round with this share of the slack, and without the zone's bytes, costs less than one with both.

    >>> worth_keeping(0.5, others=1000, zone=2000), worth_keeping(0.5, others=1000, zone=900)
    (True, False)
    """
    return left * (others + zone) > others


def _levels(sites: Mapping[str, SiteView]) -> int:
    return sum(view.level for view in sites.values() if view.confirmed == view.step)
