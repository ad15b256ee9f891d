"""ItemStreams: streams of items for worlds of the deterministic network, and how often each item came up to a cut.

Streams have items that come and go, sites of very different length, late events, and text or numbers as keys.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.heavy_hitters import HeavyHitters
from catchment.monitor.items import Items
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.watch import Watch
from catchment.testing.host import Node
from catchment.testing.lives import Lives
from catchment.testing.monitor_world import HEARTBEAT, LEASE, RESEND, UNTIL

__all__ = ["ItemStreams"]

I64 = NDArray[np.int64]


class ItemStreams(ABC):
    """The sites of a world and their streams, drawn by the seed."""

    def __init__(self, rng: random.Random, draws: np.random.Generator, lives: Lives) -> None:
        self._lives = lives
        self.sites = tuple(f"site-{number}" for number in range(rng.randint(1, 6)))
        self._domain = rng.choice((12, 50, 2000))
        late = rng.choice((0, 0, 300))
        self._events = {site: _stream(draws, rng, self._domain, late) for site in self.sites}
        self._named = rng.random() < 0.5
        self._keep = rng.choice((50, 200, 1000))
        self._part_bytes = rng.choice((60, 300, 1 << 20))  # lists in many parts, in a few, and in one
        self._weights: dict[str, I64] | None = None
        self._truth: dict[tuple[str, int | None, int, int], I64] = {}

    @property
    @abstractmethod
    def watched(self) -> tuple[Watch | Items | HeavyHitters, ...]:
        """What is monitored."""

    def nodes(self) -> list[Node]:
        farewell = Leave() if len(self.sites) % 2 else None
        return [Node(COORDINATOR, self._coordinator)] + [
            Node(site, partial(self._site, site), partial(self._feed, site), farewell=farewell) for site in self.sites
        ]

    def _coordinator(self, blobs: dict[str, bytes], life: int) -> Coordinator:
        number = self._lives.number(life)
        return Coordinator(self.watched, self.sites, blobs=blobs, life=number, lease=LEASE, resend=RESEND)

    def _site(self, name: str, blobs: dict[str, bytes], life: int) -> Site:
        return Site(
            name, self.watched, blobs=blobs, life=life, heartbeat=HEARTBEAT, resend=RESEND, keep=self._keep,
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

    def truth_at(self, window: int | None, cuts: dict[str, tuple[int, int]]) -> dict[Any, int]:
        """How often each item came at all of these sites together, by its key."""
        counts = sum((self.counts_at(site, window, *cut) for site, cut in cuts.items()), np.zeros(1, dtype=np.int64))
        keys = self._names(np.arange(self._domain))
        total = np.broadcast_to(counts, self._domain)
        return dict(zip(keys if self._named else keys.tolist(), total.tolist(), strict=True))


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
