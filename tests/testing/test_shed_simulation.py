"""The simulated operator behind a shedder: the kernel is the machines, and the machines keep their promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment.balance.cost_learner import CostLearner
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shedder import LoadShedder
from catchment.errors import ParameterError
from catchment.testing.shed_simulation import EVERYTHING, FULL_KNOWLEDGE, LEARNT, RANDOM, STRAW_MAN, ShedRun, simulate
from catchment.testing.workload import Phase, Workload, make_workload


def overloaded(tuples: int, under: float, seed: int = 1) -> Workload:
    return make_workload(
        tuples, seed=seed, cheapest=100, dearest=6_400, instances=1, provisioning=1 - under
    )  # fmt: skip


def by_machines(work: Workload, shedder: LoadShedder, operator: ShedOperator, latency: int) -> list[float]:
    """One event after the other through the public machines, as anyone would write it."""
    waits: list[float] = []
    queue: list[tuple[int, int, int, int, Any]] = []  # done at, key, cost, wait, marks
    free = 0
    for key, cost, now in zip(work.keys.tolist(), work.costs.tolist(), work.arrivals.tolist(), strict=True):
        while queue and queue[0][0] + latency <= now:
            done, its_key, its_cost, wait, marks = queue.pop(0)
            told = operator.executed([its_key], costs=[its_cost], waits=[wait], finished=[done], marks=marks)
            for news in told:
                shedder.hear(news)
        decision = shedder.shed([key], at=[now])
        if not decision.kept[0]:
            waits.append(-1.0)
            continue
        start = max(free, now)
        free = start + cost
        waits.append(float(start - now))
        queue.append((free, key, cost, start - now, decision.marks))
    return waits


@pytest.mark.parametrize(
    ("rules", "latency"),
    [({}, 0), ({"memory": 50}, 700), ({"constraint": "absolute", "ask_every": 3}, 0), ({"margin": 1.1}, 20_000)],
)
def test_the_kernel_is_the_machines(rules: dict[str, Any], latency: int) -> None:
    work = overloaded(1500, 0.5)
    memory = rules.get("memory")
    operator = ShedOperator(CostLearner(window=64, seed=9), memory=memory)
    shedder = LoadShedder(6_400, seed=9, **rules)
    waits = by_machines(work, shedder, operator, latency)
    run = simulate(work, LEARNT, target=6_400, window=64, seed=9, latency=latency, **rules)
    assert waits == run.waits.tolist()
    assert run.dropped == shedder.dropped > 100


def test_the_printed_machine_is_the_printed_machine() -> None:
    work = overloaded(3000, 0.2)
    shedder = LoadShedder.thesis(6_400, seed=2)
    waits = by_machines(work, shedder, ShedOperator(CostLearner(window=128, first=0, seed=2)), 0)
    run = simulate(work, LEARNT, target=6_400, window=128, seed=2, thesis=True)
    assert waits == run.waits.tolist()
    assert run.told > 0
    assert run.dropped > 0


def test_full_knowledge_keeps_the_average_at_every_moment() -> None:
    for under in (0.1, 0.5, 0.9):
        run = simulate(overloaded(20_000, under), FULL_KNOWLEDGE, target=6_400)
        kept = run.waits[run.kept]
        assert np.all(np.cumsum(kept) <= 6_400 * np.arange(1, kept.size + 1))
        assert run.dropped > 0


def test_las_is_within_ten_percent_and_drops_little_more_than_full_knowledge() -> None:
    for under in (0.1, 0.25, 0.5, 0.75, 0.9):
        averages, drops, least = [], [], []
        for seed in range(10):
            work = overloaded(32_768, under, seed)
            run = simulate(work, LEARNT, target=6_400, seed=seed)
            averages.append(run.average)
            drops.append(run.dropped)
            least.append(simulate(work, FULL_KNOWLEDGE, target=6_400).dropped)
        assert np.mean(averages) <= 1.1 * 6_400, under
        assert np.sum(drops) <= 1.15 * np.sum(least), under


def asked_of_las(under: float, latency: int) -> tuple[float, float]:
    """The mean of the averages over the target, and drops over those of full knowledge."""
    averages, dropped, least = [], 0, 0
    for seed in range(5):
        work = overloaded(32_768, under, seed)
        run = simulate(work, LEARNT, target=6_400, seed=seed, latency=latency)
        averages.append(run.average / 6_400)
        dropped += run.dropped
        least += simulate(work, FULL_KNOWLEDGE, target=6_400).dropped
    return float(np.mean(averages)), dropped / least


@pytest.mark.parametrize("latency", [1_000, 5_000, 10_000])
def test_it_is_so_with_messages_that_take_their_time(latency: int) -> None:
    """Up to three mean costs, which is more than the target itself."""
    for under in (0.1, 0.5, 0.9):
        average, drops = asked_of_las(under, latency)
        assert average <= 1.1, under
        assert drops <= 1.15, under


def test_it_is_not_so_with_messages_that_take_far_longer_than_the_target() -> None:
    """Where that ends: at 16 targets' time the shedder of a heavy load learns of its queue when it is too late."""
    assert asked_of_las(0.9, 100_000)[0] > 2
    assert asked_of_las(0.1, 100_000)[1] > 1.15


