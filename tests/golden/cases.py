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
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    FastAMS,
    FMSketch,
    Panes,
    PerfectCountMin,
    ProportionalCountMin,
    RandomizedWave,
    SimpleCountMin,
    Sketch,
    SpaceSaving,
    SplitterCountMin,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
    Wave,
    WindowSketch,
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
    at = np.cumsum(KEYS % 4)
    late = at - (KEYS % 11 == 0) * 5
    timed: dict[str, WindowSketch] = {
        "exponential_histogram": ExponentialHistogram.sized(size=3, window=300, lateness=9),
        "wave": Wave.sized(size=3, window=300, lateness=9),
        "randomized_wave": RandomizedWave.sized(size=20, window=300, lateness=9, delta=0.05, seed=5),
    }
    for counter in timed.values():
        counter.update(at=late, weights=WEIGHTS)
    sizes = {"width": 5, "depth": 2, "delta": 0.05, "seed": 5, "window": 300, "lateness": 9}
    keyed: dict[str, WindowSketch] = {
        "ecm_wave": ECMSketch.sized(**sizes, size=3),
        "ecm_eh": ECMSketch.sized(**sizes, size=3, counter="eh", optimize_for="join"),
        "ecm_randomized": ECMSketch.sized(**sizes, size=12, counter="randomized"),
        "ecm_panes": ECMSketch.sized(**sizes, size=6, counter="panes"),
        "dyadic_ecm": DyadicECM.sized(**sizes, size=2, bits=7, step=3),
        "panes": Panes(CountMin.sized(width=6, depth=2, delta=0.05, seed=5), window=300, panes=5),
        "perfect_count_min": PerfectCountMin.sized(**{**sizes, "window": 60}),
        "simple_count_min": SimpleCountMin.sized(**sizes),
        "proportional_count_min": ProportionalCountMin.sized(**sizes),
        "splitter_count_min": SplitterCountMin.sized(**sizes, gamma=0.05, beta=1.5),
    }
    for sketch in keyed.values():
        sketch.update(KEYS, at=late, weights=WEIGHTS)
    wide: dict[str, WindowSketch] = {
        "wave_wide": Wave.sized(size=3, window=2**40),
        "exponential_histogram_wide": ExponentialHistogram.sized(size=3, window=2**40),
        "randomized_wave_wide": RandomizedWave.sized(size=20, window=2**40, delta=0.05),
    }
    for counter in wide.values():
        counter.update(at=at * 2**30)
    merged = ECMSketch.merge([keyed["ecm_wave"], keyed["ecm_wave"]])  # type: ignore[list-item]
    arrivals = Wave.sized(size=3, window=100, clock="arrivals")
    arrivals.update(weights=WEIGHTS)
    return {
        **timed,
        **keyed,
        **wide,
        "wave_arrivals": arrivals,
        "ecm_merged": merged,
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
