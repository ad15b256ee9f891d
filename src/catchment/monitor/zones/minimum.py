"""The safe zones of Count-Min sketches in a window (ECM-sketch, VLDB Journal 2015: 000 §6.3 to 6.5).

The estimate is a minimum over rows. "At least" is convex as it is: all rows must be. "At most" is not: one row must
be. Its complement is a corner, all rows above; the zone is the half-space on this side of the corner's point p that is
nearest to the reference e, perpendicular to p - e:

    p_i = max(e_i, T),     slack(x) = |p - e| - x . (p - e)/|p - e|.

**Self-join (§6.4, Theorem 5).** Counters are never negative. So the ones that rose push the estimate only upwards,
those that fell only downwards. With d^u the length, by row, of the rises of a site's counters since it was last
collected (max(now - then, 0)) and d^l that of the falls, each against the site's own vector,

    |E_i| - Σ_j d^l_j,i  <=  |S_i|  <=  |E_i| + Σ_j d^u_j,i,

and the upper side is asked of the rises, the lower of the falls. In windows counters fall by expiry alone, without any
arrival: a site must look again when its oldest bucket expires.

Items (§6.3) have bands in place of zones: see `monitor/items`.

The 1/n of the paper's averages is in `scale`, as everywhere here: x = n d, against |E_i| and T instead of |E_i|/n and
T/n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError

__all__ = ["MinimumZone", "rises_and_falls"]

F64 = NDArray[np.float64]


def rises_and_falls(now: Any, then: Any) -> tuple[F64, F64]:
    """d^u and d^l of a site, or of many: by row, the length of what rose in its counters and of what fell.

    >>> rises_and_falls([[3, 0, 5]], [[0, 4, 1]])
    (array([5.]), array([4.]))
    """
    change = np.asarray(now, dtype=np.float64) - np.asarray(then, dtype=np.float64)
    up, down = (np.linalg.norm(np.maximum(part, 0.0), axis=-1) for part in (change, -change))
    return up, down


class MinimumZone:
    """The slack of a Count-Min self-join estimate between `low` and `high`, from the rows' rises and falls.

    **Guarantee.** If Σ_j slack_j >= 0 over n sites with scale = n, and no counter is or was negative, then low <= min_i
    |S_i|² <= high. Concave, slope at most 1 in rises and falls together.

    Parameters
    ----------
    low, high
        The thresholds; low <= 0 and high = inf stand for none, not both.
    norms
        |E_i| of each row of the sum of all sites' counters when they were collected.

    Examples
    --------
    >>> import numpy as np
    >>> zone = MinimumZone(64.0, 169.0, norms=[10.0, 9.0])
    >>> zone.corner.tolist(), zone.at_zero
    ([13.0, 13.0], 1.0)
    >>> zone.slack(rises=np.array([3.0, 3.0]), falls=np.array([0.0, 0.5]))
    0.5
    """

    def __init__(self, low: float, high: float, norms: Any) -> None:
        self.low, self.high = float(low), float(high)
        self.norms = np.array(norms, dtype=np.float64)
        if self.norms.ndim != 1 or not self.norms.size or not (np.isfinite(self.norms) & (self.norms >= 0)).all():
            raise ParameterError(f"norms={norms!r}", "give the length of each row of the reference")
        estimate = float((self.norms**2).min())
        if not (self.low < estimate < self.high and (self.low > 0 or self.high < math.inf)):
            raise ParameterError(
                f"thresholds {low!r} and {high!r} about the estimate {estimate!r}",
                "take them on either side of it, with room, and at least one that can be crossed",
            )
        self._room_below = self.norms - math.sqrt(self.low) if self.low > 0 else None
        self.corner = np.maximum(self.norms, math.sqrt(self.high)) if self.high < math.inf else None
        """The point p of the complement that is nearest; None where there is no high."""
        if self.corner is not None:
            towards = self.corner - self.norms
            self._room_above = float(np.linalg.norm(towards))
            self._towards = towards / self._room_above
        self.at_zero = self.slack(np.zeros(self.norms.size), np.zeros(self.norms.size))

    def slack(self, rises: F64, falls: F64, scale: float = 1.0, share: float = 1.0) -> float:
        """ζ, or share ζ(x/share), of a site's d^u and d^l (`rises_and_falls`), x = scale d."""
        return float(self.slacks(rises, falls, scale, share))

    def slacks(self, rises: F64, falls: F64, scale: float = 1.0, share: float = 1.0) -> F64:
        """`slack` of many; both arrays have shape (sites, depth)."""
        grown = scale / share
        above = below = np.asarray(np.inf)
        if self.corner is not None:
            above = self._room_above - grown * (rises @ self._towards)
        if self._room_below is not None:
            below = (self._room_below - grown * falls).min(axis=-1)
        least: F64 = share * np.minimum(above, below)
        return least
