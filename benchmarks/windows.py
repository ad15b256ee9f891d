"""Windows: ECM-sketches over every counter against the textbook's, panes and an exact window; speed and memory.

One run, one core, the same events for all: zipf(1.1) keys over a million, as int64, within one hour of milliseconds, so
that all of them are in the window. Rates are the best of three; an exact window is given ready hashes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.exact_window import HashedWindow
from catchment import ECMSketch
from catchment.app.report import Progress, Report
from catchment.sketch.keys import hash_keys
from catchment.testing.streams import zipf

I64 = NDArray[np.int64]

UNIVERSE = 1_000_000
WINDOW = 3_600_000
SIZES = {"0.1": (0.1, 0.1), "0.01": (0.01, 0.01)}
MERGE_WORTH = {"0.1": 500_000, "0.01": 5_000_000}
"""Merging two sketches should cost no more than updating with so many events."""

Row = tuple[str, float | None, float | None, float | None, float | None]


def run(*, quick: bool, progress: Progress) -> Report:
    events = 2_000_000 if quick else 20_000_000
    progress("making the stream", 0.0)
    keys = zipf(events, seed=1, skew=1.1, universe=UNIVERSE).keys
    times = np.sort(np.random.default_rng(2).integers(1, WINDOW + 1, events))
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for name, (epsilon, delta) in SIZES.items():
        for counter in ("eh", "wave", "panes", "randomized"):
            if counter == "randomized" and epsilon < 0.1:
                continue  # 6/epsilon^2 entries a level in each of 1,375 counters: half a gigabyte
            progress(f"{counter}, epsilon {name}", len(rows) / 9)
            rows.append(_measured(counter, epsilon, delta, keys, times, figures, name))
    progress("an exact window", 0.8)
    rows.append(_exact(keys, times))
    progress("queries and merges", 0.85)
    for name, (epsilon, delta) in SIZES.items():
        wave, textbook = (figures[f"{counter}_{name}_events_a_second"] for counter in ("wave", "eh"))
        figures[f"wave_over_eh_{name}"] = wave / textbook
        sketch = _filled("wave", epsilon, delta, keys, times)
        figures[f"bulk_over_single_{name}"] = _bulk_over_single(sketch, keys[:100_000])
        merge = _best(lambda sketch=sketch: ECMSketch.merge([sketch, sketch]))  # type: ignore[misc]
        worth = MERGE_WORTH[name] / figures[f"wave_{name}_events_a_second"]
        figures[f"merge_over_update_{name}"] = merge / worth
        figures[f"zstd_bytes_over_ours_{name}"] = _zstd_bytes(sketch) / figures[f"wave_{name}_bytes"]
    ratio = {name: f"{value:,.3g}" for name, value in figures.items()}
    notes = [
        f"{events:,} events, all in the window. An exact window is as fast: what a sketch saves is memory, and what "
        "crosses the network. Panes are smaller, and blind to what happens within one.",
        f"Waves run {ratio['wave_over_eh_0.1']}x as fast as the textbook's histograms at epsilon 0.1, "
        f"{ratio['wave_over_eh_0.01']}x at 0.01. Merging two costs {ratio['merge_over_update_0.1']} of an update with "
        f"500,000 events at 0.1, and {ratio['merge_over_update_0.01']} of one with 5 million at 0.01.",
        f"100,000 keys at once are answered {ratio['bulk_over_single_0.1']}x and {ratio['bulk_over_single_0.01']}x as "
        "fast as one by one. The same times as byte planes of differences under zstd would take "
        f"{ratio['zstd_bytes_over_ours_0.1']}x and {ratio['zstd_bytes_over_ours_0.01']}x our bytes.",
    ]  # fmt: skip
    columns = ("counter and epsilon", "M events/s", "memory, KB", "bytes, KB", "speed over the textbook's")
    return Report("ECM-sketches in a window of an hour", columns, rows, figures, notes)


def _filled(counter: str, epsilon: float, delta: float, keys: I64, times: I64) -> ECMSketch:
    sketch = ECMSketch(epsilon, delta, window=WINDOW, counter=counter)
    sketch.update(keys, at=times)
    return sketch


def _measured(
    counter: str, epsilon: float, delta: float, keys: I64, times: I64, figures: dict[str, float], name: str
) -> Row:
    _filled(counter, epsilon, delta, keys[:1000], times[:1000])  # compile first
    repeats = 1 if counter == "randomized" else 3
    seconds = _best(lambda: _filled(counter, epsilon, delta, keys, times), repeats)
    sketch = _filled(counter, epsilon, delta, keys, times)
    rate = len(keys) / seconds
    figures[f"{counter}_{name}_events_a_second"] = rate
    figures[f"{counter}_{name}_memory"] = sketch.nbytes
    figures[f"{counter}_{name}_bytes"] = len(sketch.to_bytes())
    over = rate / figures[f"eh_{name}_events_a_second"]
    return f"{counter}, {name}", rate / 1e6, sketch.nbytes / 1000, len(sketch.to_bytes()) / 1000, over


def _exact(keys: I64, times: I64) -> Row:
    hashes, _ = hash_keys(keys)

    def fill() -> HashedWindow:
        window = HashedWindow(len(keys), UNIVERSE, WINDOW)
        window.update(hashes, times)
        return window

    HashedWindow(10, 10, 10).update(hashes[:3], times[:3])
    seconds = _best(fill)
    return "exact window", len(keys) / seconds / 1e6, fill().nbytes / 1000, None, None


def _bulk_over_single(sketch: ECMSketch, keys: I64) -> float:
    sketch.estimate(keys[:1])
    bulk = _best(lambda: sketch.estimate(keys)) / len(keys)
    some = keys[:300].tolist()

    def one_by_one() -> None:
        for key in some:
            sketch.estimate(key)

    return _best(one_by_one) / len(some) / bulk


def _zstd_bytes(sketch: ECMSketch) -> int:
    """What delta, byte planes and zstd would make of the same times."""
    times = np.sort(sketch._grid._pool.reshape(-1, sketch.size), axis=1)  # type: ignore[attr-defined]
    deltas = np.diff(times.astype(np.int64), axis=1, prepend=0).astype(np.uint32)
    planes = np.ascontiguousarray(deltas.ravel().view(np.uint8).reshape(-1, 4).T)
    return len(pa.compress(planes.tobytes(), codec="zstd", asbytes=True)) + sketch._grid.counts().nbytes  # type: ignore[union-attr]


def _best(work: Callable[[], object], repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
