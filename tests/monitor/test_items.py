"""Items above a threshold: the bands, the set at the edge of the threshold, windows, restarts, and what it costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import BytesError, InputError, KeyTypeError, NameNotFoundError, ParameterError, WeightError
from catchment.monitor import Arrived, Coordinator, Items, ItemsClaim, Leave, Site, Total
from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.items.bands import Bands
from catchment.monitor.items.held import Held
from catchment.monitor.items.messages import BandList, ItemsOrder, ItemsReport
from catchment.monitor.items.query import ItemsQuery
from catchment.monitor.items.table import ItemTable
from catchment.monitor.machine import COORDINATOR, Machine, Received, Send, Tick
from catchment.monitor.packing import pack_updates
from catchment.monitor.wire import Message, read_frame, write_frame
from catchment.sketch.keys import KeyBatch, hash_keys
from catchment.testing.lockstep import Lockstep

WATCHES = st.builds(
    Items,
    threshold=st.integers(1, 5000) | st.floats(1, 5000),
    theta=st.floats(0.01, 0.95),
    window=st.sampled_from((None, 100)),
)
COUNTS = st.lists(st.integers(0, 20_000), min_size=1, max_size=40)


# -- the promise ----------------------------------------------------------------------------------------------


@given(watch=WATCHES, counts=COUNTS, sites=st.integers(1, 300))
def test_a_count_is_in_the_band_that_is_made_for_it(watch: Items, counts: list[int], sites: int) -> None:
    there = np.array(counts)
    lows = watch.lows_for(there, sites)
    assert np.all(lows >= 0)
    assert np.all(lows <= there)
    assert np.all(there <= lows + watch.widths(lows, sites))
    untold = lows == 0
    assert np.all(there[untold] <= watch.narrowest(sites))


@given(watch=WATCHES, lows=COUNTS)
def test_what_may_have_reached_the_threshold_is_not_far_below_it(watch: Items, lows: list[int]) -> None:
    low = sum(lows)
    high = low + int(watch.widths(np.array(lows), len(lows)).sum())
    if high >= watch.threshold:
        assert low >= (1 - watch.theta) * watch.threshold
    assert high - low <= watch.theta * max(watch.threshold, low)


@given(watch=WATCHES, sites=st.integers(1, 300))
def test_what_nobody_has_told_of_is_below_the_threshold(watch: Items, sites: int) -> None:
    assert sites * watch.narrowest(sites) < watch.threshold


# -- over a perfect network -----------------------------------------------------------------------------------


class World:
    """A coordinator and some sites in lockstep, and every event that they were given."""

    def __init__(self, watch: Items, sites: int = 3) -> None:
        self.watch = watch
        self.names = tuple(f"s{place}" for place in range(sites))
        self.coordinator = Coordinator((watch,), self.names)
        self.sites = {name: Site(name, (watch,)) for name in self.names}
        self.network = Lockstep(self.coordinator, self.sites)
        self.events: dict[str, list[tuple[Any, int]]] = {name: [] for name in self.names}
        self.time = 0

    def give(self, place: int, keys: list[Any], time: int = 0) -> None:
        name = self.names[place]
        self.time = max(self.time, time)
        self.network.give(name, Arrived(keys, times=np.full(len(keys), time)))
        self.events[name] += [(key, time) for key in keys]

    def wait(self, time: int) -> None:
        self.time = time
        for name in self.names:
            self.network.give(name, Arrived(time=time))
        self.network.pass_time(10_001)  # what time alone has changed is told with the heartbeat

    def truth(self) -> Counter[Any]:
        """Of now, at every site's own time."""
        window = self.watch.window
        counts: Counter[Any] = Counter()
        for name, events in self.events.items():
            now = self.sites[name].time
            counts.update(key for key, time in events if window is None or now - window < time <= now)
        return counts

    def claim(self) -> ItemsClaim:
        claim = self.coordinator.items(self.watch.number)
        assert claim is not None
        return claim

    def check(self) -> ItemsClaim:
        """The network has no delay, so that the claim must be true of now."""
        claim, counts, watch = self.claim(), self.truth(), self.watch
        assert {key for key, count in counts.items() if count >= watch.threshold} <= set(claim.keys)
        for item in claim.items:
            assert counts[item.key] in item.answer
            assert counts[item.key] >= (1 - watch.theta) * watch.threshold
            assert not item.certain or counts[item.key] >= watch.threshold
        return claim

    @property
    def bytes(self) -> int:
        return self.coordinator.traffic.bytes() + sum(site.traffic.bytes() for site in self.sites.values())


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    watch=st.builds(
        Items,
        threshold=st.sampled_from((1, 5, 40, 300)),
        theta=st.sampled_from((0.02, 0.1, 0.5)),
        window=st.sampled_from((None, 7, 50)),
    ),
    sites=st.integers(1, 5),
)
def test_the_set_is_right_after_every_batch(seed: int, watch: Items, sites: int) -> None:
    rng = np.random.default_rng(seed)
    world, time = World(watch, sites), 0
    for _ in range(60):
        time += int(rng.integers(0, 4))
        if rng.random() < 0.2:
            time += int(rng.integers(0, 60))
            world.wait(time)
        else:
            keys = (rng.zipf(1.5, int(rng.integers(1, 60))) % 9).tolist()
            world.give(int(rng.integers(sites)), keys, time - int(rng.integers(0, 3)))
        world.check()


