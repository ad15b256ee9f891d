"""The safe function of a self-join (EDBT 2019; the near one is 004 §3.3 as a slack).

The estimate is the median, or for Count-Min the minimum, of the rows' |S_i|², and is to stay between Tlo and Thi. With
S_i = E_i + X_i a row's slacks are

    upper  sqrt(Thi) - |S_i|                       >= 0  exactly when  |S_i|² <= Thi
    lower  S_i . E_i/|E_i| - sqrt(Tlo)             >= 0  implies       |S_i|² >= Tlo

The set |S_i| <= sqrt(Thi) is a ball, and this is the distance from its edge. The set |S_i| >= sqrt(Tlo) is not convex;
the half-space that touches it in the direction of E_i is a convex part of it, and the slack is the distance from its
plane. A Tlo <= 0 holds by itself.

**Near** needs no E, only the d numbers |E_i|: |S_i| <= |E_i| + |X_i|, and S_i . E_i/|E_i| >= |E_i| - |X_i|. It is never
larger, and a site that has only it spends its slack on the length of its drift, whichever way that goes.

From a site's drift D, X = k D, all of it follows from two numbers a row, which `kernel.fast_ams.add_signed_tracked`
keeps: |D_i|² and D_i . E_i. A look costs O(d), not O(d × width).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.slacks import self_join_rows
from catchment.monitor.zones.quorum import Quorum, Sides, rows_needed
from catchment.monitor.zones.thresholds import checked_ends

__all__ = ["SelfJoinZone"]

F64 = NDArray[np.float64]

_UNKNOWN = np.empty(0)


class SelfJoinZone:
    """The slack of a self-join estimate between `low` and `high`.

    **Guarantee.** If Σ_j slack_j >= 0 over k sites, each with its own drift and scale = k, then low <= estimate of the
    sum <= high. The slack is concave and changes by at most |k D - k D'| between two drifts. (Computed in floating
    point: to about 1e-15 of |S_i| + |E_i|, or 1e-8 where the drift has nearly undone E_i.)

    Parameters
    ----------
    low, high
        The thresholds; low may be -inf and high inf, not both.
    norms
        |E_i|, the length of each row of the reference.
    rule
        "median" (Fast-AMS) or "minimum" (Count-Min).
    cheap
        See `Quorum`.

    Examples
    --------
    >>> zone = SelfJoinZone(64.0, 144.0, norms=[10.0])
    >>> zone.at_zero
    2.0
    >>> import numpy as np
    >>> zone.near_slack(np.array([1.0])), zone.slack(np.array([1.0]), np.array([10.0]), scale=1.0)  # E grew by a tenth
    (1.0, 1.0)
    >>> zone.slack(np.array([1.0]), np.array([0.0]))  # a step sideways costs nearly nothing
    1.95012...
    """

    def __init__(self, low: float, high: float, norms: Any, *, rule: str = "median", cheap: bool | None = None) -> None:
        self.low, self.high = checked_ends(low, high)
        self.rule = rule
        self.norms = np.array(norms, dtype=np.float64)
        if self.norms.ndim != 1 or not (np.isfinite(self.norms).all() and (self.norms >= 0).all()):
            raise ParameterError(f"norms={norms!r}", "give the length of each row of the reference")
        if self.high < 0:
            raise ParameterError(f"high={high!r}", "a self-join is never negative: give a high of at least 0")
        need_high, need_low = rows_needed(rule, self.norms.size)
        # A square is never below 0: such a low is no threshold.
        self._ceiling, self._floor = math.sqrt(self.high), math.sqrt(max(self.low, 0.0))
        sides = []
        # No sum of a quorum has more rows than these, whichever rows are good.
        self.counted = 1
        if self._ceiling < math.inf:
            self.counted = self.norms.size - need_low + 1
            sides.append(Quorum(self._ceiling - self.norms, need_low, cheap=cheap))
        if self._floor > 0:
            self.counted = max(self.counted, self.norms.size - need_high + 1)
            sides.append(Quorum(self.norms - self._floor, need_high, cheap=cheap))
        self._sides = Sides(sides)
        self._width = len(sides) * self.norms.size

    @property
    def at_zero(self) -> float:
        """The slack without drift, the same with the whole reference and with its norms alone."""
        return self._sides.at_zero

    def slack(self, norms2: F64, dots: F64, scale: float = 1.0, share: float = 1.0) -> float:
        """ζ, or share ζ(X/share), of the drift with |D_i|² = `norms2` and D_i . E_i = `dots`, and X = scale D."""
        rows = np.empty(self._width)
        self_join_rows(norms2, dots, scale / share, self.norms, self._ceiling, self._floor, rows)
        return share * self._sides.slack(rows)

    def near_slack(self, norms2: F64, scale: float = 1.0, share: float = 1.0) -> float:
        """The same without the reference's direction."""
        return self.slack(norms2, _UNKNOWN, scale, share)
