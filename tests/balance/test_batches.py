"""Dealing rows of a batch to its tasks, and what is remembered of their costs: against trying everything."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.balance.scheduler import CostModel, deal
from catchment.errors import InputError, MergeError, ParameterError
from catchment.sketch.value_estimator import ValueEstimator
from catchment.testing.exact import Exact


@settings(max_examples=80, deadline=None)
@given(costs=st.lists(st.integers(1, 60), min_size=1, max_size=8), tasks=st.integers(1, 3))
def test_the_slowest_task_is_within_graham_s_bound_of_the_best(costs: list[int], tasks: int) -> None:
    dealt = deal(costs, tasks)
    sums = np.bincount(dealt.tasks, weights=costs, minlength=tasks)
    assert sums.tolist() == dealt.loads.tolist()
    best = min(
        max(sum(cost for cost, task in zip(costs, places, strict=True) if task == t) for t in range(tasks))
        for places in itertools.product(range(tasks), repeat=len(costs))
    )
    assert sums.max() <= (4 / 3 - 1 / (3 * tasks)) * best + 1e-9


@settings(max_examples=80, deadline=None)
@given(costs=st.lists(st.floats(0.5, 1e6), max_size=200), tasks=st.integers(1, 20))
def test_dealing_is_longest_first_to_the_least_loaded(costs: list[float], tasks: int) -> None:
    heap = [(0.0, task) for task in range(tasks)]
    expected = [0] * len(costs)
    for row in sorted(range(len(costs)), key=lambda row: -costs[row]):
        load, task = heapq.heappop(heap)
        expected[row] = task
        heapq.heappush(heap, (load + costs[row], task))
    assert deal(costs, tasks).tasks.tolist() == expected


@pytest.mark.parametrize("cost", [0.0, 1.0, 5e8])
def test_rows_of_one_cost_are_dealt_in_equal_counts(cost: float) -> None:
    dealt = deal([cost] * 103, 8)
    assert dealt.tasks.tolist() == [row % 8 for row in range(103)]
    assert deal([], 3).peak_over_mean == 1.0


def test_rows_that_cost_nothing_do_not_pile_up() -> None:
    counts = np.bincount(deal([0.0] * 100 + [50.0], 4).tasks, minlength=4)
    assert counts.min() >= 1
    assert deal([0.0] * 100 + [50.0], 4).loads.max() == pytest.approx(50)


def test_a_model_remembers_the_newest_panes_whole() -> None:
    model = CostModel(0.001, 0.01, pane=10, panes=3)
    fed: list[tuple[np.ndarray, np.ndarray]] = []
    rng = np.random.default_rng(1)
    for _ in range(40):
        keys, costs = rng.integers(0, 30, 4), rng.integers(0, 1000, 4)
        part = model.blank()
        part.update(keys, values=costs)
        model.learn(part)
        fed.append((keys, costs))
        # Panes are closed at the first part with which they have ten rows, so three parts of four rows each.
        full, rest = divmod(len(fed), 3)
        kept = fed[3 * max(full - 3, 0) :]
        truth = Exact()
        for some, values in kept:
            truth.update(some, values=values)
        assert model.rows == 4 * len(kept) == 4 * (3 * min(full, 3) + rest)
        assert model.mean == pytest.approx(np.concatenate([values for _, values in kept]).mean())
        seen = sorted({int(key) for some, _ in kept for key in some})
        assert model.estimate(np.array(seen)).tolist() == pytest.approx([truth.mean_value(key) for key in seen])
    assert model.estimate([10**6]).tolist() == [pytest.approx(model.mean)]


def test_what_is_estimated_is_what_the_sketch_says() -> None:
    model, part = CostModel(0.05, 0.1), ValueEstimator(0.05, 0.1)
    keys = np.random.default_rng(2).zipf(1.4, 5_000) % 1_000
    part.update(keys, values=keys * 7 + 3)
    model.learn(part)
    asked = np.unique(keys)
    answer = part.estimate(asked)
    estimates = model.estimate(asked)
    assert np.allclose(np.clip(estimates, answer.low, answer.high), answer.value)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="tasks=0"):
        deal([1.0], 0)
    for wrong in ([-1.0], [np.nan], [np.inf], [[1.0]]):
        with pytest.raises(InputError, match="costs of shape"):
            deal(wrong, 2)
    with pytest.raises(ParameterError, match="pane=0"):
        CostModel(pane=0)
    with pytest.raises(ParameterError, match="panes=65"):
        CostModel(panes=65)
    model = CostModel()
    with pytest.raises(MergeError, match="matrices of"):
        model.learn(ValueEstimator(0.5, 0.5))
    assert model.rows == 0
