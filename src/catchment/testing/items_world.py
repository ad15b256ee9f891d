"""Worlds of item watches for the deterministic network: every claim of a set held to a count of all events at its cut.

Some sites have two watches of items beside each other, of one window or of two, so that tables are shared and not
shared; some watch a total beside them. Some events have weights.
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.claim import Claim
from catchment.monitor.heavy_hitters import HeavyHitters
from catchment.monitor.items import Items, ItemsClaim
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.quantities import Total
from catchment.monitor.states import HOLDING
from catchment.monitor.watch import Watch
from catchment.testing.faults import Faults
from catchment.testing.freshness import Freshness
from catchment.testing.item_streams import ItemStreams
from catchment.testing.lives import Lives
from catchment.testing.monitor_world import LEASE, SETTLES_WITHIN, UNTIL, is_there, set_back_too
from catchment.testing.network import Network

__all__ = ["ItemsWorld", "build_items_world"]

I64 = NDArray[np.int64]


class ItemsWorld(ItemStreams):
    """One or two watches of items over some streams, and what is true of them."""

    def __init__(self, seed: int, watch: Items | None = None, faults: Faults | None = None) -> None:
        rng, draws = random.Random(f"items {seed}"), np.random.default_rng(seed)
        self.watches = tuple(_some_watch(rng, 1 + n) for n in range(rng.choice((1, 2)))) if watch is None else (watch,)
        super().__init__(rng, draws, Lives(seed))
        self._checked: dict[int, ItemsClaim] = {}
        self._checked_total: Claim | None = None
        self._weights = _weights(draws, self._events) if rng.random() < 0.3 else None
        self.total = Total(number=9, theta=0.3, rule=rng.choice(("auto", "near"))) if rng.random() < 0.4 else None
        self._freshness = Freshness(self.sites, Faults.quiet() if faults is None else faults, LEASE)

    @property
    def watched(self) -> tuple[Watch | Items | HeavyHitters, ...]:
        return self.watches if self.total is None else (self.total, *self.watches)

    def check(self, network: Network) -> None:
        self._freshness.look(network)
        machine = network.machine(COORDINATOR)
        if machine is None or network.last != COORDINATOR:
            return
        if self.total is not None:
            self._hold_total(network, machine.claim(self.total.number))
        for watch in self.watches:
            claim = machine.items(watch.number)
            if claim is not None:
                self._freshness.hold(network, watch.number, claim.cut, (*claim.missing, *claim.left))
            if claim is not None and claim != self._checked.get(watch.number):
                self._checked[watch.number] = claim
                network.claims += 1
                self._hold(watch, claim)

    def _hold_total(self, network: Network, claim: Claim | None) -> None:
        if claim is None or claim == self._checked_total:
            return
        self._checked_total = claim
        network.claims += 1
        truth = sum(int(self.counts_at(site, None, *cut).sum()) for site, cut in claim.cut.items())
        assert claim.low <= truth <= claim.high, (
            f"the total is {truth} where {claim.low} to {claim.high} is claimed, at {claim.cut}"
        )

    def _hold(self, watch: Items, claim: ItemsClaim) -> None:
        assert set(claim.cut) == set(self.sites)
        count_of = self.truth_at(watch.window, claim.cut)
        where = f"at {claim.cut}, {watch!r}"
        assert len(set(claim.keys)) == len(claim.keys), f"an item twice {where}"
        lost = {key for key, count in count_of.items() if count >= watch.threshold} - set(claim.keys)
        assert not lost, f"{lost} is not claimed {where}"
        for item in claim.items:
            count, low, high = count_of[item.key], int(item.answer.low), int(item.answer.high)
            assert low <= count <= high, f"{item.key!r} has {count}, and {low} to {high} is claimed {where}"
            assert count >= (1 - watch.theta) * watch.threshold, f"{item.key!r} has only {count}, is claimed {where}"
            assert high - low <= watch.theta * max(watch.threshold, low), f"{low} to {high} is claimed {where}"
            assert item.certain == (low >= watch.threshold)

    def settled(self, network: Network) -> bool:
        """Whether every claim is about now: of all that are there, and the others named."""
        machine = network.machine(COORDINATOR)
        if all(network.has_left(site) for site in self.sites):
            return True
        if machine is None:
            return False
        total = self.total is None or self._is_about_now(network, machine.claim(self.total.number), timed=False)
        return total and all(self._is_about_now(network, machine.items(watch.number)) for watch in self.watches)

    def _is_about_now(self, network: Network, claim: ItemsClaim | Claim | None, *, timed: bool = True) -> bool:
        if claim is None or claim.state != HOLDING:
            return False
        missing = claim.missing if isinstance(claim, ItemsClaim) else claim.answer.missing
        for site in self.sites:
            there = network.machine(site)
            if there is None:
                if not network.has_left(site) or (site not in missing and site not in claim.left):
                    return False
            elif site in missing or not is_there(claim.cut[site], there, timed=timed):
                return False
        return True

    def script(self, network: Network) -> None:
        network.run(UNTIL)
        # A list in parts takes as many messages each way, and two or three lists may follow each other.
        parts = len(self.watches) * (24 * self._domain // self._part_bytes)
        network.settle(self.settled, messages=(SETTLES_WITHIN + 6 * parts) * (len(self.sites) + 1), feeding=False)


def build_items_world(seed: int, *, watch: Items | None = None, faults: Faults | None = None) -> Network:
    """A world of item watches for a seed."""
    world = ItemsWorld(seed, watch, Faults.random(seed) if faults is None else faults)
    chosen = set_back_too(Faults.random(seed), seed, world.sites) if faults is None else faults
    return Network(world.nodes(), seed=seed, faults=chosen, checks=[world.check], until=UNTIL, script=world.script)


def _some_watch(rng: random.Random, number: int) -> Items:
    return Items(
        number=number, threshold=rng.choice((1, 7, 60, 60, 200, 200, 800)), theta=rng.choice((0.05, 0.1, 0.3, 0.7)),
        window=rng.choice((None, 500, 2000, 2000)), rule=rng.choice(("auto", "auto", "auto", "centralise")),
    )  # fmt: skip


def _weights(draws: np.random.Generator, events: dict[str, tuple[I64, I64, I64]]) -> dict[str, I64]:
    """Mostly small ones, some none at all, some that cross a threshold at once."""
    return {
        site: draws.choice([0, 1, 1, 2, 5, 90], keys.size).astype(np.int64) for site, (keys, _, _) in events.items()
    }
