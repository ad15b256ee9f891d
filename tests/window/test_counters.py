"""Counters in time against the truth: deterministic bounds that may never fail, and random ones that rarely may."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import (
    ExponentialHistogram,
    MergeError,
    ParameterError,
    QueryError,
    RandomizedWave,
    TimeError,
    Wave,
    WeightError,
)
from catchment.testing import failures_allowed
from catchment.window.counters import TimeCounter
from catchment.window.pooled import ReplayedGrid
from tests.amounts import fewer, trials_at
from tests.window.scenarios import in_batches, merged, scenario, times_of

DETERMINISTIC: list[type[TimeCounter]] = [Wave, ExponentialHistogram]
ALL: list[type[TimeCounter]] = [*DETERMINISTIC, RandomizedWave]


def through_a_tree(kind: type[TimeCounter], seed: int, sizes: dict[str, Any]) -> tuple[TimeCounter, Any, Any]:
    rng = np.random.default_rng(seed)
    case = scenario(seed, events=400)
    parts = []
    for _, at, weights in case.sites:
        part = kind.sized(**sizes, window=case.window, lateness=case.lateness)
        in_batches(lambda t, w, part=part: part.update(at=t, weights=w), (at, weights), rng)
        assert part.too_late == 0
        parts.append(part)
    return merged(parts, case.height, rng), case, rng


@fewer("cases", 300, 2000)
@pytest.mark.parametrize("kind", DETERMINISTIC)
def test_deterministic_bounds_never_fail(kind: type[TimeCounter], cases: int) -> None:
    """Sites 1 to 256, trees up to 8 high, late events, skewed clocks, ranges that end now, before, or in the future."""
    heights, refused = set(), 0
    for seed in range(cases):
        # Sizes for which the inherited error of a tree this high is still below 1.
        try:
            counter, case, rng = through_a_tree(kind, seed, {"size": int(8 + seed % 23)})
        except MergeError:
            refused += 1
            continue
        heights.add(case.height)
        for _ in range(3):
            last, now = case.range_in_window(rng)
            answer = counter.estimate(last=last, now=now)
            truth = case.truth.over(now - last, now).total()
            assert answer.holds(truth), (seed, last, now, truth, answer)
            assert answer.low <= answer.value <= answer.high
            if now >= case.newest and not counter.late:
                assert abs(answer.value - truth) <= counter.epsilon * truth + 0.5, (seed, answer, truth)
    assert heights == set(range(1, 9))
    assert refused < cases / 20


@pytest.mark.parametrize("kind", DETERMINISTIC)
def test_what_a_merge_replays_is_in_order_and_no_more_than_the_window_may_hold(kind: type[TimeCounter]) -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        counter = kind.sized(size=int(rng.integers(2, 9)), window=int(rng.integers(20, 300)))
        counter.update(at=times_of(400, rng))
        grid, clock = counter._grid, counter._time
        assert isinstance(grid, ReplayedGrid)
        first, length = np.zeros((2, 1), dtype=np.int64)
        times, weights = np.zeros((2, int(grid._step_room(first)[0])), dtype=np.int64)
        grid._list_steps(clock.first, clock.edge, first, first, times, weights, length)
        times, weights = times[: int(length[0])], weights[: int(length[0])]
        assert np.all(times[1:] <= times[:-1]), (seed, times)
        assert clock.edge < times[-1] <= times[0] == clock.newest
        assert int(weights.sum()) in counter.estimate(), (seed, weights)


@pytest.mark.parametrize("kind", DETERMINISTIC)
@pytest.mark.parametrize("height", [1, 2])
def test_merges_widen_both_ends_by_all_that_they_may_have_misplaced(kind: type[TimeCounter], height: int) -> None:
    """By hand: of a true count c the counter was given from c (1 - s) to c (1 + s). Trials do not come near either."""
    parts = [kind.sized(size=6, window=3000) for _ in range(4)]
    for place, part in enumerate(parts):
        part.update(at=np.arange(place, 4000, 3))
    share = parts[0]._grid.replay_error
    assert share > 0.09
    inherited = (1 + share) ** height - 1
    counter = kind.merge(parts) if height == 1 else kind.merge([kind.merge(parts[:2]), kind.merge(parts[2:])])
    for last in (1, 10, 70, 400, 2500):
        low, high = (int(end[0]) for end in counter._grid.after(3999 - last))
        answer = counter.estimate(last=last)
        assert answer.low == math.ceil(low / (1 + inherited) - 1e-6)
        assert answer.high == math.floor(high / (1 - inherited) + 1e-6)


@trials_at((300, 0.2), long=(1200, 0.05))
@pytest.mark.parametrize("size", [20, 100])
def test_randomized_bounds_fail_no_more_often_than_delta(size: int, trials: int, delta: float) -> None:
    failures = 0
    for seed in range(trials):
        counter, case, rng = through_a_tree(RandomizedWave, seed, {"size": size, "delta": delta, "seed": seed})
        last, now = case.range_in_window(rng)
        failures += not counter.estimate(last=last, now=now).holds(case.truth.over(now - last, now).total())
    assert failures <= failures_allowed(trials, delta)


def test_streams_with_the_same_coins_are_noticed() -> None:
    """Sites whose first events are alike toss the same coins: the bound must know, or it fails."""
    at = np.arange(1, 20_000)
    alike = [RandomizedWave.sized(size=50, window=20_000, delta=0.05) for _ in range(30)]
    for part in alike:
        part.update(at=at)
    other = [RandomizedWave.sized(size=50, window=20_000, delta=0.05) for _ in range(30)]
    for place, part in enumerate(other):
        part.update(at=at + place)
    same, different = RandomizedWave.merge(alike).estimate(last=9000), RandomizedWave.merge(other).estimate(last=9000)
    assert 30 * 9000 in same
    assert same.high - same.low > 3 * (different.high - different.low)


@pytest.mark.parametrize("kind", ALL)
def test_bounds_are_not_needlessly_loose(kind: type[TimeCounter]) -> None:
    widths, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        at = np.cumsum(rng.integers(0, 4, 4000))
        counter = kind.sized(size=kind.suggest(0.1)["size"] // (10 if kind is RandomizedWave else 1), window=6000)
        counter.update(at=at)
        for _ in range(10):
            last = int(rng.integers(100, 6000))
            answer = counter.estimate(last=last)
            widths.append(float(np.asarray(answer.high) - answer.low) / 2)
            errors.append(abs(float(np.asarray(answer.value)) - float(np.sum(at > at[-1] - last))))
    assert np.mean(widths) < 6 * np.mean(errors)


@pytest.mark.parametrize("kind", DETERMINISTIC)
def test_the_size_keeps_its_epsilon_and_no_less_would(kind: type[TimeCounter]) -> None:
    """The worst error over many cuts stays below epsilon, and comes near it."""
    for epsilon in (0.3, 0.1, 0.03, 0.01):
        counter = kind(epsilon, window=100_000)
        counter.update(at=np.arange(1, 50_001))
        worst = 0.0
        for last in np.unique(np.geomspace(1, 50_000, 3000).astype(int)).tolist():
            worst = max(worst, (abs(int(counter.estimate(last=last).value) - last) - 0.5) / last)
        assert 0.4 * epsilon < worst <= epsilon
        assert counter.epsilon <= epsilon


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
def test_a_weight_is_that_many_events(kind: type[TimeCounter], data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 9))
    window = data.draw(st.integers(1, 300))
    gaps = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=40))
    weights = data.draw(st.lists(st.integers(0, 200), min_size=len(gaps), max_size=len(gaps)))
    at = np.cumsum(gaps)
    heavy, single = kind.sized(size=size, window=window), kind.sized(size=size, window=window)
    heavy.update(at=at[:1])
    single.update(at=at[:1])
    heavy.update(at=at, weights=weights)
    for time, weight in zip(at.tolist(), weights, strict=True):
        single.update(at=np.full(weight, time))
        single.update(at=time, weights=0)
    assert heavy.to_bytes() == single.to_bytes()


def test_a_huge_weight_costs_little() -> None:
    for kind in ALL:
        counter = kind.sized(size=20, window=1000)
        counter.update(at=[1, 2, 3], weights=[2**60, 1, 2**59])
        assert counter.estimate(last=1).holds(2**59)
        assert counter.nbytes < 40_000
        with pytest.raises(WeightError, match="2\\^62"):
            counter.update(at=[4], weights=[2**61 + 2**60])
        assert counter.newest == 3


@pytest.mark.parametrize("kind", ALL)
def test_empty_counters_answer_nothing(kind: type[TimeCounter]) -> None:
    counter = kind(0.1, window=100)
    assert (counter.estimate().value, counter.estimate().high) == (0, 0)
    assert counter.newest is None
    counter.update(at=[])
    assert counter.estimate(last=5, now=17).window == (12, 17)


@pytest.mark.parametrize("kind", ALL)
def test_before_anything_left_the_window_the_count_is_exact(kind: type[TimeCounter]) -> None:
    counter = kind.sized(size=4, window=10_000)
    counter.update(at=np.arange(5000))
    answer = counter.total()
    assert (answer.value, answer.low, answer.high) == (5000, 5000, 5000)
    assert counter.nbytes < 3000


@pytest.mark.parametrize("kind", ALL)
def test_windows_of_arrivals(kind: type[TimeCounter]) -> None:
    """How many of the last N events had the bit set."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, 5000)
    counter = kind(0.1, arrivals=700)
    for start in range(0, 5000, 999):
        counter.update(weights=bits[start : start + 999])
    assert counter.newest == 5000
    for last in (1, 10, 100, 333, 700):
        assert counter.estimate(last=last).holds(int(bits[-last:].sum()))
    with pytest.raises(TimeError, match="leave `at` out"):
        counter.update(at=[1])
    with pytest.raises(MergeError, match="interleave"):
        kind.merge([counter, counter])
    assert kind.merge([counter]) == counter


