"""Peers of a top-k: what they answer, what they send, and how they live through lost peers, restarts and joins."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import BytesError, DamagedBytesError, ParameterError
from catchment.monitor.machine import Persist, Purpose, Received, Send, Tick
from catchment.monitor.top_k import Arrived, ExactCounts, Membership, Peer, SketchedCounts
from catchment.monitor.top_k.messages import ListMessage, PulseMessage, digest_of
from catchment.monitor.top_k.neighbour import ABSENT, MISSING, PRESENT
from catchment.monitor.top_k.peer import STATE, TRANSITIONS
from catchment.monitor.wire import read_frame, write_frame
from catchment.sketch.count_min import CountMin
from catchment.sketch.space_saving import SpaceSaving
from catchment.window.panes import Panes
from tests.monitor.top_k_world import PERIOD, World, zipf


def frozen(streams: list[list[int]], k: int, universe: int) -> World:
    names = tuple("abcdefgh"[: len(streams)])
    world = World(k, None, ExactCounts, names, universe)
    for name, stream in zip(names, streams, strict=True):
        world.add(name, np.array(stream, dtype=np.int64), np.zeros(len(stream), dtype=np.int64))
        world.feed(name, len(stream))
    return world


# -- the answer -----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.integers(0, 14), max_size=30), min_size=1, max_size=5), st.integers(1, 6))
def test_on_a_frozen_stream_every_peer_is_perfect_after_five_rounds_and_then_quiet(
    streams: list[list[int]], k: int
) -> None:
    world = frozen(streams, k, 15)
    for _ in range(5):
        world.calm_round()
    counts = Counter(item for stream in streams for item in stream)
    exact = sorted(counts, key=lambda item: (-counts[item], item))[:k]
    for site in world.sites.values():
        top = site.peer.answer()
        assert list(top.ranking.keys) == exact
        assert np.asarray(top.ranking.answers.low).tolist() == [counts[item] for item in exact]
        assert all(top.certain)
        assert top.settled
        assert top.everywhere
        world.check(top)
    spent = {name: site.peer.traffic.to_dict() for name, site in world.sites.items()}
    world.calm_round()
    for name, site in world.sites.items():
        after = site.peer.traffic.to_dict()
        assert {p: a for p, a in after.items() if p != Purpose.CONTROL} == {
            p: a for p, a in spent[name].items() if p != Purpose.CONTROL
        }


def test_the_item_that_no_site_has_first_is_found() -> None:
    """The example of Lemma 3: lists of one item each never show that x is the most frequent."""
    a, d, x = 0, 1, 2
    world = frozen([[a] * 10 + [x] * 6, [d] * 9 + [x] * 5], 1, 3)
    for _ in range(4):
        world.calm_round()
    top = world.sites["a"].peer.answer()
    assert top.ranking.keys == (x,)
    assert top.certain == (True,)
    assert top.left_out == 10


def test_an_item_that_leaves_a_list_loses_its_part_of_the_sum() -> None:
    world = World(1, 10, lambda: ExactCounts(10), ("a", "b"), 3)
    world.add("a", np.array([1, 1, 1, 2]), np.array([1, 1, 1, 20]))
    world.add("b", np.array([1, 2, 2]), np.array([1, 2, 2]))
    world.feed("a", 3)
    world.feed("b", 3)
    for _ in range(4):
        world.calm_round()
    assert world.sites["b"].peer.answer().ranking.keys == (1,)
    world.feed("a", 1)  # the three have left its window
    for _ in range(4):
        world.calm_round()
    top = world.sites["b"].peer.answer()
    assert top.ranking.keys == (2,)
    assert top.ranking.answers[0].low == 3
    assert top.certain == (True,)


def test_ties_are_broken_by_the_order_of_items() -> None:
    peer = Peer("a", ["a"], k=2, counts=ExactCounts(), period=PERIOD)
    peer.handle(Arrived(["pear", "apple", "fig", "élan"]), 0)
    assert peer.answer().ranking.keys == ("apple", "fig")
    assert peer.answer().certain == (True, True)
    assert peer.answer().left_out == 1
    numbers = Peer("a", ["a"], k=2, counts=ExactCounts(), period=PERIOD)
    numbers.handle(Arrived([10, 9, -3]), 0)
    assert numbers.answer().ranking.keys == (-3, 9)


def test_fewer_items_than_asked_for_are_all_there_is() -> None:
    peer = Peer("a", ["a"], k=5, counts=ExactCounts(), period=PERIOD)
    assert peer.answer().ranking.keys == ()
    peer.handle(Arrived([b"x", b"y", b"x"]), 0)
    top = peer.answer()
    assert top.ranking.keys == (b"x", b"y")
    assert top.ranking.note == "only 2 items are in the windows"
    assert top.settled
    assert top.left_out == 0


def test_a_window_slides_without_events() -> None:
    peer = Peer("a", ["a"], k=1, counts=ExactCounts(10), period=PERIOD)
    peer.handle(Arrived([1, 1, 2], at=[5, 5, 9]), 0)
    assert peer.answer().ranking.keys == (1,)
    peer.handle(Arrived([], until=15), 0)
    top = peer.answer()
    assert top.ranking.keys == (2,)
    assert (top.cut["a"].position, top.cut["a"].time) == (3, 15)


@pytest.mark.parametrize(("skew", "floor"), [(1.0, 0.5), (1.5, 0.8), (2.0, 0.8)])
def test_certificates_are_not_empty_on_skewed_moving_streams(skew: float, floor: float) -> None:
    rng = np.random.default_rng(7)
    names, universe = tuple("abcdef"), 2_000
    world = World(10, 400, lambda: ExactCounts(400), names, universe)
    for name in names:
        world.add(name, zipf(rng, skew, universe, 9_000), np.arange(9_000) // 5)
    answered = certain = 0
    for round_ in range(30):
        for name in names:
            world.feed(name, 300)
        for name in names:
            world.tick(name)
        rng.shuffle(world.bag)
        for lost in rng.random(len(world.bag)).tolist():
            if lost < 0.05:
                world.bag.pop()
            else:
                world.deliver(-1)
        world.now += PERIOD
        for name in names[:2] if round_ > 4 else ():
            top = world.sites[name].peer.answer()
            world.check(top)
            answered, certain = answered + 10, certain + sum(top.certain)
    assert certain >= floor * answered


def test_a_limit_makes_lists_short_and_certificates_vaguer() -> None:
    streams = [[item for item in range(40) for _ in range(1 + (item == 7) * 3)] for _ in range(3)]
    world = frozen(streams, 2, 40)
    for site in world.sites.values():
        site.peer.limit = 5
    for _ in range(6):
        world.calm_round()
    top = world.sites["a"].peer.answer()
    world.check(top)
    assert top.ranking.keys[0] == 7
    assert top.certain == (True, False)
    listed = world.sites["a"].peer.shortlist
    assert listed is not None
    assert listed.nominated == 5


# -- counts by a sketch ---------------------------------------------------------------------------------------


def sketched_run(seed: int) -> tuple[int, int]:
    rng = np.random.default_rng([seed, 3])
    window = 60 if seed % 2 else None
    names = ("a", "b", "c")

    def make() -> SketchedCounts:
        inner = SpaceSaving.sized(capacity=6 + seed % 5)
        return SketchedCounts(inner if window is None else Panes(inner, window=window, panes=6))

    world = World(2, window, make, names, 30)
    for name in names:
        world.add(name, zipf(rng, 1.5, 30, 120), np.cumsum(rng.integers(0, 2, 120)) - rng.integers(0, 5, 120))
    answered = certain = 0
    for _ in range(3):
        for name in names:
            world.feed(name, int(rng.integers(0, 50)))
            if rng.random() < 0.2:
                world.restart(name)
            world.tick(name)
        rng.shuffle(world.bag)
        for lost in rng.random(len(world.bag)).tolist():
            if lost < 0.2:
                world.bag.pop()
            else:
                world.deliver(-1)
        top = world.sites["a"].peer.answer(world.now)
        world.check(top)
        answered, certain = answered + len(top.certain), certain + sum(top.certain)
    return answered, certain


def test_sketched_counts_never_certify_falsely() -> None:
    answered, certain = np.sum([sketched_run(seed) for seed in range(150)], axis=0)
    assert certain > answered / 4


def test_sketched_counts_want_a_sketch_that_names_items() -> None:
    with pytest.raises(ParameterError, match="CountMin"):
        SketchedCounts(Panes(CountMin(0.1, 0.1), window=10))
    with pytest.raises(ParameterError, match="SpaceSaving"):
        SketchedCounts(Panes(SpaceSaving(0.1), arrivals=10))


# -- neighbours -----------------------------------------------------------------------------------------------


def test_every_state_knows_every_event() -> None:
    states = {ABSENT, PRESENT, MISSING}
    assert {state for state, _ in TRANSITIONS} == states
    assert len(TRANSITIONS) == 9
    assert set(TRANSITIONS.values()) == states


def test_a_silent_peer_is_missing_and_comes_back() -> None:
    world = frozen([[1] * 5, [2] * 7, [2]], 1, 4)
    assert world.sites["a"].peer.answer().missing == ("b", "c")
    for _ in range(4):
        world.calm_round()
    peer = world.sites["a"].peer
    assert peer.answer().missing == ()
    silent = world.sites.pop("b")
    for _ in range(6):
        world.calm_round()
    top = peer.answer()
    assert peer.states() == {"b": MISSING, "c": PRESENT}
    assert top.missing == ("b",)
    assert not top.everywhere
    assert top.ranking.answers.missing == ("b",)
    assert (top.ranking.keys, top.certain) == ((1,), (True,))  # of those that are left
    assert set(top.cut) == {"a", "c"}
    world.sites["b"] = silent
    for _ in range(4):
        world.calm_round()
    assert peer.answer().ranking.keys == (2,)
    assert peer.answer().everywhere


def test_answers_notice_a_lease_that_runs_out_between_ticks() -> None:
    world = frozen([[1], [1]], 1, 2)
    world.calm_round()
    world.calm_round()
    peer = world.sites["a"].peer
    assert peer.answer(world.now).everywhere
    assert peer.answer(world.now + 10 * PERIOD).missing == ("b",)


def test_a_pulse_that_overtakes_its_list_is_no_harm() -> None:
    world = frozen([[1, 1], [2]], 1, 3)
    a, b = world.sites["a"].peer, world.sites["b"].peer
    header: dict[str, Any] = {"incarnation": 1, "version": 1, "members": digest_of(("a", "b"))}
    header |= {"heard_incarnations": (0, 0), "heard_versions": (0, 0)}
    b.handle(Received("a", write_frame(PulseMessage(seq=2, **header))), 0)
    assert b.states() == {"a": ABSENT}
    (frame,) = [action.frame for action in a.handle(Tick(), 0) if isinstance(action, Send)]
    b.handle(Received("a", frame), 0)  # round 1
    assert b.states() == {"a": PRESENT}
    assert b.answer().ranking.keys == (1,)


def test_old_doubled_and_foreign_frames_change_nothing() -> None:
    world = frozen([[1] * 5, [2] * 3], 1, 4)
    world.tick("a")
    old = world.bag[0][2]
    world.deliver_all()
    world.sites["a"].keys = np.array([1] * 5 + [3] * 9)
    world.sites["a"].at = np.zeros(14, dtype=np.int64)
    world.feed("a", 9)
    world.calm_round()
    b = world.sites["b"].peer
    before = b.answer()
    assert before.ranking.keys == (3,)
    for sender, frame in (("a", old), ("zoe", old), ("a", b""), ("a", b"\xff" * 9), ("a", write_frame(_other_query()))):
        b.handle(Received(sender, frame), world.now)
    assert b.ignored == 4
    assert b.answer().cut == before.cut
    assert b.answer().ranking.keys == (3,)


def _other_query() -> ListMessage:
    return ListMessage(query="other", incarnation=9, seq=9, version=9)


def test_windows_and_types_that_do_not_fit_are_left_out_by_name() -> None:
    members = ["a", "b"]
    one = Peer("a", members, k=1, counts=ExactCounts(10), period=PERIOD)
    two = Peer("b", members, k=1, counts=ExactCounts(20), period=PERIOD)
    two.handle(Arrived([1], at=[1]), 0)
    for action in two.handle(Tick(), 0):
        if isinstance(action, Send):
            one.handle(Received("b", action.frame), 0)
    assert one.ignored == 1
    assert one.answer().missing == ("b",)
    texts = Peer("a", members, k=1, counts=ExactCounts(20), period=PERIOD)
    texts.handle(Arrived(["x"], at=[1]), 0)
    for action in two.handle(Tick(), PERIOD):
        if isinstance(action, Send):
            texts.handle(Received("b", action.frame), 0)
    assert texts.answer().missing == ("b",)
    assert texts.answer().ranking.keys == ("x",)


def test_a_peer_joins_and_another_leaves() -> None:
    world = frozen([[1] * 5, [2] * 4], 1, 4)
    for _ in range(4):
        world.calm_round()
    world.names = ("a", "b", "c")
    world.add("c", np.array([2] * 3), np.zeros(3, dtype=np.int64))
    world.feed("c", 3)
    world.calm_round()  # c is a stranger to the others as yet
    assert world.sites["a"].peer.answer().ranking.keys == (1,)
    for name in ("a", "b"):
        world.carry_out(name, world.sites[name].peer.handle(Membership(("a", "b", "c")), world.now))
    assert world.sites["a"].peer.answer().missing == ("c",)
    for _ in range(5):
        world.calm_round()
    for site in world.sites.values():
        assert site.peer.answer().ranking.keys == (2,)
        assert site.peer.answer().settled
        assert site.peer.answer().everywhere
    del world.sites["b"]
    world.names = ("a", "c")
    for name in ("a", "c"):
        world.carry_out(name, world.sites[name].peer.handle(Membership(("a", "c")), world.now))
    for _ in range(5):
        world.calm_round()
    world.restart("a")  # members are part of what is kept
    assert world.sites["a"].peer.members == ("a", "c")
    for _ in range(5):
        world.calm_round()
    top = world.sites["c"].peer.answer()
    assert top.ranking.keys == (1,)
    assert top.settled
    assert top.everywhere


@pytest.mark.parametrize("members", [["b"], ["a", "a"], ["a", ""], ["a", "b\nc"]])
def test_members_are_named_once_and_this_one_is_among_them(members: list[str]) -> None:
    with pytest.raises(ParameterError, match="this peer's among them"):
        Peer("a", members, k=1, counts=ExactCounts(), period=PERIOD)


# -- restarts and bytes ---------------------------------------------------------------------------------------


def test_a_restarted_peer_counts_on_and_is_believed() -> None:
    world = World(2, 50, lambda: ExactCounts(50), ("a", "b"), 6)
    rng = np.random.default_rng(1)
    for name in world.names:
        world.add(name, zipf(rng, 1.0, 6, 80), np.sort(rng.integers(0, 100, 80)))
        world.feed(name, 40)
    world.calm_round()
    world.feed("a", 20)  # lost by the crash, and fed again
    world.restart("a")
    peer = world.sites["a"].peer
    assert peer.position == 40
    assert peer.incarnation == 2
    world.check(peer.answer())
    world.feed("a", 40)
    for _ in range(6):
        world.calm_round()
    for site in world.sites.values():
        top = site.peer.answer()
        assert top.cut["a"].position == 80
        assert top.settled
        world.check(top)


def test_the_incarnation_is_durable_before_anything_is_sent() -> None:
    peer = Peer("a", ["a", "b"], k=1, counts=ExactCounts(), period=PERIOD)
    first, *rest = peer.handle(Tick(), 0)
    assert isinstance(first, Persist)
    assert first.name == STATE
    assert rest
    assert all(isinstance(action, Send) for action in rest)
    again = Peer("a", ["a", "b"], k=1, counts=ExactCounts(), period=PERIOD, saved=first.blob)
    assert isinstance(again.handle(Tick(), 0)[0], Persist)
    assert again.incarnation == 2


def test_a_peer_whose_blob_was_lost_takes_a_life_above_the_ones_that_others_know() -> None:
    world = frozen([[1] * 5, [2] * 7], 1, 4)
    for _ in range(4):
        world.calm_round()
    for _ in range(2):
        world.restart("b")
        world.feed("b", 7)
        for _ in range(3):
            world.calm_round()
    world.sites["b"].blob = None
    world.restart("b")
    world.feed("b", 2)
    assert world.sites["b"].peer.incarnation == 1
    for _ in range(5):
        world.calm_round()
    assert world.sites["b"].peer.incarnation > 3
    top = world.sites["a"].peer.answer()
    assert top.cut["b"].position == 2
    assert top.ranking.keys == (1,)
    assert top.settled


def test_every_byte_is_in_the_books() -> None:
    world = frozen([[1, 2, 3], [2], [3, 3]], 2, 4)
    sent: Counter[str] = Counter()
    for _ in range(6):
        for name in world.sites:
            world.tick(name)
            for sender, _, frame in world.bag:
                sent[sender] += len(frame)
            world.deliver_all()
        world.now += PERIOD
    for name, site in world.sites.items():
        assert site.peer.traffic.bytes() == sent[name] > 0
        assert site.peer.traffic.bytes(Purpose.DATA) > 0
        assert site.peer.traffic.bytes(Purpose.CONTROL) > 0


def test_a_list_that_was_lost_is_sent_again_until_it_is_held() -> None:
    world = frozen([[1], [2]], 1, 3)
    world.tick("b")
    world.deliver_all()
    for _ in range(3):
        world.tick("a")
        world.bag.clear()
    book = world.sites["a"].peer.traffic
    assert book.messages(Purpose.RESEND) == 2
    world.tick("a")
    world.deliver_all()
    world.tick("b")
    world.deliver_all()
    world.tick("a")
    assert isinstance(read_frame(world.bag[0][2]), PulseMessage)


def whole_state() -> tuple[bytes, bytes]:
    """A frame and a blob with all that can be in them."""
    peer = Peer("a", ["a", "b"], k=2, counts=ExactCounts(100), period=PERIOD, query="q")
    peer.handle(Arrived(["x", "y", "zé", "x"], at=[1, 2, 3, 9], weights=[3, 1, 4, 1]), 0)
    persist, send = peer.handle(Tick(), 0)
    assert isinstance(persist, Persist)
    assert isinstance(send, Send)
    return send.frame, persist.blob


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_frames_and_blobs_are_refused_or_mean_something(data: st.DataObject) -> None:
    frame, blob = whole_state()
    for whole in (frame, blob):
        damaged = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged)
        peer = Peer("b", ["a", "b"], k=2, counts=ExactCounts(100), period=PERIOD, query="q")
        peer.handle(Received("a", cut), 0)
        peer.answer()
        if cut != blob:
            with pytest.raises(DamagedBytesError):
                Peer("a", ["a", "b"], k=2, counts=ExactCounts(100), period=PERIOD, saved=cut)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_no_peer_and_no_counts(noise: bytes) -> None:
    peer = Peer("b", ["a", "b"], k=2, counts=ExactCounts(100), period=PERIOD)
    peer.handle(Received("a", noise), 0)
    assert peer.ignored == 1
    for counts in (ExactCounts(100), SketchedCounts(SpaceSaving(0.1))):
        with pytest.raises(BytesError):
            counts.load(noise)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_list_inside_a_whole_frame_is_ignored_or_true_to_form(data: st.DataObject) -> None:
    message = read_frame(whole_state()[0])
    assert isinstance(message, ListMessage)
    damaged = bytearray(message.shortlist)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    frame = write_frame(replace(message, shortlist=bytes(damaged)))
    peer = Peer("b", ["a", "b"], k=2, counts=ExactCounts(100), period=PERIOD, query="q")
    peer.handle(Received("a", frame), 0)
    top = peer.answer()
    assert peer.ignored + len(top.cut) == 2


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"incarnation": 0, "seq": 1, "version": 1}, "life 0"),
        ({"incarnation": 1, "seq": 1, "version": 2}, "version 2"),
        ({"incarnation": 1, "seq": 1, "version": 1, "heard_versions": (1,)}, "one pair"),
    ],
)
def test_messages_that_cannot_be_are_not_made(bad: dict[str, Any], what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        PulseMessage(**bad)