@pytest.mark.parametrize("window", [None, 1000])
def test_where_bands_have_no_room_the_set_is_exact(window: int | None) -> None:
    world = World(Items(threshold=10, theta=0.1, window=window), sites=2)
    for count in range(1, 15):
        world.give(count % 2, ["a"], count)
        (item,) = world.check().items or (None,)
        assert (item is not None) == (count >= 10)
        if item is not None:
            assert item.certain
            assert (item.answer.low, item.answer.high) == (count, count)


def test_at_the_edge_of_the_threshold() -> None:
    world = World(Items(threshold=1000, theta=0.2), sites=2)
    seen = []
    world.give(0, ["a"] * 350)
    world.give(1, ["a"] * 350)
    for count in range(701, 1201):
        world.give(count % 2, ["a"])
        claim = world.check()
        seen.append((bool(claim.items), bool(claim.items) and claim.items[0].certain))
    first, certain = (next(place for place, one in enumerate(seen) if one[which]) + 701 for which in (0, 1))
    assert 800 <= first <= 1000  # never below (1 - theta) T, always from T on
    assert 1000 <= certain <= 1100
    assert all(there for there, _ in seen[first - 701 :])


def test_in_a_window_items_leave_as_time_goes_on() -> None:
    world = World(Items(threshold=100, theta=0.1, window=60))
    for place in range(3):
        world.give(place, ["a"] * 50 + ["b"] * 20, 10)
    assert world.check().keys == ("a",)
    world.give(0, ["b"] * 60, 40)
    assert world.check().keys == ("a", "b")
    world.wait(69)
    assert world.check().keys == ("a", "b")
    world.wait(70)  # what came at 10 is in (10, 70] no more
    claim = world.check()
    assert claim.keys == ()
    assert claim.cut["s1"] == (70, 70)
    world.give(2, ["b"] * 60, 71)
    assert world.check().keys == ("b",)
    world.wait(500)
    assert world.check().keys == ()


def test_items_that_come_and_go_do_not_use_up_numbers() -> None:
    world = World(Items(threshold=20, theta=0.1, window=5), sites=1)
    for time in range(0, 500, 5):
        world.give(0, [f"only at {time}"] * 30, time)
        assert world.check().keys == (f"only at {time}",)
    (query,) = world.coordinator._queries.values()
    assert len(query._peers["s0"].held.names) <= 4  # type: ignore[union-attr]


def test_keys_are_named_as_they_were_given() -> None:
    world = World(Items(threshold=2), sites=3)
    world.give(0, [7, -3, 7])
    world.give(1, ["é", "x", "é"])
    world.give(2, [b"\xff", b"\xff", b"a"])
    claim = world.check()
    assert claim.keys == (7, "é", b"\xff")
    assert [item["key"] for item in claim.to_dict()["items"]] == [7, "é", "ff"]


def test_a_site_that_leaves_stays_in_the_set() -> None:
    world = World(Items(threshold=100, theta=0.1), sites=2)
    world.give(0, ["a"] * 60)
    world.give(1, ["a"] * 60)
    world.network.give("s1", Leave())
    assert world.sites["s1"].gone
    claim = world.check()
    assert (claim.keys, claim.left, claim.missing) == (("a",), ("s1",), ())
    world.network.pass_time(100_000)
    assert world.claim().missing == ()


