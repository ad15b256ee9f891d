"""Count-Min, Fast-AMS and the value estimator: what the contract does not ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import (
    CountMin,
    FastAMS,
    MergeError,
    ParameterError,
    QueryError,
    SpaceSaving,
    ValueEstimator,
    WeightError,
)
from catchment.testing import STREAMS, Exact, failures_allowed
from catchment.testing.contract import feed, truth_of

events_of_keys = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60)


@given(events_of_keys, st.booleans(), st.integers(0, 2**64 - 1))
def test_count_min_never_underestimates(events: list[tuple[int, int]], conservative: bool, seed: int) -> None:
    sketch, truth = CountMin.sized(width=7, depth=2, seed=seed, conservative=conservative), Exact()
    for key, weight in events:
        sketch.update(key, weights=weight)
        truth.update([key], weights=[weight])
    assert all(truth.frequency(key) <= sketch.estimate(key).high for key in range(32))


def test_conservative_is_closer_and_still_merges_within_its_bound() -> None:
    events = STREAMS["zipf-1.1"](5000, seed=3)
    whole = feed(CountMin.sized(width=50, depth=3), events)
    parts = [feed(CountMin.sized(width=50, depth=3, conservative=True), part) for part in events.at_sites()]
    merged = CountMin.merge(parts)  # type: ignore[arg-type]
    alone = feed(CountMin.sized(width=50, depth=3, conservative=True), events)
    truth = truth_of(whole, events)
    keys = truth.keys()
    exact = np.array([truth.frequency(key) for key in keys])
    plain, together, single = (np.asarray(s.estimate(keys).value) for s in (whole, merged, alone))  # type: ignore[attr-defined]
    assert np.all(exact <= single)
    assert np.all(exact <= together)
    assert np.all(together <= plain)
    assert single.mean() < together.mean() < plain.mean()


def test_conservative_refuses_what_would_be_wrong() -> None:
    conservative, plain = CountMin(conservative=True), CountMin()
    with pytest.raises(MergeError, match="conservative differs: True and False"):
        CountMin.merge([conservative, plain])
    with pytest.raises(QueryError, match="self-join of conservative"):
        conservative.self_join()
    with pytest.raises(QueryError, match="inner product of conservative"):
        conservative.inner_product(conservative)


@pytest.mark.parametrize("kind", [CountMin, FastAMS])
def test_inner_products_hold_as_often_as_they_say(kind: type[CountMin | FastAMS]) -> None:
    failures, trials = 0, 1000
    for trial in range(trials):
        stream = STREAMS[list(STREAMS)[trial % len(STREAMS)]]
        left, right = stream(300, seed=trial), STREAMS["zipf-1.1"](300, seed=trial + 1)
        a, b = (kind.sized(width=40, depth=3, seed=trial + 1, delta=0.05) for _ in range(2))
        feed(a, left, weighted=True)
        feed(b, right)
        truth = truth_of(a, left, weighted=True).inner_product(truth_of(b, right))
        failures += truth not in a.inner_product(b)  # type: ignore[arg-type]
    assert failures <= failures_allowed(trials, 0.05)


def test_inner_product_with_a_known_vector_holds_and_beats_an_unknown_one() -> None:
    failures, trials = 0, 1000
    for trial in range(trials):
        events = STREAMS["zipf-1.1"](300, seed=trial)
        sketch = FastAMS.sized(width=64, depth=3, seed=trial, delta=0.05)
        feed(sketch, events)
        wanted = np.arange(trial % 40, trial % 40 + 20)
        truth = int(np.isin(events.keys, wanted).sum())
        failures += truth not in sketch.inner_product_with(wanted)
    assert failures <= failures_allowed(trials, 0.05)
    known = FastAMS.sized(width=64, depth=3, seed=trial, delta=0.05)
    known.update(wanted)
    one, other = sketch.inner_product_with(wanted), sketch.inner_product(known)
    assert one.value == other.value
    assert one.high - one.low < other.high - other.low


def test_a_known_vector_may_name_a_key_twice() -> None:
    sketch = FastAMS(epsilon=0.2)
    sketch.update([1, 1, 2])
    assert sketch.inner_product_with([1, 1, 2], weights=[1, 1, -1]).value == 3


@given(events_of_keys)
def test_fast_ams_takes_back_what_it_was_given(events: list[tuple[int, int]]) -> None:
    sketch = FastAMS.sized(width=16, depth=3)
    keys, weights = [key for key, _ in events], [weight for _, weight in events]
    sketch.update(keys, weights=weights)
    sketch.update(keys, weights=[-weight for weight in weights])
    assert sketch.self_join().value == 0
    assert sketch.total().value == 0


def test_fast_ams_rows_have_the_variance_that_the_proof_takes() -> None:
    """One row: unbiased, variance at most 2 F2^2 / width (seed 004 and Cormode and Garofalakis)."""
    events = STREAMS["zipf-0.8"](500, seed=1)
    truth = truth_of(FastAMS(), events).self_join()
    rows = []
    for seed in range(2000):
        sketch = FastAMS.sized(width=20, depth=1, seed=seed)
        feed(sketch, events)
        rows.append(float(sketch.self_join().value) / truth)
    assert abs(np.mean(rows) - 1) < 5 * np.sqrt(2 / 20 / 2000)
    assert np.var(rows) < 1.2 * 2 / 20


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        (-1, "weight -1 is negative"),
        ([1, 2], r"shape \(2,\) for 3 keys"),
        (0.5, "float64"),
        ([1, 2, 2**62], "total"),
        (np.array([2**63, 1, 1], dtype=np.uint64), "9223372036854775808"),
        ([True, False, True], "bool"),
    ],
)
@pytest.mark.parametrize("kind", [CountMin, ValueEstimator])
def test_bad_weights_are_named_and_change_nothing(kind: Any, weights: Any, named: str) -> None:
    sketch = kind()
    values = {"values": 5} if kind is ValueEstimator else {}
    sketch.update([1], **values)
    before = sketch.to_bytes()
    with pytest.raises(WeightError, match=named):
        sketch.update([1, 2, 3], **values, weights=weights)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize("kind", [CountMin, FastAMS, SpaceSaving])
def test_a_total_at_the_limit_is_refused_on_every_path(kind: Any) -> None:
    sketch = kind()
    sketch.update(1, weights=2**62 - 1000)
    with pytest.raises(WeightError, match=r"2\^62"):
        sketch.update([2] * 1000)
    sketch.update([2] * 999)
    assert kind.from_bytes(sketch.to_bytes()) == sketch
    with pytest.raises(WeightError):
        sketch.update(3, weights=1)
    with pytest.raises(WeightError):
        sketch.update([3, 4], weights=np.full(2, 2**62 - 1))


@pytest.mark.parametrize("frequency", [94_906_267, 2**40 + 1, 2**50 + 3])
@pytest.mark.parametrize("kind", [CountMin, FastAMS])
def test_large_squares_are_not_rounded_below_the_truth(kind: Any, frequency: int) -> None:
    one, other = kind(), kind()
    one.update("a", weights=frequency)
    other.update("a", weights=frequency + 1)
    low, high = one.self_join().low, one.self_join().high
    assert int(low) <= frequency**2 <= int(high)
    product = one.inner_product(other)
    assert int(product.low) <= frequency * (frequency + 1) <= int(product.high)


def test_a_small_value_beside_a_huge_one_keeps_its_bound() -> None:
    """A thousand million events in nanoseconds share the cell of one: rounding must not cut the truth off."""
    for seed in range(20):
        sketch = ValueEstimator.sized(width=2, depth=1, seed=seed)
        sketch.update([1], values=[100_000_101])
        sketch.update([3], values=[10**9], weights=10**9)
        assert 100_000_101 in sketch.estimate(1)


def test_masked_and_uneven_weights_are_refused() -> None:
    for weights in (np.ma.masked_array([1, 99], mask=[False, True]), [[1], [2, 3]], True):
        with pytest.raises(WeightError):
            CountMin().update([1, 2], weights=weights)


def test_only_sketches_of_the_kind_are_merged() -> None:
    with pytest.raises(MergeError, match="a FastAMS among the parts"):
        CountMin.merge([FastAMS(), FastAMS()])  # type: ignore[list-item]
    with pytest.raises(MergeError, match="a int among the parts"):
        CountMin.merge([1, 2])  # type: ignore[list-item]


def test_totals_that_would_overflow_are_refused_also_by_a_merge() -> None:
    half = CountMin(epsilon=0.5)
    half.update("a", weights=2**61)
    with pytest.raises(WeightError, match=r"2\^62"):
        CountMin.merge([half, half])
    assert half.estimate("a").value == 2**61


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: CountMin(epsilon=0), "epsilon=0"),
        (lambda: CountMin(epsilon=1.5), "epsilon=1.5"),
        (lambda: CountMin(delta=-0.1), "delta=-0.1"),
        (lambda: CountMin(epsilon=float("nan")), "epsilon=nan"),
        (lambda: CountMin(seed=-1), "seed=-1"),
        (lambda: CountMin(epsilon=1e-12), "or a larger epsilon"),
        (lambda: CountMin.sized(width=5, depth=1, hight=3), "no parameter hight in CountMin"),
        (lambda: CountMin.sized(width=0, depth=1), "width=0"),
        (lambda: CountMin.sized(width=10, depth=65), "depth=65"),
        (lambda: CountMin.sized(width=True, depth=1), "width=True"),
        (lambda: FastAMS.sized(width=2.5, depth=1), "width=2.5"),
    ],
)
def test_bad_parameters_are_named(build: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        build()


def test_sizes_come_from_errors_and_errors_from_sizes() -> None:
    for epsilon, delta in ((0.1, 0.1), (0.01, 0.001), (0.003, 0.05)):
        for kind in (CountMin, FastAMS):
            sketch = kind(epsilon=epsilon, delta=delta)
            assert sketch.epsilon <= epsilon * (1 + 1e-9)
            assert sketch.epsilon > epsilon / 2


def test_values_of_one_row_have_the_mean_of_theorem_3_14() -> None:
    """Equal frequencies, one row: E[V/C] as the thesis derives it (002, Theorem 3.14)."""
    n, c = 12, 8
    values = np.arange(1, n + 1) * 10
    for t in (0, 5, 11):
        ratios = []
        for seed in range(4000):
            sketch = ValueEstimator.sized(width=c, depth=1, seed=seed)
            sketch.update(np.arange(n), values=values)
            ratios.append(float(sketch.estimate(t).value))
        w, total = float(values[t]), float(values.sum())
        expected = (total - w) / (n - 1) - c * (total - n * w) / (n * (n - 1)) * (1 - (1 - 1 / c) ** n)
        assert abs(np.mean(ratios) - expected) < 5 * np.std(ratios) / np.sqrt(len(ratios))


def test_a_value_never_leaves_the_range_of_values() -> None:
    sketch = ValueEstimator.sized(width=3, depth=2)
    sketch.update(np.arange(100), values=np.arange(100) - 20)
    answer = sketch.estimate(np.arange(100))
    assert np.all(answer.low >= -20)
    assert np.all(answer.high <= 79)


def test_a_key_that_was_never_seen_has_no_value() -> None:
    empty = ValueEstimator()
    assert np.isnan(empty.estimate("a").value)
    empty.update(["a"], values=[3], weights=0)
    assert empty == ValueEstimator()


def test_values_must_be_integers_one_for_each_key() -> None:
    sketch = ValueEstimator()
    with pytest.raises(WeightError, match="scale fractions"):
        sketch.update(["a"], values=[0.25])
    with pytest.raises(WeightError, match=r"shape \(1,\) for 2 keys"):
        sketch.update(["a", "b"], values=[1])
    with pytest.raises(WeightError, match="values would bring the total"):
        sketch.update(["a", "b"], values=[2**40, 1], weights=2**40)
