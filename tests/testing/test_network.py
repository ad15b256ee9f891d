"""Each fault really happens and can be turned off; the contract of machines is kept; what ends a run says where."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import ParameterError, SimulationError
from catchment.monitor.machine import Action, Send
from catchment.testing.faults import STRIKES, Faults
from catchment.testing.host import Node
from catchment.testing.network import Network
from tests.testing.stage import Puppet, Stage, every, nothing, tell
from tests.testing.toy_protocol import world


def talk(faults: Faults, seed: int = 1, count: int = 300, gap: int = 10) -> Stage:
    """Node a tells node b many numbers."""
    steady = replace(faults, feed_mean=0.0)
    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(gap, count)}, faults=steady, seed=seed, until=10**6)
    stage.network.play()
    return stage


# -- determinism ----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 10**9))
def test_a_seed_gives_one_trace_and_another_gives_another(seed: int) -> None:
    one, again, other = world(seed), world(seed), world(seed + 1, faults=Faults.random(seed))
    for network in (one, again, other):
        network.play()
    assert one.trace_hash == again.trace_hash
    assert one.trace() == again.trace()
    assert (one.steps, one.struck, one.sent_bytes) == (again.steps, again.struck, again.sent_bytes)
    assert one.trace_hash != other.trace_hash


def test_a_run_in_pieces_is_the_same_run() -> None:
    whole, pieces = world(5, settle=False), world(5, settle=False)
    whole.run(3000)
    for until in range(0, 3001, 7):
        pieces.run(until)
    assert whole.trace_hash == pieces.trace_hash


# -- faults happen, and can be turned off ---------------------------------------------------------------------

FAULTS: dict[str, tuple[str, Faults]] = {
    "loss": ("loss", Faults(loss=0.1)),
    "duplicate": ("duplicate", Faults(duplicate=0.1)),
    "reorder": ("delay", Faults(delay_mean=100)),
    "capacity": ("capacity", Faults(delay_mean=500, capacity=2)),
    "clog": ("clog", Faults(clog=0.05)),
    "swizzle": ("swizzle", Faults(swizzle_every=500)),
    "partition": ("partition", Faults(partition="split", partition_every=500)),
    "one-way": ("partition", Faults(partition="isolate", partition_every=500, partition_one_way=1.0)),
    "cut": ("partition", Faults(partition="any", partition_every=500)),
    "down": ("crash", Faults(crash=0.02)),
    "crash": ("crash", Faults(crash=0.02, crash_coordinator=0.02)),
    "mid-crash": ("crash", Faults(crash=0.02, crash_coordinator=0.02)),
    "unflushed": ("flush", Faults(crash=0.02, flush_mean=100)),
    "unsent": ("flush", Faults(crash=0.02, flush_mean=100)),
    "rollback": ("rollback", Faults(crash_coordinator=0.02, rollback=1.0)),
    "skew": ("skew", Faults(skew=0.1, offset=1000)),
    "jump": ("jump", Faults(jump_every=500)),
    "join": ("join", Faults(join=1.0)),
    "leave": ("leave", Faults(leave=1.0, leave_mean=1000)),
}


@pytest.mark.parametrize("strike", STRIKES)
def test_a_fault_happens_and_can_be_turned_off(strike: str) -> None:
    kind, faults = FAULTS[strike]
    on = [world(seed, faults=faults, settle=False) for seed in range(4)]
    off = [world(seed, faults=faults.without(kind), settle=False) for seed in range(4)]
    for network in on + off:
        network.play()
    assert sum(network.struck[strike] for network in on) > 0
    assert sum(network.struck[strike] for network in off) == 0
    assert [network.trace_hash for network in on] != [network.trace_hash for network in off]


def test_quiet_delivers_everything_once_in_order_after_a_millisecond() -> None:
    stage = talk(Faults.quiet())
    assert stage.frames("b") == [b"%d" % number for number in range(300)]
    assert [now for _, _, now in stage.logs["b"]] == [number * 10 + 1 for number in range(300)]
    assert stage.network.sent == stage.network.delivered == 300
    assert not any(stage.network.struck.values())


def test_loss_loses_its_share_and_nothing_else() -> None:
    frames = talk(Faults(loss=0.2), count=3000).frames("b")
    assert 0.75 < len(frames) / 3000 < 0.85
    assert sorted(frames, key=int) == frames
    assert len(set(frames)) == len(frames)


def test_a_duplicate_is_the_same_frame_again_and_may_be_much_later() -> None:
    stage = talk(Faults(duplicate=0.2, duplicate_mean=5000))
    counts = Counter(stage.frames("b"))
    assert set(counts.values()) == {1, 2}
    assert 300 + stage.network.struck["duplicate"] == stage.network.delivered
    places = defaultdict(list)
    for place, frame in enumerate(stage.frames("b")):
        places[frame].append(place)
    assert max(found[-1] - found[0] for found in places.values()) > 100


def test_delays_have_their_least_and_their_mean_and_reorder() -> None:
    stage = talk(Faults(delay_min=7, delay_mean=50.0), count=3000)
    delays = [now - 10 * int(event.frame) for _, event, now in stage.logs["b"]]
    assert min(delays) == 7
    assert 7 + 45 < sum(delays) / len(delays) < 7 + 55
    frames = stage.frames("b")
    assert frames != sorted(frames, key=int)
    assert len(set(frames)) == 3000


def test_a_full_path_drops_what_is_over() -> None:
    stage = talk(Faults(delay_min=100, capacity=3))
    arrivals = [now for _, _, now in stage.logs["b"]]
    # A message is on its way for 100 ms: so many at most arrive in any 100.
    assert all(later - first >= 100 for first, later in zip(arrivals, arrivals[3:], strict=False))
    assert stage.network.delivered + stage.network.struck["capacity"] == 300
    assert stage.network.delivered > 60


def test_a_clogged_path_loses_nothing_and_keeps_the_order() -> None:
    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(10, 100)}, faults=Faults(feed_mean=0.0))
    stage.network.at(200, lambda network: network.clog("b", 600))
    stage.network.play()
    times = [now for _, _, now in stage.logs["b"]]
    assert stage.frames("b") == [b"%d" % number for number in range(100)]
    assert not [now for now in times if 201 < now < 600]
    assert times.count(600) > 35
    assert stage.network.struck["clog"] > 35


def test_a_swizzle_clogs_one_by_one_and_restores_in_another_order() -> None:
    orders = []
    for seed in range(8):
        stage = Stage(dict.fromkeys("abcdef", nothing), faults=Faults(swizzle_every=3000.0), seed=seed, until=40_000)
        clogs: list[tuple[int, int]] = []
        stage.network.keep_trace()
        stage.network.play()
        for line in stage.network.trace():
            time, _, what, *_, size = line.split()
            if what == "swizzle":
                if clogs and int(time) >= max(until for _, until in clogs):
                    orders.append(clogs)
                    clogs = []
                clogs.append((int(time), int(size)))
    assert {len(clogs) for clogs in orders} == set(range(1, 7))
    for clogs in orders:
        starts, ends = [start for start, _ in clogs], [end for _, end in clogs]
        assert starts == sorted(set(starts))
        assert len(set(ends)) == len(ends)
        assert max(starts) < min(ends)
    assert any(clogs != sorted(clogs, key=lambda clog: clog[1]) for clogs in orders)


def test_a_partition_may_cut_one_direction_only() -> None:
    acts = {"a": tell("b"), "b": tell("a")}
    stage = Stage(acts, feeds={"a": every(10, 100), "b": every(10, 100)}, faults=Faults(feed_mean=0.0))
    stage.network.at(200, lambda network: network.cut(["a"], ["b"]))
    stage.network.at(700, Network.mend)
    stage.network.play()
    assert len(stage.frames("a")) == 100
    assert [int(frame) for frame in stage.frames("b")] == [*range(20), *range(70, 100)]
    assert stage.network.struck["cut"] == 50


@pytest.mark.parametrize(("mode", "one_way"), [("isolate", 0.0), ("isolate", 1.0), ("split", 0.0), ("split", 1.0)])
def test_partitions_have_their_shape_and_last(mode: str, one_way: float) -> None:
    names = "abcde"
    faults = Faults(partition=mode, partition_one_way=one_way, partition_every=100, partition_stability=200)
    stage = Stage(dict.fromkeys(names, nothing), faults=faults, until=100_000)
    stage.network.keep_trace()
    stage.network.play()
    sizes, last = set(), 0
    for line in stage.network.trace():
        time, _, what, *where = line.split()
        if what in ("partition", "reunite"):
            assert int(time) - last > 200
            last = int(time)
        if what == "partition":
            some, others = " ".join(where).split(" → " if one_way else " ↔ ")
            assert sorted(some.split(", ") + others.split(", ")) == list(names)
            sizes.add(len(some.split(", ")))
    assert sizes == ({1, 4} if mode == "isolate" else {1, 2, 3, 4})
    assert (stage.network.struck["one-way"] > 0) == bool(one_way)


def test_a_partition_loses_what_is_on_its_way() -> None:
    faults = Faults(delay_min=100, feed_mean=0.0)
    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(10, 20)}, faults=faults)
    stage.network.at(150, lambda network: network.cut(["a"], ["b"]))
    stage.network.play()
    assert [int(frame) for frame in stage.frames("b")] == list(range(5))
    assert stage.network.struck["cut"] == 15


@pytest.mark.parametrize("one_way", [0.0, 1.0])
def test_by_chance_too_one_direction_stays_open_or_none(one_way: float) -> None:
    acts = {"a": tell("b"), "b": tell("a")}
    faults = Faults(partition="split", partition_one_way=one_way, partition_every=0, partition_mean=10**6, feed_mean=0)
    for seed in range(6):
        stage = Stage(acts, feeds={"a": every(10, 100), "b": every(10, 100)}, faults=faults, seed=seed)
        stage.network.run(2000)
        heard = sorted(len(stage.frames(name)) for name in "ab")
        assert heard[0] < 10
        assert (heard[1] == 100) == bool(one_way)


def test_the_hash_is_of_the_whole_trace_however_much_is_kept() -> None:
    few = Stage({"a": nothing}, feeds={"a": every(1, 20_000)}, faults=Faults(feed_mean=0.0))
    many = Stage({"a": nothing}, feeds={"a": every(1, 20_000)}, faults=Faults(feed_mean=0.0))
    many.network.keep_trace()
    for stage in (few, many):
        stage.network.play()
    assert few.network.trace_hash == many.network.trace_hash
    assert len(few.network.trace()) < 5000 < len(many.network.trace())


# -- the end of faults ----------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_after_heal_nothing_strikes_any_more(seed: int) -> None:
    network = world(seed, faults=Faults.random(seed, chance=1.0, without=["delay", "join"]), settle=False)
    network.run(2500)
    network.heal()
    network.run(2501)
    assert all(network.machine(name) is not None for name in network.names if not network.has_left(name))
    # What was under way when the faults ended may still come twice or behind.
    network.run(2500 + 40_000)
    before = network.struck.copy()
    lives = [network.life(name) for name in network.names]
    network.run(2500 + 80_000)
    away = {name for name in network.names if network.has_left(name)}
    assert {strike for strike in STRIKES if network.struck[strike] != before[strike]} <= ({"down"} if away else set())
    assert lives == [network.life(name) for name in network.names]
    assert network.healed_at is not None
    assert network.delivered > network.healed_at[1]


def test_heal_frees_what_is_clogged_and_lets_a_clock_that_stood_still_run_on() -> None:
    woken: list[int] = []

    def wake(machine: Puppet, _event: Any, now: int) -> list[Action]:
        machine.due = now + 100
        woken.append(stage.network.time)
        return []

    stage = Stage({"a": tell("b"), "b": nothing, "c": wake}, feeds={"a": every(10, 50)}, due=0, until=2000)
    stage.network.run(300)
    stage.network.jump("c", 50_000)
    stage.network.run(310)
    stage.network.jump("c", -50_000)
    stage.network.clog("b", 10**6)
    stage.network.run(1000)
    assert max(woken) < 320
    heard = len(stage.frames("b"))
    assert heard < 50
    stage.network.heal()
    stage.network.run(1001)
    assert len(stage.frames("b")) == 50
    stage.network.run(2000)
    assert len([time for time in woken if time > 1000]) >= 9


def test_settle_counts_messages_and_gives_up() -> None:
    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(10, 100)}, faults=Faults(loss=1.0))
    network = stage.network
    network.run(500)
    assert network.delivered == 0
    assert network.settle(lambda _: len(stage.frames("b")) >= 7, messages=7) == 7
    with pytest.raises(SimulationError, match="not settled 5 messages"):
        network.settle(lambda _: False, messages=5)
    with pytest.raises(SimulationError, match="messages and 3 steps"):
        network.settle(lambda _: False, messages=5, steps=3)
    with pytest.raises(SimulationError, match="nothing is left to happen"):
        network.settle(lambda _: False, messages=500, feeding=False)
    with pytest.raises(SimulationError, match="ZeroDivisionError"):
        network.settle(lambda _: bool(1 // 0), messages=500)


# -- checks and errors ----------------------------------------------------------------------------------------


def test_checks_are_called_after_every_step() -> None:
    seen: list[tuple[int, str]] = []
    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(10, 20)})
    stage.network.add_check(lambda network: seen.append((network.steps, network.last)))
    stage.network.play()
    assert [step for step, _ in seen] == list(range(1, 43))
    assert Counter(name for _, name in seen) == {"a": 21, "b": 21}


def test_a_false_claim_names_seed_step_time_and_the_last_lines() -> None:
    def check(_: Network) -> None:
        assert len(stage.logs["b"]) < 3, "b was told too much"

    stage = Stage({"a": tell("b"), "b": nothing}, feeds={"a": every(10, 20)}, seed=77, checks=[check])
    with pytest.raises(SimulationError) as failed:
        stage.network.play()
    error = failed.value
    assert isinstance(error, AssertionError)
    assert (error.seed, error.step, error.time) == (77, stage.network.steps, stage.network.time)
    assert error.problem.startswith(f"seed 77, step {error.step}, {error.time} ms: AssertionError: b was told too much")
    assert "deliver   a → b" in error.trace[-1]
    assert error.trace[-1] in str(error)


@pytest.mark.parametrize(
    ("actions", "complaint"),
    [
        ([Send("nobody", b"")], "a sends to 'nobody': send to one of b"),
        ([Send("a", b"")], "a sends to 'a'"),
        (["hello"], "'hello' among the actions of a"),
    ],
)
def test_a_machine_that_does_what_it_must_not_ends_the_run(actions: list[Any], complaint: str) -> None:
    stage = Stage({"a": lambda *_: actions, "b": nothing}, feeds={"a": every(10, 1)})
    with pytest.raises(SimulationError, match=complaint) as failed:
        stage.network.play()
    assert isinstance(failed.value.__cause__, ParameterError)


def test_a_machine_that_breaks_ends_the_run() -> None:
    stage = Stage({"a": lambda *_: [][1]}, feeds={"a": every(10, 1)})
    with pytest.raises(SimulationError, match="IndexError") as failed:
        stage.network.play()
    assert isinstance(failed.value.__cause__, IndexError)


def test_a_script_that_fails_is_named_too() -> None:
    def script(network: Network) -> None:
        network.run(10)
        assert network.claims, "nothing was claimed"

    with pytest.raises(SimulationError, match="seed 1, step 1, 10 ms: AssertionError: nothing was claimed"):
        Stage({"a": nothing}, script=script).network.play()


def test_names_must_be_there_and_differ() -> None:
    with pytest.raises(ParameterError, match="without a name"):
        Node("", functools.partial(Puppet, nothing, [], None))
    node = Node("a", functools.partial(Puppet, nothing, [], None))
    for nodes in ([], [node, node]):
        with pytest.raises(ParameterError, match=f"{len(nodes)} nodes"):
            Network(nodes, seed=1)
    with pytest.raises(ParameterError, match="no node 'x'"):
        Network([node], seed=1).crash("x")
