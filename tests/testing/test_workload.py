"""The work that schedulers and shedders are tried on is what it says: costs, arrivals, phases, the same each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment.errors import ParameterError
from catchment.testing.workload import DISTRIBUTIONS, Phase, cost_values, make_workload


def test_a_seed_gives_one_stream_and_another_gives_another() -> None:
    one, again, other = (make_workload(2_000, seed=seed, jitter=0.1) for seed in (3, 3, 4))
    for name in ("keys", "costs", "arrivals", "phases"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
    assert not np.array_equal(one.keys, other.keys)
    assert not np.array_equal(one.costs, other.costs)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_items_have_their_distribution(name: str) -> None:
    counts = np.bincount(make_workload(200_000, seed=1, skew=DISTRIBUTIONS[name], items=64).keys, minlength=64)
    assert counts[0] / counts[3] == pytest.approx(4 ** DISTRIBUTIONS[name], rel=0.15)


def test_each_cost_is_dealt_to_as_many_items_and_an_item_keeps_its_own() -> None:
    work = make_workload(100_000, seed=2, skew=0, items=512, values=64)
    of_item = np.zeros(512, dtype=np.int64)
    of_item[work.keys] = work.costs
    assert np.array_equal(of_item[work.keys], work.costs)
    values, items = np.unique(of_item, return_counts=True)
    assert values.tolist() == cost_values(64, 1_000, 64_000).tolist()
    assert set(items.tolist()) == {8}


@pytest.mark.parametrize(("instances", "provisioning"), [(1, 0.8), (5, 1.05), (7, 1.5)])
def test_arrivals_are_even_and_as_many_as_the_provisioning_says(instances: int, provisioning: float) -> None:
    work = make_workload(5_000, seed=3, instances=instances, provisioning=provisioning)
    gap = provisioning * work.costs.mean() / instances
    assert work.arrivals[0] == 0
    assert np.all(np.abs(work.arrivals - gap * np.arange(5_000)) <= 1)


def test_phases_change_what_they_say_and_nothing_else() -> None:
    spans = (
        Phase(20_000),
        Phase(20_000, provisioning=0.5),
        Phase(20_000, swap=True),
        Phase(20_000, slowdown=2.0, factors=(1.0, 0.5)),
    )
    work = make_workload(seed=4, instances=2, phases=spans, items=256)
    parts = [np.flatnonzero(work.phases == number) for number in range(4)]
    assert [part.size for part in parts] == [20_000] * 4
    gaps = [(work.arrivals[part[-1]] - work.arrivals[part[0]]) / 19_999 for part in parts]
    assert gaps[1] / gaps[0] == pytest.approx(0.5, rel=1e-3)
    assert gaps[2] == pytest.approx(gaps[0], rel=1e-3)
    heaviest = [int(np.bincount(work.keys[part]).argmax()) for part in parts]
    assert heaviest[0] == heaviest[1] == heaviest[3] == 0
    assert work.costs[parts[2]][work.keys[parts[2]] == heaviest[2]][0] == 64_000
    for key in range(5):
        once, twice = (work.costs[part][work.keys[part] == key][0] for part in (parts[0], parts[3]))
        assert twice == 2 * once
    assert np.array_equal(work.costs_on(0), work.costs)
    assert np.array_equal(work.costs_on(1)[parts[3]] * 2, work.costs[parts[3]])
    assert np.array_equal(work.costs_on(1)[parts[0]], work.costs[parts[0]])


def test_jitter_stays_within_its_share() -> None:
    plain, shaken = (make_workload(10_000, seed=5, jitter=jitter) for jitter in (0.0, 0.1))
    off = np.abs(shaken.costs / plain.costs - 1)
    assert 0.09 < off.max() <= 0.1 + 1e-3
    assert shaken.costs.mean() == pytest.approx(plain.costs.mean(), rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"skew": -1}, "skew=-1"),
        ({"values": 0}, "values=0"),
        ({"values": 9, "items": 8}, "values=9"),
        ({"dearest": 10}, "dearest=10"),
        ({"spacing": "round"}, "spacing='round'"),
        ({"jitter": 1.0}, "jitter=1.0"),
        ({"instances": 0}, "instances=0"),
        ({"provisioning": 0.0}, "provisioning=0.0"),
        ({"provisioning": float("nan")}, "provisioning=nan"),
        ({"phases": [Phase(0)]}, "tuples=0"),
        ({"phases": [Phase(5, factors=(1.0,))]}, "1 factors for 5 instances"),
        ({"phases": [Phase(5, factors=(1.0, 1.0, 1.0, 1.0, 0.0))]}, "factors="),
    ],
)
def test_what_makes_no_work_is_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        make_workload(**{"tuples": 100, "seed": 0, **wrong})
