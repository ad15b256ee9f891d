"""Eqn (1) and its relatives, by what they promise of the truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from catchment.errors import ParameterError
from catchment.monitor.zones.geometric import BallZone
from catchment.monitor.zones.inner_product import InnerProductZone
from catchment.monitor.zones.linear import LinearZone
from catchment.monitor.zones.minimum import MinimumZone
from catchment.monitor.zones.self_join import SelfJoinZone
from catchment.monitor.zones.thresholds import (
    Band,
    absolute_band,
    checked_ends,
    crossing,
    drift_share,
    must_flush,
    relative_band,
)


def test_any_truth_that_an_estimate_in_the_band_allows_is_within_theta() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3000):
        value = float(rng.choice([-1, 1]) * rng.lognormal(8, 2))
        epsilon, theta = sorted(rng.uniform(0.0, 0.9, 2))
        band = relative_band(value, epsilon, theta, floor=0.0)
        assert value in band
        for estimate in (band.low, band.high):
            for truth in (estimate / (1 - epsilon), estimate / (1 + epsilon)):
                assert abs(value - truth) <= theta * abs(truth) * (1 + 1e-12)
        # And no wider band would do: at each end one of the truths is just allowed.
        edges = [abs(value - e / f) / abs(e / f) for e in (band.low, band.high) for f in (1 - epsilon, 1 + epsilon)]
        assert max(edges) == pytest.approx(theta, rel=1e-9)
        assert sorted(edges)[-2] == pytest.approx(theta, rel=1e-9)


def test_the_numbers_of_equation_1() -> None:
    assert relative_band(1000.0, 0.1, 0.2) == Band(1100.0 / 1.2, 900.0 / 0.8)
    assert relative_band(-1000.0, 0.1, 0.2) == Band(-900.0 / 0.8, -1100.0 / 1.2)


def test_near_zero_the_floor_is_the_band() -> None:
    assert relative_band(0.0, 0.1, 0.2) == Band(-1.0, 1.0)
    assert relative_band(2.0, 0.1, 0.2, floor=5.0) == Band(-3.0, 7.0)
    assert relative_band(0.0, 0.1, 0.2, floor=0.0) == Band(0.0, 0.0)


@pytest.mark.parametrize(
    ("epsilon", "theta"),
    [(0.2, 0.2), (0.3, 0.2), (-0.1, 0.2), (0.1, 1.0), (1.0, 1.0), (math.nan, 0.2), (0.1, math.nan)],
)
def test_a_whole_error_within_the_sketch_error_is_refused(epsilon: float, theta: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        relative_band(10.0, epsilon, theta)
    with pytest.raises(ParameterError, match="epsilon"):
        drift_share(epsilon, theta)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    for band in (relative_band, absolute_band, crossing):
        with pytest.raises(ParameterError, match="finite"):
            band(value, 0.1, 0.2)


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_ends_between_which_nothing_lies_are_refused_by_every_zone(low: float, high: float) -> None:
    builders: list[Callable[[], object]] = [
        lambda: checked_ends(low, high),
        lambda: SelfJoinZone(low, high, [1.0]),
        lambda: InnerProductZone(low, high, [1.0], [1.0]),
        lambda: MinimumZone(low, high, [1.0]),
        lambda: LinearZone(low, high, [0.5]),
        lambda: BallZone.self_join(low, high, [1.0]),
        lambda: BallZone.inner_product(low, high, [0.5], [1.0], [1.0]),
    ]
    for build in builders:
        with pytest.raises(ParameterError):
            build()


def test_a_floor_below_0_is_refused() -> None:
    with pytest.raises(ParameterError, match="floor"):
        relative_band(1.0, 0.1, 0.2, floor=-1.0)


def test_an_absolute_band() -> None:
    assert absolute_band(-3.0, 2.0, 10.0) == Band(-11.0, 5.0)
    for sketch_error, error in ((2.0, 2.0), (-1.0, 2.0), (3.0, 2.0), (1.0, math.inf)):
        with pytest.raises(ParameterError, match="sketch error"):
            absolute_band(0.0, sketch_error, error)


def test_a_claim_about_a_threshold_holds_for_all_estimates_in_its_band() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        threshold = float(rng.choice([-1, 1]) * rng.lognormal(3, 1))
        value = threshold * float(rng.lognormal(0, 1))
        epsilon, theta = sorted(rng.uniform(0.0, 0.9, 2))
        found = crossing(value, threshold, epsilon, theta)
        assert found.above == (value >= threshold)
        assert value in found.band
        assert found.margin >= 0
        edge = found.band.low if found.above else found.band.high
        truths = [edge / (1 - epsilon), edge / (1 + epsilon)]
        ends = [threshold / (1 - theta), threshold / (1 + theta)]
        if found.above:
            assert min(truths) >= min(ends) - 1e-9 * abs(threshold)
        else:
            assert max(truths) <= max(ends) + 1e-9 * abs(threshold)


def test_a_crossing_without_hysteresis_is_at_the_threshold_itself() -> None:
    assert crossing(100.0, 100.0).above
    assert crossing(100.0, 100.0).margin == 0
    assert crossing(40.0, 100.0, 0.2, 0.2).band == Band(-math.inf, 100.0)
    assert crossing(-40.0, 0.0).margin == 40.0


def test_the_share_of_the_static_baseline_solves_its_equation() -> None:
    for epsilon, theta in ((0.0, 0.1), (0.05, 0.1), (0.1, 0.5)):
        share = drift_share(epsilon, theta)
        assert (1 + epsilon) * (1 + share) ** 2 - 1 == pytest.approx(theta)


def test_a_site_flushes_beyond_its_share() -> None:
    assert not must_flush(moved=2.5, own=100.0, share=0.1, sites=16)
    assert must_flush(moved=2.5001, own=100.0, share=0.1, sites=16)
    assert must_flush(moved=1.0, own=0.0, share=0.1, sites=16)
