"""The shared inequalities, against exact distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catchment.sketch.bounds import bisect, chernoff_radius, distinct_interval, median_row_failure
from catchment.testing import failures_allowed


def binomial_tail(n: int, p: float, at_least: int) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(at_least, n + 1))


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 21])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-4])
def test_row_failure_is_the_largest_that_the_median_forgives(depth: int, delta: float) -> None:
    p = median_row_failure(depth, delta)
    majority = (depth + 1) // 2
    assert binomial_tail(depth, p, majority) <= delta * (1 + 1e-9)
    assert p >= 0.499 or binomial_tail(depth, p * 1.001, majority) > delta


@pytest.mark.parametrize(("kept", "n"), [(10, 30), (10, 300), (40, 150)])
def test_the_distinct_interval_covers_each_n_as_often_as_it_says(kept: int, n: int) -> None:
    """By the exact distribution of the kept-th smallest of n uniforms: a binomial tail at each grid point."""
    delta = 0.1
    missed, before = 0.0, 0.0
    for v in np.linspace(1e-3, 1 - 1e-3, 1000):
        reached = binomial_tail(n, float(v), kept)
        low, high = distinct_interval(kept, float(v), delta)
        if not math.floor(low) <= n <= math.ceil(high):
            missed += reached - before
        before = reached
    assert missed <= delta
    assert missed > delta / 50, "needlessly wide"


def test_the_radius_is_safe_for_normal_errors_and_not_double() -> None:
    for delta, quantile in ((0.05, 1.96), (0.01, 2.576), (0.001, 3.291)):
        assert quantile < chernoff_radius(delta) < 1.5 * quantile


def test_failures_allowed_is_the_binomial_quantile() -> None:
    for trials, delta in ((100, 0.05), (40, 0.5), (1000, 0.001)):
        limit = failures_allowed(trials, delta)
        assert binomial_tail(trials, delta, limit + 1) <= 1e-6 < binomial_tail(trials, delta, limit)


def test_bisect_finds_the_edge() -> None:
    assert bisect(lambda x: x < 3, 0, 10) == pytest.approx(3)
