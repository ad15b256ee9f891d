"""Intervals against the same formulas worked out by hand: a lost half of delta shows here and nowhere else.

The trials of test_guarantees.py would not see it, since the inequalities leave room on ordinary streams.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from catchment import BloomFilter, BottomK, CountMin, FastAMS, FMSketch, QueryError, SpaceSaving, TugOfWar, UltraLogLog
from catchment.testing import STREAMS

KEYS = STREAMS["zipf-0.5"](3000, seed=8).keys


def test_count_min_takes_the_better_of_two_bounds_at_half_delta_each() -> None:
    for width, depth, delta in ((60, 3, 0.05), (40, 1, 0.2), (200, 2, 0.01)):
        sketch = CountMin.sized(width=width, depth=depth, delta=delta)
        sketch.update(KEYS)
        share = (delta / 2) ** (-1 / depth) / width
        slack = next(
            t
            for t in sorted({0, *sketch._cells.ravel().tolist()})
            if math.prod(float(np.mean(row > t)) for row in sketch._cells) <= delta / 2
        )
        for key in (0, 7, 500):
            value = int(sketch.estimate(key).value)
            markov = (value - share * 3000) / (1 - share) if share < 1 else 0
            assert sketch.estimate(key).low == max(math.ceil(markov - 1e-6), value - slack, 0)


def test_conservative_count_min_has_the_first_bound_alone_at_all_of_delta() -> None:
    sketch = CountMin.sized(width=60, depth=3, delta=0.05, conservative=True)
    sketch.update(KEYS)
    share = 0.05 ** (-1 / 3) / 60
    for key in (0, 7, 500):
        value = int(sketch.estimate(key).value)
        assert sketch.estimate(key).low == max(math.ceil((value - share * 3000) / (1 - share) - 1e-6), 0)


def row_failure(depth: int, delta: float) -> float:
    """By stepping, not by bisection."""
    p, majority = 0.5, (depth + 1) // 2
    while sum(math.comb(depth, k) * p**k * (1 - p) ** (depth - k) for k in range(majority, depth + 1)) > delta:
        p *= 0.9999
    return p


def test_fast_ams_shares_delta_among_its_events() -> None:
    width, depth, delta = 500, 3, 0.05
    one, other = (FastAMS.sized(width=width, depth=depth, delta=delta) for _ in range(2))
    one.update(KEYS)
    other.update(KEYS[:1000])

    def error(variance: float, events: int) -> float:
        return math.sqrt(variance / (width * row_failure(depth, delta / events)))

    def norm(sketch: FastAMS, events: int) -> float:
        return math.sqrt(float(sketch.self_join().value) / (1 - error(2, events)))

    join, product = one.self_join(), one.inner_product(other)
    assert join.high == pytest.approx(join.value / (1 - error(2, 1)), rel=1e-3)
    assert join.low == pytest.approx(join.value / (1 + error(2, 1)), rel=1e-3)
    radius = error(2, 3) * norm(one, 3) * norm(other, 3)
    assert (product.high - product.value, product.value - product.low) == pytest.approx((radius, radius), rel=1e-3)
    point = one.estimate(5)
    assert point.high - point.value == pytest.approx(error(1, 2) * norm(one, 2), rel=1e-3)
    known = one.inner_product_with([1, 2, 3])
    assert known.high - known.value == pytest.approx(error(2, 2) * norm(one, 2) * math.sqrt(3), rel=1e-3)


def test_fm_reads_its_ends_off_the_curve_at_the_chernoff_radius() -> None:
    sketch = FMSketch.sized(bitmaps=100, delta=0.05)
    sketch.update(np.arange(50_000))
    radius = math.sqrt(2 * math.log(2 / 0.05)) * 1.12127 / 10
    mean = sketch._mean_place()
    assert sketch.estimate().low == pytest.approx(2 ** (mean - radius) / 0.77351, rel=1e-3)
    assert sketch.estimate().high == pytest.approx(2 ** (mean + radius) / 0.77351, rel=1e-3)


def test_ultraloglog_strays_by_the_chernoff_radius_on_the_logarithm() -> None:
    sketch = UltraLogLog.sized(precision=8, delta=0.05)
    sketch.update(np.arange(50_000))
    answer = sketch.estimate()
    radius = math.sqrt(2 * math.log(2 / 0.05)) * 0.7608 / 16
    assert (answer.low, answer.high) == pytest.approx(
        (answer.value * math.exp(-radius), answer.value * math.exp(radius)), rel=1e-4
    )


def test_ultraloglog_has_no_bias_even_with_eight_registers() -> None:
    """The correction is 6 % there, twenty times the noise of this many trials."""
    estimates = []
    for seed in range(8000):
        sketch = UltraLogLog.sized(precision=3, seed=seed)
        sketch.update(np.arange(2000))
        estimates.append(float(sketch.estimate().value) / 2000)
    assert abs(np.mean(estimates) - 1) < 0.02


def test_bloom_ends_are_where_mcdiarmid_puts_them() -> None:
    bits, probes, delta = 5000, 3, 0.05
    sketch = BloomFilter.sized(bits=bits, probes=probes, delta=delta)
    sketch.update(np.arange(600))
    found = sum(int(word).bit_count() for word in sketch._words)

    def expected(n: int) -> float:
        return bits * (1 - (1 - 1 / bits) ** (n * probes))

    def reach(n: int) -> float:
        return math.sqrt(n * probes * math.log(2 / delta) / 2)

    possible = [n for n in range(1, 2000) if abs(expected(n) - found) <= reach(n)]
    assert abs(int(sketch.estimate().low) - possible[0]) <= 1
    assert possible[-1] <= sketch.estimate().high <= possible[-1] * 1.02 + 2


def test_bottom_k_ends_are_where_chernoff_puts_them() -> None:
    size, delta = 50, 0.05
    sketch = BottomK.sized(size=size, delta=delta)
    sketch.update(np.arange(3000))
    v = (float(sketch._settle()[-1]) + 1) / 2**64

    def surprise(n: float, k: float) -> float:
        p = k / n
        return n * (p * math.log(p / v) + (1 - p) * math.log((1 - p) / (1 - v)))

    limit = math.log(2 / delta)
    low = next(n for n in range(size + 1, 100_000) if n >= size / v or surprise(n, size) <= limit)
    high = next(n for n in range(int(size / v), 1_000_000) if n * v > size - 1 and surprise(n, size - 1) > limit)
    assert abs(int(sketch.estimate().low) - low) <= 1
    assert abs(int(sketch.estimate().high) - high) <= 1


def test_tug_of_war_widens_by_the_error_of_its_signs() -> None:
    """With exact counters nothing else is left: S/(1 + e) and S/(1 - e)."""
    dimensions, delta = 200, 0.1
    sketch = TugOfWar.sized(dimensions=dimensions, counter="bottom_k", counter_size=5000, delta=delta)
    sketch.update(np.arange(1000) % 9, attributes=np.arange(1000))
    answer = sketch.self_join()
    error = next(
        e for e in np.linspace(0, 1, 100_001) if 2 * math.exp(-dimensions / 2 * (e**2 / 2 - e**3 / 3)) <= delta / 2
    )
    assert answer.low == pytest.approx(float(answer.value) / (1 + error), rel=1e-3)
    assert answer.high == pytest.approx(float(answer.value) / (1 - error), rel=1e-3)


def test_tug_of_war_asks_its_counters_at_their_share_of_delta() -> None:
    dimensions, delta = 70, 0.1
    sketch = TugOfWar.sized(dimensions=dimensions, counter="bottom_k", counter_size=40, delta=delta)
    sketch.update(np.zeros(1000, dtype=np.int64), attributes=np.arange(1000))
    share = delta / (4 * dimensions)
    ends = [(p.bounds(share), m.bounds(share)) for p, m in zip(sketch._plus, sketch._minus, strict=True)]
    most = np.mean([max(abs(p[2] - m[1]), abs(p[1] - m[2])) ** 2 for p, m in ends])
    cap = min(p[2] + m[2] for p, m in ends) ** 2
    assert sketch.self_join().high == pytest.approx(min(most / (1 - sketch.epsilon), cap))
    least = np.mean(
        [0 if p[1] <= m[2] and m[1] <= p[2] else min(abs(p[1] - m[2]), abs(p[2] - m[1])) ** 2 for p, m in ends]
    )
    floor = max(p[1] + m[1] for p, m in ends)
    assert sketch.self_join().low == pytest.approx(max(least / (1 + sketch.epsilon), floor))


def test_a_threshold_at_the_floor_is_refused_and_just_above_it_is_not() -> None:
    sketch = SpaceSaving.sized(capacity=5)
    sketch.update(np.arange(100))
    floor = int(sketch.estimate(-1).high)
    assert floor > 1
    with pytest.raises(QueryError):
        sketch.heavy_hitters(count=floor)
    sketch.heavy_hitters(count=floor + 1)
