"""The inequalities that several sketches share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "bisect",
    "chernoff_radius",
    "collision_floor",
    "distinct_interval",
    "empirical_slack",
    "median_row_failure",
    "widened",
]


def widened(low: float, high: float) -> tuple[float, float]:
    """Bounds moved outwards where integers this large have no exact floating-point number.

    Sums of squares pass 2^53 early; rounding to nearest could put the upper bound below the truth.

    >>> widened(3.0, 8.0), widened(0.0, 2.0**60) > (0.0, 2.0**60)
    ((3.0, 8.0), True)
    """
    margin = 2.0**-40
    return (
        low - abs(low) * margin if abs(low) >= 2.0**52 else low,
        high + abs(high) * margin if abs(high) >= 2.0**52 else high,
    )


def collision_floor(value: NDArray[Any], mass: float, share: float) -> NDArray[Any]:
    """The least truth below a Count-Min estimate: the smallest x with value <= x + share * (mass - x), rounded up.

    By Markov a row holds more than k(mass - x)/width of other keys with probability at most 1/k, and all `depth`
    rows do with probability k^-depth: share is k/width, for the k that makes this delta.

    >>> collision_floor(np.array([50, 8]), 100, 0.1).tolist()
    [45, -2]
    """
    if share >= 1:
        return np.zeros_like(value)
    # A hair less than exact, lest rounding in floating point lift the bound above a truth that meets it.
    lowest: NDArray[Any] = np.ceil((value - share * mass) / (1 - share) - 1e-9 * value).astype(value.dtype)
    return lowest


def empirical_slack(cells: NDArray[np.int64], delta: float) -> int:
    """The smallest t that all rows of Count-Min counters pass together with probability at most delta.

    A key that falls on a counter of each row at random errs in a row by more than t with probability (counters above
    t)/width (Ting, KDD 2018). Counters that are too high only raise t, so upper bounds of the counters will do.

    >>> empirical_slack(np.array([[9, 1, 1, 0], [0, 2, 0, 9]]), 0.1)
    2
    """
    ordered = np.sort(cells, axis=1)
    candidates = np.unique(ordered)
    above = [1 - np.searchsorted(row, candidates, side="right") / cells.shape[1] for row in ordered]
    return int(candidates[np.flatnonzero(np.prod(above, axis=0) <= delta)[0]])


def bisect(holds: Callable[[float], bool], low: float, high: float, steps: int = 60) -> float:
    """The largest x in [low, high] for which `holds`, which must be true up to some point and false after it.

    >>> round(bisect(lambda x: x * x <= 2, 0, 2), 6)
    1.414214
    """
    for _ in range(steps):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def chernoff_radius(delta: float) -> float:
    """Standard deviations that a sub-Gaussian error stays within on both sides but with probability delta.

    P(|X| >= t s) <= 2 exp(-t^2 / 2). Wider than the normal quantile (2.72 against 1.96 at delta 0.05), which is what
    makes it safe for sums that are only nearly normal.

    >>> round(chernoff_radius(0.05), 2)
    2.72
    """
    return math.sqrt(2 * math.log(2 / delta))


@lru_cache(maxsize=4096)
def median_row_failure(depth: int, delta: float) -> float:
    """The largest p such that a median of `depth` independent rows, each wrong with probability p, is wrong with
    probability at most delta.

    The median errs only when at least ceil(depth/2) rows err, so p solves P(Bin(depth, p) >= ceil(depth/2)) = delta,
    exactly and not by a Chernoff bound.

    >>> median_row_failure(1, 0.05) == 0.05
    True
    >>> round(median_row_failure(5, 0.01), 4)
    0.1056
    """
    if depth == 1:
        return delta
    majority = (depth + 1) // 2

    def fails_rarely(p: float) -> bool:
        tail = sum(math.comb(depth, k) * p**k * (1 - p) ** (depth - k) for k in range(majority, depth + 1))
        return tail <= delta

    return bisect(fails_rarely, 0.0, 0.5)


def distinct_interval(kept: int, largest: float, delta: float) -> tuple[float, float]:
    """Bounds on n, when the `kept`-th smallest of n independent uniform numbers in (0, 1) is `largest`.

    It is at most v exactly when Bin(n, v) >= kept. An n is ruled out when what was seen has, by the Chernoff bound
    P(Bin(n, v) >= k) <= exp(-n KL(k/n, v)) (and likewise below), probability at most delta/2 on its side.

    >>> low, high = distinct_interval(1000, 0.01, 0.05)
    >>> low < 100_000 < high and high / low < 1.2
    True
    """
    limit = math.log(2 / delta)

    def surprise(n: float, successes: float) -> float:
        return n * _relative_entropy(min(successes / n, 1.0), largest)

    centre = kept / largest
    low = bisect(lambda n: surprise(n, kept) > limit, float(kept), centre)
    # Too many: n keys would have put fewer than `kept` below `largest`.
    centre_high = max(centre, float(kept))
    high = bisect(lambda n: surprise(n, kept - 1) <= limit, centre_high, centre_high * 1e6)
    return low, high


def _relative_entropy(p: float, q: float) -> float:
    if q >= 1.0:
        return 0.0 if p >= 1.0 else math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return first + second
