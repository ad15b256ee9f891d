"""Random runs of top-k peers under loss, doubling, reordering and crashes: no false certificate, in ten thousand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment.monitor.top_k import Certificate, ExactCounts, certify
from tests.amounts import fewer
from tests.monitor.top_k_world import PERIOD, World, zipf

UNIVERSE, EVENTS = 24, 45


def random_world(rng: np.random.Generator) -> World:
    window = int(rng.integers(3, 40)) if rng.random() < 0.7 else None
    names = tuple("abcd"[: [1, 2, 2, 2, 2, 3, 3, 4][rng.integers(8)]])
    world = World(int(rng.integers(1, 4)), window, lambda: ExactCounts(window), names, UNIVERSE)
    world.save_every = int(rng.integers(1, 8)) * PERIOD
    skew = float(rng.choice([0.0, 0.8, 1.5, 2.5]))
    shifts = rng.integers(0, UNIVERSE, len(names)) * rng.integers(0, 2)
    keys = zipf(rng, skew, UNIVERSE, len(names) * EVENTS).reshape(len(names), EVENTS)
    late = rng.integers(0, 4, keys.shape)
    at = np.cumsum(rng.integers(0, 3, keys.shape), axis=1) - late
    for place, name in enumerate(names):
        world.add(name, (keys[place] + shifts[place]) % UNIVERSE, at[place])
    return world


def one_run(seed: int) -> tuple[int, int]:
    """Drive a world at random; how many items were answered with, and how many of them certified."""
    rng = np.random.default_rng([seed, 2015])
    world = random_world(rng)
    loss, doubling, crash, pause = rng.choice([0, 0.2, 0.5], 4).tolist()
    answered = certain = 0
    for _ in range(rng.integers(1, 4)):
        for name in world.names:
            feeds, much, ticks, crashes, pauses, later = rng.random(6).tolist()
            if feeds < 0.7:
                world.feed(name, int(much * 25), until=int(later * 80) if later < 0.1 else None)
            if crashes < crash / 3:
                world.restart(name)
            if ticks < 0.8:
                world.tick(name)
            if pauses < pause / 5:
                world.now += 5 * PERIOD
        rng.shuffle(world.bag)
        for lost, doubled, held in rng.random((len(world.bag), 3)).tolist():
            if lost < loss:
                world.bag.pop()
            elif held < 0.8:
                world.deliver(-1, keep=doubled < doubling)
        top = world.sites[world.names[rng.integers(len(world.names))]].peer.answer(world.now)
        world.check(top)
        if len(top.cut) > 1:
            answered, certain = answered + len(top.certain), certain + sum(top.certain)
    return answered, certain


def check_runs(first: int, last: int) -> None:
    answered, certain = np.sum([one_run(seed) for seed in range(first, last)], axis=0)
    # Certificates that say nothing would pass all checks.
    assert certain > answered / 2


@fewer("runs", 500, 5_000, part="worlds")
@pytest.mark.parametrize("first", [0, 5_000])
def test_no_certificate_is_false(first: int, runs: int) -> None:
    check_runs(first, first + runs)


@pytest.mark.parametrize("fault", ["strangers forgotten", "lists taken as whole", "ties the other way"])
def test_the_runs_find_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(low: Any, high: Any, order: Any, unknown: int, k: int) -> Certificate:
        if fault == "strangers forgotten":
            return certify(low, high, order, 0, k)
        if fault == "lists taken as whole":
            return certify(low, low, order, unknown, k)
        return certify(low, high, -order, unknown, k)

    monkeypatch.setattr("catchment.monitor.top_k.peer.certify", faulty)
    with pytest.raises(AssertionError):
        check_runs(0, 200)
