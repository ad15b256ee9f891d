"""Worlds of heavy hitters for the deterministic network: every claim held to a count of all events at its cut.

A total is watched beside them in some worlds, and in others a second share of the same window.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.heavy_hitters import HeavyClaim, HeavyHitters
from catchment.monitor.items import Items
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.quantities import Total
from catchment.monitor.watch import Watch
from catchment.testing.faults import Faults
from catchment.testing.item_streams import ItemStreams
from catchment.testing.lives import Lives
from catchment.testing.monitor_world import SETTLES_WITHIN, UNTIL, set_back_too
from catchment.testing.network import Network

__all__ = ["HeavyWorld", "build_heavy_world"]


class HeavyWorld(ItemStreams):
    """One or two watches of heavy hitters over some streams, and what is true of them."""

    def __init__(self, seed: int, watch: HeavyHitters | None = None) -> None:
        rng = random.Random(f"heavy {seed}")
        self.watches: tuple[HeavyHitters, ...] = (_some_watch(rng, seed) if watch is None else watch,)
        super().__init__(rng, np.random.default_rng(seed), Lives(seed))
        self._beside: tuple[Watch, ...] = (Total(number=9, theta=0.3),) if rng.random() < 0.3 else ()
        if watch is None and rng.random() < 0.3:
            self.watches += (_some_watch(rng, seed, number=2),)
        self._checked: dict[int, HeavyClaim] = {}

    @property
    def watched(self) -> tuple[Watch | Items | HeavyHitters, ...]:
        return (*self.watches, *self._beside)

    def check(self, network: Network) -> None:
        machine = network.machine(COORDINATOR)
        if machine is None or network.last != COORDINATOR:
            return
        for watch in self.watches:
            claim = machine.heavy_hitters(watch.number)
            if claim is not None and claim is not self._checked.get(watch.number):
                self._checked[watch.number] = claim
                network.claims += 1
                self._hold(watch, claim)

    def _hold(self, watch: HeavyHitters, claim: HeavyClaim) -> None:
        where = f"at {claim.cut}, {watch!r}"
        cuts = {site: (mark.position, mark.time) for site, mark in claim.cut.items()}
        assert set(claim.missing) | set(cuts) == set(self.sites), f"a site is neither there nor missing {where}"
        for site, mark in claim.cut.items():
            there = int(self.counts_at(site, watch.window, mark.position, mark.time).sum())
            assert mark.total == there, f"{site} has {there} events, and {mark.total} are claimed {where}"
        count_of = self.truth_at(watch.window, cuts)
        total = sum(count_of.values())
        assert claim.total == total
        assert len(set(claim.keys)) == len(claim.keys), f"an item twice {where}"
        lost = {key for key, count in count_of.items() if count and count >= watch.phi * total} - set(claim.keys)
        assert not lost, f"{lost} is not claimed {where}"
        for found in (*claim.heavy, *claim.unresolved):
            count, low, high = count_of[found.key], int(found.answer.low), int(found.answer.high)
            assert count <= high, f"{found.key!r} has {count}, and at most {high} is claimed {where}"
            assert low <= high, f"{low} to {high} is claimed {where}"
            assert high >= watch.share * total, f"{found.key!r} cannot be heavy with {high}, and is claimed {where}"

    def settled(self, network: Network) -> bool:
        """Whether every claim is about now: of all that are there, the others named, and nothing open."""
        machine = network.machine(COORDINATOR)
        if all(network.has_left(site) for site in self.sites):
            return True
        return machine is not None and all(self._is_about_now(network, machine, watch) for watch in self.watches)

    def _is_about_now(self, network: Network, machine: Coordinator, watch: HeavyHitters) -> bool:
        claim = machine.heavy_hitters(watch.number)
        if claim is None:
            return False
        there: dict[str, Any] = {site: network.machine(site) for site in self.sites}
        if any(found is None and not network.has_left(site) for site, found in there.items()):
            return False
        gone = {site for site, found in there.items() if found is None}
        if gone - {*claim.missing, *claim.left} or set(claim.missing) - gone:
            return False
        now = all(claim.cut[site].position == found.position for site, found in there.items() if found is not None)
        return now and not claim.unresolved

    def script(self, network: Network) -> None:
        network.run(UNTIL)
        messages = SETTLES_WITHIN * len(self.watches) * (len(self.sites) + 1)
        network.settle(self.settled, messages=messages, feeding=False)


def build_heavy_world(seed: int, *, watch: HeavyHitters | None = None, faults: Faults | None = None) -> Network:
    """A world of heavy hitters for a seed."""
    world = HeavyWorld(seed, watch)
    chosen = set_back_too(Faults.random(seed), seed, world.sites) if faults is None else faults
    return Network(world.nodes(), seed=seed, faults=chosen, checks=[world.check], until=UNTIL, script=world.script)


def _some_watch(rng: random.Random, seed: int, number: int = 1) -> HeavyHitters:
    return HeavyHitters(
        number=number, phi=rng.choice((0.02, 0.07, 0.2, 0.5)), epsilon=rng.choice((0.1, 0.5)),
        rho=rng.choice((0.005, 0.3, 1.0)), window=rng.choice((None, None, 500, 2000)), panes=rng.choice((1, 4, 10)),
        seed=seed,
    )  # fmt: skip
