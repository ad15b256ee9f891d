"""The geometric method on error vectors (004 §3.2, 3.3 and 3.5): is a ball all of one colour?

Site j's error vector has one number a row, u_j,i = k |D_j,i|, the length of its scaled drift; the average u of all
sites' has u_i >= |S_i - E_i|. Bounds of the estimate follow from u alone, a median of increasing functions of u_i, and
the condition on either side takes the form F(u) = median_i(...) <= ζ, a lower bound after a change of sign:

    self-join (§3.3)       ± |E_i| + u_i                              <= ± sqrt(T)
    inner product (§3.5)   ± E_i . E'_i + |E'_i| x_i + |E_i| y_i + x_i y_i <= ± T     (x, y): errors of either sketch

The average is covered by the balls whose diameters go from the common origin (0 after a collection, or the last
average) to each site's u_j. So if every site's ball is free of points with F > ζ, the estimate is within its
thresholds.

The distance of a ball's centre from {F >= ζ}: each row costs r_i² to be brought there, and floor((m+1)/2) rows must
be, the cheapest ones. (For an even m this is the distance from where the upper of the two middle values reaches ζ,
which it does before their mean does: safe.) There is no 1/n in the thresholds, as a row of Fast-AMS estimates by its
squared norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.hyperbola import squares_to_products
from catchment.monitor.zones.thresholds import checked_ends

__all__ = ["BallZone", "distance_to_median", "distance_to_median_bilinear"]

F64 = NDArray[np.float64]


def distance_to_median(center: Any, a: Any, threshold: float) -> float:
    """The distance of `center` from {x : median(a + x) >= threshold} (Algorithm 1).

    The ranks floor((m+1)/2) to m of the sorted a + c that are below the threshold are raised to it.

    >>> distance_to_median([0.0, 0.0, 0.0], [1.0, 5.0, 9.0], 8.0)
    3.0
    """
    gaps = (threshold - x - y for x, y in zip(_floats(center), _floats(a), strict=True))
    return _distance([gap * gap if gap > 0 else 0.0 for gap in gaps])


def distance_to_median_bilinear(center: Any, other: Any, a: Any, b: Any, g: Any, threshold: float) -> float:
    """The distance of (`center`, `other`) from {(x, y) : median(x y + a x + b y + g) >= threshold}.

    A row is (x + b)(y + a) >= τ = threshold + ab - g: with α = c + b, β = c' + a the distance from (α, β) to pq = τ.
    It is min(|α|, |β|) for τ = 0 and else to a point of the quartic p⁴ - αp³ + τβp - τ² = 0, the nearest of its roots,
    which `kernel.hyperbola` finds without the others.

    >>> distance_to_median_bilinear([0.0], [0.0], [0.0], [0.0], [0.0], 2.0)
    2.0
    """
    c, d, x, y, z = (np.asarray(values, dtype=np.float64) for values in (center, other, a, b, g))
    squares = np.empty(c.size)
    squares_to_products(c + y, d + x, threshold + (x * y - z), squares)
    return _distance(squares.tolist())


def _distance(squares: list[float]) -> float:
    return math.sqrt(sum(sorted(squares)[: (len(squares) + 1) // 2]))


def _floats(values: Any) -> list[float]:
    if isinstance(values, list):
        return values
    numbers: list[float] = np.asarray(values, dtype=np.float64).tolist()
    return numbers


class _Condition:
    """F <= threshold: the rows' values at a point, and the distance of a point from where F passes it."""

    def __init__(self, values: Callable[[F64], F64], distance: Callable[[F64], float], threshold: float) -> None:
        self._values, self.distance, self._threshold = values, distance, threshold

    def holds(self, point: F64) -> bool:
        values = self._values(point)
        return int((values > self._threshold).sum()) < (values.size + 1) // 2


class BallZone:
    """Whether the ball of a site's error vector is free of bad points.

    **Guarantee.** If `inside(u_j)` at every site, with u_j,i = k |D_j,i| (for inner products those of the first
    sketch's rows, then of the second's) and one common origin, the estimate is within the thresholds.

    Build one by `self_join`, `range` or `inner_product`.

    Examples
    --------
    >>> zone = BallZone.self_join(low=64.0, high=144.0, norms=[10.0, 10.0, 10.0])
    >>> zone.inside([1.0, 1.0, 1.0]), zone.inside([2.5, 2.5, 0.0])
    (True, False)
    >>> zone.admissible([2.0, 2.0, 7.0])
    True
    """

    def __init__(self, conditions: Iterable[_Condition], size: int) -> None:
        self._conditions, self.size = list(conditions), size
        if not self._conditions:
            raise ParameterError("no threshold at all", "give a finite low or a finite high")
        if not self.admissible(np.zeros(size)):
            raise ParameterError(
                "the reference is outside its own thresholds", "take thresholds around the estimate of the reference"
            )

    @classmethod
    def self_join(cls, low: float, high: float, norms: Any) -> Self:
        """|E_i| of each row; low <= 0 is no threshold, as a square is never below it."""
        low, high = checked_ends(low, high)
        e = _vector("norms", norms)
        if high < 0:
            raise ParameterError(f"high={high!r}", "a self-join is never negative: give a high of at least 0")
        ends = [(e, math.sqrt(high))] if high < math.inf else []
        ends += [(-e, -math.sqrt(low))] if low > 0 else []
        return cls((_shifted(a, threshold) for a, threshold in ends), e.size)

    @classmethod
    def inner_product(cls, low: float, high: float, products: Any, first_norms: Any, second_norms: Any) -> Self:
        """E_i . E'_i, |E_i| and |E'_i| of each row; error vectors are those of E's drift, then of E''s."""
        g = _vector("products", products)
        first, second = _vector("first_norms", first_norms), _vector("second_norms", second_norms)
        return cls((_crossed(a, first, second, threshold) for a, threshold in _ends(low, high, g)), 2 * g.size)

    def inside(self, drift: Any, origin: Any = 0.0) -> bool:
        """Whether the ball whose diameter goes from `origin` to `drift` has no bad point."""
        point = np.asarray(drift, dtype=np.float64)
        center, half = 0.5 * (point + origin), 0.5 * (point - origin)
        radius = math.sqrt(float(half.dot(half)))
        return all(radius <= condition.distance(center) for condition in self._conditions)

    def admissible(self, point: Any) -> bool:
        """Whether the bounds of the estimate at an (average) error vector are within the thresholds."""
        at = np.asarray(point, dtype=np.float64)
        return all(condition.holds(at) for condition in self._conditions)


def _vector(name: str, values: Any) -> F64:
    vector = np.array(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise ParameterError(f"{name}={values!r}", "give one finite number for each row")
    return vector


def _ends(low: float, high: float, products: F64) -> list[tuple[F64, float]]:
    low, high = checked_ends(low, high)
    ends = [(products, high)] if high < math.inf else []
    return ends + ([(-products, -low)] if low > -math.inf else [])


def _shifted(a: F64, threshold: float) -> _Condition:
    kept = a.tolist()
    return _Condition(lambda u: a + u, lambda u: distance_to_median(u, kept, threshold), threshold)


def _crossed(g: F64, first: F64, second: F64, threshold: float) -> _Condition:
    m = g.size

    def values(u: F64) -> F64:
        x, y = u[:m], u[m:]
        return x * y + second * x + first * y + g

    def distance(u: F64) -> float:
        return distance_to_median_bilinear(u[:m], u[m:], second, first, g, threshold)

    return _Condition(values, distance, threshold)