def test_a_silent_site_is_named_and_counts_as_it_was() -> None:
    watch = Items(threshold=100, theta=0.1)
    coordinator = Coordinator((watch,), ("a", "b"), lease=1000)
    sites = {name: Site(name, (watch,), heartbeat=200) for name in ("a", "b")}
    network = Lockstep(coordinator, sites)
    for name in sites:
        network.give(name, Arrived(["x"] * 60))
    sites["b"].gone = True  # it is never due again
    network.pass_time(5000)
    claim = coordinator.items(1)
    assert claim is not None
    assert (claim.missing, claim.sites, claim.keys) == (("b",), ("a",), ("x",))
    assert claim.cut == {"a": (60, 0), "b": (60, 0)}


# -- long lists -----------------------------------------------------------------------------------------------


class _Small(Lockstep):
    """No message is longer than this."""

    largest = 0

    def _handle(self, name: str, event: Any) -> list[Any]:
        actions = super()._handle(name, event)
        self.largest = max([self.largest, *(len(action.frame) for action in actions if isinstance(action, Send))])
        return actions


@pytest.mark.parametrize("window", [None, 100])
def test_a_list_that_is_longer_than_a_frame_is_told_in_parts(window: int | None, monkeypatch: Any) -> None:
    monkeypatch.setattr("catchment.monitor.wire.LARGEST_FRAME", 4000)
    watch = Items(threshold=100, theta=0.03, window=window)  # bands of no width: every item is told of
    sites = {name: Site(name, (watch,), part_bytes=2000) for name in ("a", "b")}
    coordinator = Coordinator((watch,), tuple(sites))
    network = _Small(coordinator, sites)
    for name, site in sites.items():
        keys = [f"/a/page/of/some/length/{number}" for number in range(3000)] + [f"/hot/{name}", "/hot"] * 60
        network.give(name, Arrived(keys, times=[5] * len(keys)))
        assert site.position == 3120
    # Both have told 3,001 names in parts; then the coordinator loses its disk, and all of it is told again.
    for again in (coordinator, Coordinator((watch,), tuple(sites), life=7)):
        network = network if again is coordinator else _Small(again, sites)
        claim = again.items(1)
        assert claim is not None
        assert (claim.keys, claim.state) == (("/hot",), "holding")
        assert [item.answer.low for item in claim.items] == [120]
        assert claim.cut == dict.fromkeys(sites, (3120, 5))
        assert network.delivered > 100
        assert 1000 < network.largest < 4000
    blobs = {name: blob for (machine, name), blob in network.durable.items() if machine == COORDINATOR}
    restored = Coordinator((watch,), tuple(sites), blobs=blobs)
    assert _Small(restored, sites).delivered < 10  # nothing had to be told again
    claim = restored.items(1)
    assert claim is not None
    assert claim.keys == ("/hot",)


def test_nothing_follows_from_a_part_of_a_list_before_the_last() -> None:
    watch = Items(threshold=3, theta=0.5)
    site, coordinator = Site("a", (watch,), part_bytes=40), Coordinator((watch,), ("a",))
    orders = coordinator.handle(Tick(), 0)
    reports = _carry(orders, COORDINATOR, site, 0)
    _carry(_carry(reports, "a", coordinator, 0), COORDINATOR, site, 0)
    before = coordinator.items(1)
    assert before is not None
    assert before.cut == {"a": (0, 0)}
    reports, parts = site.handle(Arrived([f"key {number % 10}" for number in range(50)]), 1), 0
    while reports:
        claim = coordinator.items(1)
        assert claim is not None
        assert (claim.items, claim.cut) == ((), {"a": (0, 0)})
        parts += 1
        reports = _carry(_carry(reports, "a", coordinator, 1), COORDINATOR, site, 1)
    claim = coordinator.items(1)
    assert claim is not None
    assert (len(claim.items), claim.cut) == (10, {"a": (50, 0)})
    assert parts >= 5


# -- what it costs --------------------------------------------------------------------------------------------


