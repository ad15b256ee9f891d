"""Every exported sketch, small enough to be tested hard."""

from __future__ import annotations

from typing import Any

import catchment
from catchment import Sketch

EXPORTED: list[type[Sketch]] = [
    kind
    for kind in (getattr(catchment, name) for name in catchment.__all__)
    if isinstance(kind, type) and issubclass(kind, Sketch) and kind is not Sketch
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
