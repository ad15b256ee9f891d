"""Small panes of every kind, streams with late events, and the truth about a range of them."""

from __future__ import annotations

import numpy as np

from catchment import (
    BloomFilter,
    BottomK,
    CountMin,
    FastAMS,
    FMSketch,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
)
from catchment.testing import Events, Exact
from catchment.window.panes import Panes

SURE = 1e-6
PROTOTYPES: dict[str, Sketch] = {
    "UltraLogLog": UltraLogLog.sized(precision=6, delta=SURE),
    "FastAMS": FastAMS.sized(width=60, depth=5, delta=SURE),
    "ValueEstimator": ValueEstimator.sized(width=40, depth=4, delta=SURE),
    "SpaceSaving": SpaceSaving.sized(capacity=30),
    "CountMin": CountMin.sized(width=40, depth=3, delta=SURE),
    "CountMin, conservative": CountMin.sized(width=30, depth=2, delta=SURE, conservative=True),
    "BloomFilter": BloomFilter.sized(bits=4000, probes=4, delta=SURE),
    "BottomK": BottomK.sized(size=64, delta=SURE),
    "FMSketch": FMSketch.sized(bitmaps=64, delta=SURE),
    "TugOfWar": TugOfWar.sized(dimensions=3, counter="bottom_k", counter_size=20, delta=SURE),
}


def delayed(events: Events, rng: np.random.Generator, most: int) -> Events:
    """The same events, some of which arrive after later ones, by up to that many ticks."""
    delay = np.where(rng.random(len(events)) < 0.3, rng.integers(0, most + 1, len(events)), 0)
    return events.part(np.argsort(events.at + delay, kind="stable"))  # type: ignore[arg-type]


def fed(panes: Panes, events: Events, *, weighted: bool = False, rng: np.random.Generator | None = None) -> Panes:
    """Update with all arrays that it takes, in batches of random size where there is a generator."""
    names = [name for name in panes.inputs if name != "keys"] + (["weights"] if weighted else [])
    cuts = [] if rng is None else np.sort(rng.integers(0, len(events) + 1, 3)).tolist()
    for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        part = events.part(slice(start, stop))
        panes.update(part.keys, **{name: getattr(part, name) for name in names})
    return panes


def truth_between(panes: Panes, events: Events, start: int, end: int, *, weighted: bool = False) -> Exact:
    events = events.part((events.at > start) & (events.at <= end))
    truth = Exact()
    truth.update(
        events.keys.tolist(),
        weights=events.weights.tolist() if weighted else None,
        values=events.values if "values" in panes.inputs else None,
        attributes=events.attributes.tolist() if "attributes" in panes.inputs else None,
    )
    return truth


def takes_weights(prototype: Sketch) -> bool:
    return not isinstance(prototype, (UltraLogLog, BottomK, FMSketch, BloomFilter, TugOfWar))


def random_range(panes: Panes, rng: np.random.Generator) -> tuple[int, int]:
    """A `last` and a `now` within the window, whole panes now and then."""
    assert panes.newest is not None
    edge = panes.newest - panes.window
    start, end = np.sort(edge + rng.choice(panes.window + 5, 2, replace=False)).tolist()
    if rng.random() < 0.2:
        start, end = edge, panes.newest
    return min(end - start, panes.window), end


def random_tree(parts: list[Panes], rng: np.random.Generator) -> Panes:
    while len(parts) > 1:
        places = rng.permutation(len(parts))[: int(rng.integers(2, len(parts) + 1))].tolist()
        merged = Panes.merge([parts[place] for place in places])
        parts = [part for place, part in enumerate(parts) if place not in places] + [merged]
    return parts[0]


def through_sites(prototype: Sketch, events: Events, rng: np.random.Generator, *, weighted: bool) -> Panes:
    """Every site sees its events with delays of its own; all are merged by a random tree."""
    window, panes = int(rng.integers(20, 600)), int(rng.integers(1, 12))
    parts = []
    for part in events.at_sites():
        late = delayed(part, rng, most=window // 2)
        parts.append(fed(Panes(prototype, window, panes=panes), late, weighted=weighted, rng=rng))
    return random_tree(parts, rng)
