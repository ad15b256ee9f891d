"""A site that speaks and hears nothing: after the lease it is named, the others go on; it comes back when it hears."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from catchment.errors import SimulationError
from catchment.monitor import Arrived, Coordinator, Items, Site, Total
from catchment.monitor.items.query import ItemsQuery
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.quantities import SelfJoin
from catchment.monitor.watch import Watch
from catchment.testing.faults import Faults
from catchment.testing.host import Node
from catchment.testing.items_world import ItemsWorld
from catchment.testing.network import Network

LEASE, HEARTBEAT = 3000, 500
SITES = ("a", "b", "deaf")
SMALL: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.4}


def _feed(_: Any, until: int = 20_000) -> Iterator[tuple[int, Any]]:
    for at in range(100, until, 100):
        yield at, Arrived(np.arange(20) % 7 + at // 1000, times=np.full(20, at))  # others come and go


def _network(watch: Watch | Items, feed: Any = _feed) -> Network:
    def coordinator(blobs: dict[str, bytes], life: int) -> Coordinator:
        return Coordinator((watch,), SITES, blobs=blobs, life=life, lease=LEASE, resend=100)

    def site(name: str, blobs: dict[str, bytes], life: int) -> Site:
        return Site(name, (watch,), blobs=blobs, life=life, heartbeat=HEARTBEAT, resend=100, keep=100)

    nodes = [Node(COORDINATOR, coordinator), *(Node(name, partial(site, name), feed) for name in SITES)]
    return Network(nodes, seed=1, faults=Faults.quiet(), until=20_000)


def _seen(network: Network, watch: Watch | Items) -> tuple[tuple[str, ...], dict[str, tuple[int, int]], str]:
    machine = network.machine(COORDINATOR)
    if isinstance(watch, Items):
        found = machine.items(1)
        return found.missing, found.cut, found.state
    claim = machine.claim(1)
    return claim.answer.missing, claim.cut, claim.state


WATCHES: dict[str, Watch | Items] = {
    "items": Items(threshold=50, theta=0.1),
    "items in a window": Items(threshold=50, theta=0.1, window=1000),
    "push": Total(theta=0.1, rule="push"),
    "centralise": Total(theta=0.1, rule="centralise"),
    "near": Total(theta=0.1, rule="near"),
    "lazy": SelfJoin(rule="lazy", **SMALL),
    "auto": SelfJoin(**SMALL),
}


@pytest.mark.parametrize("name", WATCHES)
def test_who_does_not_hear_us_is_missing_and_comes_back(name: str) -> None:
    watch = WATCHES[name]
    network = _network(watch)
    network.run(5000)
    assert _seen(network, watch)[0] == ()
    network.cut([COORDINATOR], ["deaf"])
    network.run(5000 + LEASE + 2 * HEARTBEAT + 500)
    missing, cut, state = _seen(network, watch)
    assert (missing, state) == (("deaf",), "holding")
    before = {site: cut[site][0] for site in SITES}
    network.run(12_000)
    missing, cut, state = _seen(network, watch)
    assert missing == ("deaf",)  # all the time that it speaks
    assert min(cut[site][0] - before[site] for site in ("a", "b")) > 300
    network.mend()
    network.run(16_000)
    missing, cut, state = _seen(network, watch)
    assert (missing, state) == ((), "holding")
    assert cut["deaf"][0] > 2500


def test_a_lease_that_any_word_keeps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    hear = ItemsQuery.hear

    def kept(self: ItemsQuery, site: str, report: Any, now: int) -> Any:
        actions = hear(self, site, report, now)
        self._peers[site].seen, self._peers[site].alive = now, True
        return actions

    def play() -> None:
        world = ItemsWorld(4, Items(threshold=7, rule="centralise"), Faults.quiet())
        network = Network(world.nodes(), seed=4, faults=Faults.quiet(), checks=[world.check], until=12_000)
        network.at(2000, lambda net: net.cut([COORDINATOR], world.sites))
        network.play()

    play()
    monkeypatch.setattr(ItemsQuery, "hear", kept)
    with pytest.raises(SimulationError, match="is not named"):
        play()


def test_what_is_not_acknowledged_is_said_ever_more_rarely() -> None:
    for watch in (Items(threshold=1, theta=0.1), Total(theta=0.1, rule="centralise")):
        network = _network(watch)
        network.run(3000)
        network.cut([COORDINATOR], ["deaf"])
        network.run(3500)
        site = network.machine("deaf")
        before = site.traffic.messages("resend")
        network.run(3500 + 20 * HEARTBEAT)
        assert site.traffic.messages("resend") - before <= 21  # and not a hundred, one each 100 ms


def _skewed(_: Any) -> Iterator[tuple[int, Any]]:
    rng = np.random.default_rng(3)
    for at in range(100, 20_000, 100):
        heavy = rng.random(40) < 0.5
        yield at, Arrived(np.where(heavy, rng.integers(0, 3, 40), rng.integers(10, 10**6, 40)), times=np.full(40, at))


@pytest.mark.parametrize("cut_at", [600, 700, 750, 800])  # at 750 the first part of a round is on its way
def test_who_was_cut_off_with_a_part_on_its_way_comes_back_to_a_coordinator_of_another_life(cut_at: int) -> None:
    watch = SelfJoin(rule="push", theta=0.2, epsilon=0.05, delta=0.05)
    network = _network(watch, _skewed)
    network.run(cut_at)
    network.cut([COORDINATOR], ["deaf"])
    network.cut(["deaf"], [COORDINATOR])
    network.run(cut_at + 500)
    network.crash(COORDINATOR, down=50)
    network.run(cut_at + 500 + 2 * LEASE)
    assert _seen(network, watch)[0] == ("deaf",)
    network.mend()
    network.run(cut_at + 500 + 3 * LEASE)
    missing, _, state = _seen(network, watch)
    assert (missing, state) == ((), "holding")
