"""A small world for peers of a top-k: streams, a bag of messages, crashes, and the truth by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.machine import Action, Received, Send, Tick
from catchment.monitor.top_k import Arrived, Cut, Peer, TopK
from catchment.monitor.top_k.counts import LocalCounts

I64 = NDArray[np.int64]

PERIOD = 10


@dataclass
class Site:
    """A site's whole stream, which may be read again, and what of the peer is durable."""

    keys: I64
    at: I64
    peer: Peer
    blob: bytes | None = None


@dataclass
class World:
    """Peers that a test drives by hand or at random."""

    k: int
    window: int | None
    make: Callable[[], LocalCounts]
    names: tuple[str, ...]
    universe: int
    name_of: Callable[[I64], Any] = lambda keys: keys
    save_every: int = 2 * PERIOD
    now: int = 0
    sites: dict[str, Site] = field(default_factory=dict)
    bag: list[tuple[str, str, bytes]] = field(default_factory=list)

    def add(self, name: str, keys: I64, at: I64) -> None:
        self.sites[name] = Site(keys, at, self.peer(name))

    def peer(self, name: str, saved: bytes | None = None) -> Peer:
        return Peer(
            name, self.names, k=self.k, counts=self.make(), period=PERIOD, save_every=self.save_every, saved=saved
        )

    # -- what happens -----------------------------------------------------------------------------------------

    def feed(self, name: str, count: int, until: int | None = None) -> None:
        site = self.sites[name]
        start = site.peer.position
        part = slice(start, start + count)
        at = site.at[part] if self.window is not None else None
        self.carry_out(name, site.peer.handle(Arrived(self.name_of(site.keys[part]), at, until=until), self.now))

    def tick(self, name: str) -> None:
        due = self.sites[name].peer.due
        assert due is not None
        self.now = max(self.now, due)
        self.carry_out(name, self.sites[name].peer.handle(Tick(), self.now))

    def carry_out(self, name: str, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.bag.append((name, action.to, action.frame))
            else:
                self.sites[name].blob = action.blob

    def deliver(self, place: int, *, keep: bool = False) -> None:
        sender, to, frame = self.bag[place] if keep else self.bag.pop(place)
        if to in self.sites:
            self.carry_out(to, self.sites[to].peer.handle(Received(sender, frame), self.now))

    def deliver_all(self) -> None:
        while self.bag:
            self.deliver(0)

    def restart(self, name: str) -> None:
        """Crash, and come back with what was durable."""
        site = self.sites[name]
        site.peer = self.peer(name, site.blob)
        site.peer.handle(Arrived([]), self.now)

    def calm_round(self) -> None:
        for name in self.sites:
            self.tick(name)
            self.deliver_all()
        self.now += PERIOD

    # -- the truth --------------------------------------------------------------------------------------------

    def counts(self, cut: dict[str, Cut]) -> I64:
        """How often each item is in the windows at that cut."""
        total = np.zeros(self.universe, dtype=np.int64)
        for name, moment in cut.items():
            keys = self.sites[name].keys[: moment.position]
            if self.window is not None:
                keys = keys[self.sites[name].at[: moment.position] > moment.time - self.window]
            total += np.bincount(keys, minlength=self.universe)
        return total

    def check(self, top: TopK) -> list[int]:
        """Fail if anything in the answer is false; give the true top-k."""
        counts = self.counts(top.cut)
        true = [int(item) for item in np.lexsort((np.arange(self.universe), -counts)) if counts[item] > 0][: self.k]
        items = [self.number_of(key) for key in top.ranking.keys]
        assert len(items) <= self.k
        lows, highs = np.asarray(top.ranking.answers.low), np.asarray(top.ranking.answers.high)
        for item, certain, low, high in zip(items, top.certain, lows.tolist(), highs.tolist(), strict=True):
            assert low <= counts[item] <= high, (item, low, counts[item], high)
            assert item in true or not certain, f"{item} is not in {true} of {counts}"
        counts[items] = 0
        assert int(counts.max(initial=0)) <= top.left_out
        if top.settled:
            assert items == true
        return true

    def number_of(self, key: Any) -> int:
        return int(key if not isinstance(key, str) else key.removeprefix("item "))


def zipf(rng: np.random.Generator, skew: float, universe: int, count: int) -> I64:
    odds = np.arange(1, universe + 1) ** -skew
    return np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(count))