def test_a_series_is_of_what_is_counted() -> None:
    run = ShedRun(np.array([0.0, -1.0, 10.0, 30.0, -1.0, -1.0]), 0, 0)
    averages, dropped = run.series(2)
    assert averages[:2].tolist() == [0.0, 20.0]
    assert np.isnan(averages[2])
    assert dropped.tolist() == [0.5, 0.0, 1.0]
    completion, again = run.series(2, costs=np.array([5, 5, 5, 7, 5, 5]), failed=20)
    assert completion[:2].tolist() == [5.0, 15.0]
    assert again.tolist() == dropped.tolist()


def test_the_baselines_do_not_keep_the_target() -> None:
    work = overloaded(32_768, 0.25)
    random = simulate(work, RANDOM, target=6_400, drop_share=0.25, seed=4)
    assert abs(random.dropped / len(work) - 0.25) < 0.02
    for run in (random, simulate(work, STRAW_MAN, target=6_400)):
        assert run.average > 3 * 6_400
    nothing = simulate(work, EVERYTHING, target=6_400)
    assert nothing.dropped == 0
    assert nothing.average > 100 * 6_400


def test_nothing_is_dropped_when_there_is_room() -> None:
    work = make_workload(20_000, seed=3, cheapest=100, dearest=6_400, instances=1, provisioning=2.0)
    for policy in (LEARNT, FULL_KNOWLEDGE):
        assert simulate(work, policy, target=6_400).dropped <= 20


def test_a_change_of_costs_is_learnt() -> None:
    phases = (Phase(20_000, 1.0), Phase(20_000, 1.0, slowdown=2.0))
    work = make_workload(seed=5, phases=phases, cheapest=100, dearest=6_400, instances=1)
    averages, _ = simulate(work, LEARNT, target=64_000, memory=1000).series(4_000)
    assert averages[-1] <= 1.1 * 64_000
    straw, _ = simulate(work, STRAW_MAN, target=64_000, guess=work.mean_cost).series(4_000)
    assert straw[-1] > 3 * 64_000


def test_the_same_seed_is_the_same_run_and_bad_settings_are_refused() -> None:
    work = overloaded(2000, 0.5)
    assert simulate(work, target=10, seed=3).waits.tobytes() == simulate(work, target=10, seed=3).waits.tobytes()
    refused: tuple[dict[str, Any], ...] = (
        {"policy": 9},
        {"drop_share": 2.0},
        {"latency": -1},
        {"window": 0},
        {"first": -1},
        {"margin": 99},
    )
    for bad in refused:
        with pytest.raises(ParameterError):
            simulate(work, **({"target": 10} | bad))
