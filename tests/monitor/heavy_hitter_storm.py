"""A storm for the heavy hitter machines: loss, doubling, disorder, crashes at any action, old blobs, all by seed.

After every step each claim is compared with brute force at its cut.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from catchment.monitor.heavy_hitters import (
    Arrivals,
    Claim,
    HeavyHitterCoordinator,
    HeavyHitterPlan,
    HeavyHitterSite,
)
from catchment.monitor.machine import COORDINATOR, Persist, Received, Send, Tick

NAMES: dict[str, Callable[[int], Any]] = {"integer": lambda rank: int(rank) - 3, "text": lambda rank: f"item {rank}"}


class Storm:
    def __init__(self, seed: int, *, window: int | None = None, sites: int = 3, events: int = 300) -> None:
        self.dice = random.Random(seed)
        rng = np.random.default_rng(seed)
        names = tuple(f"site {n}" for n in range(sites))
        self.plan = HeavyHitterPlan(
            names, theta=self.dice.choice([0.02, 0.07, 0.2, 0.5]), epsilon=self.dice.choice([0.1, 0.5]),
            rho=self.dice.choice([0.005, 0.3, 1.0]), window=window, panes=self.dice.choice([1, 4, 10]), seed=seed,
            resend=50, lease=400, persist_every=self.dice.choice([1, 40, 200]),
        )  # fmt: skip
        named = NAMES[self.dice.choice(sorted(NAMES))]
        self.keys: dict[str, list[Any]] = {}
        self.times: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            odds = rng.permutation(np.arange(1, 61) ** -1.3) if place % 2 else np.ones(60)
            ranks = rng.choice(60, events, p=odds / odds.sum())
            self.keys[name] = [named(rank) for rank in ranks]
            steps = rng.choice([0, 0, 0, 1, 3, 40], events)
            self.times[name] = (np.cumsum(steps) - rng.choice([0, 0, 0, 5, 130], events)).tolist()
        self.now = 0
        self.flying: list[tuple[str, str, bytes]] = []
        self.blobs: dict[str, list[bytes]] = {}
        self.coordinator = HeavyHitterCoordinator(self.plan)
        self.sites = {name: HeavyHitterSite(self.plan, name) for name in names}
        self.completed = 0
        self.checked: Claim | None = None

    # -- one step ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        what = self.dice.random()
        name = self.dice.choice(self.plan.sites)
        if what < 0.45:
            self.feed(name)
        elif what < 0.85:
            self.carry()
        elif what < 0.96:
            self.tick()
        elif what < 0.99:
            self.crash(name)
        else:
            self.crash(COORDINATOR, old=self.dice.random() < 0.4)
        self.check()

    def feed(self, name: str) -> None:
        site = self.sites[name]
        stop = site.position + self.dice.choice([1, 3, 20, 60])
        keys, times = self.keys[name][site.position : stop], self.times[name][site.position : stop]
        if self.plan.window is None:
            self.give(name, Arrivals(keys))
        else:
            until = self.dice.choice([None, None, max([*times, 0]) + self.dice.choice([0, 30, 300])])
            self.give(name, Arrivals(keys, times, until))

    def carry(self) -> None:
        if self.flying:
            place = self.dice.randrange(len(self.flying))
            sender, to, frame = self.flying[place]
            fate = self.dice.random()
            if fate > 0.15:
                del self.flying[place]
            if fate > 0.3:
                self.give(to, Received(sender, frame))

    def tick(self) -> None:
        self.now += self.dice.choice([0, 10, 60, 500])
        for name in (COORDINATOR, *self.plan.sites):
            self.give(name, Tick())

    def give(self, name: str, event: Any) -> None:
        machine = self.coordinator if name == COORDINATOR else self.sites[name]
        for action in machine.handle(event, self.now):
            if self.dice.random() < self.torn:
                self.crash(name)
                return
            if isinstance(action, Persist):
                self.blobs.setdefault(name, []).append(action.blob)
            else:
                assert isinstance(action, Send)
                self.flying.append((name, action.to, action.frame))

    torn = 0.004

    def crash(self, name: str, *, old: bool = False) -> None:
        blobs: list[bytes | None] = [*self.blobs.get(name, [])] or [None]
        blob = self.dice.choice(blobs) if old else blobs[-1]
        if name == COORDINATOR:
            self.coordinator = HeavyHitterCoordinator(self.plan, durable=blob)
        else:
            self.sites[name] = HeavyHitterSite(self.plan, name, durable=blob)

    # -- what must be true ------------------------------------------------------------------------------------

    def check(self) -> None:
        complete = self.coordinator.complete
        for claim in {id(claim): claim for claim in (self.coordinator.claim, complete) if claim is not None}.values():
            if claim is not self.checked:
                self.check_claim(claim)
            self.checked = claim
        if complete is not None:
            assert complete.complete
            self.completed += 1

    def check_claim(self, claim: Claim) -> None:
        counts: dict[Any, int] = {}
        for name, mark in claim.cut.items():
            keys, times = self.keys[name][: mark.position], self.times[name]
            window = self.plan.window
            if window is not None:
                keys = [key for key, time in zip(keys, times, strict=False) if mark.time - window < time <= mark.time]
            assert len(keys) == mark.total
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
        total = sum(counts.values())
        assert claim.total == total
        heavy = {key for key, count in counts.items() if count >= self.plan.theta * total}
        assert heavy <= set(claim.keys), "an item was lost"
        for found in (*claim.heavy, *claim.unresolved):
            assert counts.get(found.key, 0) <= found.answer.high
            assert found.answer.high >= self.plan.share * total
        assert set(claim.missing) | set(claim.cut) == set(self.plan.sites)

    def calm(self) -> None:
        """The rest of the events, and then a perfect network until every lease has been renewed thrice."""
        self.torn = 0.0
        for name in self.plan.sites:
            while self.sites[name].position < len(self.keys[name]):
                self.feed(name)
        for _ in range(30):
            while self.flying:
                sender, to, frame = self.flying.pop(0)
                self.give(to, Received(sender, frame))
            self.now += 100
            for name in (COORDINATOR, *self.plan.sites):
                self.give(name, Tick())
            self.check()
