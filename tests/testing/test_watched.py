"""Monitors in lockstep over recorded streams: the truth is the truth, and claims stay within theta of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.quantities import InnerProduct, SelfJoin
from catchment.monitor.site import Arrived, Site
from catchment.testing.exact import Exact, ExactWindow
from catchment.testing.lockstep import Lockstep
from catchment.testing.watched import inner_products, self_joins, watched, window_self_joins

RNG = np.random.default_rng(5)
KEYS = RNG.zipf(1.4, 6_000) % 300
PLACES = RNG.integers(0, 3, 6_000)
STREAMS = RNG.integers(0, 2, 6_000)


def test_self_joins_are_those_of_the_slow_way() -> None:
    truth = Exact()
    for key, found in zip(KEYS[:300].tolist(), self_joins(KEYS[:300]).tolist(), strict=True):
        truth.update([key])
        assert found == truth.self_join()


def test_inner_products_are_those_of_the_slow_way() -> None:
    truth = Exact(), Exact()
    found = inner_products(KEYS[:300], STREAMS[:300]).tolist()
    for key, stream, product in zip(KEYS[:300].tolist(), STREAMS[:300].tolist(), found, strict=True):
        truth[stream].update([key])
        assert product == truth[0].inner_product(truth[1])


def test_window_self_joins_are_those_of_the_slow_way() -> None:
    times = np.sort(RNG.integers(0, 200, 300))
    ends = np.sort(RNG.integers(0, 260, 40))
    truth = ExactWindow()
    truth.update(KEYS[:300].tolist(), at=times.tolist())
    found = window_self_joins(KEYS[:300], times, 30, ends)
    assert found.tolist() == [truth.over(int(end) - 30, int(end)).self_join() for end in ends]


@pytest.mark.parametrize("rule", ["auto", "push", "near", "full", "relative", "centralise", "eager", "lazy"])
def test_claims_stay_within_theta_at_every_step(rule: str) -> None:
    watch = SelfJoin(theta=0.3, epsilon=0.1, delta=0.05, rule=rule)
    result = watched(watch, KEYS, PLACES, 3)
    assert result.ends[-1] == KEYS.size
    assert (np.diff(result.ends) <= 50).all()
    assert result.worst(self_joins(KEYS)[result.ends - 1]) <= watch.theta
    assert result.bytes == sum(result.by_purpose().values())


@pytest.mark.parametrize("rule", ["auto", "push", "full", "relative", "centralise", "eager", "lazy"])
def test_claims_of_a_join_stay_within_theta_of_the_norms(rule: str) -> None:
    watch = InnerProduct(theta=0.3, epsilon=0.1, delta=0.05, rule=rule)
    result = watched(watch, KEYS, PLACES, 3, streams=STREAMS)
    truth = Exact(), Exact()
    for start, end, claimed in zip([0, *result.ends.tolist()], result.ends.tolist(), result.claimed, strict=False):
        for stream in (0, 1):
            truth[stream].update(KEYS[start:end][STREAMS[start:end] == stream].tolist())
        norms = (truth[0].self_join() * truth[1].self_join()) ** 0.5
        assert abs(claimed - truth[0].inner_product(truth[1])) <= watch.theta * norms


def test_the_warm_up_is_not_counted() -> None:
    watch = SelfJoin(theta=0.3, epsilon=0.1, delta=0.05)
    cold, warm = watched(watch, KEYS, PLACES, 3), watched(watch, KEYS, PLACES, 3, warm=5_000)
    assert warm.events == 1_000
    assert warm.ends[0] == 5_000
    assert warm.bytes < cold.bytes


@pytest.mark.parametrize("rule", ["auto", "push", "near", "full"])
def test_negative_weights_end_the_claims_that_rest_on_growth(rule: str) -> None:
    watch = SelfJoin(theta=0.3, epsilon=0.1, delta=0.05, rule=rule)
    sites = {f"s{place}": Site(f"s{place}", (watch,)) for place in range(3)}
    coordinator = Coordinator((watch,), tuple(sites))
    network = Lockstep(coordinator, sites)
    counts: Counter[int] = Counter()
    one_sided = []
    for start in range(0, KEYS.size, 20):
        part = KEYS[start : start + 20]
        falls = start > 3_000 and start % 3 == 0
        if falls:  # take away what is most
            part = np.array([key for key, _ in counts.most_common(5)])
        weights = np.full(part.size, -2 if falls else 1)
        network.pass_time(2)
        network.give(f"s{start % 7 % 3}", Arrived(part, weights=weights))
        for key, weight in zip(part.tolist(), weights.tolist(), strict=True):
            counts[key] += weight
        truth = sum(count * count for count in counts.values())
        claim = coordinator.claim(1)
        assert claim is not None
        assert abs(claim.estimate - truth) <= watch.theta * truth
        assert claim.answer.low <= truth <= claim.answer.high
        one_sided.append(claim.low == -np.inf)
    assert one_sided[100]
    assert not one_sided[-1]
