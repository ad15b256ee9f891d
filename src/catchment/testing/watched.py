"""Watched: a monitor over a recorded stream in lockstep, with every byte counted and every claim held to the truth.

The stream is cut into steps of a few events. In each step every site is given its part, all that follows is delivered,
and the value that the coordinator then claims is noted beside the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.site import Arrived, Site
from catchment.monitor.traffic import Traffic
from catchment.monitor.watch import Watch
from catchment.sketch.keys import KeyBatch, hash_keys
from catchment.testing.lockstep import Lockstep

__all__ = ["Watched", "inner_products", "self_joins", "watched", "window_self_joins"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

STEP = 50
EVENTS_A_MILLISECOND = 10


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """What a run cost, and what was claimed at the end of each of its steps; NaN before the first claim."""

    events: int
    up: Traffic
    down: Traffic
    ends: I64
    """How many events there had been at the end of each step."""
    claimed: F64
    rounds: int
    rules: Counter[str]
    """In how many of the steps each rule was in force."""

    @property
    def bytes(self) -> int:
        return self.up.bytes() + self.down.bytes()

    def by_purpose(self) -> dict[str, int]:
        """Bytes by direction and purpose."""
        return {
            f"{purpose} {way}": part["bytes"]
            for way, traffic in (("up", self.up), ("down", self.down))
            for purpose, part in traffic.to_dict().items()
        }

    def worst(self, truth: I64) -> float:
        """The largest relative error of a claim against the truth, which is given for the end of each step."""
        errors = self.errors(truth)
        return float(errors.max())

    def errors(self, truth: I64) -> F64:
        known = ~np.isnan(self.claimed)
        found: F64 = np.abs(self.claimed - truth)[known] / truth[known]
        return found


def watched(
    watch: Watch,
    keys: I64,
    places: I64,
    sites: int,
    *,
    times: I64 | None = None,
    streams: I64 | None = None,
    step: int = STEP,
    pace: int = EVENTS_A_MILLISECOND,
    warm: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Watched:
    """Run a watch over a stream whose i-th event is of `keys[i]`, at site `places[i]`, and of stream `streams[i]` or 0.

    With `times` (ascending) every site is told the time at the end of every step, events or not. `pace` is the number
    of events in a millisecond of the machines' clock. The first `warm` events are one step, of which nothing is
    counted: they come at once, the time that they would have taken passes, and the monitor begins.
    """
    names = [f"s{place}" for place in range(sites)]
    machines = {name: Site(name, (watch,), keep=1 << 60) for name in names}
    coordinator = Coordinator((watch,), tuple(names))
    network = Lockstep(coordinator, machines)
    at_step = np.where(np.arange(keys.size) < warm, 0, (np.arange(keys.size) - warm) // step + bool(warm))
    ends = np.flatnonzero(np.diff(at_step, append=-1)) + 1
    steps = ends.size
    claimed = np.full(steps, np.nan)
    before = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    value, seen, rules = np.nan, -1, Counter[str]()
    rule, since = "", 0
    for at, parts in enumerate(_steps(keys, places, times, streams, sites, at_step)):
        network.pass_time(step * (at + 1) // pace - step * at // pace)
        for place, event in parts:
            network.give(names[place], event)
        if times is not None:
            now = Arrived(time=int(times[ends[at] - 1]))
            for name in names:
                network.give(name, now)
        if warm and at == 0:
            network.pass_time(warm // pace)
        if network.delivered != seen:
            seen = network.delivered
            claim = coordinator.claim(watch.number)
            if claim is not None:
                value = claim.estimate
            rules[rule] += at - since
            rule, since = coordinator.rule(watch.number), at
        claimed[at] = value
        if warm and at == 0:
            before = _books(machines.values()), _books([coordinator])
        if progress is not None and at % 1000 == 0:
            progress(at / steps)
    rules[rule] += steps - since
    claim = coordinator.claim(watch.number)
    return Watched(
        keys.size - warm, _since(machines.values(), before[0]), _since([coordinator], before[1]), ends, claimed,
        0 if claim is None else claim.round, +rules,
    )  # fmt: skip


def _steps(
    keys: I64, places: I64, times: I64 | None, streams: I64 | None, sites: int, at: I64
) -> Iterable[list[tuple[int, Arrived]]]:
    """For every step the sites that have events in it, each with its events: sorted once, for all steps."""
    hashes, _ = hash_keys(keys)
    which = np.zeros(keys.size, dtype=np.int64) if streams is None else streams
    part_of = (at * sites + places) * (int(which.max(initial=0)) + 1) + which
    order = np.argsort(part_of, kind="stable")
    hashes, places, at, which = hashes[order], places[order], at[order], which[order]
    if times is not None:
        times = times[order]
    batch = KeyBatch.of_hashes(hashes)
    changes = np.flatnonzero(np.diff(part_of[order])) + 1
    bounds = np.concatenate(([0], changes, [keys.size])).tolist()
    parts: list[tuple[int, Arrived]] = []
    now = 0
    for first, last in pairwise(bounds):
        if at[first] != now:
            yield parts
            parts, now = [], at[first]
        part = None if times is None else times[first:last]
        arrived = Arrived(batch.part(first, last), times=part, stream=int(which[first]))
        parts.append((int(places[first]), arrived))
    yield parts


def _books(machines: Iterable[Any]) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for machine in machines:
        for purpose, part in machine.traffic.to_dict().items():
            for what, number in part.items():
                found[purpose, what] += number
    return found


def _since(machines: Iterable[Any], before: Counter[tuple[str, str]]) -> Traffic:
    whole = _books(machines)
    whole.subtract(before)
    traffic = Traffic()
    for purpose in {purpose for purpose, _ in whole}:
        traffic._bytes[purpose] = whole[purpose, "bytes"]
        traffic._messages[purpose] = whole[purpose, "messages"]
    return traffic


# -- the truth ------------------------------------------------------------------------------------------------


def self_joins(keys: I64, signs: I64 | None = None) -> I64:
    """The sum of the squared counts after each event; an event counts its key up, or with a sign of -1 down.

    >>> self_joins(np.array([7, 7, 5, 7])).tolist()
    [1, 4, 5, 10]
    >>> self_joins(np.array([7, 7, 7]), np.array([1, 1, -1])).tolist()
    [1, 4, 1]
    """
    if signs is None:
        signs = np.ones(keys.size, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    sums = np.cumsum(signs[order])
    first = np.flatnonzero(np.diff(keys[order], prepend=keys[order[:1]] - 1))
    lengths = np.diff(first, append=keys.size)
    counts = np.empty(keys.size, dtype=np.int64)
    counts[order] = sums - np.repeat(sums[first] - signs[order][first], lengths)
    return np.cumsum(2 * signs * counts - 1)  # from c - s to c: (c)² - (c - s)² = 2 s c - 1


def inner_products(keys: I64, streams: I64) -> I64:
    """The sum over all keys of their counts in stream 0 times those in stream 1, after each event.

    >>> inner_products(np.array([7, 7, 5, 7, 5]), np.array([0, 1, 1, 0, 0])).tolist()
    [0, 1, 1, 2, 3]
    """
    # (f + g)² - (f - g)² = 4 f g, for each key and so for the sums
    return (self_joins(keys) - self_joins(keys, np.where(streams == 0, 1, -1))) // 4


def window_self_joins(keys: I64, times: I64, window: int, ends: I64) -> I64:
    """The sum of the squared counts of the events with a time in (end - window, end], for ascending ends.

    `times` ascend, and each end is at least as late as the times of the events before it.

    >>> window_self_joins(np.array([7, 7, 5]), np.array([1, 2, 9]), 4, np.array([1, 2, 5, 9])).tolist()
    [1, 4, 1, 1]
    """
    both = np.concatenate((keys, keys))
    when = np.concatenate((times, times + window))
    signs = np.repeat(np.array([1, -1]), keys.size)
    order = np.argsort(when, kind="stable")
    sums = np.concatenate(([0], self_joins(both[order], signs[order])))
    return sums[np.searchsorted(when[order], ends, side="right")]
