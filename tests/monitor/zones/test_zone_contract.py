"""What every slack promises: safe for sites together, concave, of slope at most 1, and the same at every scale."""

from __future__ import annotations

import numpy as np
import pytest

from tests.monitor.zones.zone_cases import CASES, DEPTHS, Case, build, largest_steps

REFERENCES, RAYS = 4, 40
CLOSE = 1e-9


def _cases(name: str, depth: int) -> list[tuple[np.random.Generator, Case]]:
    rng = np.random.default_rng([depth, *name.encode()])
    return [(rng, build(name, depth, rng)) for _ in range(REFERENCES)]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", CASES)
def test_a_sum_of_slacks_that_is_not_negative_keeps_the_estimate_within_its_thresholds(name: str, depth: int) -> None:
    """At the very edge: every ray of all sites' drifts is followed to where the slacks add up to nothing."""
    for rng, case in _cases(name, depth):
        sites = int(rng.integers(1, 7))
        drifts = case.drifts(rng, RAYS * sites).reshape(RAYS, sites, *case.reference.shape)
        drifts[: RAYS // 3, 1:] *= 0.05  # one site far out, the others with slack to spare
        flat = drifts.reshape(-1, *case.reference.shape)
        wide = (-1, *[1] * case.reference.ndim)

        def total(t, flat=flat, case=case, sites=sites, wide=wide):  # type: ignore[no-untyped-def]
            return case.slacks(flat * np.repeat(t, sites).reshape(wide), 1.0, 1.0).reshape(RAYS, sites).sum(axis=1)

        t = largest_steps(total, RAYS)
        assert (t > 0).all()
        out = case.outside(case.reference + drifts.mean(axis=1) * t.reshape(wide))
        assert (out <= CLOSE * np.maximum(1, t) ** 2).all()


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", CASES)
def test_a_slack_is_concave_and_has_slope_at_most_1(name: str, depth: int) -> None:
    for rng, case in _cases(name, depth):
        one, other = case.drifts(rng, RAYS), case.drifts(rng, RAYS)
        other[::2] = one[::2] + 0.01 * other[::2]
        weight = rng.random(RAYS)
        wide = weight.reshape(-1, *[1] * case.reference.ndim)
        here, there = case.slacks(one, 1.0, 1.0), case.slacks(other, 1.0, 1.0)
        between = case.slacks(wide * one + (1 - wide) * other, 1.0, 1.0)
        size = 1 + np.abs(here) + np.abs(there)
        assert (between - (weight * here + (1 - weight) * there) >= -1e-7 * size).all()
        apart = np.sqrt(((one - other) ** 2).reshape(RAYS, -1).sum(axis=1))
        assert (np.abs(here - there) <= apart + 1e-7 * size).all()


@pytest.mark.parametrize("name", CASES)
def test_the_slack_at_zero_is_its_value_there_and_positive(name: str) -> None:
    for _, case in _cases(name, 5):
        assert case.at_zero > 0
        assert case.slacks(np.zeros((1, *case.reference.shape)), 7.0, 1.0)[0] == pytest.approx(case.at_zero, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_scale_is_a_longer_drift_and_a_share_the_perspective(name: str) -> None:
    for rng, case in _cases(name, 5):
        drifts = case.drifts(rng, RAYS) * 0.1
        plain = case.slacks(drifts * 8.0, 1.0, 1.0)
        np.testing.assert_allclose(case.slacks(drifts, 8.0, 1.0), plain, rtol=1e-9, atol=1e-9)
        shared = 0.25 * case.slacks(drifts * 8.0 / 0.25, 1.0, 1.0)
        np.testing.assert_allclose(case.slacks(drifts, 8.0, 0.25), shared, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depth", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_sites_with_a_share_and_a_balance_with_the_rest_are_safe_together(name: str, depth: int) -> None:
    for rng, case in _cases(name, depth):
        sites, share = int(rng.integers(1, 6)), float(rng.uniform(0.1, 0.9))
        drifts = case.drifts(rng, RAYS * sites).reshape(RAYS, sites, *case.reference.shape)
        balance = case.drifts(rng, RAYS) * sites
        flat = drifts.reshape(-1, *case.reference.shape)
        wide = (-1, *[1] * case.reference.ndim)

        def total(t, flat=flat, case=case, sites=sites, share=share, balance=balance, wide=wide):  # type: ignore[no-untyped-def]
            theirs = case.slacks(flat * np.repeat(t, sites).reshape(wide), 1.0, share).reshape(RAYS, sites).sum(axis=1)
            return theirs + sites * case.slacks(balance * t.reshape(wide) / sites, 1.0, 1 - share)

        t = largest_steps(total, RAYS)
        assert (t > 0).all()
        moved = (drifts.sum(axis=1) + balance) / sites * t.reshape(wide)
        assert (case.outside(case.reference + moved) <= CLOSE * np.maximum(1, t) ** 2).all()
