"""Two choices and more: each event goes where the papers say, and the load is as even as they say."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.balance import DChoices, KeyLearner, PairedPieces, TwoChoices, build_map, imbalance
from catchment.balance.choices import needed_choices
from catchment.errors import ParameterError
from catchment.kernel.hashing import draws, mixed
from catchment.sketch.keys import hash_keys
from catchment.testing.streams import zipf


def test_two_choices_send_each_event_to_the_lighter_of_two() -> None:
    keys = zipf(2_000, seed=1, universe=50).keys
    router = TwoChoices(7, seed=3)
    sent = router.route(keys)
    loads = [0] * 7
    draw = draws(3, 2)
    for hash_, part in zip(hash_keys(keys)[0], sent.tolist(), strict=True):
        one, other = (((int(mixed(hash_, each)) >> 32) * 7) >> 32 for each in draw)
        assert part == (other if loads[other] < loads[one] else one)
        loads[part] += 1
    assert router.loads.tolist() == loads


@pytest.mark.parametrize("kind", [TwoChoices, DChoices])
def test_batches_do_not_matter(kind: type[TwoChoices]) -> None:
    keys = zipf(7_777, seed=2, skew=1.5).keys
    whole, cut = kind(6, seed=1), kind(6, seed=1)
    parts = [cut.route(keys[at : at + 313]) for at in range(0, keys.size, 313)]
    assert np.array_equal(whole.route(keys), np.concatenate(parts))
    assert whole.route(keys[:0]).size == 0


def test_where_two_choices_are_not_enough_more_are() -> None:
    keys = zipf(60_000, seed=3, skew=2.0, universe=1_000).keys  # one key has 60 %
    two, more = TwoChoices(10), DChoices(10)
    assert imbalance(np.bincount(two.route(keys), minlength=10)) > 150
    assert imbalance(np.bincount(more.route(keys), minlength=10)) < 15
    assert more.choices > 6
    even = DChoices(10)
    even.route(np.arange(30_000))
    assert even.choices == 2


def test_needed_choices_are_the_fewest_that_the_formula_allows() -> None:
    def holds(shares: np.ndarray, parts: int, degree: int, epsilon: float) -> bool:
        for h in range(1, shares.size + 1):
            reached = parts - parts * ((parts - 1) / parts) ** (h * degree)
            expected = shares[:h].sum() + (reached / parts) ** degree * shares[h:].sum()
            expected += (reached / parts) ** 2 * (1 - shares.sum())
            if expected > reached / parts + reached * epsilon:
                return False
        return True

    found = set()
    for skew in (0.7, 1.0, 1.2, 1.5, 2.0):
        odds = np.arange(1, 10_001) ** -skew
        shares = odds / odds.sum()
        for parts in (5, 20, 100):
            head = shares[shares >= 1 / (5 * parts)]
            degree = needed_choices(head, parts, 1e-4)
            found.add(degree < parts)
            assert 2 <= degree <= parts
            least = max(2, int(np.ceil(head[0] * parts))) if head.size else 2
            assert not any(holds(head, parts, lower, 1e-4) for lower in range(least, degree))
            assert degree == parts or not head.size or holds(head, parts, degree, 1e-4)
    assert found == {True, False}
    assert needed_choices(np.zeros(0), 10, 0.1) == 2


def test_pairs_go_to_the_lighter_half_and_all_else_to_its_bucket() -> None:
    keys = zipf(40_000, seed=4, skew=1.2, universe=2_000).keys
    learner = KeyLearner.for_parts(5)
    learner.update(keys)
    chart = build_map(learner, 5, split="pairs")
    router = PairedPieces(chart)
    sent = router.route(keys)
    loads = np.zeros(5, dtype=np.int64)
    numbers = chart.numbers_of(hash_keys(keys)[0]).tolist()
    buckets = chart.buckets[learner.buckets_of(hash_keys(keys)[0])].tolist()
    for number, bucket, part in zip(numbers, buckets, sent.tolist(), strict=True):
        choices = chart.parts_of(number).tolist() if number >= 0 else [bucket]
        assert part == min(choices, key=lambda choice: (loads[choice], choices.index(choice)))
        loads[part] += 1
    assert imbalance(loads) < imbalance(np.bincount(build_map(learner, 5).place(keys), minlength=5))
    assert imbalance(loads) < 1


def test_parameters_are_refused_by_name() -> None:
    for wrong, name in (({"parts": 0}, "parts"), ({"parts": 2, "seed": -1}, "seed")):
        with pytest.raises(ParameterError, match=name):
            TwoChoices(**wrong)
    for wrong, name in (({"parts": 2, "theta": 0}, "theta"), ({"parts": 2, "epsilon": 2}, "epsilon")):
        with pytest.raises(ParameterError, match=name):
            DChoices(**wrong)
    with pytest.raises(ParameterError, match="type int"):
        PairedPieces(3)  # type: ignore[arg-type]
