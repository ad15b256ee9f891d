"""What the learner says of keys and buckets is so, at one place and merged from many."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.balance import KeyLearner
from catchment.errors import KeyTypeError, MergeError, NullKeyError, ParameterError, WeightError
from catchment.sketch.keys import hash_keys
from catchment.testing.streams import STREAMS, zipf

EVENTS = st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 9)), max_size=300)


def check_against(learner: KeyLearner, exact: Counter[int], total: int) -> None:
    """Everything the docstring promises, the slow and obvious way."""
    assert learner.total == total == learner.bucket_loads.sum()
    heavy = learner.heavy_keys()
    assert {key for key, count in exact.items() if total and count > learner.theta * total} <= set(heavy.keys)
    assert heavy.loads.tolist() == sorted(heavy.loads.tolist(), reverse=True)
    assert heavy.hashes.tolist() == [int(hash_keys(key)[0][0]) for key in heavy.keys]
    for key, load in zip(heavy.keys, heavy.loads.tolist(), strict=True):
        assert abs(load - exact[key]) <= learner.theta / 4 * total + 1
    keys = np.array(sorted(exact) or [0])
    assert np.all(learner.estimate(keys).holds(np.array([exact[int(key)] for key in keys])))
    buckets = learner.buckets_of(hash_keys(keys)[0])
    sums = np.bincount(buckets, weights=[exact[int(key)] for key in keys], minlength=learner.buckets)
    assert np.array_equal(learner.bucket_loads, sums)


@given(EVENTS, st.sampled_from([0.02, 0.1, 0.4]), st.integers(1, 40), st.integers(0, 2**63 - 1))
def test_heavy_keys_and_buckets_are_as_counted_by_hand(
    events: list[tuple[int, int]], theta: float, buckets: int, seed: int
) -> None:
    learner = KeyLearner(theta, buckets, seed=seed)
    exact: Counter[int] = Counter()
    for key, weight in events:
        exact[key] += weight
    learner.update(np.array([key for key, _ in events], dtype=np.int64), weights=[weight for _, weight in events])
    check_against(learner, exact, sum(exact.values()))


@given(EVENTS, st.integers(1, 6), st.randoms(use_true_random=False))
def test_learners_of_several_places_merge_to_the_same_promise(
    events: list[tuple[int, int]], places: int, random: object
) -> None:
    parts = [KeyLearner(0.1, 16, seed=3) for _ in range(places)]
    exact: Counter[int] = Counter()
    for number, (key, weight) in enumerate(events):
        parts[number % places].update(key, weights=weight)
        exact[key] += weight
    random.shuffle(parts)  # type: ignore[attr-defined]
    left = KeyLearner.merge(parts[: places // 2]) if places > 1 else parts[0].empty()
    merged = KeyLearner.merge([left, *parts[places // 2 if places > 1 else 0 :]])
    check_against(merged, exact, sum(exact.values()))


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_is_learnt_within_the_promise(name: str) -> None:
    stream = STREAMS[name](20_000, seed=4)
    learner = KeyLearner(0.004, 256)
    learner.update(stream.keys)
    check_against(learner, Counter(stream.keys.tolist()), 20_000)
    assert np.unique(stream.keys).size in learner.distinct()


def test_batches_do_not_matter_and_bytes_say_the_same() -> None:
    stream = zipf(30_000, seed=1)
    whole, cut = KeyLearner(0.01, 64, seed=9), KeyLearner(0.01, 64, seed=9)
    whole.update(stream.keys, weights=stream.weights)
    for at in range(0, 30_000, 777):
        cut.update(stream.keys[at : at + 777], weights=stream.weights[at : at + 777])
    assert whole == cut
    assert KeyLearner.from_bytes(whole.to_bytes()) == whole


def test_keys_of_every_type_and_of_several() -> None:
    learner = KeyLearner(0.1, 32)
    learner.update(["a"] * 30)
    learner.update([b"b"] * 20)
    learner.update([7] * 10)
    learner.update(pa.array(["a"] * 5))
    heavy = learner.heavy_keys()
    assert dict(zip(heavy.keys, heavy.loads.tolist(), strict=True)) == {"a": 35, b"b": 20, 7: 10}


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    learner = KeyLearner(0.1, 32)
    learner.update([1, 2, 3])
    before = learner.to_bytes()
    for keys, weights, error in (
        ([1.5], 1, KeyTypeError),
        ([1, None], 1, NullKeyError),
        ([1, 2], [1, -1], WeightError),
        ([1, 2], [1], WeightError),
        ([1], 2**62, WeightError),
    ):
        with pytest.raises(error):
            learner.update(keys, weights=weights)
    assert learner.to_bytes() == before
    for wrong in ({"theta": 0}, {"theta": 1}, {"theta": 1e-9}, {"buckets": 0}, {"buckets": 2**21}, {"seed": -1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            KeyLearner(**wrong)
    with pytest.raises(ParameterError, match="parts=0"):
        KeyLearner.for_parts(0)


def test_partners_that_do_not_fit_are_told_in_what() -> None:
    for name, other in (
        ("theta", KeyLearner(0.2, 8)),
        ("buckets", KeyLearner(0.1, 9)),
        ("seed", KeyLearner(0.1, 8, seed=1)),
    ):
        with pytest.raises(MergeError, match=f"{name} differs"):
            KeyLearner.merge([KeyLearner(0.1, 8), other])
    with pytest.raises(MergeError, match="nothing"):
        KeyLearner.merge([])
    with pytest.raises(MergeError, match="int among"):
        KeyLearner.merge([KeyLearner(0.1, 8), 3])  # type: ignore[list-item]
