"""Flushes of the heaviest keys only, and rounds that keep a dear zone: both cheaper, and no claim the worse for it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from catchment.monitor.contributions import Contributions
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.machine import Received, Send, Tick
from catchment.monitor.messages import WANT_FLUSH, Order, Report
from catchment.monitor.packing import unpack_updates
from catchment.monitor.peer import Ledger, Peer
from catchment.monitor.quantities import Distinct, SelfJoin, Total
from catchment.monitor.query import Query
from catchment.monitor.rules import countdown
from catchment.monitor.rules.base import Decision, Hold, SiteView
from catchment.monitor.rules.countdown import CountdownSteersman
from catchment.monitor.rules.push import PushGuard, PushSteersman
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.vectors import Drift, SignedVector
from catchment.monitor.wire import read_frame, write_frame
from catchment.monitor.zones.thresholds import Band
from catchment.sketch.keys import hash_keys
from catchment.testing.monitor_world import build_monitor_world
from catchment.testing.simulation import simulate
from catchment.testing.watched import self_joins, watched
from tests.monitor.lockstep_world import Watched

_ONE = np.ones(1, dtype=np.int64)


def _skewed() -> tuple[Any, Any]:
    """Five keys of a hundred events each, and two thousand of one."""
    heavy = np.repeat(np.arange(5), 100)
    return heavy, np.concatenate((heavy, np.arange(1_000, 3_000)))


def test_nothing_is_proven_while_a_budget_above_the_room_may_be_in_use() -> None:
    """Also that of the order which a site has confirmed: it keeps to it until it has the next one."""
    room = 100.0

    def around(*_: Any) -> tuple[float, Band, Any]:
        return 1000.0, Band(900.0, 1100.0), SimpleNamespace(at_zero=room, counted=1)

    sites = {"a": SiteView(), "b": SiteView()}
    total = np.zeros((1, 1), dtype=np.int64)
    steersman = PushSteersman("push", 2, around, total, len(sites), grows=False, rises=False)

    def given(decision: Decision) -> None:
        assert isinstance(decision, Hold)
        assert all(0 < terms.quantum <= room for terms in decision.terms.values())
        for view in sites.values():
            view.step += 1

    given(steersman.open(sites))
    assert steersman.proven(sites)
    for view in sites.values():
        view.confirmed = view.step
    assert steersman.proven(sites)
    room = 60.0
    steersman.flushed(total, 10, grows=False)
    assert not steersman.proven(sites)
    given(steersman.decide(sites))
    for name in sites:
        assert not steersman.proven(sites)
        sites[name].confirmed = sites[name].step
    assert steersman.proven(sites)


def test_a_part_of_a_drift_is_its_heaviest_keys_and_the_rest_stays() -> None:
    vector = SignedVector(width=600, depth=3, seed=1)
    drift = Drift(vector)
    heavy, keys = _skewed()
    vector.add(hash_keys(keys)[0], _ONE, None, 0)
    before, reach = drift.cells.copy(), drift.reach(3)
    packed = drift.taken_part(reach / 4, 3)
    hashes, weights = unpack_updates(packed)
    assert sorted(weights.tolist()) == [100] * 5
    assert set(hashes.tolist()) == set((hash_keys(np.unique(heavy))[0] >> np.uint64(24)).tolist())
    assert np.array_equal(drift.cells + vector.unpacked(packed), before)
    assert np.array_equal(drift.base, vector.unpacked(packed))
    assert drift.reach(3) < reach / 2
    assert drift.norms.tolist() == (drift.cells.astype(float) ** 2).sum(axis=1).tolist()
    # What is left is flushed as it is: nothing is lost, and nothing told twice.
    cells, updates = drift.taken()
    rest = vector.unpacked(updates) if updates else before - vector.unpacked(packed)
    assert np.array_equal(rest + vector.unpacked(packed), vector.values())
    assert cells or updates


def test_a_part_that_is_nearly_all_is_none() -> None:
    vector = SignedVector(width=600, depth=3, seed=1)
    drift = Drift(vector)
    vector.add(hash_keys(np.arange(500))[0], _ONE, None, 0)
    assert drift.taken_part(drift.reach(3) / 3, 3) == b""
    assert drift.updates == 500
    vector.add(hash_keys(np.zeros(1, dtype=np.int64))[0], _ONE, None, 0)
    assert drift.taken_part(0.0, 3) == b""


def test_a_long_drift_remembers_its_heaviest_keys() -> None:
    vector = SignedVector(width=256, depth=3, seed=2)
    drift = Drift(vector)
    for start in range(0, 200_000, 20_000):
        vector.add(hash_keys(np.arange(start, start + 20_000))[0], _ONE, None, 0)
        vector.add(hash_keys(np.full(3_000, 7))[0], _ONE, None, 0)
    reach = drift.reach(3)
    _, weights = unpack_updates(drift.taken_part(reach / 2, 3))
    assert weights.size < 10
    assert 28_000 < weights.max() <= 30_001
    assert drift.reach(3) < reach / 2
    cells, updates = drift.taken()
    assert cells
    assert not updates  # a list with keys missing is none of the whole change


@pytest.mark.parametrize("sites", [4, 16])
def test_pushes_in_parts_cost_a_fraction_and_stay_within_theta(sites: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    heavy = rng.random(60_000) < 0.5
    keys = np.where(heavy, rng.integers(0, 3, 60_000), rng.integers(10, 1_000_000, 60_000))
    places = rng.integers(0, sites, 60_000)
    watch = SelfJoin(theta=0.2, epsilon=0.05, delta=0.05, rule="push")
    truth = self_joins(keys)
    run = watched(watch, keys, places, sites)
    assert run.worst(truth[run.ends - 1]) <= 0.2
    monkeypatch.setattr(PushGuard, "part", lambda _: b"")
    all_of_it = watched(watch, keys, places, sites)
    assert run.bytes < 0.55 * all_of_it.bytes


def test_claims_in_parts_are_true_when_sites_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeds of a push have parts and lost sites; one that forgets to go back to the last whole flush is caught."""
    watch = SelfJoin(theta=0.6, epsilon=0.3, delta=0.3, rule="push")
    worlds = partial(build_monitor_world, watch=watch)
    taken = 0
    part = PushGuard.part

    def counted(self: PushGuard) -> bytes:
        nonlocal taken
        found = part(self)
        taken += bool(found)
        return found

    monkeypatch.setattr(PushGuard, "part", counted)
    simulate(worlds, range(60), jobs=1).raise_failure()
    assert taken > 100

    def lose(self: Contributions, site: str) -> None:
        self.peers[site].alive, self.peers[site].ahead = False, None

    monkeypatch.setattr(Contributions, "lose", lose)
    assert simulate(worlds, range(60), jobs=1).failures


