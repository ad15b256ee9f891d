"""The quorum by its definition, written out."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.monitor.zones.quorum import MOST_SUMS, Quorum, Sides, rows_needed

F64 = NDArray[np.float64]


def _weights(rng: np.random.Generator, depth: int, need: int) -> F64:
    weights = rng.exponential(1.0, depth)
    weights[rng.permutation(depth)[: rng.integers(0, depth - need + 1)]] *= -1
    return weights


def _by_definition(weights: F64, rows: F64, need: int, *, cheap: bool) -> float:
    members = [i for i in range(len(weights)) if weights[i] > 0]
    count = len(members) - need + 1
    chosen = list(combinations(members, count))
    lengths = [math.sqrt(sum(weights[i] ** 2 for i in chosen_rows)) for chosen_rows in chosen]
    if cheap:
        lengths = [max(lengths)] * len(chosen)
    sums = [sum(weights[i] * rows[i] for i in some) for some in chosen]
    return float(min(total / length for total, length in zip(sums, lengths, strict=True)))


@pytest.mark.parametrize("cheap", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 7, 8, 9])
def test_a_quorum_is_what_its_definition_says_and_has_enough_good_rows(depth: int, cheap: bool) -> None:
    rng = np.random.default_rng(depth)
    for need in {1, depth // 2 + 1, depth}:
        for _ in range(30):
            weights = _weights(rng, depth, need)
            quorum = Quorum(weights, need, cheap=cheap)
            rows = rng.normal(size=(40, depth)) + rng.normal(size=(40, 1))
            found = np.array([quorum.slack(row) for row in rows])
            expected = [_by_definition(weights, row, need, cheap=cheap) for row in rows]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            good = (rows >= 0).sum(axis=1)
            assert (good[found >= 0] >= need).all()
            assert quorum.at_zero == pytest.approx(_by_definition(weights, weights, need, cheap=cheap))


def test_the_slack_at_zero_is_the_distance_at_which_too_many_rows_are_lost() -> None:
    """Each row lost costs its own slack, at right angles to the others: no safe function could be larger there."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        weights = _weights(rng, 7, 4)
        members = np.sort(weights[weights > 0])
        lost = members[: members.size - 4 + 1]
        assert Quorum(weights, 4).at_zero == pytest.approx(math.sqrt((lost**2).sum()))


def test_the_cheap_form_is_never_larger_where_it_is_positive() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        weights = _weights(rng, 7, 4)
        rows = rng.normal(size=(50, 7)) + 1
        quorums = (Quorum(weights, 4, cheap=form) for form in (True, False))
        cheap, full = (np.array([quorum.slack(row) for row in rows]) for quorum in quorums)
        assert (cheap[cheap > 0] <= full[cheap > 0] + 1e-12).all()
        assert ((cheap >= -1e-12) >= (full >= 1e-9)).all()  # and is positive at the same points


def test_many_rows_take_the_cheap_form_by_themselves() -> None:
    assert math.comb(13, 7) <= MOST_SUMS < math.comb(15, 8)
    assert [Quorum(np.ones(depth), depth // 2 + 1).cheap for depth in (13, 15, 63)] == [False, True, True]
    assert Quorum(np.ones(63), 1).cheap is False


def test_sides_are_the_least_of_theirs() -> None:
    rng = np.random.default_rng(3)
    for forms in [(False, False), (True, False), (True, True)]:
        quorums = [Quorum(rng.exponential(1.0, 5), 3, cheap=form) for form in forms]
        sides = Sides(quorums)
        rows = rng.normal(size=(30, 10))
        expected = [min(quorums[0].slack(row[:5]), quorums[1].slack(row[5:])) for row in rows]
        np.testing.assert_allclose([sides.slack(row) for row in rows], expected)
        assert sides.at_zero == min(quorum.at_zero for quorum in quorums)


def test_rows_needed_by_rule() -> None:
    assert [rows_needed("median", d) for d in (1, 2, 3, 4, 9)] == [(1, 1), (2, 2), (2, 2), (3, 3), (5, 5)]
    assert rows_needed("minimum", 1) == (1, 1)
    with pytest.raises(ParameterError, match="'mean'"):
        rows_needed("mean", 3)
    with pytest.raises(ParameterError, match="0 rows"):
        rows_needed("median", 0)


@pytest.mark.parametrize(
    ("weights", "need"),
    [([1.0, -1.0, 0.0], 2), ([0.0], 1), ([1.0, np.nan, 1.0], 1), ([1.0], 0), ([1.0], 2), ([[1.0]], 1), ([], 1)],
)
def test_too_few_rows_within_are_refused(weights: list[float], need: int) -> None:
    with pytest.raises(ParameterError):
        Quorum(weights, need)


def test_no_side_is_refused() -> None:
    with pytest.raises(ParameterError, match="no threshold"):
        Sides([])
