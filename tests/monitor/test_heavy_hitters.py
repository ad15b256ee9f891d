"""Distributed heavy hitters, part by part: sizes, buffers, names, what sites notice, what the coordinator asks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import BytesError, DamagedBytesError, KeyTypeError, ParameterError, TimeError
from catchment.monitor.heavy_hitters import Arrivals, HeavyHitterCoordinator, HeavyHitterPlan, HeavyHitterSite
from catchment.monitor.heavy_hitters.buffers import GradedBuffers
from catchment.monitor.heavy_hitters.detector import Detector
from catchment.monitor.heavy_hitters.history import History
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyReport
from catchment.monitor.heavy_hitters.names import Names, hashes_of, in_order
from catchment.monitor.heavy_hitters.recent import Recent
from catchment.monitor.machine import COORDINATOR, Persist, Purpose, Received, Send, Tick
from catchment.monitor.wire import read_frame, write_frame
from catchment.sketch.keys import KeyBatch, as_keys
from catchment.testing.lockstep import Lockstep

KEYS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=6), st.binary(max_size=6))


def started(plan: HeavyHitterPlan) -> tuple[Lockstep, HeavyHitterCoordinator, dict[str, HeavyHitterSite]]:
    coordinator = HeavyHitterCoordinator(plan)
    sites = {name: HeavyHitterSite(plan, name) for name in plan.sites}
    return Lockstep(coordinator, sites), coordinator, sites


# -- the plan and the buffers ---------------------------------------------------------------------------------


def test_sizes_are_those_of_the_thesis() -> None:
    plan = HeavyHitterPlan(tuple(map(str, range(20))), theta=0.1)
    assert (plan.width, plan.depth) == (math.ceil(2 * 0.9 / (0.1 * 0.1)), 4)
    assert plan.timer == math.floor(10 * sum(1 / k for k in range(1, 11)))
    whole = GradedBuffers(plan)
    assert len(whole.sizes) == 5
    assert whole.sizes == (*(math.floor(1 / (0.1 + 0.9 / 2**k)) for k in range(1, 5)), 10)
    assert GradedBuffers(HeavyHitterPlan(plan.sites, theta=0.1, rho=0.005)).sizes == (1, 1, 1, 1, 1)
    assert len({plan.seed_of(site) for site in plan.sites}) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"theta": 0.0}, {"theta": 1.0}, {"rho": 0.0}, {"rho": 1.5}, {"sites": ()}, {"sites": ("a", "a")},
        {"sites": (COORDINATOR,)}, {"window": 100, "panes": 30}, {"lease": 10},
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        replace(HeavyHitterPlan(("a",), theta=0.1), **wrong)


def test_a_buffer_is_ripe_when_full_or_old_and_heavier_ones_are_smaller() -> None:
    plan = HeavyHitterPlan(tuple("abcd"), theta=0.1)
    buffers = GradedBuffers(plan)
    buffers.hold({1: 0.9}, 10)
    assert buffers.ripe(10)  # there can be one with a share above 0.55
    buffers.hold({1: 0.15}, 10)
    assert not buffers.ripe(10 + plan.timer)
    buffers.hold({1: 0.4}, 20)  # its share has grown, and it still waits since 10
    assert buffers.ripe(11 + plan.timer)
    buffers.hold({}, 30)
    assert not buffers.ripe(10_000)


# -- names ----------------------------------------------------------------------------------------------------


@given(st.sets(KEYS, max_size=20))
def test_names_come_back_in_order(keys: set[Any]) -> None:
    names = Names.of(in_order(keys))
    read = () if names is None else Names.from_bytes(names.to_bytes()).keys()
    assert read == in_order(keys)
    assert set(read) == keys
    assert hashes_of(read).size == len(keys)


@given(st.binary(max_size=60))
def test_any_bytes_are_names_or_refused(blob: bytes) -> None:
    try:
        keys = Names.from_bytes(blob).keys()
    except BytesError:
        return
    again = Names.of(keys)
    assert (b"" if again is None else again.to_bytes()) == blob


# -- what a site notices --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=40), max_size=12), st.sampled_from([0.05, 0.2, 0.6]))
def test_no_local_heavy_hitter_is_overlooked(batches: list[list[int]], theta: float) -> None:
    local = History(HeavyHitterPlan(("a",), theta=theta, epsilon=0.5), "a")
    seen: list[int] = []
    for batch in batches:
        local.take(as_keys(np.array(batch, dtype=np.int64)))
        seen += batch
        heavy = {key for key in seen if seen.count(key) >= theta * len(seen)}
        assert heavy <= set(local.candidates.values())
        names = in_order(local.candidates.values())
        counts = local.counts(hashes_of(names)).tolist()
        truth = Counter[Any](seen)
        assert all(truth[key] <= count for key, count in zip(names, counts, strict=True))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), max_size=20), st.integers(-15, 40), st.integers(0, 30)), max_size=15
    ),
    st.sampled_from([0.1, 0.3]),
)
def test_none_is_overlooked_in_a_window_also_when_others_leave(batches: list[Any], theta: float) -> None:
    plan = HeavyHitterPlan(("a",), theta=theta, epsilon=0.5, window=60, panes=6)
    local = Recent(plan, "a")
    events: list[tuple[int, int]] = []
    clock = 0
    for keys, step, wait in batches:
        times = [clock + step] * len(keys)
        clock = max(clock, clock + step) + wait
        local.take(as_keys(np.array(keys, dtype=np.int64)), times, clock)
        events += zip(keys, times, strict=True)
        inside = [key for key, time in events if local.time - 60 < time <= local.time]
        assert local.time >= clock
        assert local.total == len(inside)
        heavy = {key for key in inside if inside.count(key) >= theta * len(inside)}
        assert heavy <= set(local.candidates.values())


def test_an_item_becomes_heavy_by_the_leaving_of_others_without_an_arrival() -> None:
    plan = HeavyHitterPlan(("a", "b"), theta=0.5, rho=1.0, window=100, panes=10)
    network, coordinator, _ = started(plan)
    network.give("a", Arrivals(["many"] * 90, [5] * 90))
    network.give("a", Arrivals(["few"] * 9, [95] * 9))
    network.pass_time(6_000)
    assert [found.key for found in coordinator.claim.heavy] == ["many"]
    network.give("a", Arrivals([], [], until=115))
    assert [found.key for found in coordinator.claim.heavy] == ["few"]


def test_a_state_goes_on_where_it_was_kept() -> None:
    for window in (None, 40):
        plan = HeavyHitterPlan(("a",), theta=0.1, window=window, panes=4, persist_every=1)
        site = HeavyHitterSite(plan, "a")
        times = [None, None] if window is None else [np.arange(50), np.arange(50, 100)]
        first = site.handle(Arrivals(np.arange(50) % 7, times[0]), 0)
        blob = next(action.blob for action in reversed(first) if isinstance(action, Persist))
        twin = HeavyHitterSite(plan, "a", durable=blob)
        assert twin.position == 50
        reports = []
        for one in (site, twin):
            sent = one.handle(Arrivals(np.arange(50) % 3, times[1]), 10**6)
            reports.append(next(read_frame(each.frame) for each in sent if isinstance(each, Send)))
        ours, theirs = reports
        assert isinstance(ours, HeavyReport)
        assert isinstance(theirs, HeavyReport)
        assert (ours.counts, ours.others, ours.total) == (theirs.counts, theirs.others, theirs.total)
        assert (ours.incarnation, theirs.incarnation) == (1, 2)


def test_a_new_life_is_kept_before_it_speaks() -> None:
    plan = HeavyHitterPlan(("a",), theta=0.1)
    for machine in (HeavyHitterSite(plan, "a"), HeavyHitterCoordinator(plan)):
        actions = machine.handle(Tick(), 0)
        assert isinstance(actions[0], Persist)
        assert isinstance(actions[1], Send)


def test_events_that_cannot_be_named_or_timed_are_refused_and_change_nothing() -> None:
    plan = HeavyHitterPlan(("a",), theta=0.1)
    site = HeavyHitterSite(plan, "a")
    with pytest.raises(KeyTypeError):
        site.handle(Arrivals(KeyBatch.of_hashes(np.arange(3, dtype=np.uint64))), 0)
    with pytest.raises(TimeError, match="whole history"):
        site.handle(Arrivals([1, 2], [1, 2]), 0)
    timed = HeavyHitterSite(HeavyHitterPlan(("a",), theta=0.1, window=60, panes=6), "a")
    with pytest.raises(TimeError, match="no times"):
        timed.handle(Arrivals([1, 2]), 0)
    assert (site.position, timed.position) == (0, 0)
    with pytest.raises(ParameterError, match="the plan has a"):
        HeavyHitterSite(plan, "b")


# -- rounds ---------------------------------------------------------------------------------------------------


def test_a_hidden_iceberg_is_asked_for_and_then_known_to_all() -> None:
    plan = HeavyHitterPlan(tuple(f"s{n}" for n in range(5)), theta=0.2, rho=0.005)
    network, coordinator, sites = started(plan)
    for place, name in enumerate(plan.sites):
        target = 40 if place == 0 else 18
        network.give(name, Arrivals(["target"] * target + [f"{name} {n}" for n in range(100 - target)]))
    network.pass_time(6_000)
    found = coordinator.claim
    assert found.complete
    assert found.total == 500
    assert [hitter.key for hitter in found.heavy] == ["target"]
    assert found.heavy[0].answer.holds(40 + 4 * 18)
    assert coordinator.rounds >= 1
    quiet = sites["s0"].traffic.messages(Purpose.DATA)
    network.give("s0", Arrivals(["target"] * 5))
    assert sites["s0"].traffic.messages(Purpose.DATA) == quiet  # it is known to be heavy: no warning


def test_warnings_during_a_round_wait_for_its_end_and_go_into_one_list() -> None:
    plan = HeavyHitterPlan(("a", "b", "c"), theta=0.3, rho=0.005)
    coordinator = HeavyHitterCoordinator(plan)
    sites = {name: HeavyHitterSite(plan, name) for name in plan.sites}

    def frames(actions: list[Any], to: str | None = None) -> list[bytes]:
        return [one.frame for one in actions if isinstance(one, Send) and to in (None, one.to)]

    asks = coordinator.handle(Tick(), 0)
    for name, site in sites.items():
        site.handle(Received(COORDINATOR, frames(asks, name)[0]), 0)
        filler = [f"{name} {n}" for n in range(55)]
        site.handle(Arrivals(filler), 0)
    for name, site in sites.items():  # everyone has answered the first list, which is empty
        for frame in frames(site.handle(Tick(), 5_000)):
            coordinator.handle(Received(name, frame), 5_000)
    opened = []
    for name, site in sites.items():
        (warning,) = frames(site.handle(Arrivals([f"of {name}"] * 45), 5_100))
        opened += [frames(coordinator.handle(Received(name, warning), 5_100))]
    lists = [[read_frame(frame) for frame in sent] for sent in opened]
    news = [[one for one in sent if isinstance(one, HeavyAsk)] for sent in lists]
    assert [len(sent) for sent in news] == [3, 0, 0]
    assert coordinator.rounds == 1
    answers = [frames(site.handle(Received(COORDINATOR, write_frame(news[0][0])), 5_200)) for site in sites.values()]
    last = [
        frames(coordinator.handle(Received(name, answer[0]), 5_200))
        for name, answer in zip(sites, answers, strict=True)
    ]
    assert coordinator.rounds == 2
    second = read_frame(last[-1][0])
    assert isinstance(second, HeavyAsk)
    assert {"of b", "of c"} <= set(second.named())


def test_a_silent_site_is_named_and_comes_back() -> None:
    plan = HeavyHitterPlan(("a", "b"), theta=0.3, lease=3_000)
    coordinator = HeavyHitterCoordinator(plan)
    network = Lockstep(coordinator, {name: HeavyHitterSite(plan, name) for name in plan.sites})
    network.give("b", Arrivals(["x"] * 10))
    network.pass_time(2_000)
    assert coordinator.claim.complete
    coordinator.handle(Tick(), 20_000)
    assert coordinator.missing == ("a", "b")
    assert not coordinator.claim.complete
    assert coordinator.claim.missing == ("a", "b")
    assert [found.key for found in coordinator.claim.heavy] == ["x"]
    network.now = 20_000
    network.pass_time(2_000)
    assert coordinator.missing == ()
    assert coordinator.claim.complete


def test_frames_from_strangers_and_contradictions_are_refused() -> None:
    plan = HeavyHitterPlan(("a",), theta=0.1)
    coordinator, site = HeavyHitterCoordinator(plan), HeavyHitterSite(plan, "a")
    for sender, message in [
        ("b", HeavyReport()), ("a", HeavyAsk()), ("a", HeavyReport(total=2, position=1)),
        ("a", HeavyReport(counts=(1,), position=3, total=3)),
        ("a", HeavyReport(others=Names.of((1,)), counts=(9,), position=3, total=3)),
    ]:  # fmt: skip
        with pytest.raises(DamagedBytesError):
            coordinator.handle(Received(sender, write_frame(message)), 0)
    for sender, message in [
        ("b", HeavyAsk()), (COORDINATOR, HeavyReport()), (COORDINATOR, HeavyAsk(epoch=1, version=1, heavy=b"\1")),
    ]:  # fmt: skip
        with pytest.raises(DamagedBytesError):
            site.handle(Received(sender, write_frame(message)), 0)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_altered_frames_and_blobs_are_taken_or_refused_by_name(data: st.DataObject) -> None:
    plan = HeavyHitterPlan(("a",), theta=0.3, window=data.draw(st.sampled_from([None, 60])), panes=6)
    site, coordinator = HeavyHitterSite(plan, "a"), HeavyHitterCoordinator(plan)
    times = None if plan.window is None else list(range(9))
    actions = [*site.handle(Arrivals(list("abcabcaab"), times), 0), *coordinator.handle(Tick(), 0), site._persist()]
    action = data.draw(st.sampled_from(actions))
    blob = bytearray(action.frame if isinstance(action, Send) else action.blob)
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    blob = blob[: data.draw(st.integers(1, len(blob)))]
    try:
        if isinstance(action, Persist):
            HeavyHitterSite(plan, "a", durable=bytes(blob)).handle(Tick(), 0)
        elif action.to == COORDINATOR:
            HeavyHitterCoordinator(plan).handle(Received("a", bytes(blob)), 0)
        else:
            HeavyHitterSite(plan, "a").handle(Received(COORDINATOR, bytes(blob)), 0)
    except BytesError:
        pass


# -- the detector ---------------------------------------------------------------------------------------------


def test_an_attack_is_told_with_its_start_its_sites_and_its_end() -> None:
    plan = HeavyHitterPlan(("a", "b", "c"), theta=0.2, window=100, panes=10)
    network, coordinator, _ = started(plan)
    detector = Detector(plan)
    rng = np.random.default_rng(3)
    for second in range(0, 600, 10):
        for name in plan.sites:
            keys = rng.integers(1, 2_000, 60)
            if 200 <= second < 400 and name != "c":
                keys[:30] = 0
            network.give(name, Arrivals(keys, second + 1 + np.sort(rng.integers(0, 10, 60)), second + 10))
        network.pass_time(10_000)
        detector.observe(coordinator.claim)
    (alarm,) = detector.alarms
    assert alarm.target == 0
    assert 200 <= alarm.started <= 210
    assert 220 <= alarm.detected <= 290
    assert alarm.ended is not None
    assert 400 <= alarm.ended <= 500
    assert set(alarm.sites) == {"a", "b"}
    assert alarm.confidence > 0.99
    assert detector.active == ()


@pytest.mark.parametrize("wrong", [{"epoch": 2**64 - 1}, {"position": 2**54}, {"slack": 2**63}])
def test_a_report_beyond_all_limits_is_refused_and_changes_nothing(wrong: dict[str, Any]) -> None:
    network, coordinator, sites = started(HeavyHitterPlan(("a", "b"), theta=0.1))
    network.give("a", Arrivals(np.arange(100) % 4))
    before = coordinator.claim
    (word,) = (word for word in sites["a"].handle(Tick(), 10**9) if isinstance(word, Send))
    report = read_frame(word.frame)
    assert isinstance(report, HeavyReport)
    with pytest.raises(DamagedBytesError):
        coordinator.handle(Received("a", write_frame(replace(report, **wrong))), network.now)
    assert coordinator.claim == before
    network.give("b", Arrivals(np.arange(300) % 4))
    network.pass_time(60_000)
    assert coordinator.claim.total > before.total
