"""CG, the static baseline: each site flushes when its vector has moved by a share of itself. Cormode, Garofalakis 2005.

A site flushes when |Δ_j| > θ_s/sqrt(k) |v_j| (004 §4; θ_s from (1+ε)(1+θ_s)² - 1 = θ), both by its own sketch: the
median of the rows' norms. For a product of two streams that is asked of each of them, with the same θ_s: the sums of
the drifts are then at most θ_s |f| and θ_s |g|, which move the product by at most (2θ_s + θ_s²) |f| |g|, and the
sketch adds ε (1+θ_s)² |f| |g|. Purely local, nobody is ever asked, and the more sites the stricter it is. It rests on
sketches' estimates of the norms and on frequencies that are not negative, so its band holds with the sketch's
probability, not always, and only for self-joins and products of streams that grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.rules.base import Decision, Guard, Hold, Keep, SiteView, Steersman, Terms, check_terms
from catchment.monitor.shift import row_norms
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band, must_flush

__all__ = ["RelativeGuard", "RelativeSteersman"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


class RelativeGuard(Guard):
    """Compares the drift with the vector that it started from."""

    falls = True

    def __init__(self, drift: Drift, sites: int) -> None:
        super().__init__(drift)
        self._sites, self._share = sites, 0.0
        self._base: I64 | None = None

    def statistic(self) -> tuple[float, ...]:
        return ()

    def hold(self, terms: Terms) -> bool:
        check_terms(terms)
        self._share = terms.quantum
        return False

    def must_flush(self) -> bool:
        drift = self.drift
        if self._base is not drift.base:  # a flush has moved it
            self._base = drift.base
            self._norms = row_norms(drift.base)
            drift.follow(drift.base)
        own = self._norms + 2 * drift.dots + drift.norms
        streams = zip(np.split(drift.norms, drift.streams), np.split(own, drift.streams), strict=True)
        return any(must_flush(_norm(moved), _norm(whole), self._share, self._sites) for moved, whole in streams)

    def look(self) -> int:
        return int(self.must_flush())


def _norm(rows: F64) -> float:
    return math.sqrt(max(median(rows.tolist()), 0.0))


class RelativeSteersman(Steersman):
    """Follows the flushes with the value."""

    name, number, pushes = "relative", 4, True

    def __init__(self, around: Callable[[I64], tuple[float, Band]], share: float, total: I64, sites: int) -> None:
        self._around, self._share, self._sites = around, share, sites
        self.flushed(total, 0, grows=True)

    def flushed(self, total: I64, size: int, *, grows: bool) -> None:
        self.value, band = self._around(total)
        self.low, self.high = band.low, band.high

    def zone(self) -> bytes:
        return self._sites.to_bytes(4, "little")

    def open(self, sites: Mapping[str, SiteView]) -> Decision:
        return Hold({site: Terms(quantum=self._share) for site in sites})

    def decide(self, sites: Mapping[str, SiteView]) -> Decision:
        return Keep()

    def weigh(self, sites: Mapping[str, SiteView]) -> Decision:
        return Keep()

    def proven(self, sites: Mapping[str, SiteView]) -> bool:
        return not any(view.level for view in sites.values())
