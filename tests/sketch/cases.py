"""Every exported sketch, small enough to be tested hard."""

from __future__ import annotations

from typing import Any

import catchment
from catchment import CountMin, Sketch, SpaceSaving

EXPORTED: list[type[Sketch]] = [
    kind
    for kind in (getattr(catchment, name) for name in catchment.__all__)
    if isinstance(kind, type) and issubclass(kind, Sketch) and "family" in vars(kind)
]

SMALL: dict[str, list[dict[str, Any]]] = {
    "CountMin": [{"width": 40, "depth": 3}, {"width": 1, "depth": 1}, {"width": 30, "depth": 2, "conservative": True}],
    "FastAMS": [{"width": 60, "depth": 5}, {"width": 1, "depth": 2}],
    "SpaceSaving": [{"capacity": 30}, {"capacity": 1}],
    "ValueEstimator": [{"width": 40, "depth": 4}],
    "BloomFilter": [{"bits": 4000, "probes": 4}, {"bits": 130, "probes": 2}, {"bits": 10, "probes": 4}],
    "FMSketch": [{"bitmaps": 64}, {"bitmaps": 1}],
    "BottomK": [{"size": 64}, {"size": 2}],
    "UltraLogLog": [{"precision": 6}, {"precision": 3}],
    "TugOfWar": [
        {"dimensions": 64, "counter": "ultraloglog", "counter_size": 6},
        {"dimensions": 64, "counter": "fm", "counter_size": 32},
        {"dimensions": 64, "counter": "bottom_k", "counter_size": 40},
    ],
    "ExponentialHistogram": [{"size": 4, "window": 300, "lateness": 20}, {"size": 4, "window": 40}],
    "Wave": [{"size": 5, "window": 300, "lateness": 20}, {"size": 3, "window": 40}],
    "RandomizedWave": [{"size": 60, "window": 300, "lateness": 20}, {"size": 2, "window": 40}],
    "Panes": [
        {"prototype": SpaceSaving.sized(capacity=30), "window": 300, "panes": 8},
        {"prototype": CountMin.sized(width=40, depth=3, delta=1e-6), "window": 300, "panes": 5, "lateness": 20},
    ],
    "ECMSketch": [
        {"width": 40, "depth": 3, "size": 6, "window": 300, "lateness": 20},
        {"width": 40, "depth": 3, "size": 4, "window": 300, "counter": "eh"},
        {"width": 20, "depth": 3, "size": 40, "window": 300, "counter": "randomized"},
        {"width": 40, "depth": 3, "size": 8, "window": 300, "counter": "panes"},
        {"width": 1, "depth": 1, "size": 3, "window": 40, "optimize_for": "join"},
    ],
    "DyadicECM": [
        {"width": 40, "depth": 3, "size": 6, "window": 300, "bits": 20, "step": 2},
        {"width": 40, "depth": 3, "size": 4, "window": 300, "bits": 20, "step": 4, "counter": "eh"},
    ],
    "PerfectCountMin": [
        {"width": 40, "depth": 3, "window": 300, "lateness": 20},
        {"width": 1, "depth": 1, "window": 40},
    ],
    "SimpleCountMin": [
        {"width": 40, "depth": 3, "window": 300, "lateness": 20},
        {"width": 1, "depth": 1, "window": 40},
    ],
    "ProportionalCountMin": [
        {"width": 40, "depth": 3, "window": 300, "lateness": 20},
        {"width": 1, "depth": 1, "window": 40},
    ],
    "SplitterCountMin": [
        {"width": 40, "depth": 3, "window": 300, "lateness": 20},
        {"width": 1, "depth": 1, "window": 40},
    ],
}


def built(kind: type[Sketch], *, seed: int = 0, small: dict[str, Any] | None = None, **options: Any) -> Sketch:
    """A small sketch of that kind, with the seed if it takes one."""
    sizes = (SMALL.get(kind.__name__) or [{}])[0] if small is None else small
    seeded = {"seed": seed} if "seed" in kind._layout else {}
    return kind.sized(**sizes, **seeded, **options) if sizes else kind(**seeded, **options)


def variants() -> list[tuple[type[Sketch], dict[str, Any]]]:
    """Each exported sketch with its defaults and with each of its small sizes."""
    return [(kind, sizes) for kind in EXPORTED for sizes in ({}, *SMALL.get(kind.__name__, []))]


def name_of(value: Any) -> str:
    if isinstance(value, dict):
        return "-".join(map(str, value.values())) or "default"
    return getattr(value, "__name__", str(value))
