"""Worlds of monitors for the deterministic network: a coordinator, some sites, a watch, and every claim held to the
truth.

A claim names its cut. The check rebuilds, from the streams alone, every site's vector at that cut, adds them up, and
looks whether the estimate is where the claim says. For counts that is the truth itself. A sketch's own error is not
what is tested here, so sketches are small, and it is the estimate that must be in its band, always.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.claim import Claim
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.quantities import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.states import HOLDING
from catchment.monitor.watch import Watch
from catchment.testing.faults import Faults
from catchment.testing.host import Node
from catchment.testing.lives import Lives
from catchment.testing.network import Network

__all__ = ["MonitorWorld", "build_monitor_world", "is_there", "set_back_too"]

I64 = NDArray[np.int64]

UNTIL = 12_000
_RULES = ("auto", "near", "full", "push", "centralise", "eager", "lazy")
_PRODUCT_RULES = ("auto", "auto", "full", "push", "centralise", "eager", "lazy")
_WINDOW_RULES = ("auto", "near", "full", "push", "centralise", "two-phase")
LEASE, RESEND, HEARTBEAT = 2_500, 150, 700
ALL = 1.0
"""The share of a stream's events that are taken back: the second half takes the first one back in full."""
SOON = 0.01
"""After this share of the usual bytes `auto` chooses anew in most worlds: no stream of them is long enough for all."""
SETTLES_WITHIN = 60
"""Messages for each site, after the last fault, until every claim is about now again."""


class MonitorWorld:
    """One watch over some streams, and what is true of them."""

    def __init__(self, seed: int, watch: Watch | None = None) -> None:
        rng = random.Random(seed)
        self.watch = _some_watch(rng) if watch is None else watch
        self._lives = Lives(seed)
        self.sites = tuple(f"site-{number}" for number in range(rng.randint(1, 6)))
        draws = np.random.default_rng(seed)
        both = isinstance(self.watch, InnerProduct)
        # Some streams only grow; in others events are taken back, at a few sites or at all of them, some or all.
        signed = self.watch.window is None and not isinstance(self.watch, Distinct)
        back = rng.choice((0.0, 0.0, 0.02, 0.3, ALL, ALL)) if signed else 0.0
        self._events = {site: _stream(draws, rng, both, back * rng.choice((0, 1))) for site in self.sites}
        self._keep = rng.choice((50, 200, 1000))
        self._settling = rng.choice((1.0, SOON, SOON))
        self._truth: dict[tuple[str, int, int], I64] = {}
        self._machines: dict[str, Site] = {}
        self._checked: Claim | None = None

    def nodes(self) -> list[Node]:
        here = Node(COORDINATOR, self._coordinator)
        farewell = Leave() if len(self.sites) % 2 else None
        return [here] + [
            Node(site, partial(self._site, site), partial(self._feed, site), farewell=farewell) for site in self.sites
        ]

    def _coordinator(self, blobs: dict[str, bytes], life: int) -> Coordinator:
        number = self._lives.number(life)
        return Coordinator(
            (self.watch,), self.sites, blobs=blobs, life=number, lease=LEASE, resend=RESEND, settling=self._settling
        )

    def _site(self, name: str, blobs: dict[str, bytes], life: int) -> Site:
        return Site(name, (self.watch,), blobs=blobs, life=life, heartbeat=HEARTBEAT, resend=RESEND, keep=self._keep)

    def _feed(self, site: str, machine: Site) -> Iterator[tuple[int, Any]]:
        keys, times, streams, weights = self._events[site]
        at = machine.position
        while at < keys.size:
            size = min(1 + (at * 7919) % 40, keys.size - at)
            stream = int(streams[at])
            same = int(np.argmax(streams[at : at + size] != stream)) or size
            size = same if streams[at : at + size].min() != streams[at : at + size].max() else size
            part = slice(at, at + size)
            yield int(times[at]), Arrived(keys[part], times=times[part], weights=weights[part], stream=stream)
            at += size
            if self.watch.window is not None and at < keys.size:
                yield int(times[at]) - 1, Arrived(time=int(times[at]) - 1)  # time goes on without events, too
        if self.watch.window is not None:
            for later in range(int(times[-1]) if keys.size else 0, UNTIL, 300):
                yield later, Arrived(time=later)  # until the windows are empty

    # -- the truth --------------------------------------------------------------------------------------------

    def vector_at(self, site: str, position: int, time: int) -> I64:
        """The site's vector at a cut, from its stream alone; cuts mostly go forward, and so does a machine for each."""
        if (site, position, time) not in self._truth:
            machine = self._machines.get(site)
            if machine is None or machine.position > position or machine.time > time:
                machine = self._machines[site] = Site("truth", (self.watch,))
            keys, times, streams, weights = self._events[site]
            turns = machine.position + 1 + np.flatnonzero(np.diff(streams[machine.position : position]))
            for first, last in pairwise([machine.position, *turns.tolist(), position]):
                part = slice(first, last)
                if last > first:
                    some, when, much = (array[part] for array in (keys, times, weights))
                    machine.handle(Arrived(some, times=when, weights=much, stream=int(streams[first])), 0)
            machine.handle(Arrived(time=time), 0)
            (vector,) = machine.vectors
            self._truth[site, position, time] = vector.values()
        return self._truth[site, position, time]

    def check(self, network: Network) -> None:
        machine = network.machine(COORDINATOR)
        if machine is None:
            return
        claim = machine.claim(self.watch.number)
        if claim is None or claim == self._checked:
            return
        self._checked = claim
        network.claims += 1
        total = sum(self.vector_at(site, *cut) for site, cut in claim.cut.items())
        value = self.watch.value(np.asarray(total))
        room = 1e-9 * max(abs(value), 1.0)
        assert claim.low - room <= value <= claim.high + room, (
            f"the estimate is {value} where {claim.low} to {claim.high} is claimed, at {claim.cut}, {self.watch!r}"
        )
        assert claim.low - room <= claim.estimate <= claim.high + room
        assert set(claim.cut) == set(self.sites)
        if claim.low == -math.inf and self.watch.threshold is None:
            fallen = [site for site, cut in claim.cut.items() if not self._only_rose(site, *cut)]
            assert not fallen, f"{fallen} have had falls, and a rise is claimed, at {claim.cut}, {self.watch!r}"

    def _only_rose(self, site: str, position: int, time: int) -> bool:
        """Whether nothing that the site has had can have lowered the quantity; nothing else bounds it from below.

        Falls that what came with them makes up for in every cell are none: the vector is one that only rose.
        """
        _, _, _, weights = self._events[site]
        falls = np.flatnonzero(weights[:position] < 0)
        if not falls.size:
            return True
        now = self.vector_at(site, position, time)
        return any(np.array_equal(self.vector_at(site, before, time), now) for before in range(int(falls[0]) + 1))

    def settled(self, network: Network) -> bool:
        """Whether the claim is about now: of all that are there, nothing open, and the others named."""
        machine = network.machine(COORDINATOR)
        if all(network.has_left(site) for site in self.sites):
            return True
        claim = None if machine is None else machine.claim(self.watch.number)
        if claim is None or claim.epoch != machine.epoch or claim.state != HOLDING:
            return False
        timed = self.watch.window is not None
        for site in self.sites:
            there = network.machine(site)
            if there is None:
                left = network.has_left(site) and (site in claim.answer.missing or site in claim.left)
                if not left:
                    return False
            elif site in claim.answer.missing or not is_there(claim.cut[site], there, timed=timed):
                return False
        return True

    def script(self, network: Network) -> None:
        network.run(UNTIL)
        network.settle(self.settled, messages=SETTLES_WITHIN * (len(self.sites) + 1), feeding=False)


