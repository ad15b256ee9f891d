"""Scenarios: what reaches the sites. Each is seeded, and mean in a way of its own.

Times are those that the events state: a site whose clock is off states wrong ones, and the truth goes by them as
every sketch must.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.testing.merge_check.adapter import Claims

__all__ = ["SCENARIOS", "Scenario", "Scene", "Stream"]

I64 = NDArray[np.int64]

_WINDOWS = 3
"""How many windows the events stretch over, so that most of them have left the last one."""

_LONG_SILENCE = 2**33
"""Ticks that do not fit in 32 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Keys and times of one site's events, in order of arrival."""

    keys: I64
    times: I64

    def __len__(self) -> int:
        return self.times.size

    def part(self, chosen: NDArray[np.bool_] | I64 | slice) -> Stream:
        return Stream(self.keys[chosen], self.times[chosen])

    def moved(self, ticks: int) -> Stream:
        return Stream(self.keys, self.times + ticks)


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The stream of each site, and what the merged sketch is given after that."""

    sites: list[Stream]
    after: Stream

    def events(self) -> Stream:
        """All events there are."""
        streams = [*self.sites, self.after]
        return Stream(np.concatenate([s.keys for s in streams]), np.concatenate([s.times for s in streams]))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way to make scenes, and what a sketch must claim to be put into them."""

    name: str
    make: Callable[[np.random.Generator, int, Claims], Scene]
    applies: Callable[[Claims], bool] = lambda _: True


def _keys(rng: np.random.Generator, count: int) -> I64:
    """A few heavy keys and many light ones."""
    keys: I64 = rng.zipf(1.3, count) % 500
    return keys


def _steady_stream(rng: np.random.Generator, sites: int, claims: Claims) -> Stream:
    """Events spread evenly over a few windows, in order. They start after zero, since not all know times below."""
    count = int(rng.integers(1000, 1600)) + 12 * sites
    times = np.sort(rng.integers(0, _WINDOWS * claims.window, count)) + claims.window
    return Stream(_keys(rng, count), times)


def _split(rng: np.random.Generator, stream: Stream, sites: int, odds: list[float] | None = None) -> Scene:
    """Each event to a site at random, by these odds."""
    shares = None if odds is None else np.array(odds) / sum(odds)
    places = rng.choice(sites, len(stream), p=shares)
    return Scene([stream.part(places == site) for site in range(sites)], stream.part(slice(0)))


def _steady(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    return _split(rng, _steady_stream(rng, sites, claims), sites)


def _bursty(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """Half of all events come in a few bursts: one key, one site, a fiftieth of the window."""
    scene = _steady(rng, sites, claims)
    for _ in range(int(rng.integers(2, 7))):
        site, count = int(rng.integers(sites)), int(rng.integers(50, 400))
        start = int(rng.integers(1, _WINDOWS * claims.window)) + claims.window
        times = start + rng.integers(0, max(1, claims.window // 50), count)
        here = scene.sites[site]
        keys = np.concatenate([here.keys, np.full(count, int(rng.integers(500)))])
        times = np.concatenate([here.times, times])
        scene.sites[site] = Stream(keys, times).part(np.argsort(times, kind="stable"))
    return scene


def _skewed(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """One site has nearly all."""
    return _split(rng, _steady_stream(rng, sites, claims), sites, [20.0 * sites] + [1.0] * (sites - 1))


def _silent(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """A third of the sites never say anything; another third fall silent early. One at least goes on."""
    scene = _steady(rng, sites, claims)
    for site in range(1, sites):
        stream, fate = scene.sites[site], rng.integers(3)
        until = (0, int(rng.integers(1, _WINDOWS * claims.window)) + claims.window)[min(int(fate), 1)]
        scene.sites[site] = stream if fate == 2 else stream.part(stream.times <= until)
    return scene


def _clock_skew(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """Each site's clock is off by a constant: most by less than a window, some by more."""
    scene = _steady(rng, sites, claims)
    reach = claims.window if rng.random() < 0.3 else max(1, claims.window // 3)
    return Scene([stream.moved(int(rng.integers(-reach, reach + 1))) for stream in scene.sites], scene.after)


def _late(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """A part of the events is held up on the way to its site, never longer than the lateness."""
    scene = _steady(rng, sites, claims)
    longest = int(rng.integers(1, claims.lateness + 1))
    share = rng.choice([0.02, 0.2, 0.6])
    return Scene([_held_up(rng, stream, share, longest) for stream in scene.sites], scene.after)


def _held_up(rng: np.random.Generator, stream: Stream, share: float, longest: int) -> Stream:
    delays = np.where(rng.random(len(stream)) < share, rng.integers(0, longest + 1, len(stream)), 0)
    return stream.part(np.argsort(stream.times + delays, kind="stable"))


def _ties(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """All events at a few ticks, so that the window's edge lies on one of them."""
    stream = _steady_stream(rng, sites, claims)
    step = max(1, claims.window // int(rng.integers(2, 9)))
    return _split(rng, Stream(stream.keys, stream.times // step * step), sites)


def _continued(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """The sketch that was merged goes on counting."""
    stream = _steady_stream(rng, sites, claims)
    cut = int(rng.integers(len(stream) // 2, len(stream)))
    before = _split(rng, stream.part(slice(cut)), sites)
    return Scene(before.sites, stream.part(slice(cut, None)))


def _long_silence(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """For more ticks than 32 bits hold, nothing happens; then only some of the sites wake up."""
    stream = _steady_stream(rng, sites, claims)
    cut = int(rng.integers(len(stream)))
    awake = rng.random(sites) < 0.5
    awake[0] = True
    before = _split(rng, stream.part(slice(cut)), sites)
    after = _split(rng, stream.part(slice(cut, None)).moved(_LONG_SILENCE), sites)
    return Scene(
        [
            Stream(np.concatenate([one.keys, two.keys]), np.concatenate([one.times, two.times])) if up else one
            for one, two, up in zip(before.sites, after.sites, awake, strict=True)
        ],
        before.after,
    )


def _before_zero(rng: np.random.Generator, sites: int, claims: Claims) -> Scene:
    """Times below zero, and across it."""
    scene = _steady(rng, sites, claims)
    ticks = -int(rng.integers(claims.window, 5 * claims.window))
    return Scene([stream.moved(ticks) for stream in scene.sites], scene.after)


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("steady", _steady),
        Scenario("bursty", _bursty),
        Scenario("skewed", _skewed),
        Scenario("silent", _silent),
        Scenario("clock-skew", _clock_skew),
        Scenario("late", _late, lambda claims: claims.lateness > 0),
        Scenario("ties", _ties),
        Scenario("continued", _continued),
        Scenario("long-silence", _long_silence),
        Scenario("before-zero", _before_zero, lambda claims: claims.negative_times),
    )
}
"""Every scenario by name."""
