"""The nearest point of a hyperbola, against a dense search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catchment.kernel.hyperbola import nearest_on_hyperbola


def _distance(p: float, r: float, tau: float, v: float) -> float:
    return math.hypot(p - math.sqrt(v * v + tau), r - v)


def _searched(p: float, r: float, tau: float) -> float:
    """The least distance over ever finer grids of the parameter t, v = sqrt(tau) sinh(t), of both signs."""
    root = math.sqrt(tau)
    reach = math.asinh((abs(p) + r) / root) + 1.0
    low, high = -reach, reach
    for _ in range(16):
        t = np.linspace(low, high, 401)
        distances = np.hypot(p - root * np.cosh(t), r - root * np.sinh(t))
        best = int(np.argmin(distances))
        low, high = t[max(best - 2, 0)], t[min(best + 2, 400)]
    return float(distances.min())


def test_the_nearest_point_is_the_nearest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(600):
        tau = float(rng.lognormal(0, 3))
        p, r = (
            rng.normal() * math.sqrt(tau) * rng.lognormal(0, 2),
            abs(rng.normal()) * math.sqrt(tau) * rng.lognormal(0, 2),
        )
        v = nearest_on_hyperbola(p, r, tau)
        assert v >= 0
        expected = _searched(p, r, tau)
        assert _distance(p, r, tau, v) == pytest.approx(expected, rel=1e-9, abs=1e-7 * math.sqrt(tau))


@pytest.mark.parametrize("tau", [1e-12, 1.0, 1e14])
@pytest.mark.parametrize(
    ("p", "r"),
    [
        (0, 0),
        (1, 0),
        (2, 0),
        (2.0000001, 0),
        (1.9999999, 1e-9),
        (2, 1e-12),
        (2, 1e-100),
        (5, 1e-300),
        (-3, 0),
        (-3, 1e-9),
        (0, 1),
        (1, 1e8),
        (1e8, 1),
        (1e8, 1e8),
        (-1e8, 1e8),
        (-1e8, 1e-8),
        (math.sqrt(2), 1),
        (1e8, 0),
    ],
)
def test_corners_on_axes_edges_and_far_away(p: float, r: float, tau: float) -> None:
    root = math.sqrt(tau)
    v = nearest_on_hyperbola(p * root, r * root, tau)
    expected = _searched(p * root, r * root, tau)
    assert _distance(p * root, r * root, tau, v) == pytest.approx(expected, rel=1e-9, abs=1e-6 * root)
