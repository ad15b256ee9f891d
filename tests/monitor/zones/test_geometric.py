"""Balls in the error space: distances against searches and the guide's quartic, balls against their points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.monitor.zones.geometric import (
    BallZone,
    distance_to_median,
    distance_to_median_bilinear,
)

F64 = NDArray[np.float64]
DEPTHS = (1, 3, 5, 7, 9)


def _algorithm_1(center: F64, a: F64, threshold: float) -> tuple[float, F64]:
    """As printed: ranks floor((m+1)/2) to m, one by one; the distance and the point that is reached."""
    z = a + center
    order = np.argsort(z)
    total, reached = 0.0, z.copy()
    for rank in range((z.size + 1) // 2, z.size + 1):
        i = order[rank - 1]
        if z[i] < threshold:
            total += (threshold - z[i]) ** 2
            reached[i] = threshold
    return math.sqrt(total), reached - a


def _points_in_ball(rng: np.random.Generator, center: F64, radius: float, count: int) -> F64:
    """On its surface, half of them, and within."""
    ways = rng.normal(size=(count, center.size)) * (rng.random((count, center.size)) < 0.7)
    ways /= np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
    depth = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))[:, None]
    return center + radius * depth * ways


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_distance_to_a_median_is_algorithm_1_and_is_attained(depth: int) -> None:
    rng = np.random.default_rng(depth)
    for _ in range(200):
        center, a = rng.normal(size=(2, depth))
        threshold = float(rng.normal() + 0.5)
        found = distance_to_median(center, a, threshold)
        expected, reached = _algorithm_1(center, a, threshold)
        assert found == pytest.approx(expected)
        assert np.median(a + reached) >= threshold - 1e-12
        assert np.linalg.norm(reached - center) == pytest.approx(found)
        inside = _points_in_ball(rng, center, found * (1 - 1e-9), 200)
        if found > 0:
            assert np.median(a + inside, axis=1).max() < threshold


def _quartic(alpha: float, beta: float, tau: float) -> float:
    """r² by the guide: the real root with the least sum of squares."""
    if tau == 0:
        return min(alpha**2, beta**2)
    roots = np.roots([1.0, -alpha, 0.0, tau * beta, -(tau**2)])
    real = roots[np.abs(roots.imag) < 1e-7 * (1 + np.abs(roots))].real
    real = real[real != 0]
    return float(((real - alpha) ** 2 + (tau / real - beta) ** 2).min())


def test_the_distance_to_a_bilinear_form_is_that_of_the_quartic_and_of_a_search() -> None:
    rng = np.random.default_rng(1)
    half = np.exp(np.linspace(-12, 12, 40001))
    grid = np.concatenate([-half, half])
    tried = {-1: 0, 0: 0, 1: 0}
    for _ in range(1500):
        c, d, a, b, g = rng.normal(size=5) * 2
        a, b = abs(a), abs(b)
        threshold = float(rng.normal() * 3)
        if rng.random() < 0.1:
            a, b, g, threshold = 1.0, 2.0, 2.0, 0.0
        found = distance_to_median_bilinear([c], [d], [a], [b], [g], threshold)
        if c * d + a * c + b * d + g >= threshold:
            assert found == 0
            continue
        alpha, beta, tau = c + b, d + a, threshold + a * b - g
        tried[int(np.sign(tau))] += 1
        assert found**2 == pytest.approx(_quartic(alpha, beta, tau), rel=1e-5, abs=1e-8)
        if tau != 0:
            p = grid * math.sqrt(abs(tau))
            searched = math.sqrt(float(((p - alpha) ** 2 + (tau / p - beta) ** 2).min()))
            assert found <= searched + 1e-12
            assert searched == pytest.approx(found, rel=1e-3, abs=1e-3)
    assert min(tried.values()) > 20


@pytest.mark.parametrize("depth", DEPTHS)
def test_no_pair_within_the_distance_of_bilinear_forms_is_bad_and_one_at_it_is(depth: int) -> None:
    rng = np.random.default_rng(depth)
    for _ in range(60):
        c, d, g = rng.normal(size=(3, depth))
        a, b = rng.exponential(1.0, (2, depth))
        threshold = float(rng.normal() + 2)
        found = distance_to_median_bilinear(c, d, a, b, g, threshold)
        each = np.array(
            [distance_to_median_bilinear([c[i]], [d[i]], [a[i]], [b[i]], [g[i]], threshold) for i in range(depth)]
        )
        assert found == pytest.approx(math.sqrt(np.sort(each**2)[: (depth + 1) // 2].sum()))
        if found == 0:
            continue
        inside = _points_in_ball(rng, np.concatenate([c, d]), found * (1 - 1e-9), 400)
        x, y = inside[:, :depth], inside[:, depth:]
        assert np.median(x * y + a * x + b * y + g, axis=1).max() < threshold


Zone = tuple[BallZone, Callable[[F64], F64], int]
"""A zone, the worst estimates (as how far they are out) of error vectors, and the size of those."""


def _self_join(rng: np.random.Generator, depth: int) -> Zone:
    norms = rng.exponential(5.0, depth) + 0.1
    q = float(np.median(norms**2))
    low, high = q * rng.uniform(0.1, 0.95), q * rng.uniform(1.05, 3)

    def outside(u: F64) -> F64:
        most, least = np.median(norms + u, axis=1), np.median(norms - u, axis=1)
        return np.maximum(most - math.sqrt(high), math.sqrt(low) - least)

    return BallZone.self_join(low, high, norms), outside, depth


def _inner_product(rng: np.random.Generator, depth: int) -> Zone:
    e, f = rng.normal(size=(2, depth, 3)) * 2
    products, first, second = (e * f).sum(axis=1), np.linalg.norm(e, axis=1), np.linalg.norm(f, axis=1)
    q = float(np.median(products))
    low, high = q - rng.exponential(4.0) - 0.1, q + rng.exponential(4.0) + 0.1

    def outside(u: F64) -> F64:
        x, y = u[:, :depth], u[:, depth:]
        reach = second * x + first * y + x * y
        return np.asarray(
            np.maximum(np.median(products + reach, axis=1) - high, low - np.median(products - reach, axis=1))
        )

    return BallZone.inner_product(low, high, products, first, second), outside, 2 * depth


ZONES = {"self-join": _self_join, "inner product": _inner_product}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", ZONES)
def test_a_ball_that_is_inside_has_no_bad_point_and_one_just_larger_has(kind: str, depth: int) -> None:
    """Each ray is followed to the largest ball that is inside; the balls along a ray are nested."""
    rng = np.random.default_rng(depth)
    missed = 0
    for _ in range(25):
        zone, outside, size = ZONES[kind](rng, depth)
        ray = np.abs(rng.normal(size=size)) * (rng.random(size) < 0.8)
        low, high = 0.0, 1e4
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if zone.inside(middle * ray) else (low, middle)
        u = low * ray
        length = float(np.linalg.norm(u))
        if not 0 < length < 1e3:
            continue
        points = _points_in_ball(rng, u / 2, length / 2, 1500)
        out = outside(points)
        assert out.max() <= 1e-9
        assert all(zone.admissible(point * (1 - 1e-12)) for point in points[:20])
        bad = _points_in_ball(rng, 1.5 * u / 2, 1.5 * length / 2, 1500)
        found = outside(bad)
        missed += int(found.max() <= 0)
        assert [zone.admissible(point) for point in bad[:20]] == (found[:20] <= 0).tolist()
    if depth <= 3:  # in higher dimensions random points rarely meet the one that is bad
        assert missed <= 4


@pytest.mark.parametrize("depth", DEPTHS)
def test_sites_whose_balls_are_inside_keep_the_self_join_within(depth: int) -> None:
    rng = np.random.default_rng(depth)
    tried = 0
    for _ in range(600):
        e = rng.normal(size=(depth, 4)) * 3
        q = float(np.median((e**2).sum(axis=1)))
        zone = BallZone.self_join(0.5 * q, 2.0 * q, np.linalg.norm(e, axis=1))
        sites = int(rng.integers(1, 5))
        drifts = rng.normal(size=(sites, depth, 4)) * rng.exponential(0.7) / sites
        if all(zone.inside(sites * np.linalg.norm(drift, axis=1)) for drift in drifts):
            tried += 1
            assert 0.5 * q <= np.median(((e + drifts.sum(axis=0)) ** 2).sum(axis=1)) <= 2.0 * q
    assert tried > 50


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_balls_about_a_common_origin_cover_the_average(depth: int) -> None:
    """After a partial collection sites measure from the last average instead of 0."""
    rng = np.random.default_rng(depth)
    tried = 0
    for _ in range(400):
        zone, outside, size = _self_join(rng, depth)
        origin = np.abs(rng.normal(size=size)) * 0.2
        errors = np.abs(origin + rng.normal(size=(4, size)) * rng.exponential(0.4))
        if zone.admissible(origin) and all(zone.inside(error, origin) for error in errors):
            tried += 1
            assert outside(errors.mean(axis=0, keepdims=True))[0] <= 1e-9
    assert tried > 30


def test_an_even_number_of_rows_is_judged_by_the_worse_middle() -> None:
    assert distance_to_median([0.0, 0.0], [1.0, 9.0], 4.0) == 0.0
    zone = BallZone.self_join(-1.0, 16.0, [1.0, 2.0, 3.0, 9.0])
    assert zone.admissible([2.0, 2.0, 1.0, 0.0])
    assert not zone.admissible([2.0, 2.0, 1.5, 0.0])
    rng = np.random.default_rng(1)
    for u in np.abs(rng.normal(size=(2000, 4))) * 2:
        if zone.inside(u):
            assert np.median(np.array([1.0, 2.0, 3.0, 9.0]) + u) <= 4.0


def test_missing_thresholds() -> None:
    only_low = BallZone.self_join(1.0, math.inf, [2.0])
    assert only_low.inside([1.0])
    assert not only_low.inside([1.01])
    only_high = BallZone.inner_product(-math.inf, 4.0, [0.0], [0.0], [0.0])
    # x y <= 4: the ball from 0 to (t, t) is widest on the diagonal itself.
    assert only_high.inside([2.0, 2.0])
    assert not only_high.inside([2.01, 2.01])


@pytest.mark.parametrize(
    "build",
    [
        lambda: BallZone.self_join(-1.0, math.inf, [1.0]),
        lambda: BallZone.self_join(2.0, 3.0, [1.0]),
        lambda: BallZone.self_join(-1.0, -3.0, [1.0]),
        lambda: BallZone.self_join(0.5, 3.0, []),
        lambda: BallZone.inner_product(-1.0, 1.0, [2.0], [1.0], [1.0]),
        lambda: BallZone.inner_product(-1.0, 1.0, [math.nan], [1.0], [1.0]),
        lambda: BallZone.inner_product(-math.inf, math.inf, [0.0], [1.0], [1.0]),
    ],
)
def test_what_makes_no_zone_is_refused(build: Callable[[], BallZone]) -> None:
    with pytest.raises(ParameterError):
        build()