def _cost(watch: Items, sites: int, skew: float, events: int = 20_000, step: int = 50) -> int:
    """The bytes of a run, without those that are sent before the first event."""
    rng = np.random.default_rng(5)
    keys = rng.zipf(skew, events) % 100_000
    places = rng.integers(0, sites, events)
    world = World(watch, sites)
    before = world.bytes
    for start in range(0, events, step):
        world.network.pass_time(step // 10)
        for place in range(sites):
            part = keys[start : start + step][places[start : start + step] == place]
            if part.size:
                times = np.full(part.size, start // step)
                world.network.give(world.names[place], Arrived(part, times=times))
    return world.bytes - before


@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("sites", [2, 16])
def test_it_never_costs_more_than_to_forward_everything(sites: int, window: int | None) -> None:
    everything = _cost(Items(threshold=1, window=window, rule="centralise"), sites, 1.3, 3000)
    costs = [
        _cost(Items(threshold=threshold, theta=theta, window=window), sites, 1.3, 3000)
        for threshold, theta in ((1, 0.1), (40, 0.3), (5000, 0.02))
    ]
    assert max(costs) <= 1.1 * everything
    assert costs[2] < 0.9 * everything


def test_where_there_is_room_it_costs_little() -> None:
    everything = _cost(Items(threshold=2000, theta=0.2, rule="centralise"), 4, 1.5)
    assert _cost(Items(threshold=2000, theta=0.2), 4, 1.5) <= 0.1 * everything


# -- what is kept, and what is refused ------------------------------------------------------------------------


def _carry(sends: list[Any], sender: str, machine: Any, now: int) -> list[Any]:
    out: list[Any] = []
    for action in sends:
        if isinstance(action, Send):
            out += machine.handle(Received(sender, action.frame), now)
    return out


@pytest.mark.parametrize("window", [None, 50])
def test_a_coordinator_goes_on_from_what_was_durable(window: int | None) -> None:
    world = World(Items(threshold=60, theta=0.3, window=window), sites=2)
    rng = np.random.default_rng(1)
    for time in range(200):
        world.give(time % 2, (rng.zipf(1.4, 30) % 12).tolist(), time)
    blobs = {name: blob for (machine, name), blob in world.network.durable.items() if machine == COORDINATOR}
    assert any(".items-" in name for name in blobs), "no change was kept as one"
    again = Coordinator((world.watch,), world.names, blobs=blobs)
    peers = [machine._query_of(1, ItemsQuery)._peers for machine in (world.coordinator, again)]
    for name in world.names:
        old, new = (peer[name] for peer in peers)
        assert old.stored == new.stored
        for one, other in zip(old.held.active(), new.held.active(), strict=True):
            assert np.array_equal(np.asarray(one), np.asarray(other))
    network = Lockstep(again, world.sites)  # the sites are the ones that were there, and need no whole list
    claim = again.items(1)
    assert claim is not None
    assert claim.items == world.claim().items
    assert claim.epoch == 2
    assert network.delivered < 10


def test_small_lists_do_not_make_all_bands_durable_again_and_again() -> None:
    watch = Items(threshold=20, theta=0.01)
    site, coordinator = Site("a", (watch,)), Coordinator((watch,), ("a",))
    kept: list[int] = []

    def settle(actions: list[Any]) -> None:
        while actions:
            answers = _carry(actions, "a", coordinator, 0)
            kept.extend(len(action.blob) for action in answers if not isinstance(action, Send))
            actions = _carry(answers, COORDINATOR, site, 0)

    settle(_carry(coordinator.handle(Tick(), 0), COORDINATOR, site, 0))
    settle(site.handle(Arrived([f"/some/page/{number}" for number in range(5000)]), 0))
    whole = max(kept)
    kept.clear()
    for number in range(300):
        settle(site.handle(Arrived([f"/some/page/{number}"]), 0))
    assert len(kept) == 300
    assert sum(kept) < 2 * whole  # once all bands, and not after each 64 lists


def test_bands_for_another_number_of_sites_are_told_anew() -> None:
    world = World(Items(threshold=100, theta=0.4), sites=2)
    world.give(0, ["a"] * 70 + ["b"] * 9)
    blobs = {name: blob for (machine, name), blob in world.network.durable.items() if machine == COORDINATOR}
    more = Coordinator((world.watch,), ("s0", "s1", "s2", "s3"), blobs=blobs)
    Lockstep(more, world.sites | {name: Site(name, (world.watch,)) for name in ("s2", "s3")})
    claim = more.items(1)
    assert claim is not None
    assert claim.cut["s0"] == (79, 0)
    assert claim.keys == ()
    (query,) = more._queries.values()
    assert query._peers["s0"].held.names == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize("leaves", [True, False])
def test_what_sites_had_that_are_not_there_stays_when_a_site_is_added(leaves: bool) -> None:
    world = World(Items(threshold=100, theta=0.4), sites=2)
    world.give(0, ["a"] * 30 + ["b"] * 9)
    world.give(1, ["a"] * 80 + ["c"] * 120)
    if leaves:
        world.network.give("s1", Leave())
    blobs = {name: blob for (machine, name), blob in world.network.durable.items() if machine == COORDINATOR}
    more = Coordinator((world.watch,), ("s0", "s1", "s2"), blobs=blobs)
    sites: dict[str, Machine] = {"s0": world.sites["s0"], "s2": Site("s2", (world.watch,)), "s1": _Dead()}
    network = Lockstep(more, sites)
    network.pass_time(40_000)
    network.give("s2", Arrived(["a"] * 20))
    claim = more.items(1)
    assert claim is not None
    assert (claim.left, claim.missing) == ((("s1",), ()) if leaves else ((), ("s1",)))
    assert claim.cut["s1"] == (200, 0)
    counts = {"a": 130, "c": 120}
    assert set(claim.keys) == set(counts)
    for item in claim.items:
        assert counts[str(item.key)] in item.answer
        # s1's bands are for two sites, so twenty wide and more; the others' thirteen.
        assert item.answer.high - item.answer.low <= 20 + 24 + 13 + 13
    # And once more: what was read for another number of sites is kept as what it is.
    blobs |= {name: blob for (machine, name), blob in network.durable.items() if machine == COORDINATOR}
    again = Coordinator((world.watch,), ("s0", "s1", "s2"), blobs=blobs)
    Lockstep(again, sites).pass_time(40_000)
    kept = again.items(1)
    assert kept is not None
    assert (kept.items, kept.cut["s1"]) == (claim.items, (200, 0))


class _Dead:
    """A site that is not there."""

    due = None

    def handle(self, event: Any, now: int) -> list[Any]:
        return []


def test_too_many_departed_sites_with_wide_bands_are_refused() -> None:
    watch = Items(threshold=100, theta=0.9)
    blobs: dict[str, bytes] = {}
    names: tuple[str, ...] = ()
    while sum(watch.narrowest(sites) for sites in range(1, len(names) + 2)) < 100:
        names = (*names, f"s{len(names)}")
        coordinator = Coordinator((watch,), names, blobs=blobs)
        site = Site(names[-1], (watch,))
        network = Lockstep(coordinator, {name: _Dead() for name in names[:-1]} | {names[-1]: site})
        network.give(names[-1], Arrived(["a"] * 3))
        network.give(names[-1], Leave())
        assert site.gone
        assert coordinator.items(1) is not None
        blobs |= {name: blob for (machine, name), blob in network.durable.items() if machine == COORDINATOR}
    assert len(names) > 3
    with pytest.raises(ParameterError, match="leave the oldest of them out"):
        Coordinator((watch,), (*names, "one more"), blobs=blobs)


def test_a_site_goes_on_from_what_was_durable() -> None:
    watches = (Items(number=1, threshold=10), Items(number=2, threshold=10, window=5), Total(number=3))
    site = Site("a", watches, keep=1)
    actions = site.handle(Arrived(["x"] * 20, times=np.arange(20)), 0)
    blobs = {action.name: action.blob for action in actions if not isinstance(action, Send)}
    again = Site("a", watches, blobs=blobs)
    assert (again.position, again.time, again.incarnation) == (20, 19, 2)
    hashes, _ = hash_keys(["x"])
    tables = [table for table in again._tables.values() if isinstance(table, ItemTable)]
    assert [int(table.counts_of(hashes)[0]) for table in tables] == [20, 5]
    with pytest.raises(ParameterError, match="other watches"):
        Site("a", watches[:1], blobs=blobs)


def test_watches_of_one_window_share_a_table() -> None:
    same = Items(number=1, threshold=10), Items(number=2, threshold=99, theta=0.5), Items(number=3, threshold=9)
    assert len(Site("a", same)._tables) == 1
    assert len(Site("a", (*same, Items(number=4, threshold=9, window=5)))._tables) == 2


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Arrived(["x"], weights=[-1]), WeightError),
        (Arrived(["x"], stream=1), InputError),
        (Arrived(KeyBatch.of_hashes(np.ones(1, dtype=np.uint64))), KeyTypeError),
        (Arrived([7]), KeyTypeError),
        (Arrived(["x"], times=None), InputError),
    ],
)
def test_events_that_cannot_be_counted_change_nothing(event: Arrived, error: type[Exception]) -> None:
    site = Site("a", (Total(number=1), Items(number=2, threshold=5), Items(number=3, threshold=5, window=9)))
    site.handle(Arrived(["x"] * 3, times=[1, 1, 1]), 0)
    (vector,) = site.vectors
    with pytest.raises(error):
        site.handle(event, 0)
    assert (site.position, int(vector.values()[0, 0])) == (3, 3)
    assert [table.position for table in site._tables.values()] == [3, 3]


