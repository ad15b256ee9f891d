"""Durable state of the peers of a top-k, written half-way; and what they say to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catchment import Panes, SpaceSaving
from catchment.monitor.top_k import Arrived, ExactCounts, Peer, SketchedCounts
from catchment.monitor.top_k.counts import LocalCounts
from catchment.testing.lockstep import Lockstep
from tests.golden import store
from tests.golden.states import Recorder
from tests.golden.streams import SITES, Event, events_of

__all__ = ["PEERS", "Question", "events_at", "feed", "golden", "half_way", "main", "peer_of", "talk"]

_PERIOD = 1_000


@dataclass(frozen=True, slots=True)
class Question:
    """How the sites count, and what their events are like."""

    counts: Callable[[], LocalCounts]
    keys: str = "text"
    weights: str = "ones"
    exact: bool = True


PEERS: dict[str, Question] = {
    "exact": Question(lambda: ExactCounts(), weights="some"),
    "exact_window": Question(lambda: ExactCounts(window=600), keys="integer"),
    "sketched": Question(lambda: SketchedCounts(SpaceSaving.sized(capacity=40)), keys="bytes", exact=False),
    "sketched_window": Question(
        lambda: SketchedCounts(Panes(SpaceSaving.sized(capacity=40), window=600, panes=6)), exact=False
    ),
}


def peer_of(name: str, site: str, saved: bytes | None = None) -> Peer:
    return Peer(site, SITES, k=2, counts=PEERS[name].counts(), period=_PERIOD, query=name, saved=saved)


def events_at(name: str, site: str, phases: range) -> list[Event]:
    given: dict[str, Any] = {"keys": PEERS[name].keys, "weights": PEERS[name].weights}
    return [event for phase in phases for event in events_of(site, phase, **given)]


def feed(world: Lockstep, name: str, phase: int) -> None:
    """A phase of events at all sites, and some rounds."""
    for site in SITES:
        events = events_at(name, site, range(phase, phase + 1))
        keys, times, weights = zip(*((event.key, event.time, event.weight) for event in events), strict=True)
        timed = PEERS[name].counts().window is not None
        world.give(site, Arrived(list(keys), at=list(times) if timed else None, weights=list(weights)))
    world.pass_time(8 * _PERIOD)


def half_way(name: str) -> dict[str, Any]:
    peers = {site: Recorder(peer_of(name, site)) for site in SITES}
    world = Lockstep(None, peers)
    for phase in range(2):
        feed(world, name, phase)
    return {
        "durable": {machine: store.as_text(blob) for (machine, _), blob in sorted(world.durable.items())},
        "said": [f"{site} {to} {store.as_text(frame)}" for site, peer in peers.items() for _, to, frame in peer.said],
    }


def golden(name: str) -> Mapping[str, bytes]:
    """The blobs of the peers, by site."""
    return {site: store.as_bytes(text) for site, text in store.read(f"peers/{name}")["durable"].items()}


def talk(name: str) -> list[tuple[str, str, bytes]]:
    """The frames: from whom, to whom, and what."""
    lines = [line.split() for line in store.read(f"peers/{name}")["said"]]
    return [(site, to, store.as_bytes(frame)) for site, to, frame in lines]


def main() -> None:
    for name in PEERS:
        store.write(f"peers/{name}", half_way(name))