def test_a_lazy_round_asks_nobody_twice() -> None:
    """A site flushed for one round flushed once more for the next, and a claim had its vector with its older cut."""
    watch = SelfJoin(theta=0.6, epsilon=0.4, delta=0.4, seed=24, rule="lazy")
    simulate(partial(build_monitor_world, watch=watch), range(80, 90), jobs=1).raise_failure()


def _hopping(rule: str, monkeypatch: pytest.MonkeyPatch, *, keep: bool) -> tuple[int, int]:
    """Keys move from site to site, so that drifts cancel; the bytes, and how many orders kept a zone."""
    if not keep:
        monkeypatch.setattr(CountdownSteersman, "rebalanced", lambda *_, **__: None)
    world = Watched(SelfJoin(theta=0.2, epsilon=0.05, delta=0.1, rule=rule), sites=6)
    kept = 0
    original = world._act

    def act(name: str, actions: Any, waiting: Any) -> None:
        nonlocal kept
        for action in actions:
            if isinstance(action, Send):
                message = read_frame(action.frame)
                assert isinstance(message, Order | Report)
                kept += isinstance(message, Order) and message.keeps > 0
        original(name, actions, waiting)

    monkeypatch.setattr(world, "_act", act)
    rng = np.random.default_rng(8)
    counts = np.zeros((6, 400), dtype=np.int64)
    for step in range(300):
        if step < 60:  # a base
            site, keys, weights = step % 6, rng.zipf(1.3, 400) % 400, np.ones(400, dtype=np.int64)
            moves = [(site, keys, weights)]
        else:  # events are taken back at one site, and come at another
            keys = rng.integers(0, 400, 60)
            come, gone = rng.choice(6, 2, replace=False)
            moves = [(int(come), keys, np.full(60, 20)), (int(gone), keys, np.full(60, -20))]
        for site, keys, weights in moves:
            world.give(world.names[site], Arrived(keys, weights=weights))
            np.add.at(counts[site], keys, weights)
        world.tick(50 * step)
        truth = float((counts.sum(axis=0) ** 2).sum())
        assert abs(world.claim().estimate - truth) <= 0.2 * truth + 1
    return world.bytes, kept