@pytest.mark.parametrize("kind", ALL)
def test_times_may_jump_further_than_32_bits(kind: type[TimeCounter]) -> None:
    """Times are kept in 32 bits relative to a base that moves; windows too wide for that keep 64."""
    for window in (1000, 2**31, 2**32 - 2**28, 2**40):
        counter = kind.sized(size=200, window=window)
        at = np.concatenate([base + np.arange(50) * max(window // 100, 1) for base in (-(2**59), 0, 2**35, 2**58)])
        counter.update(at=at[:70])
        counter.update(at=at[70:])
        assert counter.estimate().holds(50)
        assert counter.estimate(last=window // 4).holds(int(np.sum(at > at[-1] - window // 4)))
        assert kind.from_bytes(counter.to_bytes()).estimate() == counter.estimate()
        assert kind.merge([counter, counter]).estimate().holds(100)


@pytest.mark.parametrize("kind", ALL)
def test_late_events_are_taken_with_a_bound_and_later_ones_are_counted(kind: type[TimeCounter]) -> None:
    counter = kind.sized(size=100, window=1000, lateness=50)
    counter.update(at=[100, 200, 170, 140, 149])  # late by 30, 60 and 51
    assert (counter.late, counter.too_late) == (1, 2)
    answer = counter.estimate(last=20)  # the event of 170 was registered at 200, and may or may not be in
    assert (answer.low, answer.high) == (1, 2)
    assert counter.estimate(last=31).holds(2)
    assert counter.estimate().holds(3)
    other = kind.sized(size=100, window=1000, lateness=50)
    other.update(at=[90, 80])
    both = kind.merge([counter, other])
    assert (both.late, both.too_late) == (2, 2)
    assert both.estimate().holds(5)
    assert kind.from_bytes(both.to_bytes()).late == 2


def test_bad_times_and_ranges_are_refused_and_change_nothing() -> None:
    counter = Wave(0.1, window=100)
    counter.update(at=[1000])
    before = counter.to_bytes()
    for at, message in (
        ([1.5], "give integers"),
        (np.array(["2020-01-01"], dtype="datetime64[s]"), "datetime64"),
        ([2**61], "2\\^60"),
        ([[1, 2]], "shape"),
        (None, "at="),
        (np.ma.masked_array([1, 2], mask=[True, False]), "masked"),
        ([[1], [1, 2]], "uneven"),
    ):
        with pytest.raises(TimeError, match=message):
            counter.update(at=at)
    with pytest.raises(WeightError, match="negative"):
        counter.update(at=[1001], weights=[-1])
    assert counter.to_bytes() == before
    for question, message in (
        ({"last": 0}, "1 to 100"),
        ({"last": 101}, "1 to 100"),
        ({"last": 100, "now": 990}, "at most 90: the newest time seen is 1000"),
        ({"now": 500}, "give a `now` after 900"),
        ({"last": 1.5}, "1 to 100"),
    ):
        with pytest.raises(QueryError, match=message):
            counter.estimate(**question)
    with pytest.raises(ParameterError, match="now"):
        counter.estimate(now=2**61)
    for wrong in (
        {},
        {"window": 5, "arrivals": 5},
        {"window": 0},
        {"window": 10, "lateness": 11},
        {"arrivals": 5, "lateness": 1},
    ):
        with pytest.raises(ParameterError):
            Wave(0.1, **wrong)
    with pytest.raises(ParameterError, match="clock"):
        Wave.sized(size=4, window=10, clock="sundial")


def test_merging_is_refused_before_its_error_says_nothing() -> None:
    parts = [Wave.sized(size=2, window=10_000) for _ in range(2)]
    for part in parts:
        part.update(at=np.arange(100))
    once = Wave.merge(parts)
    assert once.epsilon == pytest.approx(1.25)
    with pytest.raises(MergeError, match="for_tree"):
        Wave.merge([once, once, Wave.merge([once, parts[0]])])
