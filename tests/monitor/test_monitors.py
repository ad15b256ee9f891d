"""Monitors on a perfect network: the answer is never further from the truth than was promised, for all rules."""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest

from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.machine import Persist, Received
from catchment.monitor.messages import Order, Report
from catchment.monitor.quantities import Frequency, InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.watch import Watch
from catchment.monitor.wire import write_frame
from tests.monitor.lockstep_world import Watched

SKETCHED: dict[str, Any] = {"epsilon": 0.05, "delta": 0.01}


def _stream(seed: int, count: int, sites: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.zipf(1.3, count) % 500, rng.integers(0, sites, count)


@pytest.mark.parametrize("rule", ["auto", "near", "full", "push", "centralise", "relative", "eager", "lazy"])
def test_a_self_join_is_never_further_off_than_theta(rule: str) -> None:
    world = Watched(SelfJoin(theta=0.2, rule=rule, **SKETCHED), sites=4)
    keys, where = _stream(1, 20_000, 4)
    counts: Counter[int] = Counter()
    for start in range(0, keys.size, 50):
        part = slice(start, start + 50)
        for number, name in enumerate(world.names):
            mine = keys[part][where[part] == number]
            if mine.size:
                world.give(name, Arrived(mine))
        counts.update(keys[part].tolist())
        world.tick(start)
        truth = sum(count * count for count in counts.values())
        claim = world.claim()
        assert abs(claim.estimate - truth) <= 0.2 * truth
        assert claim.answer.low <= truth <= claim.answer.high
    assert sum(position for position, _ in claim.cut.values()) > 0


@pytest.mark.parametrize("rule", ["auto", "near", "push"])
@pytest.mark.parametrize("sites", [1, 5, 40])
def test_a_total_is_never_further_off_than_theta_and_costs_less_than_it_all(rule: str, sites: int) -> None:
    world = Watched(Total(theta=0.1, rule=rule), sites=sites)
    rng = np.random.default_rng(2)
    total = 0
    for step in range(400):
        name = world.names[int(rng.integers(0, sites))]
        size = int(rng.integers(1, 2000))
        world.give(name, Arrived(np.zeros(size, dtype=np.int64)))
        total += size
        world.tick(step * 100)
        assert abs(world.claim().estimate - total) <= 0.1 * total
    assert world.bytes < 8 * total


def test_taking_back_is_followed_too() -> None:
    world = Watched(SelfJoin(theta=0.3, **SKETCHED), Total(number=2, theta=0.1), sites=3)
    rng = np.random.default_rng(3)
    counts = np.zeros(100, dtype=np.int64)
    for step in range(600):
        keys = rng.integers(0, 100, 30)
        weights = np.where(rng.random(30) < (0.2 if step < 300 else 0.6), -1, 1)
        world.give(world.names[step % 3], Arrived(keys, weights=weights))
        np.add.at(counts, keys, weights)
        world.tick(step * 50)
        truth = float((counts**2).sum())
        assert abs(world.claim(1).estimate - truth) <= 0.3 * truth + 1
        total = int(counts.sum())
        assert abs(world.claim(2).estimate - total) <= 0.1 * abs(total) + 1


@pytest.mark.parametrize("rule", ["auto", "full", "push", "eager"])
def test_an_inner_product_is_within_theta_of_the_norms(rule: str) -> None:
    world = Watched(InnerProduct(theta=0.3, epsilon=0.1, delta=0.01, rule=rule), sites=2)
    rng = np.random.default_rng(4)
    counts = np.zeros((2, 60))
    for step in range(300):
        stream = step % 2
        keys = rng.zipf(1.5, 20) % 60
        world.give(world.names[int(rng.integers(0, 2))], Arrived(keys, stream=stream))
        np.add.at(counts[stream], keys, 1)
        world.tick(step * 50)
        product, norms = float(counts[0] @ counts[1]), math.sqrt(float((counts[0] ** 2).sum() * (counts[1] ** 2).sum()))
        assert abs(world.claim().estimate - product) <= 0.4 * norms + 1


@pytest.mark.parametrize("rule", ["auto", "near", "full", "push", "two-phase"])
def test_a_window_is_followed_up_and_down(rule: str) -> None:
    window = 1000
    watches: list[Watch] = [
        SelfJoin(theta=0.3, epsilon=0.1, delta=0.05, window=window, rule=rule),
        Total(number=2, theta=0.3, epsilon=0.05, window=window),
        Frequency(number=3, key=1, theta=0.3, epsilon=0.02, window=window),
    ]
    world = Watched(*watches, sites=3)
    rng = np.random.default_rng(5)
    kept: deque[tuple[int, int]] = deque()
    seen = 0
    for time in range(10, 6000, 10):
        busy = time < 2000 or 3500 < time < 4000
        for name in world.names:
            keys = rng.zipf(1.4, 8 if busy else 1) % 40 if busy or rng.random() < 0.1 else np.zeros(0, dtype=np.int64)
            world.give(name, Arrived(keys, times=np.full(keys.size, time), time=time))
            kept.extend((time, int(key)) for key in keys)
        while kept and kept[0][0] <= time - window:
            kept.popleft()
        world.tick(time)
        counts = Counter(key for _, key in kept)
        joined = world.claim(1)
        truth = sum(count * count for count in counts.values())
        # The sketch adds its own error, which is relative to the squared weight: 0.1 of it, and θ is of the estimate.
        assert abs(joined.estimate - truth) <= 0.3 * truth + 0.3 * len(kept) ** 2 + 2
        assert abs(world.claim(2).estimate - len(kept)) <= 0.4 * len(kept) + 2
        assert abs(world.claim(3).estimate - counts[1]) <= 0.3 * counts[1] + 0.1 * len(kept) + 3
        seen = max(seen, len(kept))
    assert seen > 1000
    assert len(kept) < 100


@pytest.mark.parametrize("rule", ["auto", "full", "push", "centralise"])
def test_products_and_ranges_in_a_window_are_followed_up_and_down(rule: str) -> None:
    window = 1000
    product = InnerProduct(theta=0.3, epsilon=0.1, delta=0.05, window=window, rule=rule)
    ranged = RangeSum(
        number=2, keys=(1, 2), factors=(1, 3), theta=0.3, epsilon=0.05, window=window,
        rule="near" if rule == "full" else rule,
    )  # fmt: skip
    world, other = Watched(product, sites=3), Watched(ranged, sites=3)
    rng = np.random.default_rng(6)
    kept: deque[tuple[int, int, int]] = deque()
    largest = 0
    for time in range(20, 3600, 20):
        busy = time < 1200 or 2000 < time < 2400
        for place, name in enumerate(world.names):
            # Their time of being busy and the keys differ: products rise and fall, also while one stream is silent.
            stream = (time // 300 + place) % 2
            keys = rng.zipf(1.4, 16 if busy else 1) % 40 if busy or rng.random() < 0.1 else np.zeros(0, dtype=np.int64)
            world.give(name, Arrived(keys, times=np.full(keys.size, time), time=time, stream=stream))
            other.give(name, Arrived(keys, times=np.full(keys.size, time), time=time))
            kept.extend((time, stream, int(key)) for key in keys)
        while kept and kept[0][0] <= time - window:
            kept.popleft()
        world.tick(time)
        other.tick(time)
        counts = [Counter(key for _, stream, key in kept if stream == which) for which in (0, 1)]
        truth = sum(count * counts[1][key] for key, count in counts[0].items())
        norms = math.prod(math.sqrt(sum(count * count for count in one.values())) for one in counts)
        weights = math.prod(one.total() for one in counts)
        claim = world.claim(1)
        # The sketch adds its own error, which is relative to the weights; theta is of the estimate's norms.
        assert abs(claim.estimate - truth) <= 0.3 * (1.3 * norms + 0.1 * weights) + 0.2 * weights + 2
        assert claim.answer.low <= truth <= claim.answer.high + 1
        counted = sum((1, 3)[key - 1] * one[key] for one in counts for key in (1, 2))
        assert abs(other.claim(2).estimate - counted) <= 0.4 * counted + 2
        largest = max(largest, truth)
    assert largest > 100_000
    assert truth < largest / 100


def test_a_line_is_told_when_it_is_crossed_and_costs_little_before() -> None:
    world = Watched(Total(theta=0.05, threshold=100_000), sites=4)
    before = world.bytes
    total = 0
    for step in range(1200):
        world.give(world.names[step % 4], Arrived(np.zeros(100, dtype=np.int64)))
        total += 100
        world.tick(step)
        claim = world.claim()
        assert claim.low <= total <= claim.high
        if total >= 105_500:
            assert claim.low >= 95_000
        if total < 95_000:
            assert claim.high <= 105_500
    assert world.bytes - before < 20_000


def test_a_range_is_counted_exactly() -> None:
    world = Watched(RangeSum(theta=0.1, keys=("a", "b"), factors=(1, 3), rule="centralise"), sites=2)
    world.give("site-0", Arrived(["a", "b", "c"]))
    world.give("site-1", Arrived(["b", "b", "x"], weights=[1, 4, 9]))
    assert world.claim().estimate == 1 + 3 + 15


def test_several_monitors_share_one_sketch_at_a_site() -> None:
    same: dict[str, Any] = {"epsilon": 0.05, "delta": 0.01}
    site = Site("here", (SelfJoin(theta=0.1, **same), SelfJoin(number=2, theta=0.3, **same), Total(number=3)))
    assert len(site.vectors) == 2


def test_a_site_that_leaves_stays_in_the_answer_with_all_it_had() -> None:
    world = Watched(Total(theta=0.1), sites=3)
    world.give("site-0", Arrived(np.zeros(1000, dtype=np.int64)))
    world.give("site-1", Arrived(np.zeros(1, dtype=np.int64)))
    world.give("site-0", Leave())
    assert world.sites["site-0"].gone
    claim = world.claim()
    assert claim.left == ("site-0",)
    assert claim.answer.missing == ()
    assert claim.cut["site-0"][0] == 1000
    assert abs(claim.estimate - 1001) <= 100
    world.tick(10**6)  # nobody expects it back
    assert world.claim().left == ("site-0",)


def test_a_silent_site_is_named_and_comes_back() -> None:
    world = Watched(Total(theta=0.1), sites=2, silent=("site-1",))
    world.give("site-0", Arrived(np.zeros(10, dtype=np.int64)))
    assert world.coordinator.claim(1) is None  # nothing is claimed before everybody is heard or missed
    for now in range(0, 40_000, 1000):
        world.tick(now)
    claim = world.claim()
    assert claim.answer.missing == ("site-1",)
    assert claim.answer.sites == ("site-0",)
    assert claim.estimate == 10
    world.silent.clear()
    world.give("site-1", Arrived(np.zeros(5, dtype=np.int64)))
    for now in range(40_000, 60_000, 1000):
        world.tick(now)
    assert world.claim().answer.missing == ()
    assert world.claim().estimate == 15


# -- what bad input gets ------------------------------------------------------------------------------------------


def test_frames_of_strangers_and_of_other_watches_are_counted_and_change_nothing() -> None:
    world = Watched(Total(theta=0.1), sites=1)
    world.give("site-0", Arrived(np.zeros(10, dtype=np.int64)))
    before = world.claim()
    for sender, frame in (
        ("stranger", write_frame(Report(query=1, incarnation=9, seq=99, position=5))),
        ("site-0", write_frame(Report(query=7, seq=10**6))),
        ("site-0", write_frame(Report(query=1, incarnation=50, seq=10**6, watch=12345))),
        ("site-0", write_frame(Order(query=1))),
        ("site-0", b"\x00garbage"),
    ):
        world.coordinator.handle(Received(sender, frame), 0)
    assert world.coordinator.refused == 5
    assert world.claim() == before
    site = world.sites["site-0"]
    site.handle(Received("coordinator", write_frame(Report(query=1))), 0)
    site.handle(Received("coordinator", b"\xff" * 9), 0)
    site.handle(
        Received("coordinator", write_frame(Order(query=1, epoch=9, seq=9, round=9, step=1, want=0, zone=b"??"))), 0
    )
    assert site.refused >= 2
    assert site.position == 10


def test_events_that_cannot_be_taken_change_nothing() -> None:
    site = Site("here", (Total(theta=0.1), SelfJoin(number=2, window=100, epsilon=0.1, delta=0.1, theta=0.2)))
    with pytest.raises(InputError, match="without times"):
        site.handle(Arrived([1, 2]), 0)
    with pytest.raises(InputError, match="stream 1"):
        site.handle(Arrived([1], times=[1], stream=1), 0)
    with pytest.raises(InputError, match="negative"):
        site.handle(Arrived([1], times=[1], weights=[-1]), 0)
    assert site.position == 0
    assert all(not vector.values().any() for vector in site.vectors)


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: SelfJoin(theta=0.01, epsilon=0.02), "sketch whose own error"),
        (lambda: Total(theta=0), "theta"),
        (lambda: Total(number=0), "number"),
        (lambda: RangeSum(keys=()), "keys"),
        (lambda: RangeSum(keys=(1,), factors=(1, 2)), "factors"),
        (lambda: RangeSum(keys=(1,), factors=(-1,), window=5), "factor"),
        (lambda: Site("coordinator", (Total(),)), "coordinator"),
        (lambda: Coordinator((Total(),), ("a", "a")), "sites"),
        (lambda: RangeSum(keys=(1, 1)).new_vector(), "twice"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_a_cure(build: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        build()


def test_an_unknown_rule_or_query_names_those_that_there_are() -> None:
    world = Watched(Total(theta=0.1), sites=1)
    with pytest.raises(NameNotFoundError, match="there are 1"):
        world.coordinator.claim(2)
    with pytest.raises(ParameterError, match="near"):
        Watched(Total(theta=0.1, rule="psychic"), sites=1)


def test_a_site_restored_from_its_disk_goes_on_where_it_was() -> None:
    watch = SelfJoin(theta=0.2, **SKETCHED)
    site = Site("here", (watch,), keep=100)
    keys = np.arange(250) % 17
    blobs: dict[str, bytes] = {}
    for start in range(0, 250, 50):
        for action in site.handle(Arrived(keys[start : start + 50]), 0):
            if isinstance(action, Persist):
                blobs[action.name] = action.blob
    again = Site("here", (watch,), blobs=blobs, keep=100)
    assert again.position == 200
    assert again.incarnation == site.incarnation + 1
    again.handle(Arrived(keys[200:]), 0)
    assert np.array_equal(again.vectors[0].values(), site.vectors[0].values())


def test_a_sketch_that_no_site_could_hold_is_refused() -> None:
    for watch in (SelfJoin(epsilon=0.0001), InnerProduct(epsilon=0.0001)):
        with pytest.raises(ParameterError, match="choose a larger epsilon"):
            watch.new_vector()
