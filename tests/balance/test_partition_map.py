"""A map balances what was learnt, the greedy way, and says the same in the kernel as by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.balance import KeyLearner, PartitionMap, build_map, full_knowledge, hash_map, imbalance
from catchment.balance.key_learner import spread_hashes
from catchment.balance.partition_build import greedy
from catchment.balance.partition_map import MOST_HEAVY, fitting
from catchment.errors import InputError, ParameterError, QueryError
from catchment.sketch.keys import hash_keys
from catchment.testing.streams import zipf


def learnt(keys: np.ndarray, theta: float = 0.01, buckets: int = 128, seed: int = 0) -> KeyLearner:
    learner = KeyLearner(theta, buckets, seed=seed)
    learner.update(keys)
    return learner


def placed_by_hand(chart: PartitionMap, hash_: int, salt: int = 0) -> int:
    for number, heavy in enumerate(chart.heavy.tolist()):
        if heavy == hash_:
            parts = chart.parts_of(number).tolist()
            return int(parts[((salt >> 32) * len(parts)) >> 32])
    spread = int(spread_hashes(np.array([hash_], dtype=np.uint64), chart.seed)[0])
    return int(chart.buckets[((spread >> 32) * chart.buckets.size) >> 32])


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(1, 9))
def test_greedy_is_the_textbooks(weights: list[int], parts: int) -> None:
    assigned, loads = greedy(np.array(weights, dtype=np.int64), parts)
    sums = [0] * parts
    for place in sorted((place for place, weight in enumerate(weights) if weight), key=lambda place: -weights[place]):
        assert assigned[place] == sums.index(min(sums))
        sums[assigned[place]] += weights[place]
    assert loads.tolist() == sums
    idle = np.bincount(assigned[np.array(weights, dtype=np.int64) == 0], minlength=parts)
    assert idle.max() - idle.min() <= 1
    # Graham's bound, against the least that any assignment can do.
    least = max(max(weights, default=0), math.ceil(sum(weights) / parts))
    assert max(sums) <= least + max(weights, default=0)


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([None, 0.1, 0.5, "pairs"]))
def test_the_kernel_places_as_by_hand(seed: int, parts: int, split: float | str | None) -> None:
    stream = zipf(3_000, seed=seed % 1000, skew=1.3, universe=300)
    chart = build_map(learnt(stream.keys, seed=seed), parts, split=split)
    keys = np.arange(-20, 320)
    hashes, salts = hash_keys(keys)[0], hash_keys(keys * 7919)[0]
    expected = [placed_by_hand(chart, *pair) for pair in zip(hashes.tolist(), salts.tolist(), strict=True)]
    assert chart.place(keys, salts=salts).tolist() == expected
    again = PartitionMap.from_bytes(chart.to_bytes())
    assert again == chart
    assert again.place(keys, salts=salts).tolist() == expected
    assert 0 <= min(expected) <= max(expected) < parts


@pytest.mark.parametrize("skew", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("parts", [2, 5, 10])
def test_what_was_learnt_whole_is_balanced_like_full_knowledge(skew: float, parts: int) -> None:
    keys = zipf(50_000, seed=2, skew=skew, universe=5_000).keys
    learner = KeyLearner.for_parts(parts)
    learner.update(keys)
    chart = build_map(learner, parts)
    loads = np.bincount(chart.place(keys), minlength=parts)
    best = full_knowledge(np.bincount(keys), parts)
    assert imbalance(loads) <= imbalance(best) + 1
    assert np.all(np.abs(loads - chart.loads) <= 0.01 * keys.size)
    assert np.allclose(chart.expected_loads(learner), chart.loads)
    assert imbalance(np.bincount(hash_map(parts).place(keys), minlength=parts)) > imbalance(loads)


def test_the_worst_case_of_hashing_is_no_worse_than_the_rest() -> None:
    """Keys that all share one part under plain hashing."""
    pool = np.arange(200_000)
    together = pool[hash_map(8).place(pool) == 3]
    keys = np.repeat(together[:40], 50)
    learner = KeyLearner.for_parts(8)
    learner.update(keys)
    assert imbalance(np.bincount(hash_map(8).place(keys), minlength=8)) == 700
    assert imbalance(np.bincount(build_map(learner, 8).place(keys), minlength=8)) == 0


def test_weights_count_and_not_events() -> None:
    keys = np.repeat(np.arange(40), 25)
    weights = np.where(keys < 4, 100, 1)
    learner = KeyLearner(0.01, 64)
    learner.update(keys, weights=weights)
    chart = build_map(learner, 4)
    assert sorted(chart.place(np.arange(4)).tolist()) == [0, 1, 2, 3]
    assert imbalance(np.bincount(chart.place(keys), weights=weights, minlength=4)) < 1


@pytest.mark.parametrize("split", [0.25, 0.5, 1.0, "pairs"])
def test_split_keys_are_balanced_where_a_whole_key_cannot_be(split: float | str) -> None:
    keys = zipf(80_000, seed=5, skew=1.5, universe=3_000).keys
    learner = KeyLearner.for_parts(8)
    learner.update(keys)
    whole, cut = build_map(learner, 8), build_map(learner, 8, split=split)
    salts = hash_keys(np.arange(keys.size))[0]
    assert imbalance(np.bincount(whole.place(keys), minlength=8)) > 100
    assert imbalance(np.bincount(cut.place(keys, salts=salts), minlength=8)) < (60 if split == "pairs" else 4)
    assert not whole.split
    assert cut.split
    assert cut.places == (2 if split == "pairs" else cut.places)
    light = np.flatnonzero(np.bincount(keys) < learner.theta * keys.size / 2)
    assert np.array_equal(cut.place(light, salts=hash_keys(light)[0]), cut.place(light, salts=hash_keys(light + 1)[0]))


def test_salts_are_asked_for_where_they_are_needed() -> None:
    chart = build_map(learnt(np.zeros(100, dtype=np.int64)), 4, split=0.5)
    with pytest.raises(QueryError, match="4 parts"):
        chart.place([0])
    for salts in ([0.5], [1, 2], ["a"]):
        with pytest.raises(InputError, match="salts"):
            chart.place([0], salts=salts)
    assert set(chart.place(np.zeros(100, dtype=np.int64), salts=hash_keys(np.arange(100))[0]).tolist()) == {0, 1, 2, 3}


def test_an_empty_learner_gives_plain_hashing_and_one_part_takes_all() -> None:
    chart = build_map(KeyLearner.for_parts(5), 5)
    placed = np.bincount(chart.place(np.arange(50_000)), minlength=5)
    assert imbalance(placed) < 4
    assert imbalance(chart.loads) == 0
    assert set(build_map(learnt(np.arange(99)), 1).place(np.arange(500)).tolist()) == {0}
    assert imbalance([0, 0]) == 0


def test_keys_that_were_never_seen_are_spread() -> None:
    """A sample that left most buckets empty: what falls into them later must not all go to one part."""
    chart = build_map(learnt(np.arange(10), theta=0.9, buckets=1024), 4)
    placed = np.bincount(chart.place(np.arange(1_000, 41_000)), minlength=4)
    assert imbalance(placed) < 6


def test_many_heavy_keys_fit_or_stay_in_buckets() -> None:
    hashes = hash_keys(np.arange(20_000))[0]
    assert fitting(hashes, 0) == MOST_HEAVY
    assert fitting(hashes[:0], 0) == 0
    learner = KeyLearner(1e-5, 512)
    learner.update(np.arange(20_000))
    chart = build_map(learner, 4)
    assert chart.heavy.size == MOST_HEAVY
    counts = Counter(chart.place(np.arange(20_000)).tolist())
    assert imbalance(list(counts.values())) < 1
    assert chart.numbers_of(chart.heavy).tolist() == list(range(MOST_HEAVY))


@pytest.mark.parametrize(
    "wrong", [{"parts": 0}, {"parts": 2**16}, {"split": 0}, {"split": 2}, {"split": True}, {"split": "x"}]
)
def test_parameters_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        build_map(KeyLearner(0.1, 8), **{"parts": 2} | wrong)  # type: ignore[arg-type]
