"""Worlds of item watches for the deterministic network: every claim of a set held to a count of all events at its cut.

Some sites have two watches of items beside each other, of one window or of two, so that tables are shared and not
shared; some watch a total beside them. Streams have items that come and go, sites of very different length, late
events, weights, and text or numbers as keys.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.claim import Claim
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.items import Items, ItemsClaim
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.quantities import Total
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.states import HOLDING
from catchment.monitor.watch import Watch
from catchment.testing.faults import Faults
from catchment.testing.freshness import Freshness
from catchment.testing.host import Node
from catchment.testing.monitor_world import HEARTBEAT, LEASE, RESEND, SETTLES_WITHIN, UNTIL, set_back_too
from catchment.testing.network import Network

__all__ = ["ItemsWorld", "build_items_world"]

I64 = NDArray[np.int64]


class ItemsWorld:
    """One or two watches of items over some streams, and what is true of them."""

    def __init__(self, seed: int, watch: Items | None = None, faults: Faults | None = None) -> None:
        rng = random.Random(f"items {seed}")
        self.watches = tuple(_some_watch(rng, 1 + n) for n in range(rng.choice((1, 2)))) if watch is None else (watch,)
        self.sites = tuple(f"site-{number}" for number in range(rng.randint(1, 6)))
        draws = np.random.default_rng(seed)
        self._domain = rng.choice((12, 50, 2000))
        late = rng.choice((0, 0, 300))
        self._events = {site: _stream(draws, rng, self._domain, late) for site in self.sites}
        self._named = rng.random() < 0.5
        self._keep = rng.choice((50, 200, 1000))
        self._part_bytes = rng.choice((60, 300, 1 << 20))  # lists in many parts, in a few, and in one
        self._truth: dict[tuple[str, int | None, int, int], I64] = {}
        self._checked: dict[int, ItemsClaim] = {}
        self._checked_total: Claim | None = None
        self._weights = _weights(draws, self._events) if rng.random() < 0.3 else None
        self.total = Total(number=9, theta=0.3, rule=rng.choice(("auto", "near"))) if rng.random() < 0.4 else None
        self._freshness = Freshness(self.sites, Faults.quiet() if faults is None else faults, LEASE)

    def nodes(self) -> list[Node]:
        farewell = Leave() if len(self.sites) % 2 else None
        return [Node(COORDINATOR, self._coordinator)] + [
            Node(site, partial(self._site, site), partial(self._feed, site), farewell=farewell) for site in self.sites
        ]

    @property
    def _all(self) -> tuple[Watch | Items, ...]:
        return self.watches if self.total is None else (self.total, *self.watches)

    def _coordinator(self, blobs: dict[str, bytes], life: int) -> Coordinator:
        return Coordinator(self._all, self.sites, blobs=blobs, life=life, lease=LEASE, resend=RESEND)

    def _site(self, name: str, blobs: dict[str, bytes], life: int) -> Site:
        return Site(
            name, self._all, blobs=blobs, life=life, heartbeat=HEARTBEAT, resend=RESEND, keep=self._keep,
            part_bytes=self._part_bytes,
        )  # fmt: skip

    def _feed(self, site: str, machine: Site) -> Iterator[tuple[int, Any]]:
        keys, times, arrive = self._events[site]
        at = machine.position
        while at < keys.size:
            size = min(1 + (at * 7919) % 40, keys.size - at)
            part = slice(at, at + size)
            weights = 1 if self._weights is None else self._weights[site][part]
            yield int(arrive[at]), Arrived(self._names(keys[part]), times=times[part], weights=weights)
            at += size
            if at < keys.size:
                yield int(arrive[at]) - 1, Arrived(time=int(arrive[at]) - 1)  # time goes on without events, too
        for later in range(int(arrive[-1]) if keys.size else 0, UNTIL, 500):
            yield later, Arrived(time=later)

    def _names(self, keys: I64) -> Any:
        return [f"item {key}" for key in keys.tolist()] if self._named else keys

    # -- the truth --------------------------------------------------------------------------------------------

    def counts_at(self, site: str, window: int | None, position: int, time: int) -> I64:
        """How often each item came at a site up to a cut."""
        place = site, window, position, time
        if place not in self._truth:
            keys, times, _ = self._events[site]
            keys, times = keys[:position], times[:position]
            weights = np.ones(position, dtype=np.int64) if self._weights is None else self._weights[site][:position]
            if window is not None:
                there = (times > time - window) & (times <= time)
                keys, weights = keys[there], weights[there]
            self._truth[place] = np.bincount(keys, weights=weights, minlength=self._domain).astype(np.int64)
        return self._truth[place]

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
        counts = sum(self.counts_at(site, watch.window, *cut) for site, cut in claim.cut.items())
        truth = np.asarray(counts)
        key_of = self._names(np.arange(self._domain))
        count_of = dict(zip(key_of if self._named else key_of.tolist(), truth.tolist(), strict=True))
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
        if machine is None or not all(self._is_about_now(network, machine, watch) for watch in self.watches):
            return False
        total = None if self.total is None else machine.claim(self.total.number)
        return self.total is None or (total is not None and total.state == HOLDING)

    def _is_about_now(self, network: Network, machine: Coordinator, watch: Items) -> bool:
        claim = machine.items(watch.number)
        if claim is None or claim.state != HOLDING:
            return False
        for site in self.sites:
            there = network.machine(site)
            if there is None:
                if not network.has_left(site) or (site not in claim.missing and site not in claim.left):
                    return False
            elif site in claim.missing or claim.cut[site] != (there.position, there.time):
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


def _stream(draws: np.random.Generator, rng: random.Random, domain: int, late: int) -> tuple[I64, I64, I64]:
    count = rng.randint(0, 1500)
    keys = draws.zipf(rng.uniform(1.1, 2.0), count) % domain
    # Halfway through other items are the frequent ones: in windows some must leave the set.
    moved = np.where(np.arange(count) > count // 2, (keys + domain // 2) % domain, keys)
    arrive = np.sort(draws.integers(0, UNTIL, count))
    if rng.random() < 0.3 and count:
        arrive = np.sort(np.minimum(arrive, rng.randint(1, UNTIL)))  # all of it early, and then only silence
    times = arrive - draws.integers(0, late + 1, count) * (draws.random(count) < 0.1)
    return moved.astype(np.int64), times.astype(np.int64), arrive.astype(np.int64)


def _weights(draws: np.random.Generator, events: dict[str, tuple[I64, I64, I64]]) -> dict[str, I64]:
    """Mostly small ones, some none at all, some that cross a threshold at once."""
    return {
        site: draws.choice([0, 1, 1, 2, 5, 90], keys.size).astype(np.int64) for site, (keys, _, _) in events.items()
    }