def is_there(cut: tuple[int, int], site: Site, *, timed: bool) -> bool:
    """Whether a cut is where its site is; in time as well, where that changes what is true."""
    return cut[0] == site.position and (not timed or cut[1] == site.time)


def set_back_too(faults: Faults, seed: int, sites: tuple[str, ...]) -> Faults:
    """In every other world not only the coordinator's disk may be set back, but those of the sites, too.

    Where its lives wander, it is set back often.
    """
    chosen = Lives(seed).strike(faults)
    return replace(chosen, rollback_nodes=(*chosen.rollback_nodes, *sites)) if seed % 2 else chosen


def build_monitor_world(seed: int, *, watch: Watch | None = None, faults: Faults | None = None) -> Network:
    """A world of monitors for a seed."""
    world = MonitorWorld(seed, watch)
    chosen = set_back_too(Faults.random(seed), seed, world.sites) if faults is None else faults
    return Network(world.nodes(), seed=seed, faults=chosen, checks=[world.check], until=UNTIL, script=world.script)


def _some_watch(rng: random.Random) -> Watch:
    theta = rng.choice((0.05, 0.1, 0.3, 0.6))
    window = rng.choice((500, 2000, 5000))
    common: dict[str, Any] = {
        "theta": theta, "delta": 0.4, "seed": rng.randint(0, 1000),
        "threshold": rng.choice((None, None, rng.uniform(10, 3000))),
    }  # fmt: skip
    counted = common | {"rule": rng.choice(("auto", "near", "push", "centralise"))}
    joined = common | {"theta": 0.6, "epsilon": 0.4, "rule": rng.choice(_RULES)}
    windowed = common | {"epsilon": 0.3, "rule": rng.choice(_WINDOW_RULES)}
    kinds: list[Watch] = [
        Total(**counted),
        Total(**counted | {"epsilon": theta / 4}, window=window),
        Frequency(**counted, key=1),
        Frequency(**counted, key=1, window=window),
        RangeSum(**counted, keys=(1, 2, 3), factors=(1, 2, -1)),
        SelfJoin(**joined),
        SelfJoin(**windowed, window=window),
        InnerProduct(**joined | {"rule": rng.choice(_PRODUCT_RULES)}),
        Distinct(**joined | {"rule": rng.choice(_WINDOW_RULES[:5])}),
        Distinct(**joined | {"rule": rng.choice(_WINDOW_RULES[:5])}, window=window),
    ]
    return rng.choice(kinds)


def _stream(draws: np.random.Generator, rng: random.Random, both: bool, back: float) -> tuple[I64, I64, I64, I64]:
    count = rng.randint(0, 1500)
    keys = draws.zipf(rng.uniform(1.1, 2.5), count) % rng.choice((50, 50, 5000))
    times = np.sort(draws.integers(0, UNTIL, count))
    if rng.random() < 0.3 and count:
        times = np.sort(np.minimum(times, rng.randint(1, UNTIL)))  # all of it early, and then only silence
    streams = (np.arange(count) // 97) % 2 * both
    weights = draws.choice((1, 1, rng.choice((1, 5, 40))), count)
    if back == ALL:
        half = count // 2
        keys, streams, weights = (np.concatenate([part[:half]] * 2) for part in (keys, streams, weights))
        times, weights = times[: 2 * half], weights * np.repeat((1, -1), half)
    else:
        weights = np.where(draws.random(count) < back, -weights, weights)
    return keys.astype(np.int64), times.astype(np.int64), streams.astype(np.int64), weights.astype(np.int64)
