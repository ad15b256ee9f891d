"""Minima of Count-Min rows: Theorem 5 on counters that rise and fall, and the points of the guide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.monitor.zones.minimum import MinimumZone, rises_and_falls
from catchment.monitor.zones.quorum import Quorum
from tests.monitor.zones.zone_cases import largest_steps

F64 = NDArray[np.float64]


@pytest.mark.parametrize("depth", [1, 3, 5, 7, 9])
def test_slacks_that_add_up_to_nothing_still_keep_the_self_join_within(depth: int) -> None:
    """Each ray of the sites' changes, none below zero counters, is followed to the edge of the slack, or to its end."""
    rng = np.random.default_rng(depth)
    rays, at_the_edge = 60, 0
    for _ in range(8):
        sites, theta = int(rng.integers(1, 6)), float(rng.uniform(0.02, 0.6))
        base = rng.poisson(rng.exponential(6.0, (sites, depth, 6))).astype(float)
        norms = np.linalg.norm(base.sum(axis=0), axis=1)
        q = float((norms**2).min())
        low, high = q / (1 + theta), q / (1 - theta)
        zone = MinimumZone(low, high, norms)
        changes = rng.normal(size=(rays, sites, depth, 6)) * rng.exponential(3.0, (rays, 1, 1, 1))
        changes += rng.normal(size=(rays, 1, 1, 1)) * 3
        changes = np.maximum(changes, -base)

        def stepped(t: F64, base: F64 = base, changes: F64 = changes) -> F64:
            return np.maximum(base + changes * t.reshape(-1, 1, 1, 1), 0.0)

        def total(t, zone=zone, stepped=stepped, base=base, sites=sites):  # type: ignore[no-untyped-def]
            return zone.slacks(*rises_and_falls(stepped(t), base), float(sites)).sum(axis=1)

        t = largest_steps(total, rays, reach=1.0)
        at_the_edge += int((t < 1).sum())
        found = (stepped(t).sum(axis=1) ** 2).sum(axis=2).min(axis=1)
        assert low * (1 - 1e-9) <= found.min()
        assert found.max() <= high * (1 + 1e-9)
    assert at_the_edge > 20


def test_the_corner_is_the_point_of_the_guide_and_the_half_space_a_quorum_of_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        norms, theta, sites = rng.uniform(1.0, 20.0, 5), 0.3, 7
        f = float((norms**2).min())
        zone = MinimumZone(f / (1 + theta), f / (1 - theta), norms)
        p = np.maximum(norms / sites, math.sqrt(f / (1 - theta)) / sites)
        assert zone.corner is not None
        np.testing.assert_allclose(zone.corner / sites, p)
        rises = rng.exponential(2.0, 5)
        room = math.sqrt(f / (1 - theta)) - norms
        upper = MinimumZone(-1.0, f / (1 - theta), norms)
        assert upper.slack(rises, rises) == pytest.approx(Quorum(room, 1).slack(room - rises))
        # The corner is on the plane; what lies behind it, further out in all rows, is all bad.
        assert upper.slack(zone.corner - norms, rises) == pytest.approx(0, abs=1e-9)


def test_rises_cost_only_the_upper_side_and_falls_only_the_lower() -> None:
    zone, none = MinimumZone(64.0, 144.0, [10.0, 10.0]), np.zeros(2)
    assert zone.at_zero == 2.0
    assert zone.slack(rises=np.array([2.0, 2.0]), falls=none) == pytest.approx(0)
    assert zone.slack(rises=none, falls=np.array([0.0, 2.0])) == 0
    assert MinimumZone(64.0, math.inf, [10.0]).slack(np.array([1e9]), np.zeros(1)) == 2.0
    assert MinimumZone(0.0, 144.0, [10.0]).slack(np.zeros(1), np.array([10.0])) == 2.0


def test_one_and_many_scaled_and_shared_are_the_same() -> None:
    rng = np.random.default_rng(3)
    zone = MinimumZone(64.0, 144.0, [10.0, 11.0, 9.0])
    rises, falls = rng.exponential(1.0, (2, 20, 3))
    many = zone.slacks(rises, falls, 3.0, 0.5)
    np.testing.assert_allclose(many, [zone.slack(a, b, 3.0, 0.5) for a, b in zip(rises, falls, strict=True)])
    np.testing.assert_allclose(many, 0.5 * zone.slacks(rises * 6, falls * 6))


@pytest.mark.parametrize(
    ("low", "high", "norms"),
    [(0.0, math.inf, [1.0]), (2.0, 3.0, [1.0]), (0.1, 1.0, [1.0]), (0.1, 2.0, []), (0.1, 2.0, [-1.0])],
)
def test_thresholds_that_are_not_around_the_reference_are_refused(low: float, high: float, norms: list[float]) -> None:
    with pytest.raises(ParameterError):
        MinimumZone(low, high, norms)
