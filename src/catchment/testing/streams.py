"""Seeded streams: the same seed gives the same events on every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.hashing import SPARK_SEED, column_draws, column_of, hash_int64s

__all__ = ["STREAMS", "Events", "adversarial", "bursts", "drifting", "uniform", "zipf"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """A stream: one key, weight, value, attribute, site and time for each event, in order of arrival.

    A key's value depends on the key alone, as the value estimator assumes; attributes repeat, so that there are
    duplicate pairs to ignore.
    """

    keys: I64
    weights: I64
    values: I64
    attributes: I64
    sites: I64
    at: I64

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, chosen: NDArray[np.bool_] | slice) -> Events:
        """Some of the events, in their order."""
        return Events(*(getattr(self, name)[chosen] for name in self.__slots__))

    def at_sites(self) -> list[Events]:
        """The stream split by site."""
        return [self.part(self.sites == site) for site in range(int(self.sites.max(initial=-1)) + 1)]


def _events(keys: I64, rng: np.random.Generator, sites: int) -> Events:
    count = len(keys)
    return Events(
        keys=keys,
        weights=rng.integers(1, 10, count),
        values=10 + (keys * 7919) % 997,
        attributes=rng.integers(0, 50, count),
        sites=rng.integers(0, sites, count),
        at=np.cumsum(_gaps(count, rng)),
    )


def _gaps(count: int, rng: np.random.Generator) -> I64:
    """Ticks between events, one on average: several at one tick, and now and then a long silence."""
    gaps = rng.geometric(0.55, count) - 1
    gaps[rng.random(count) < 0.005] += 40
    return gaps


def uniform(events: int, *, seed: int, universe: int = 1000, sites: int = 4) -> Events:
    """Every key is as likely as every other: the worst case for anything that lives off skew."""
    rng = np.random.default_rng(seed)
    return _events(rng.integers(0, universe, events), rng, sites)


def zipf(events: int, *, seed: int, skew: float = 1.1, universe: int = 1000, sites: int = 4) -> Events:
    """The i-th key has probability proportional to i^-skew; any skew from 0 on."""
    rng = np.random.default_rng(seed)
    odds = np.arange(1, universe + 1, dtype=np.float64) ** -skew
    return _events(np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(events)), rng, sites)


def bursts(events: int, *, seed: int, universe: int = 1000, sites: int = 4, length: int = 50) -> Events:
    """Runs of one key, of geometric length, over a uniform background; a burst stays at one site."""
    rng = np.random.default_rng(seed)
    runs = rng.geometric(1 / length, size=events)
    runs[rng.random(events) < 0.5] = 1
    first = np.repeat(np.arange(events), runs)[:events]
    stream = _events(rng.integers(0, universe, events)[first], rng, sites)
    return replace(stream, sites=stream.sites[first])


def drifting(events: int, *, seed: int, universe: int = 1000, sites: int = 4, phases: int = 5) -> Events:
    """Zipf 1.1 whose heavy keys change: each phase has an order of its own."""
    rng = np.random.default_rng(seed)
    ranks = zipf(events, seed=seed, universe=universe).keys
    orders = np.stack([rng.permutation(universe) for _ in range(phases)])
    return _events(orders[np.arange(events) * phases // max(events, 1), ranks], rng, sites)


def adversarial(
    events: int, *, seed: int, known_seed: int = 0, width: int = 64, depth: int = 2, sites: int = 4
) -> Events:
    """Half of the events hit keys that share every row with key 0 under `known_seed`: poison for that one seed.

    A sketch that draws another seed is not harmed by it; one that uses the known seed breaks its bound on key 0.
    """
    rng = np.random.default_rng(seed)
    candidates = np.arange(1, 16 * width**depth, dtype=np.int64)
    hashes, target = np.empty(candidates.size, dtype=np.uint64), np.empty(1, dtype=np.uint64)
    hash_int64s(candidates, SPARK_SEED, hashes)
    hash_int64s(np.zeros(1, dtype=np.int64), SPARK_SEED, target)
    alike = np.ones(candidates.size, dtype=np.bool_)
    columns = column_of.py_func  # type: ignore[attr-defined]
    for row in column_draws(known_seed, depth):
        with np.errstate(over="ignore"):
            alike &= columns(hashes, *row, np.uint64(width)) == columns(target, *row, np.uint64(width))
    poison = candidates[alike]
    keys = np.where(rng.random(events) < 0.5, rng.choice(poison, events), rng.integers(0, 1000, events))
    return _events(keys, rng, sites)


Stream = Callable[..., Events]


def _zipf_of(skew: float) -> Stream:
    def stream(events: int, *, seed: int, universe: int = 1000, sites: int = 4) -> Events:
        return zipf(events, seed=seed, skew=skew, universe=universe, sites=sites)

    return stream


STREAMS: dict[str, Stream] = {
    "uniform": uniform,
    **{f"zipf-{skew:g}": _zipf_of(skew) for skew in (0.5, 0.8, 1.0, 1.1, 1.5, 2.0, 3.0)},
    "bursts": bursts,
    "drifting": drifting,
    "adversarial": adversarial,
}
"""Every stream by name; each takes `events` and `seed`."""