def test_weights_count() -> None:
    watch = Items(threshold=10)
    coordinator = Coordinator((watch,), ("a",))
    network = Lockstep(coordinator, {"a": Site("a", (watch,))})
    network.give("a", Arrived(["x", "y", "x"], weights=[4, 1, 7]))
    claim = coordinator.items(1)
    assert claim is not None
    assert [(item.key, item.answer.low) for item in claim.items] == [("x", 11)]
    assert claim.cut == {"a": (3, 0)}


@pytest.mark.parametrize(
    "wrong",
    [{"threshold": 0}, {"threshold": float("nan")}, {"theta": 1.0}, {"rule": "near"}, {"window": 0}, {"number": 0}],
)
def test_a_watch_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Items(**{"threshold": 10} | wrong)


def test_in_a_window_the_weight_of_the_window_has_a_limit_and_not_that_of_all_time() -> None:
    watch = Items(threshold=10, window=10)
    site = Site("a", (watch,))
    part = 2**50 // 4
    for time in range(0, 1000, 10):
        site.handle(Arrived(["x", "y"], times=[time, time - 20], weights=[part, 5]), 0)  # and one that is too late
        site.handle(Arrived(["y"], times=[time + 5], weights=[part]), 0)
        with pytest.raises(WeightError, match="2\\^50"):
            site.handle(Arrived(["y"], times=[time + 5], weights=[2 * part + 5]), 0)
    (table,) = site._tables.values()
    assert isinstance(table, ItemTable)
    assert table.counts_of(hash_keys(["x", "y"])[0]).tolist() == [part, part]
    again = ItemTable(10)
    again.load(table.to_bytes())
    again.update(["z"], at=[1200], weights=[part])  # all that was there has left
    assert again.counts_of(hash_keys(["x", "y", "z"])[0]).tolist() == [0, 0, part]


