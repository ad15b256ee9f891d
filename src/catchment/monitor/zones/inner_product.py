"""The safe function of an inner product of two sketches (join size; EDBT 2019).

The estimate is the median, or for Count-Min the minimum, of the rows' S_i . S'_i, S = E + X and S' = E' + X', and is
to stay between Tlo and Thi. Sum and difference turn the product into squares: with x = S_i + S'_i and y = S_i - S'_i

    4 S_i . S'_i = |x|² - |y|².

So "at least T" is |x|² >= |y|² + T', T' = 4T, and "at most T" is |y|² >= |x|² - T': the same with x and y exchanged and
-T. Each needs a convex part of that set around E. With p = x . x_E/|x_E| <= |x| and r = |y|:

    T' > 0   p >= sqrt(r² + T'), a branch of a hyperbola, is convex: the slack is the signed distance from its edge
    T' = 0   p >= r, a cone: (p - r)/sqrt(2)
    T' < 0   r <= sqrt(p² - T') is not convex, the half-plane below a tangent is: that at the point (u, v) of
             v = sqrt(u² - T') nearest to E's, u p - v r - T' >= 0, over sqrt(u² + v²)

Each is concave in (x, y), p being linear and r convex, with slope 1. Polarising stretches lengths by sqrt(2), which is
divided out. The rows are then joined by `Quorum`.

A site keeps two drifts, of the sum and of the difference: an event of the first stream goes into both with its
weight, one of the second into the sum with its weight and into the difference with the negative of it
(`kernel.fast_ams.add_signed_tracked`, twice). Their |D_i|² and D_i . E_i are all that is asked here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.hyperbola import nearest_on_hyperbola
from catchment.kernel.slacks import half_product_rows
from catchment.monitor.zones.quorum import Quorum, Sides, rows_needed
from catchment.monitor.zones.thresholds import checked_ends

__all__ = ["InnerProductZone"]

F64 = NDArray[np.float64]
_Measures = tuple[F64, F64]
"""|D_i|² and D_i . E_i of each row of a drift."""

_HALF_ROOT = math.sqrt(0.5)


class InnerProductZone:
    """The slack of an inner-product estimate between `low` and `high`.

    **Guarantee.** If Σ_j slack_j >= 0 over k sites, each with its own drifts and scale = k, then the estimate, by
    the rows' products of the two sums, is in [low, high]. The slack is concave and changes by at most the length of the
    change of both drifts together, times k.

    Parameters
    ----------
    low, high
        The thresholds, of any sign; low may be -inf and high inf, not both.
    sum_norms, difference_norms
        |E_i + E'_i| and |E_i - E'_i| of each row.
    rule
        How the rows make the estimate: `"median"`, or `"minimum"` for Count-Min.
    cheap
        See `Quorum`.

    Examples
    --------
    >>> import numpy as np
    >>> zone = InnerProductZone(2.0, 8.0, sum_norms=[4.0], difference_norms=[0.0])
    >>> round(zone.at_zero, 4)
    0.8284
    >>> zone.slack(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1)) == zone.at_zero
    True
    """

    def __init__(
        self,
        low: float,
        high: float,
        sum_norms: Any,
        difference_norms: Any,
        *,
        rule: str = "median",
        cheap: bool | None = None,
    ) -> None:
        self.low, self.high = checked_ends(low, high)
        sums, differences = (np.array(norms, dtype=np.float64) for norms in (sum_norms, difference_norms))
        lengths = np.concatenate([sums.reshape(-1), differences.reshape(-1)])
        if sums.ndim != 1 or sums.shape != differences.shape or not (np.isfinite(lengths) & (lengths >= 0)).all():
            raise ParameterError(
                f"norms of shapes {sums.shape} and {differences.shape}", "give one finite length for each row of each"
            )
        need_high, need_low = rows_needed(rule, sums.size)
        self._halves = []
        if self.low > -math.inf:
            self._halves.append(_Half(4 * self.low, sums, differences, need_high, swapped=False))
        if self.high < math.inf:
            self._halves.append(_Half(-4 * self.high, differences, sums, need_low, swapped=True))
        self._sides = Sides([Quorum(half.at_zero, half.need, cheap=cheap) for half in self._halves])
        self._width = len(self._halves) * sums.size

    @property
    def at_zero(self) -> float:
        """The slack without drift."""
        return self._sides.at_zero

    def slack(
        self,
        sum_norms2: F64,
        sum_dots: F64,
        difference_norms2: F64,
        difference_dots: F64,
        scale: float = 1.0,
        share: float = 1.0,
    ) -> float:
        """ζ, or share ζ(X/share): |D_i|² and D_i . E_i of the drift of the sum and of the difference, X = scale D."""
        rows = np.empty(self._width)
        of_sum, of_difference = (sum_norms2, sum_dots), (difference_norms2, difference_dots)
        self._fill(rows, of_sum, of_difference, scale / share)
        return share * self._sides.slack(rows)

    def _fill(self, rows: F64, of_sum: _Measures, of_difference: _Measures, scale: float) -> None:
        shift = 0
        for half in self._halves:
            x, y = (of_difference, of_sum) if half.swapped else (of_sum, of_difference)
            half.fill(rows, x, y, scale, self._width, shift)
            shift += half.at_zero.size


class _Half:
    """The rows' slacks of |x|² >= |y|² + tau, `tau` being T', about a reference with those |x| and |y|."""

    def __init__(self, tau: float, x: F64, y: F64, need: int, *, swapped: bool) -> None:
        self.need, self.swapped = need, swapped
        self._tau, self._x, self._y = tau, x, y
        self._planes = _half_planes(tau, x, y) if tau <= 0 else np.zeros((3, x.size))
        self.at_zero = np.empty(x.size)
        still = np.zeros(x.size)
        self.fill(self.at_zero, (still, still), (still, still), 1.0, x.size, 0)

    def fill(self, rows: F64, x: _Measures, y: _Measures, scale: float, stride: int, shift: int) -> None:
        half_product_rows(self._x, x[1], self._y, *y, scale, self._tau, self._planes, rows, stride, shift)


def _half_planes(tau: float, p: F64, r: F64) -> F64:
    """The tangents v r = u p - tau at the points nearest to (p, r), their slope as in the sketches' own space."""
    if tau == 0:
        return np.stack([np.full(p.shape, 0.5), np.full(p.shape, 0.5), np.zeros(p.shape)])
    # v = sqrt(u² - tau) is the branch of the kernel with the axes exchanged.
    u = np.array([nearest_on_hyperbola(vertical, level, -tau) for level, vertical in zip(p, r, strict=True)])
    v = np.sqrt(u * u - tau)
    stretch = _HALF_ROOT / np.sqrt(u * u + v * v)
    return np.stack([u * stretch, v * stretch, -tau * stretch])
