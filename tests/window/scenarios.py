"""Random cases for sketches in time: streams, clocks, late events, sites, trees of merges, ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment import Sketch
from catchment.testing import STREAMS, Events
from catchment.testing.exact import ExactWindow

I64 = NDArray[np.int64]
S = TypeVar("S", bound=Sketch)


@dataclass(frozen=True)
class Scenario:
    """What one case feeds to each site, and what is true of all of it."""

    window: int
    lateness: int
    height: int
    sites: list[tuple[I64, I64, I64]]
    """For each site keys, times and weights, in order of arrival."""
    truth: ExactWindow
    newest: int

    def range_in_window(self, rng: np.random.Generator) -> tuple[int, int]:
        """A `last` and a `now` that may be asked: mostly the present, now and then the past or the future."""
        now = self.newest
        if rng.random() < 0.3:
            now += int(rng.integers(-self.window // 2, self.window))
        room = min(self.window, now - (self.newest - self.window))
        # Ranges of all sizes, from one tick to the window.
        return max(1, int(room ** rng.random())), now


def times_of(count: int, rng: np.random.Generator) -> I64:
    """Arrivals that are steady, tied, in bursts, or with silences longer than the window."""
    pattern = rng.integers(4)
    if pattern == 0:
        gaps = np.ones(count, dtype=np.int64)
    elif pattern == 1:
        gaps = rng.integers(0, 2, count) * rng.integers(0, 30, count)
    elif pattern == 2:
        gaps = np.where(rng.random(count) < 0.02, rng.integers(1, 400, count), 0)
    else:
        gaps = rng.integers(0, 3, count) + np.where(rng.random(count) < 0.004, 3000, 0)
    return np.cumsum(gaps) + int(rng.integers(-500, 500))


def delayed(times: I64, lateness: int, rng: np.random.Generator) -> I64:
    """Some events late, by up to `lateness`, so that the newest of all stays in place."""
    late = rng.random(times.size) < rng.choice([0.02, 0.3])
    moved = np.where(late, times - rng.integers(0, lateness + 1, times.size), times)
    newest = np.maximum.accumulate(moved)
    return np.where(newest - moved <= lateness, moved, newest)


def scenario(seed: int, *, events: int = 600, most_sites: int = 256) -> Scenario:
    rng = np.random.default_rng(seed)
    stream = list(STREAMS)[seed % len(STREAMS)]
    sites = int(most_sites ** rng.random() ** 1.5)
    made: Events = STREAMS[stream](events, seed=seed, sites=sites)
    window = int(rng.integers(20, 1500))
    times = times_of(events, rng)
    lateness = int(rng.integers(0, window + 1)) if rng.random() < 0.5 else 0
    weights = made.weights if rng.random() < 0.3 else np.ones(events, dtype=np.int64)
    truth = ExactWindow()
    parts = []
    for site in range(sites):
        mine = made.sites == site
        skewed = times[mine] + (int(rng.integers(-30, 30)) if rng.random() < 0.5 else 0)
        at = delayed(skewed, lateness, rng) if lateness else skewed
        parts.append((made.keys[mine], at, weights[mine]))
        truth.update(made.keys[mine].tolist(), at=at.tolist(), weights=weights[mine].tolist())
    newest = max(int(at.max()) for _, at, _ in parts if at.size)
    return Scenario(window, lateness, int(rng.integers(1, 9)), parts, truth, newest)


def in_batches(update: Callable[..., Any], arrays: tuple[I64, ...], rng: np.random.Generator) -> None:
    """Call `update` with the arrays cut into random batches, some of them empty."""
    cuts = np.sort(rng.integers(0, arrays[0].size + 1, int(rng.integers(0, 4))))
    for start, stop in zip([0, *cuts], [*cuts, arrays[0].size], strict=True):
        update(*(array[start:stop] for array in arrays))


def merged(parts: list[S], height: int, rng: np.random.Generator) -> S:
    """One sketch of all, through a tree of at most that height, its groups of random sizes and order."""
    kind = type(parts[0])
    for level in range(height, 0, -1):
        if len(parts) == 1:
            break
        order = rng.permutation(len(parts))
        groups = 1 if level == 1 else int(np.ceil(len(parts) ** ((level - 1) / level)))
        parts = [kind.merge([parts[place] for place in order[group::groups]]) for group in range(groups)]
    return parts[0]