def test_each_kind_of_claim_is_asked_for_by_its_name() -> None:
    coordinator = Coordinator((Items(number=1, threshold=5), Total(number=2)), ("a",))
    with pytest.raises(NameNotFoundError, match="items"):
        coordinator.claim(1)
    with pytest.raises(NameNotFoundError, match="no watch of items"):
        coordinator.items(2)
    with pytest.raises(NameNotFoundError, match="no query 3"):
        coordinator.items(3)
    assert coordinator.items(1) is None
    assert coordinator.rule(1) == "auto"


# -- messages that nobody of ours sends -----------------------------------------------------------------------


def _lows(*pairs: tuple[int, int]) -> bytes:
    numbers, lows = zip(*pairs, strict=True)
    return pack_updates(np.array(numbers, dtype=np.uint64), np.array(lows) + 1)


@pytest.mark.parametrize(
    "bands",
    [
        BandList(lows=_lows((0, 5))),  # 0 is in use, but so is 1; fine alone: see below
        BandList(lows=_lows((2, 5))),  # a new item without a name
        BandList(lows=_lows((3, 5)), names=Names.of(("new",))),  # 2 is left out
        BandList(lows=_lows((2, 0)), names=Names.of(("new",))),  # a new item without a band
        BandList(lows=_lows((2, 5)), names=Names.of(("a",))),  # that one is number 0
        BandList(names=Names.of(("new",))),
        BandList(lows=_lows((0, 1 << 55))),
        BandList(lows=b"\x01\x02\x03"),
        BandList(whole=1, lows=_lows((0, 5), (1, 5)), names=Names.of(("a",))),
    ],
)
def test_a_list_that_contradicts_itself_is_refused_and_changes_nothing(bands: BandList) -> None:
    held = Held()
    held.take(held.read(BandList(1, _lows((0, 3), (1, 4)), Names.of(("a", "b")))))
    if bands == BandList(lows=_lows((0, 5))):
        held.take(held.read(bands))
        assert held.lows.tolist() == [5, 4]
        return
    with pytest.raises(BytesError):
        held.read(bands)
    assert (held.lows.tolist(), held.names) == ([3, 4], ["a", "b"])


