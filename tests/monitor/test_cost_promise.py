"""Never more than 1.1 times forwarding everything: where a quantity falls, where members come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from catchment.monitor import Arrived, Coordinator, Items, Site, Total
from catchment.monitor.machine import Send
from catchment.monitor.peer import Peer
from catchment.monitor.quantities import Distinct, SelfJoin
from catchment.monitor.query import Query
from catchment.monitor.watch import Watch
from catchment.testing.lockstep import Lockstep


def _built(watch: Watch, sites: int) -> tuple[Coordinator, dict[str, Site], Lockstep]:
    names = tuple(f"s{place}" for place in range(sites))
    coordinator = Coordinator((watch,), names)
    machines = {name: Site(name, (watch,), keep=1 << 60) for name in names}
    return coordinator, machines, Lockstep(coordinator, machines)


def _bytes(coordinator: Coordinator, sites: dict[str, Site]) -> int:
    return coordinator.traffic.bytes() + sum(site.traffic.bytes() for site in sites.values())


def _falling(watch: Watch, sites: int, times: int = 3) -> int:
    """What it costs when the quantity grows and is taken back, a few events at one site after the other."""
    rng = np.random.default_rng(1)
    coordinator, machines, network = _built(watch, sites)
    before = _bytes(coordinator, machines)
    for _ in range(times):
        keys = {name: rng.zipf(1.5, 40) % 100 for name in machines}
        for sign, order in ((1, list(machines)), (-1, rng.permutation(list(machines)).tolist())):
            for name in order:
                network.pass_time(5)
                network.give(name, Arrived(keys[name], weights=np.full(40, sign)))
    return _bytes(coordinator, machines) - before


@pytest.mark.parametrize("sites", [4, 64])
@pytest.mark.parametrize("quantity", ["total", "self_join"])
def test_a_quantity_that_falls_costs_little_more_than_forwarding_it(sites: int, quantity: str) -> None:
    def watch(rule: str) -> Watch:
        if quantity == "total":
            return Total(theta=0.1, rule=rule)
        return SelfJoin(theta=0.2, epsilon=0.1, delta=0.1, rule=rule)

    everything = _falling(watch("centralise"), sites)
    assert _falling(watch("auto"), sites) <= 1.1 * everything


def test_members_that_come_and_go_without_events_cost_no_references() -> None:
    sites, flaps = 6, 8
    watch = SelfJoin(theta=0.2, epsilon=0.1, delta=0.01, rule="auto")
    coordinator, machines, network = _built(watch, sites)
    rng = np.random.default_rng(2)
    for step in range(30):
        network.pass_time(20)
        network.give(f"s{step % sites}", Arrived(rng.zipf(1.3, 3000) % 20_000))
    _flap(coordinator, machines, network)  # all that was pending is flushed now
    (query,) = coordinator._queries.values()
    full = replace(watch, rule="full").steer(query._contributions.total, sites, grows=True)  # type: ignore[union-attr]
    query._rule = full  # type: ignore[union-attr]  # as if the planner had chosen it
    before = _bytes(coordinator, machines)
    for _ in range(flaps):
        _flap(coordinator, machines, network)
    heartbeats = sites * flaps * 6 * 60
    reference = len(full.zone())
    assert reference > 2000
    assert _bytes(coordinator, machines) - before <= heartbeats + flaps * 2 * sites * 200


def _flap(coordinator: Coordinator, machines: dict[str, Site], network: Lockstep) -> None:
    """A site is lost, and comes back; nothing else happens."""
    machines["s0"].gone = True  # it says nothing
    network.pass_time(45_000)
    claim = coordinator.claim(1)
    assert claim is not None
    assert claim.answer.missing == ("s0",)
    machines["s0"].gone = False
    network.give("s0", Arrived())
    network.pass_time(15_000)
    claim = coordinator.claim(1)
    assert claim is not None
    assert claim.answer.missing == ()


@pytest.mark.parametrize("sites", [1, 10])
def test_items_that_leave_a_window_one_by_one_cost_no_more_than_to_forward_them(sites: int) -> None:
    """A thousand items that came once each, and then only time: forwarded with their times, a centre does the rest."""
    watch = Items(threshold=100, theta=0.1, window=1000)
    names = tuple(f"s{place}" for place in range(sites))
    assert watch.narrowest(10) == 0

    def cost(events: int) -> int:
        coordinator = Coordinator((watch,), names)
        machines = {name: Site(name, (watch,)) for name in names}
        network = Lockstep(coordinator, machines)
        before = _bytes(coordinator, machines)
        network.give("s0", Arrived(np.arange(events) * 7919, times=np.arange(1, events + 1)))
        for time in range(1001, 2001):
            network.pass_time(1000)
            for name in names:
                network.give(name, Arrived(time=time))
        network.pass_time(10_000)
        claim = coordinator.items(1)
        assert claim is not None
        assert claim.cut["s0"] == (events, 2000)
        return _bytes(coordinator, machines) - before

    heartbeats = cost(0)
    assert cost(1000) - heartbeats <= 1.1 * 8 * 1000


def _come_and_go(watch: Watch, sites: int, batches: int, period: int) -> int:
    """What it costs when the load rises to sixty times as much and falls again, over and over."""
    rng = np.random.default_rng(7)
    coordinator, machines, network = _built(watch, sites)
    names = list(machines)
    for time in range(1, batches + 1):
        count = 30 if (time // period) % 2 else 1
        network.pass_time(5)
        site = names[int(rng.integers(sites))]
        network.give(site, Arrived(rng.zipf(1.1, count) % 20_000, times=np.full(count, time)))
        if time % 4 == 0:
            for name in names:
                network.give(name, Arrived(time=time))
    return _bytes(coordinator, machines)


def test_a_load_that_comes_and_goes_buys_no_zones_in_vain() -> None:
    """What the planner learns in one regime is wrong in the next: it was 1.4 times before there was a purse."""
    watch = Distinct(theta=0.1, window=200)
    everything = _come_and_go(replace(watch, rule="centralise"), 4, 1000, 150)
    assert _come_and_go(watch, 4, 1000, 150) <= 1.1 * everything


def test_a_long_zone_is_told_to_each_site_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Counter[tuple[int, str]]()
    word = Query._word

    def counted(self: Query, site: str, peer: Peer, now: int) -> Send:
        sent = word(self, site, peer, now)
        told[self._round, site] += len(sent.frame) > 500
        return sent

    monkeypatch.setattr(Query, "_word", counted)
    rng = np.random.default_rng(3)
    _, machines, network = _built(SelfJoin(theta=0.2, epsilon=0.1, delta=0.1, rule="full"), 4)
    for _ in range(300):
        network.pass_time(2)
        network.give(f"s{rng.integers(len(machines))}", Arrived(rng.zipf(1.3, 20) % 20_000))
    assert max(told.values()) == 1
    assert sum(told.values()) > 20
