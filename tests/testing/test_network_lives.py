"""Disks, crashes, clocks, feeds: what the network does to a node."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.monitor.machine import COORDINATOR, Action, Persist, Send, Tick
from catchment.testing.faults import Faults
from catchment.testing.network import Network
from tests.testing.stage import Act, Puppet, Stage, every, nothing, tell

# -- disks and crashes ----------------------------------------------------------------------------------------


def persist_then_tell(machine: Puppet, event: Any, _now: int) -> list[Action]:
    """Count on from the disk, and say each number twice when it is durable; every third only once, without a blob."""
    machine.due = None
    if not isinstance(event, int):
        return []
    if not machine.count:
        machine.count = int(machine.blobs.get("count", b"0"))
    machine.count += 1
    said = Send("b", b"%d" % machine.count)
    return [said] if machine.count % 3 == 0 else [Persist("count", b"%d" % machine.count), said, said]


def said_and_lost(seed: int) -> tuple[int, int]:
    """How often b was told a number that was durable, always if at all, and how many blobs were lost in crashes."""
    durable = 0

    def check(network: Network) -> None:
        nonlocal durable
        durable = max(durable, int(network.durable("a").get("count", b"0")))
        if network.last == "b" and stage.logs["b"]:
            number = int(stage.logs["b"][-1][1].frame)
            # What is said without a blob of its own was persisted by the event before.
            assert number <= durable + (number % 3 == 0)
            network.claims += 1

    mix = Faults.random(seed, chance=1.0, without=["rollback"])
    stage = Stage(
        {"a": persist_then_tell, "b": nothing},
        feeds={"a": every(10, 400)},
        faults=replace(mix, crash=0.05, flush_mean=40.0),
        seed=seed,
        checks=[check],
        until=6000,
    )
    stage.network.play()
    return stage.network.claims, stage.network.struck["unflushed"]


def test_nothing_is_said_before_it_is_durable() -> None:
    said, lost = zip(*map(said_and_lost, range(60)), strict=True)
    assert sum(said) > 500
    assert sum(lost) > 100


def test_what_is_said_later_does_not_overtake_what_waits_for_the_disk() -> None:
    stage = Stage(
        {"a": persist_then_tell, "b": nothing},
        feeds={"a": every(10, 100)},
        faults=Faults(flush_mean=300.0, feed_mean=0.0),
    )
    stage.network.play()
    heard = [int(frame) for frame in stage.frames("b")]
    assert heard == sorted(heard)
    assert len(set(heard)) == 100


def test_a_crash_keeps_what_is_durable_and_loses_the_rest() -> None:
    stage = Stage(
        {"a": persist_then_tell, "b": nothing}, feeds={"a": every(100, 9)}, faults=Faults(flush_min=50, feed_mean=0)
    )
    network = stage.network
    network.run(420)
    assert network.durable("a") == {"count": b"4"}  # 5 is on its way to the disk
    network.crash("a", down=1000)
    assert network.machine("a") is None
    network.run(1419)
    assert network.life("a") == 1
    network.run(1420)
    assert network.life("a") == 2
    assert network.machine("a").blobs == {"count": b"4"}
    assert network.struck["unflushed"] == 1
    assert network.struck["unsent"] == 2
    assert b"5" not in stage.frames("b")


def test_a_crash_comes_between_any_two_actions() -> None:
    def act(machine: Puppet, event: Any, _now: int) -> list[Action]:
        machine.due = None
        number = int(event)
        return [
            Send("b", b"%d 0" % number),
            Persist("x", b"%d" % number),
            *[Send("b", b"%d %d" % (number, i)) for i in (1, 2)],
        ]

    ends = Counter[int]()
    persisted_only = 0
    for seed in range(60):
        stage = Stage(
            {"a": act, "b": nothing},
            feeds={"a": every(10, 1)},
            faults=Faults(crash=1.0, restart_mean=10.0**7),
            seed=seed,
            until=1000,
        )
        stage.network.play()
        ends[len(stage.frames("b"))] += 1
        persisted_only += len(stage.frames("b")) == 1 and stage.network.durable("a") == {"x": b"0"}
    assert set(ends) == {0, 1, 2, 3}
    assert 0 < persisted_only < ends[1]


def test_the_coordinator_crashes_by_its_own_chance() -> None:
    for faults, crashed in ((Faults(crash=0.1), {"a"}), (Faults(crash_coordinator=0.1), {COORDINATOR})):
        feeds = {COORDINATOR: every(10, 200), "a": every(10, 200)}
        stage = Stage({COORDINATOR: nothing, "a": nothing}, feeds=feeds, faults=faults)
        stage.network.play()
        assert {name for name in stage.network.names if stage.network.life(name) > 1} == crashed


def test_a_node_can_come_back_with_an_old_state_of_its_disk() -> None:
    found = set()
    for seed in range(20):
        stage = Stage(
            {"a": persist_then_tell, "b": nothing}, feeds={"a": every(100, 5)}, seed=seed, faults=Faults(feed_mean=0.0)
        )
        stage.network.run(450)
        assert stage.network.durable("a") == {"count": b"5"}
        stage.network.crash("a", down=10, set_back=True)
        assert stage.network.struck["rollback"] == 1
        stage.network.run(455)
        found.add(stage.network.durable("a")["count"])
    assert found == {b"1", b"2", b"4"}  # 3 was said, and never persisted by itself


def test_only_those_named_come_back_old_by_chance() -> None:
    feeds = {COORDINATOR: every(10, 200), "a": every(10, 200)}
    acts: dict[str, Act] = dict.fromkeys((COORDINATOR, "a"), lambda _machine, _event, now: [Persist("x", b"%d" % now)])
    for names in ((COORDINATOR,), ("a",)):
        faults = Faults(crash=0.05, crash_coordinator=0.05, rollback=1.0, rollback_nodes=names)
        stage = Stage(acts, feeds=feeds, faults=faults)
        stage.network.keep_trace()
        stage.network.play()
        assert {line.split()[3] for line in stage.network.trace() if line.split()[2] == "rollback"} == set(names)


# -- clocks ---------------------------------------------------------------------------------------------------


def wake_every(gap: int) -> Act:
    def act(machine: Puppet, _event: Any, now: int) -> list[Action]:
        machine.due = now + gap
        return []

    return act


def test_clocks_run_apart_and_ticks_come_when_a_nodes_own_clock_shows_them() -> None:
    rates, offsets = [], []
    for seed in range(20):
        stage = Stage({"a": wake_every(100)}, faults=Faults(skew=0.2, offset=5000), seed=seed, due=0, until=50_000)
        stage.network.play()
        shown = [now for _, _, now in stage.logs["a"]]
        # No tick is early, and none is later than one step of the virtual clock.
        assert all(100 <= later - sooner <= 102 for sooner, later in itertools.pairwise(shown))
        rates.append((shown[-1] - shown[0]) / 50_000)
        offsets.append(shown[0])
    assert 0.795 < min(rates) < 0.9
    assert 1.1 < max(rates) < 1.205
    assert min(offsets) < 1500
    assert 3500 < max(offsets) < 5010


def test_without_skew_a_clock_shows_virtual_time() -> None:
    stage = Stage({"a": wake_every(100)}, due=0, until=1000)
    stage.network.play()
    assert [now for _, _, now in stage.logs["a"]] == list(range(1, 1000, 100))


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_clock_never_runs_backwards_within_a_life_however_it_jumps(seed: int) -> None:
    faults = Faults(skew=0.3, offset=1000, jump_every=200, jump=3000, crash=0.02)
    # Ticks come when the clock has moved on; batches come at any time.
    stage = Stage({"a": wake_every(50)}, feeds={"a": every(30, 600)}, faults=faults, seed=seed, due=0, until=20_000)
    stage.network.play()
    for _, events in itertools.groupby(stage.logs["a"], key=lambda entry: entry[0]):
        shown = [now for _, _, now in events]
        assert shown == sorted(shown)
    assert all(now >= 0 for _, _, now in stage.logs["a"])
    assert stage.network.struck["jump"] > 20
    assert len(stage.logs["a"]) > 20


def test_a_jump_ahead_brings_the_tick_at_once_and_one_back_makes_time_stand_still() -> None:
    stage = Stage({"a": wake_every(1000)}, due=0)
    network = stage.network
    network.run(100)
    network.jump("a", 5000)
    network.run(102)
    assert [now for _, _, now in stage.logs["a"]] == [1, 5101]
    network.jump("a", -3000)
    network.run(3000)
    assert len(stage.logs["a"]) == 2
    network.run(4200)
    assert [now for _, _, now in stage.logs["a"]][2:] == [6101]


def test_a_tick_that_is_put_off_does_not_come_early() -> None:
    stage = Stage({"a": wake_every(100)}, feeds={"a": every(60, 20)}, faults=Faults(feed_mean=0.0), due=0, until=3000)
    stage.network.play()
    events = [(event, now) for _, event, now in stage.logs["a"]]
    early = [now for (_, before), (event, now) in itertools.pairwise(events) if event == Tick() and now < before + 100]
    assert early == []
    assert sum(event == Tick() for event, _ in events) > 15


def test_a_machine_that_is_always_due_does_not_stop_time() -> None:
    def act(_machine: Puppet, _event: Any, _now: int) -> list[Action]:
        return []

    stage = Stage({"a": act}, due=0, until=100)
    stage.network.play()
    assert 90 <= len(stage.logs["a"]) <= 101
    assert all(isinstance(event, Tick) for _, event, _ in stage.logs["a"])


# -- feeds, joining, leaving ----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_feed_goes_on_from_the_position_that_was_durable(seed: int) -> None:
    def count(machine: Puppet, event: Any, _now: int) -> list[Action]:
        machine.due = None
        machine.count = event + 1
        return [Persist("position", b"%d" % machine.count)]

    def feed(machine: Puppet) -> Iterator[tuple[int, int]]:
        return ((number * 20, number) for number in range(int(machine.blobs.get("position", b"0")), 100))

    faults = Faults(crash=0.05, flush_mean=30, restart_mean=100, feed_mean=5.0, feed_spread=3.0)
    stage = Stage({"a": count}, feeds={"a": feed}, faults=faults, seed=seed, until=60_000)
    stage.network.play()
    lives = [[number for _, number, _ in group] for _, group in itertools.groupby(stage.logs["a"], key=lambda e: e[0])]
    reached = 0
    for fed in lives:
        assert fed == list(range(fed[0], fed[-1] + 1))
        assert fed[0] <= reached
        reached = fed[-1] + 1
    assert reached == 100
    assert all(now >= number * 20 for _, number, now in stage.logs["a"])


def test_sites_are_fed_at_paces_of_their_own() -> None:
    feeds = dict.fromkeys("abcdef", every(0, 10_000))
    stage = Stage(
        dict.fromkeys("abcdef", nothing), feeds=feeds, faults=Faults(feed_mean=20, feed_spread=10), until=5000
    )
    stage.network.play()
    taken = [len(log) for log in stage.logs.values()]
    assert max(taken) > 3 * min(taken) > 0


def test_a_node_joins_late_and_another_leaves_with_a_farewell() -> None:
    def goodbye(machine: Puppet, event: Any, now: int) -> list[Action]:
        return [Persist("x", b"1"), Send("b", b"bye")] if event == "farewell" else tell("b")(machine, event, now)

    acts: dict[str, Act] = {"a": goodbye, "b": nothing, "c": tell("b")}
    stage = Stage(
        acts,
        feeds={"a": every(10, 100), "c": every(10, 10)},
        faults=Faults(flush_min=30, feed_mean=0.0),
        a={"leaves": 505, "farewell": "farewell"},
        c={"joins": 300},
    )
    network = stage.network
    network.run(299)
    assert network.machine("c") is None
    network.run(300)
    assert network.machine("c") is not None
    network.play()
    from_a = [event.frame for _, event, _ in stage.logs["b"] if event.sender == "a"]
    assert from_a == [b"%d" % number for number in range(51)] + [b"bye"]
    assert network.has_left("a")
    assert network.machine("a") is None
    assert (network.struck["join"], network.struck["leave"]) == (1, 1)
    assert len([event for _, event, _ in stage.logs["b"] if event.sender == "c"]) == 10


def test_a_node_that_is_leaving_takes_nothing_any_more() -> None:
    acts: dict[str, Act] = {"a": lambda *_: [Persist("x", b"1")], "b": tell("a")}
    faults = Faults(flush_min=200, feed_mean=0.0)
    stage = Stage(acts, feeds={"b": every(10, 50)}, faults=faults, a={"leaves": 205, "farewell": "farewell"})
    stage.network.play()
    assert max(now for _, _, now in stage.logs["a"]) == 205
    assert stage.network.struck["down"] == 50 - len(stage.frames("a")) > 25


def test_the_coordinator_neither_joins_late_nor_leaves_by_chance() -> None:
    for seed in range(20):
        faults = Faults(join=1.0, leave=1.0, leave_mean=100)
        stage = Stage({COORDINATOR: nothing, "a": nothing}, faults=faults, seed=seed)
        stage.network.run(0)
        assert stage.network.machine(COORDINATOR) is not None
        assert stage.network.machine("a") is None
        stage.network.play()
        assert not stage.network.has_left(COORDINATOR)
        assert stage.network.has_left("a")
