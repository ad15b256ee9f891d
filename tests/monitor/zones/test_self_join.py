"""The self-join's slack: against the whole vectors, not needlessly small, and at the ends of its parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.fast_ams import add_signed_tracked
from catchment.kernel.hashing import draws
from catchment.monitor.zones.self_join import SelfJoinZone
from tests.monitor.zones.zone_cases import of_each, self_join_zone

F64 = NDArray[np.float64]


def _row_slacks(reference: F64, drift: F64, low: float, high: float, *, near: bool) -> tuple[list[float], list[float]]:
    upper, lower = [], []
    for e, x in zip(reference, drift, strict=True):
        length = float(np.linalg.norm(e))
        reach = float(np.linalg.norm(x))
        upper.append(math.sqrt(high) - (length + reach if near else float(np.linalg.norm(e + x))))
        lower.append((length - reach if near else float((e + x) @ e) / length) - math.sqrt(low))
    return upper, lower


@pytest.mark.parametrize("near", [False, True])
def test_a_single_row_is_the_formula(near: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        e, x = rng.normal(size=(1, 6)) * 4, rng.normal(size=(1, 6)) * 2
        q = float((e**2).sum())
        zone = self_join_zone(0.6 * q, 1.5 * q, e)
        norms2, dots = (x**2).sum(axis=1), (x * e).sum(axis=1)
        found = zone.near_slack(norms2) if near else zone.slack(norms2, dots)
        (upper,), (lower,) = _row_slacks(e, x, 0.6 * q, 1.5 * q, near=near)
        assert found == pytest.approx(min(upper, lower), abs=1e-9)


def test_near_is_never_larger() -> None:
    rng = np.random.default_rng(2)
    for depth in (1, 3, 4, 7, 9, 15):
        reference = rng.normal(size=(depth, 6)) * 4
        q = float(np.sort((reference**2).sum(axis=1))[depth // 2])
        zone = self_join_zone(0.2 * q, 4.0 * q, reference) if depth != 4 else SelfJoinZone(0.1, 1e4, np.ones(4))
        drifts = rng.normal(size=(50, depth, 6)) * 2
        norms2, dots = (drifts**2).sum(axis=2), (drifts * reference).sum(axis=2)
        if depth == 4:
            dots = np.clip(dots, -np.sqrt(norms2), np.sqrt(norms2))
        full, near = of_each(zone.slack, (norms2, dots), 3.0, 0.5), of_each(zone.near_slack, (norms2,), 3.0, 0.5)
        assert (near <= full + 1e-9).all()


@pytest.mark.parametrize("depth", [1, 3, 5, 7, 9])
def test_the_slack_at_zero_is_the_distance_of_the_nearest_bad_vector(depth: int) -> None:
    """The rows that cost least are pushed straight to a threshold: a hair further and the estimate has crossed it."""
    rng = np.random.default_rng(depth)
    for _ in range(100):
        e = rng.normal(size=(depth, 5)) * 3
        norms = np.linalg.norm(e, axis=1)
        q = float(np.median(norms**2))
        low, high = 0.5 * q, 1.6 * q
        zone = self_join_zone(low, high, e)
        found = []
        for target, slacks in ((high, math.sqrt(high) - norms), (low, norms - math.sqrt(low))):
            count = int((slacks > 0).sum()) - (depth // 2 + 1) + 1
            chosen = [i for i in np.argsort(slacks) if slacks[i] > 0][:count]
            pushed = e.copy()
            beyond = math.sqrt(target) * (1 + 1e-9 if target == high else 1 - 1e-9)
            pushed[chosen] *= beyond / norms[chosen, None]
            estimate = float(np.median((pushed**2).sum(axis=1)))
            assert not low <= estimate <= high
            found.append(float(np.linalg.norm(pushed - e)))
        assert zone.at_zero == pytest.approx(min(found), rel=1e-6)


def test_on_the_way_from_the_reference_no_room_is_lost() -> None:
    """With one row the whole ball up to sqrt(high) is allowed, and straight down to sqrt(low)."""
    zone = SelfJoinZone(25.0, 169.0, [10.0])
    assert zone.slack(np.array([9.0]), np.array([30.0])) == pytest.approx(0)  # E grown to 13
    assert zone.slack(np.array([25.0]), np.array([-50.0])) == pytest.approx(0)  # E shrunk to 5
    assert zone.near_slack(np.array([9.0])) == pytest.approx(0)


def test_the_minimum_needs_one_row_below_and_all_above() -> None:
    norms, still = [5.0, 20.0, 30.0], np.zeros(3)
    upper = SelfJoinZone(-math.inf, 36.0, norms, rule="minimum")
    assert upper.slack(np.array([0.0, 1e6, 1e6]), still) == upper.at_zero == 1.0
    lower = SelfJoinZone(16.0, math.inf, norms, rule="minimum")
    assert lower.at_zero == 1.0
    assert lower.slack(np.array([0.0, 0.0, 900.0]), np.array([0.0, 0.0, -900.0])) == -4.0


def test_a_reference_of_zeros_has_only_an_upper_side() -> None:
    zone = SelfJoinZone(-1.0, 1.0, np.zeros(5))
    # Any three of five rows can be lost, and each has a slack of 1.
    assert zone.at_zero == pytest.approx(math.sqrt(3))
    assert zone.slack(np.ones(5), np.zeros(5)) == pytest.approx(0)
    assert zone.slack(np.ones(5), np.zeros(5), scale=2.0) < 0


def test_rows_of_zeros_are_no_help_and_no_harm() -> None:
    zone = SelfJoinZone(1.0, 9.0, [2.0, 2.0, 0.0])
    assert zone.at_zero == 1.0
    assert zone.slack(np.array([0.0, 0.0, 4.0]), np.zeros(3)) == 1.0
    assert math.isfinite(zone.slack(np.array([1.0, 1.0, 4.0]), np.zeros(3)))


def test_a_high_of_0_leaves_no_room() -> None:
    with pytest.raises(ParameterError, match="0 of 3 rows"):
        SelfJoinZone(-1.0, 0.0, np.zeros(3))


@pytest.mark.parametrize(
    ("low", "high", "norms"),
    [
        (-1.0, math.inf, [1.0]),
        (2.0, 3.0, [1.0]),
        (0.1, 0.5, [1.0]),
        (0.1, -0.5, [1.0]),
        (0.1, 2.0, [-1.0]),
        (0.1, 2.0, [math.nan]),
        (0.1, 2.0, [[1.0]]),
        (0.1, 2.0, []),
    ],
)
def test_thresholds_that_are_not_around_the_reference_are_refused(low: float, high: float, norms: list[float]) -> None:
    with pytest.raises(ParameterError):
        SelfJoinZone(low, high, norms)


def test_the_drifts_of_real_sketches_keep_the_estimate_within() -> None:
    """Sites add events; while their slacks add up to something, the median of the summed cells' squares is within."""
    rng = np.random.default_rng(5)
    sites, depth, width = 4, 5, 64
    rows = draws(9, depth)
    none = np.zeros((0, 0), dtype=np.int64)
    one = np.ones(1, dtype=np.int64)
    reference = np.zeros((depth, width), dtype=np.int64)
    start = rng.zipf(1.3, 5000).astype(np.uint64)
    add_signed_tracked(none, rows, start, one, reference, none, np.zeros(depth), np.zeros(depth))
    q = float(np.median((reference.astype(float) ** 2).sum(axis=1)))
    zone = self_join_zone(0.8 * q, 1.25 * q, reference)
    drifts = np.zeros((sites, depth, width), dtype=np.int64)
    norms2, dots = np.zeros((sites, depth)), np.zeros((sites, depth))
    looks = 0
    while True:
        site = int(rng.integers(sites))
        batch = rng.zipf(1.3, 20).astype(np.uint64)
        add_signed_tracked(none, rows, batch, one, drifts[site], reference, norms2[site], dots[site])
        slacks = [zone.slack(norms2[j], dots[j], scale=sites) for j in range(sites)]
        if sum(slacks) < 0:
            break
        looks += 1
        now = (reference + drifts.sum(axis=0)).astype(float)
        assert 0.8 * q <= np.median((now**2).sum(axis=1)) <= 1.25 * q
    assert looks > 10  # (1.25 q)^0.5 is 12 % more events of the same kind: 600 of 5,000, in batches of 20
    final = float(np.median(((reference + drifts.sum(axis=0)).astype(float) ** 2).sum(axis=1)))
    assert final > 1.2 * q  # and it did not give up early
