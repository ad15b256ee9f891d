"""The sketches behind the golden files: one of each family, small, from events that never change.

`python -m tests.golden.cases` writes the files of families that have none yet; it never rewrites one, since old
bytes must stay readable and equal events must go on giving equal bytes.
"""

from __future__ import annotations

from pathlib import Path

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

FOLDER = Path(__file__).parent / "v1"

KEYS = (np.arange(1, 400) ** 2) % 97
WEIGHTS = KEYS % 5 + 1
TEXTS = [f"/page/{key}.html" for key in KEYS]


def golden() -> dict[str, Sketch]:
    """Each golden sketch by the name of its file."""
    count_min = CountMin.sized(width=20, depth=3, delta=0.05, seed=5)
    count_min.update(KEYS, weights=WEIGHTS)
    conservative = CountMin.sized(width=20, depth=3, delta=0.05, seed=5, conservative=True)
    conservative.update(TEXTS)
    fast_ams = FastAMS.sized(width=16, depth=3, delta=0.05, seed=5)
    fast_ams.update(KEYS, weights=WEIGHTS - 3)
    space_saving = SpaceSaving.sized(capacity=12)
    space_saving.update(TEXTS)
    space_saving.update(KEYS[:50], weights=WEIGHTS[:50])
    space_saving.update([b"\xff\x00raw"] * 40)
    values = ValueEstimator.sized(width=12, depth=2, delta=0.05, seed=5)
    values.update(KEYS, values=KEYS * 10 - 100)
    bloom = BloomFilter.sized(bits=500, probes=3, delta=0.05, seed=5)
    bloom.update(TEXTS)
    fm = FMSketch.sized(bitmaps=24, delta=0.05, seed=5)
    fm.update(KEYS)
    bottom_k = BottomK.sized(size=20, delta=0.05, seed=5, by="pair")
    bottom_k.update(KEYS, attributes=WEIGHTS)
    ultraloglog = UltraLogLog.sized(precision=6, delta=0.05, seed=5)
    ultraloglog.update(np.arange(300))
    tug_of_war = TugOfWar.sized(dimensions=3, counter="ultraloglog", counter_size=4, delta=0.05, seed=5)
    tug_of_war.update(KEYS, attributes=TEXTS)
    return {
        "count_min": count_min,
        "count_min_conservative": conservative,
        "fast_ams": fast_ams,
        "space_saving": space_saving,
        "value_estimator": values,
        "bloom_filter": bloom,
        "fm": fm,
        "bottom_k": bottom_k,
        "ultraloglog": ultraloglog,
        "tug_of_war": tug_of_war,
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, sketch in golden().items():
        path = FOLDER / f"{name}.sketch"
        if not path.exists():
            path.write_bytes(sketch.to_bytes())
            print(path.name, path.stat().st_size)
