"""The duplicate-insensitive counters, the Bloom filter and the tug of war."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import BloomFilter, BottomK, FMSketch, InputError, ParameterError, TugOfWar, UltraLogLog
from catchment.kernel.hashing import draws, mixed
from catchment.sketch.keys import as_keys
from catchment.testing import STREAMS, failures_allowed

COUNTERS: list[Any] = [
    lambda **o: FMSketch.sized(bitmaps=32, **o),
    lambda **o: BottomK.sized(size=16, **o),
    lambda **o: UltraLogLog.sized(precision=5, **o),
]
keys_strategy = st.lists(st.integers(0, 200), max_size=100)


def values_of(keys: np.ndarray, seed: int) -> list[int]:
    with np.errstate(over="ignore"):
        return mixed.py_func(as_keys(keys).hashes(), draws(seed, 1)[0]).tolist()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("build", COUNTERS)
@given(keys=keys_strategy)
def test_duplicates_and_order_change_nothing(build: Any, keys: list[int]) -> None:
    one, other = build(), build()
    one.update(keys)
    other.update(sorted(set(keys)) * 2)
    assert one == other
    assert type(one).merge([one, other, one]) == one


@pytest.mark.parametrize("build", COUNTERS)
def test_pairs_are_counted_as_pairs(build: Any) -> None:
    by_pair, by_item = build(by="pair"), build()
    items, attributes = np.arange(3000) % 10, np.arange(3000) % 300
    by_pair.update(items, attributes=attributes)
    by_item.update(items)
    assert 300 in by_pair.estimate()
    assert 10 in by_item.estimate()


@pytest.mark.parametrize("build", COUNTERS)
def test_items_and_pairs_are_never_mixed(build: Any) -> None:
    with pytest.raises(InputError, match='attributes for a sketch by="item"'):
        build().update([1], attributes=[2])
    with pytest.raises(InputError, match='no attributes for a sketch by="pair"'):
        build(by="pair").update([1])
    with pytest.raises(ParameterError, match="by='both'"):
        build(by="both")


@given(st.sets(st.integers(0, 10**6), max_size=200), st.integers(0, 1000))
def test_bottom_k_holds_the_smallest_values(keys: set[int], seed: int) -> None:
    sketch = BottomK.sized(size=16, seed=seed)
    sketch.update(list(keys))
    assert sketch._settle().tolist() == sorted(values_of(np.array(sorted(keys), dtype=np.int64), seed))[:16]
    if len(keys) < 16:
        assert (sketch.estimate().low, sketch.estimate().high) == (len(keys), len(keys))


@given(st.lists(st.integers(0, 10**6), max_size=300), st.integers(3, 6))
def test_ultraloglog_registers_hold_what_they_say(keys: list[int], precision: int) -> None:
    """Each register by sets: its largest update value and whether the two below came too."""
    sketch = UltraLogLog.sized(precision=precision)
    sketch.update(keys)
    seen: list[set[int]] = [set() for _ in range(1 << precision)]
    for value in values_of(np.array(keys, dtype=np.int64), 0):
        rest = (value << precision) & (2**64 - 1)
        zeros = min(64 - rest.bit_length(), 64 - precision)
        seen[value >> (64 - precision)].add(zeros + 1)
    for register, values in zip(sketch._registers.tolist(), seen, strict=True):
        if not values:
            assert register == 0
            continue
        top = max(values)
        assert register == (top + 1) * 4 + 2 * (top - 1 in values) + (top - 2 in values)


def test_fm_sets_bit_h_with_probability_two_to_the_minus_h_plus_one() -> None:
    sketch = FMSketch.sized(bitmaps=20_000)
    sketch.update([7])
    for h in range(6):
        share = np.mean(sketch._bits == np.uint64(1 << h))
        assert abs(share - 2.0 ** -(h + 1)) < 5 / np.sqrt(20_000)


def test_fm_estimates_as_the_paper_does() -> None:
    """2^mean(r) / 0.77351, once there are more than a few items."""
    sketch = FMSketch.sized(bitmaps=500)
    for count in (100, 10_000):
        sketch.update(np.arange(count))
        assert sketch.estimate().value == pytest.approx(2 ** sketch._mean_place() / 0.77351, rel=0.01)


@pytest.mark.parametrize(
    ("build", "deviation"),
    [
        (lambda seed: FMSketch.sized(bitmaps=256, seed=seed), 0.7772 / 16),
        (lambda seed: BottomK.sized(size=256, seed=seed), 1 / np.sqrt(254)),
        (lambda seed: UltraLogLog.sized(precision=8, seed=seed), 0.7608 / 16),
    ],
)
def test_errors_have_the_deviation_that_the_papers_give(build: Any, deviation: float) -> None:
    estimates = []
    for seed in range(400):
        sketch = build(seed)
        sketch.update(np.arange(20_000))
        estimates.append(sketch.estimate().value / 20_000)
    assert abs(np.mean(estimates) - 1) < 5 * deviation / np.sqrt(400)
    assert 0.85 < np.std(estimates) / deviation < 1.15


def test_chosen_hashes_do_not_fool_the_counters() -> None:
    """Hashes that differ only in their top bits, which nobody needs a seed to choose."""
    for shift in (61, 56):
        chosen = (np.arange(2 ** (64 - shift), dtype=np.uint64) << np.uint64(shift)) + np.uint64(12345)
        for seed in range(20):
            for build in COUNTERS:
                sketch = build(seed=seed, delta=1e-6)
                sketch._add(chosen)
                assert chosen.size in sketch.estimate()


@pytest.mark.parametrize("build", COUNTERS)
def test_a_value_lies_within_its_bounds_at_every_count(build: Any) -> None:
    for seed in range(20):
        for count in (1, 2, 15, 16, 17, 31, 32, 33, 64):
            sketch = build(seed=seed)
            sketch.update(np.arange(count))
            answer = sketch.estimate()
            assert answer.low <= answer.value <= answer.high


def test_ultraloglog_bounds_hold_where_registers_are_few_and_delta_small() -> None:
    """Eight registers, where the estimate is skewed: the lower bound must not be the first to go."""
    delta, trials, failures = 1e-3, 20_000, 0
    keys = np.arange(400)
    for seed in range(trials):
        sketch = UltraLogLog.sized(precision=3, seed=seed, delta=delta)
        sketch.update(keys)
        failures += 400 not in sketch.estimate()
    assert failures <= failures_allowed(trials, delta)


@given(st.lists(st.text(max_size=5), max_size=50))
def test_bloom_forgets_nothing(keys: list[str]) -> None:
    sketch = BloomFilter.sized(bits=97, probes=3)
    sketch.update(keys)
    assert np.all(sketch.contains(keys))


def test_bloom_finds_strangers_at_the_rate_it_states() -> None:
    sketch = BloomFilter(capacity=1000, epsilon=0.02)
    sketch.update(np.arange(1000))
    rate = sketch.false_positive_rate().value
    assert rate == pytest.approx(0.02, rel=0.3)
    found = int(np.sum(sketch.contains(np.arange(10_000, 110_000))))
    assert found <= failures_allowed(100_000, float(rate))
    assert 100_000 - found <= failures_allowed(100_000, 1 - float(rate))


def test_a_full_bloom_filter_says_so() -> None:
    sketch = BloomFilter.sized(bits=8, probes=2)
    sketch.update(np.arange(100))
    assert sketch.estimate().high == np.inf
    empty = BloomFilter.sized(bits=8, probes=2).estimate()
    assert (empty.low, empty.value, empty.high) == (0, 0, 0)


@pytest.mark.parametrize("counter", ["bottom_k", "fm", "ultraloglog"])
def test_tug_of_war_ignores_duplicates_and_paths(counter: str) -> None:
    size = {"bottom_k": 2000, "fm": 64, "ultraloglog": 8}[counter]
    events = STREAMS["zipf-1.5"](800, seed=3)
    one, other = (TugOfWar.sized(dimensions=20, counter=counter, counter_size=size) for _ in range(2))
    one.update(events.keys, attributes=events.attributes)
    other.update(np.tile(events.keys, 2), attributes=np.tile(events.attributes, 2))
    assert one == other
    assert TugOfWar.merge([one, other]) == one


def test_tug_of_war_with_exact_counters_is_the_projection_itself() -> None:
    """Counters below their size are exact, so what is left is the error of the signs: mean F2, variance 2 F2^2 / d."""
    events = STREAMS["zipf-1.5"](600, seed=3)
    pairs = {(int(k), int(a)) for k, a in zip(events.keys, events.attributes, strict=True)}
    counts = np.bincount([key for key, _ in pairs])
    truth = float((counts.astype(np.float64) ** 2).sum())
    estimates = []
    for seed in range(150):
        sketch = TugOfWar.sized(dimensions=32, counter="bottom_k", counter_size=1000, seed=seed)
        sketch.update(events.keys, attributes=events.attributes)
        assert sketch.distinct().value == len(pairs)
        estimates.append(float(sketch.self_join().value) / truth)
    assert abs(np.mean(estimates) - 1) < 5 * np.sqrt(2 / 32 / 150)
    assert np.var(estimates) < 1.6 * 2 / 32


def test_tug_of_war_needs_a_known_counter() -> None:
    with pytest.raises(ParameterError, match="counter='hll'"):
        TugOfWar.sized(dimensions=4, counter="hll", counter_size=8)
    with pytest.raises(ParameterError, match="precision=27"):
        TugOfWar.sized(dimensions=4, counter="ultraloglog", counter_size=27)