@given(whole=st.integers(0, 1), lows=st.binary(max_size=12), names=st.sets(st.integers(0, 5), max_size=3))
def test_no_list_does_harm(whole: int, lows: bytes, names: set[int]) -> None:
    held = Held()
    held.take(held.read(BandList(1, _lows((0, 3), (1, 4)), Names.of((1, 2)))))
    try:
        told = held.read(BandList(whole, lows, Names.of(tuple(sorted(names)))))
    except BytesError:
        return
    held.take(told)
    active = held.hashes[held.lows > 0]
    assert np.unique(active).size == active.size
    assert len(held.names) == held.lows.size == held.hashes.size


@pytest.mark.parametrize(
    "message",
    [
        ItemsReport(query=9),
        ItemsReport(query=2),
        ItemsReport(query=1, incarnation=5, seq=1, watch=123),
        ItemsReport(query=1, incarnation=5, seq=1, sites=1, number=1, bands=BandList(whole=1)),
        ItemsReport(query=1, incarnation=5, seq=1, sites=1, number=1, watch=0, bands=BandList(whole=1, lows=b"x")),
        ItemsOrder(query=1),
    ],
)
def test_a_coordinator_refuses_what_is_not_for_it(message: Message) -> None:
    coordinator = Coordinator((Items(threshold=5), Total(number=2)), ("a",))
    coordinator.handle(Tick(), 0)
    coordinator.handle(Received("a", write_frame(message)), 1)
    assert coordinator.refused == 1
    assert coordinator.items(1) is None


@pytest.mark.parametrize("message", [ItemsOrder(query=1), ItemsOrder(query=2, sites=1), ItemsReport(query=1)])
def test_a_site_refuses_what_is_not_for_it(message: Message) -> None:
    site = Site("a", (Items(threshold=5), Total(number=2)))
    site.handle(Received(COORDINATOR, write_frame(message)), 1)
    assert site.refused == 1


def test_a_list_is_said_again_until_it_is_stored_and_only_then_another() -> None:
    watch = Items(threshold=10)
    site, coordinator = Site("a", (watch,)), Coordinator((watch,), ("a",))
    _carry(coordinator.handle(Tick(), 0), COORDINATOR, site, 0)
    first = site.handle(Arrived(["x"] * 3), 10)
    assert [type(action) for action in first] == []  # the first list, an empty one, is on its way
    (again,) = site.handle(Tick(), 2000)
    report = read_frame(again.frame)  # type: ignore[union-attr]
    assert isinstance(report, ItemsReport)
    assert (report.number, report.position, again.purpose) == (1, 0, "resend")  # type: ignore[union-attr]
    answer = coordinator.handle(Received("a", again.frame), 2000)  # type: ignore[union-attr]
    (second,) = [action for action in _carry(answer, COORDINATOR, site, 2001) if isinstance(action, Send)]
    report = read_frame(second.frame)
    assert isinstance(report, ItemsReport)
    assert (report.number, report.position) == (2, 3)


def test_late_orders_of_an_older_life_are_not_obeyed() -> None:
    watch = Items(threshold=10)
    site = Site("a", (watch,))
    new, old = (write_frame(ItemsOrder(query=1, epoch=epoch, seq=9, sites=epoch)) for epoch in (4, 3))
    site.handle(Received(COORDINATOR, new), 0)
    sent = site.handle(Received(COORDINATOR, old), 1)
    assert sent == []
    (post,) = site._posts.values()
    assert post._bands.sites == 4  # type: ignore[union-attr]


def test_bands_follow_compaction_of_the_table() -> None:
    """A table forgets items that are not in the window; their bands must be told away all the same."""
    watch = Items(threshold=4, theta=0.5, window=10)
    table = ItemTable(10)
    bands = Bands(watch, table)
    bands.whole(1)
    held = Held()
    keys = [f"k{number}" for number in range(300)]
    table.update(keys * 3, at=np.zeros(900, dtype=np.int64))
    assert not bands.fit
    held.take(held.read(bands.changes()))
    assert np.count_nonzero(held.lows) == 300
    table.update((), until=50)
    assert not bands.fit
    held.take(held.read(bands.changes()))
    assert np.count_nonzero(held.lows) == 0
    assert bands.fit
