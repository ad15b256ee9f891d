"""DyadicECM against the truth: ranges of keys, quantiles, heavy hitters, networks; orders of keys."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import DyadicECM, KeyTypeError, NullKeyError, ParameterError, QueryError
from catchment.testing import Exact, failures_allowed
from catchment.window.ordered import decoded, encoded
from tests.window.scenarios import merged

DELTA = 0.05


def case(seed: int) -> tuple[DyadicECM, np.ndarray, np.ndarray, int]:
    """A sketch of some sites, merged through a tree, with the keys and times behind it and the number of bits."""
    rng = np.random.default_rng(seed)
    bits, step, window = int(rng.integers(3, 14)), int(rng.choice([1, 2, 3, 4, 8])), int(rng.integers(100, 3000))
    skewed = np.minimum(rng.zipf(1.3, 1200), (1 << bits) - 1)
    keys = skewed if seed % 2 else rng.integers(0, 1 << bits, 1200)
    at = np.cumsum(rng.integers(0, 4, 1200))
    counter = ["wave", "eh", "panes"][seed % 3]
    parts = []
    for site in range(1 + seed % 5):
        parts.append(
            DyadicECM(0.04, DELTA, window=window, bits=bits, step=step, counter=counter, seed=seed)
        )  # fmt: skip
        parts[-1].update(keys[site :: 1 + seed % 5], at=at[site :: 1 + seed % 5])
    return merged(parts, 3, rng), keys, at, bits


def test_bounds_fail_no_more_often_than_delta() -> None:
    trials, failures = 250, Counter[str]()
    for seed in range(trials):
        sketch, keys, at, bits = case(seed)
        rng = np.random.default_rng(seed)
        last = int(rng.integers(50, sketch.window + 1))
        inside = np.sort(keys[at > at[-1] - last])
        low, high = np.sort(rng.integers(0, 1 << bits, 2)).tolist()
        answer = sketch.count_between(low, high, last=last)
        truth = int(np.sum((inside >= low) & (inside <= high)))
        assert answer.low <= answer.value <= answer.high
        assert answer.high >= truth
        failures["range"] += not answer.holds(truth)
        for q in (0.0, 0.3, 0.5, 0.99, 1.0):
            quantile = sketch.quantile(q, last=last)
            true = int(inside[max(int(np.ceil(q * inside.size)), 1) - 1])
            assert quantile.low <= quantile.value <= quantile.high
            assert quantile.holds(true)
        check_heavy_hitters(sketch, inside.tolist(), last, failures)
    allowed = failures_allowed(trials, DELTA)
    assert failures["range"] <= allowed
    assert failures["false positive"] <= allowed


def check_heavy_hitters(sketch: DyadicECM, inside: list[int], last: int, failures: Counter[str]) -> None:
    truth = Exact()
    truth.update(inside)
    for phi in (0.25, 0.5):
        total = sketch.total(last=last)
        if phi * float(np.asarray(total.low)) <= 1 + sketch.epsilon * float(np.asarray(total.high)):
            continue
        heavy = truth.heavy_hitters(phi * len(inside))
        assert heavy <= set(sketch.heavy_hitters(phi, last=last).keys), "no false negative, ever"
        sure = set(sketch.heavy_hitters(phi, last=last, mode="no_false_positives").keys)
        failures["false positive"] += not sure <= heavy
        for (first, final), answer in sketch.heavy_prefixes(phi, last=last):
            assert answer.high >= sum(first <= key <= final for key in inside)


def test_heavy_prefixes_are_all_there() -> None:
    sketch = DyadicECM(0.02, 0.01, window=1000, order="ipv4", step=8)
    rng = np.random.default_rng(1)
    hosts = [f"10.{rng.integers(4)}.{rng.integers(256)}.{rng.integers(256)}" for _ in range(600)]
    others = [f"{rng.integers(11, 200)}.1.1.{rng.integers(256)}" for _ in range(350)]
    sketch.update(hosts + others + ["192.0.2.7"] * 50, at=np.arange(1000))
    found = {key: answer for key, answer in sketch.heavy_prefixes(phi=0.1)}  # noqa: C416 (a Ranking has keys)
    assert "10.0.0.0/8" in found
    assert {f"10.{second}.0.0/16" for second in range(4)} <= set(found)
    assert found["10.0.0.0/8"].holds(600)
    assert not any(prefix.endswith("/32") for prefix in found)
    assert sketch.heavy_hitters(count=40).keys == ("192.0.2.7",)
    assert sketch.count_between("10.0.0.0", "10.255.255.255").holds(600)
    assert sketch.estimate("192.0.2.7").holds(50)
    assert np.array_equal(sketch.estimate(["192.0.2.7", "10.9.9.9"], last=50).value, [50, 0])


def test_quantiles_of_floats_and_signed_keys() -> None:
    rng = np.random.default_rng(5)
    latencies = rng.lognormal(0, 2, 3000) - 0.5
    sketch = DyadicECM(0.01, 0.05, window=5000, order="float", step=8)
    sketch.update(latencies, at=np.arange(3000))
    for q in (0.1, 0.5, 0.9):
        answer = sketch.quantile(q)
        assert answer.holds(np.sort(latencies)[int(np.ceil(q * 3000)) - 1])
        assert np.ptp([answer.low, answer.high]) < 0.2 * np.abs(answer.value) + 0.1
    signed = DyadicECM(0.01, 0.05, window=5000, order="signed", bits=12)
    signed.update(np.arange(-1000, 1000), at=np.arange(2000))
    assert signed.quantile(0.5).holds(-1)
    assert signed.count_between(-10, 9).holds(20)


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_codes_of_floats_sort_as_they_do(numbers: list[float]) -> None:
    codes, _ = encoded(numbers, "float", 64)
    assert decoded(codes, "float", 64) == [number + 0.0 for number in numbers]
    assert np.array_equal(np.sort(codes), encoded(np.sort(numbers), "float", 64)[0])


@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_a_range_is_covered_once_and_by_few_nodes(bits: int, step: int, data: st.DataObject) -> None:
    sketch = DyadicECM.sized(width=1, depth=1, size=2, window=10, bits=bits, step=step)
    low = data.draw(st.integers(0, (1 << bits) - 1))
    high = data.draw(st.integers(low, (1 << bits) - 1))
    covered: list[int] = []
    nodes = 0
    for level, found in sketch._cover(low, high + 1):
        nodes += len(found)
        covered += [(node << (level * step)) + rest for node in found.tolist() for rest in range(1 << (level * step))]
    assert sorted(covered) == list(range(low, high + 1))
    assert nodes <= sketch.most_nodes


def test_what_it_cannot_do_is_said() -> None:
    sketch = DyadicECM(0.1, 0.1, window=100, bits=8)
    wrong: list[tuple[Any, str]] = [
        ([256], "more than 8 bits"),
        ([-1], "outside"),
        (["a"], "integers"),
        ([1.5], "float"),
    ]
    for keys, message in wrong:
        with pytest.raises(KeyTypeError, match=message):
            sketch.update(keys, at=[1])
    with pytest.raises(KeyTypeError, match="IPv4"):
        DyadicECM(0.1, 0.1, window=100, order="ipv4").update(["10.0.0"], at=[1])
    with pytest.raises(KeyTypeError, match="not a number"):
        DyadicECM(0.1, 0.1, window=100, order="float").update([float("nan")], at=[1])
    with pytest.raises(QueryError, match="no events"):
        sketch.quantile(0.5)
    sketch.update(np.arange(100), at=np.arange(100))
    for ask, message in (
        (lambda: sketch.quantile(1.5), "0 to 1"),
        (lambda: sketch.count_between(5, 4), "smaller key first"),
        (lambda: sketch.heavy_hitters(phi=0.01), "smaller epsilon"),
    ):
        with pytest.raises(QueryError, match=message):
            ask()
    with pytest.raises(ParameterError, match="exactly one"):
        sketch.heavy_hitters()
    for parameters in ({"order": "alphabetic"}, {"bits": 64}, {"step": 0}):
        with pytest.raises(ParameterError):
            DyadicECM(0.1, 0.1, window=100, **parameters)
    with pytest.raises(ParameterError, match="height"):
        DyadicECM.for_tree(0.1, 0.1, window=100, height=99)


def test_ends_of_float_quantiles_are_numbers() -> None:
    rng = np.random.default_rng(2)
    for epsilon in (0.02, 0.1):
        keys = rng.normal(size=3000)
        sketch = DyadicECM(epsilon, 0.1, window=1000, order="float")
        sketch.update(keys, at=np.arange(3000))
        for q in (0.01, 0.99):
            answer = sketch.quantile(q, last=700)
            assert answer.holds(np.sort(keys[-700:])[int(np.ceil(q * 700)) - 1])
            assert not np.isnan(answer.high)
    assert not any(np.isnan(part) for key in sketch.heavy_prefixes(0.3).keys for part in key)


def test_epsilon_is_that_of_the_worst_level() -> None:
    parts = []
    for site in range(2):
        parts.append(DyadicECM.sized(width=2**10, depth=8, size=6, window=10**6, bits=16, step=8))
        parts[-1].update(np.arange(256), at=np.arange(256) * 2 + site)
    root = DyadicECM.merge(parts)
    assert root.epsilon == pytest.approx(1.1**2 - 1)


def test_odd_keys_are_refused() -> None:
    addresses = DyadicECM(0.1, 0.1, window=100, order="ipv4")
    for key in (" 1.2.3.4", "+1.2.3.5", "1_0.2.3.4", "1.2.3.4.5", "1..2.3", "256.1.1.1", "1.2.3.\u0664"):
        with pytest.raises(KeyTypeError, match="IPv4"):
            addresses.update([key, "1.2.3.4"], at=[1, 2])
    whole = DyadicECM(0.1, 0.1, window=100)
    with pytest.raises(NullKeyError, match="masked"):
        whole.update(np.ma.masked_array([1, 2], mask=[True, False]), at=[1, 2])
    with pytest.raises(KeyTypeError, match="uneven"):
        whole.update([[1], [1, 2]], at=[1, 2])
    with pytest.raises(KeyTypeError, match="numbers"):
        DyadicECM(0.1, 0.1, window=100, order="float").update(["abc"], at=[1])
    with pytest.raises(ParameterError, match="delta=1e-10"):
        DyadicECM(0.1, 1e-10, window=100)


def test_leaves_for_a_tree() -> None:
    parts = []
    for site in range(8):
        parts.append(DyadicECM.for_tree(0.1, 0.1, window=10_000, height=3, bits=8))
        parts[-1].update(np.arange(3000) % 200, at=np.arange(site, 3000 + site))
    root = merged(parts, 3, np.random.default_rng(1))
    assert parts[0].epsilon < 0.1
    assert root.epsilon <= 0.1 + 1e-9
    assert root.total().holds(24_000)
