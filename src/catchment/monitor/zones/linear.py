"""The safe function of linear questions: totals, named items, ranges by their counts; few numbers, no sketch.

low <= a . (E + X) <= high is convex as it is. The slack of one form is the distance from the nearer of two planes,

    min(high - a.E - a.X,  a.E + a.X - low) / |a|,

and of several forms the least of theirs. It is exact: it is negative only where a form is out of its band.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError

__all__ = ["LinearZone"]

F64 = NDArray[np.float64]


class LinearZone:
    """The slack of linear forms a . x, each between its thresholds.

    **Guarantee.** Σ_j slack_j >= 0 over k sites with scale = k implies that each form of the sum is in its band.
    Concave, slope 1.

    Parameters
    ----------
    low, high
        The thresholds: one number, or one for each form; -inf and inf stand for none.
    reference
        E, a vector of some counts.
    forms
        The a's, an array of shape (forms, len(reference)), or a single one; None is each count by itself.

    Examples
    --------
    >>> import numpy as np
    >>> total = LinearZone(80.0, 120.0, reference=[60.0, 40.0], forms=[1.0, 1.0])
    >>> total.slack(np.array([15.0, -5.0])) * 2**0.5
    10.0...
    >>> each = LinearZone(-np.inf, [70.0, 45.0], reference=[60.0, 40.0])
    >>> each.at_zero, each.slack(np.array([1.0, 2.0]), scale=2.0)
    (5.0, 1.0)
    """

    def __init__(self, low: Any, high: Any, reference: Any, forms: Any = None) -> None:
        start = np.array(reference, dtype=np.float64)
        if start.ndim != 1 or start.size == 0:
            raise ParameterError(f"a reference of shape {start.shape}", "give a vector of at least one count")
        matrix = np.eye(start.size) if forms is None else np.atleast_2d(np.array(forms, dtype=np.float64))
        if matrix.ndim != 2 or matrix.shape[1] != start.size or not len(matrix):
            raise ParameterError(f"forms of shape {matrix.shape} for {start.size} counts", "give a weight for each")
        lengths = np.linalg.norm(matrix, axis=1)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise ParameterError(f"forms of lengths {lengths}", "give each form a weight that is not zero")
        values = matrix @ start
        lows, highs = (np.broadcast_to(np.asarray(end, dtype=np.float64), values.shape) for end in (low, high))
        if not ((lows <= values) & (values <= highs)).all():
            raise ParameterError(
                f"values {values} outside [{lows}, {highs}]", "take thresholds around the reference's values"
            )
        self._matrix = matrix / lengths[:, None]
        self._below, self._above = (values - lows) / lengths, (highs - values) / lengths
        self.at_zero = self.slack(np.zeros(start.size))
        if self.at_zero == np.inf:
            raise ParameterError("no threshold at all", "give a finite low or a finite high")

    def slack(self, drift: F64, scale: float = 1.0, share: float = 1.0) -> float:
        """ζ, or share ζ(X/share), of the drift D of the counts, X = scale D."""
        moved = self._matrix.dot(drift) * (scale / share)
        return share * float(min((self._above - moved).min(), (self._below + moved).min()))
