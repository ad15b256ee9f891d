"""Balance: the geometric method in the low-dimensional error space, and the two phases of ECM monitors.

A site measures its drift by a small point u_j, k times the norms of its rows (004 §3.3–3.5), or k times those of what
rose and of what fell (000 §6.4), and adds a slack vector; the slacks of all sites sum to zero, so the mean of the
points is untouched by them. As long as every site's point is inside a region, the mean is admissible: for balls by the
covering of the convex hull (Sharfman et al. 2006), for safe zones because they are convex. A site that finds itself
outside says so, with its point, and stands still. The coordinator then looks for a set of sites whose points' mean is
inside, asks one more site as long as there is none, and gives the sites of the set slacks that bring each to the mean.

When the mean of all is outside, sites flush. *Eager*: all of them. *Lazy* (004 §3.6): one at a time, the one with the
most updates first, until the mean of the drifts that are left is inside the region around the new reference.
*Two-phase* (000 §6.4): all sites are asked at once, and then all flush.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.regions import Region
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
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band

__all__ = ["EAGER", "LAZY", "TWO_PHASE", "BalanceGuard", "BalanceSteersman"]

F64 = NDArray[np.float64]

EAGER, LAZY, TWO_PHASE = "eager", "lazy", "two-phase"


class BalanceGuard(Guard):
    """Says when the site's point, with its slack, is outside; it then stands until it is given another slack."""

    stands = True

    def __init__(self, drift: Drift, region: Region, sites: int) -> None:
        super().__init__(drift)
        self._region, self._sites = region, sites
        self._slack: F64 = np.zeros(region.size)

    def statistic(self) -> tuple[float, ...]:
        return tuple(self._region.point(self.drift, self._sites).tolist())

    def hold(self, terms: Terms) -> bool:
        check_terms(terms, slack=self._region.size)
        self._slack = np.array(terms.slack) if terms.slack else np.zeros(self._region.size)
        return False

    def look(self) -> int:
        return int(not self._region.inside(self._region.point(self.drift, self._sites) + self._slack))


class BalanceSteersman(Steersman):
    """Looks for sites that balance each other."""

    def __init__(self, name: str, number: int, value: float, band: Band, region: Region, sites: int) -> None:
        self.name, self.number = name, number
        self.value, self.low, self.high = value, band.low, band.high
        self._region, self._sites = region, sites
        self.statistic_size = region.size
        self._next = 0

    def fits(self, statistic: tuple[float, ...], level: int) -> bool:
        return super().fits(statistic, level) and bool(statistic or not level)  # who is outside says where

    def zone(self) -> bytes:
        return self._sites.to_bytes(4, "little") + self._region.to_bytes()

    def open(self, sites: Mapping[str, SiteView]) -> Decision:
        """Sites that have flushed are at zero; those that have not stand at the statistic that they gave."""
        standing = {site: view for site, view in sites.items() if view.statistic}
        if not standing:
            return Hold({site: Terms() for site in sites})
        mean = np.array([view.statistic for view in standing.values()]).sum(axis=0) / len(sites)
        if not self._region.inside(mean):
            return Collect((max(standing, key=lambda site: standing[site].pending),))
        return Hold({site: self._terms(mean - self._point(view)) for site, view in sites.items()})

    def _point(self, view: SiteView) -> F64:
        return np.array(view.statistic) if view.statistic else np.zeros(self._region.size)

    @staticmethod
    def _terms(slack: F64) -> Terms:
        return Terms(slack=tuple(slack.tolist()))

    def decide(self, sites: Mapping[str, SiteView]) -> Decision:
        outside = any(view.level and view.confirmed == view.step for view in sites.values())
        return self.weigh(sites) if outside else Keep()

    def weigh(self, sites: Mapping[str, SiteView]) -> Decision:
        known = {site: view for site, view in sites.items() if view.statistic}
        none = (0.0,) * self._region.size
        points = np.array([view.statistic for view in known.values()])
        mean = (points + np.array([view.slack or none for view in known.values()])).mean(axis=0)
        if self._region.inside(mean):
            return Hold({site: self._terms(slack) for site, slack in zip(known, mean - points, strict=True)})
        others = [site for site in sites if site not in known]
        if others and self.name == TWO_PHASE:
            return Ask(tuple(others))
        if others:
            self._next += 1  # not always the same site, for it would have no slack left soon
            return Ask((others[self._next % len(others)],))
        if self.name == LAZY:
            return Collect((max(known, key=lambda site: known[site].pending),))
        return Collect(tuple(sites))

    def proven(self, sites: Mapping[str, SiteView]) -> bool:
        # After new slacks a site stands at its statistic, which they put inside, until it has got them.
        return all(
            view.confirmed == view.step - 1 or (view.confirmed == view.step and not view.level)
            for view in sites.values()
        )