def test_a_zone_is_kept_where_drifts_cancel_and_that_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_, kept = _hopping("full", monkeypatch, keep=True)
    assert kept > 6
    dearer, none = _hopping("full", monkeypatch, keep=False)
    assert none == 0
    assert bytes_ < 0.9 * dearer


@pytest.mark.long("worlds")
def test_kept_zones_are_safe_on_a_bad_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept whenever anything is left, which is far more often than it pays."""
    monkeypatch.setattr(countdown, "worth_keeping", lambda left, *_: left > 0.02)
    kept = 0
    original = CountdownSteersman.rebalanced

    def counted(self: CountdownSteersman, *args: Any, **more: Any) -> CountdownSteersman | None:
        nonlocal kept
        again = original(self, *args, **more)
        kept += again is not None
        return again

    monkeypatch.setattr(CountdownSteersman, "rebalanced", counted)
    for watch in (
        SelfJoin(theta=0.6, epsilon=0.4, delta=0.4, rule="full"),
        SelfJoin(theta=0.5, epsilon=0.3, delta=0.4, window=2000, rule="near"),
        Distinct(theta=0.6, epsilon=0.4, delta=0.4, window=2000, rule="full"),
    ):
        simulate(partial(build_monitor_world, watch=watch), range(20), jobs=1).raise_failure()
    assert kept > 100


def _orders(actions: Any, to: str) -> list[Order]:
    frames = [read_frame(action.frame) for action in actions if isinstance(action, Send) and action.to == to]
    return [frame for frame in frames if isinstance(frame, Order)]


def test_a_new_life_is_spoken_to_though_the_old_one_had_acknowledged_all() -> None:
    watch = SelfJoin(theta=0.2, epsilon=0.05, delta=0.05, rule="push")
    coordinator = Coordinator((watch,), ("a", "b"))
    (order,) = _orders(coordinator.handle(Tick(), 0), "a")
    heard = Report(query=1, epoch=order.epoch, incarnation=1, seq=1, acked=order.seq, watch=watch.fingerprint)
    coordinator.handle(Received("a", write_frame(heard)), 10)
    assert not _orders(coordinator.handle(Tick(), 5_000), "a")  # nothing to repeat: it is in a part's hands
    born = Report(query=1, incarnation=2, seq=1, watch=watch.fingerprint)
    (again,) = _orders(coordinator.handle(Received("a", write_frame(born)), 5_010), "a")
    assert again.want == WANT_FLUSH


def test_a_farewell_that_is_repeated_begins_one_round() -> None:
    watch = Total(theta=0.1)
    coordinator, site = Coordinator((watch,), ("a", "b")), Site("a", (watch,))
    site.handle(Arrived(np.arange(5)), 0)
    (order,) = _orders(coordinator.handle(Tick(), 0), "a")
    site.handle(Received("coordinator", write_frame(order)), 1)
    farewells = []
    for now, event in ((2, Leave()), (2_000, Tick()), (4_000, Tick())):
        farewells += [action.frame for action in site.handle(event, now) if isinstance(action, Send)]
    assert len(farewells) == 3
    rounds = []
    for frame in farewells:
        coordinator.handle(Received("a", frame), 5_000)
        query = coordinator._queries[1]
        assert isinstance(query, Query)
        rounds.append(query._round)
    assert rounds[1:] == rounds[:1] * 2


def test_a_long_vector_with_parts_is_read_back() -> None:
    watch = SelfJoin(theta=0.04, epsilon=0.009, delta=0.01, rule="push")
    vector = watch.new_vector()
    ledger, peer = Ledger(watch, vector), Peer(np.zeros(vector.shape, np.int64), np.zeros(vector.shape, np.int64))
    change = vector.values()
    change[0, 5] = 3
    peer.add(change, partial=True)
    peer.stored = (1, 1)
    kept = ledger.whole("a", peer)
    again = Peer(np.zeros(vector.shape, np.int64), np.zeros(vector.shape, np.int64))
    ledger.read("a", again, {kept.name: kept.blob})
    assert np.array_equal(again.contribution, change)
    assert again.ahead is not None
    assert np.array_equal(again.ahead, change)


@pytest.mark.parametrize("seed", [30030, 31966])
def test_a_report_that_is_repeated_is_heard_whatever_has_changed_since(seed: int) -> None:
    """A flush of presence that was added already was counted twice, and a statistic was held against the next rule."""
    simulate(build_monitor_world, range(seed, seed + 1), jobs=1).raise_failure()
