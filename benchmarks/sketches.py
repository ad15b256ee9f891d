"""Sketches against the `datasketches` package: speed on one core, and bytes for equal error.

Both sides see the same events in the same run. `datasketches` takes one event a call, so it is driven by the fastest
loop that Python has (`map` into a deque of length 0); ours takes arrays, and much of the ratio is that. Each run starts
with an empty sketch; rates are the best of three on our side, whose runs are short, and one run on theirs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment import CountMin, SpaceSaving, UltraLogLog
from catchment.app.report import Progress, Report
from catchment.testing.streams import zipf

UNIVERSE = 1_000_000
LG_COUNTERS = 12
"""A frequent-items sketch of 2^12 slots keeps at most 3/4 of them."""
LG_REGISTERS = 12


def run(*, quick: bool, progress: Progress) -> Report:
    events = 1_000_000 if quick else 20_000_000
    progress("making the stream", 0.0)
    keys = zipf(events, seed=1, skew=1.1, universe=UNIVERSE).keys
    names = pa.array([f"/page/{page}.html" for page in range(UNIVERSE)])
    texts = names.take(pa.array(keys))
    # The peer needs Python objects; one for each distinct key, shared, is the kindest way to give them.
    pool = names.to_pylist()
    strings, integers = [pool[key] for key in keys], keys.tolist()
    peers: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        "count_min_sketch, int": (lambda: datasketches.count_min_sketch(3, 272), integers),
        "count_min_sketch, str": (lambda: datasketches.count_min_sketch(3, 272), strings),
        "frequent_strings_sketch": (lambda: datasketches.frequent_strings_sketch(LG_COUNTERS), strings),
        "frequent_items_sketch": (lambda: datasketches.frequent_items_sketch(LG_COUNTERS), integers),
        "hll_sketch, int": (_hll, integers),
    }
    ours: dict[str, tuple[Callable[[], Any], Any, str]] = {
        "count_min_int64": (_count_min, keys, "count_min_sketch, int"),
        "count_min_arrow_strings": (_count_min, texts, "count_min_sketch, str"),
        "count_min_list_of_strings": (_count_min, strings, "count_min_sketch, str"),
        "space_saving_strings": (_space_saving, texts, "frequent_strings_sketch"),
        "space_saving_int64": (_space_saving, keys, "frequent_items_sketch"),
        "ultraloglog_int64": (_ultraloglog, keys, "hll_sketch, int"),
    }
    theirs: dict[str, float] = {}
    for name, (make, data) in peers.items():
        progress(f"datasketches {name}", 0.05 + 0.06 * len(theirs))
        theirs[name] = _peer_rate(make().update, data)
    rows: list[tuple[str, float, str, float, float]] = []
    figures: dict[str, float] = {}
    for name, (make, data, peer) in ours.items():
        progress(f"catchment {name}", 0.35 + 0.05 * len(rows))
        rate = _rate(make, data)
        rows.append((name, rate / 1e6, peer, theirs[peer] / 1e6, rate / theirs[peer]))
        figures[f"{name}_events_a_second"] = rate
        figures[f"{name}_over_datasketches"] = rate / theirs[peer]
    progress("errors of the heavy hitters", 0.7)
    figures |= _heavy_hitter_errors(keys)
    progress("distinct counts for equal error", 0.8)
    figures |= _bytes_for_equal_error(trials=40 if quick else 400)
    error = figures["space_saving_error_over_datasketches"]
    merged, packed, single = (
        figures[f"ultraloglog_bytes_over_{peer}"] for peer in ("hll8", "hll4", "hll8_single_stream")
    )
    notes = [
        f"{events:,} zipf(1.1) keys over {UNIVERSE:,}; Count-Min 3x272; heavy hitters with 3,072 counters.",
        f"The widest Space Saving interval among the 1,000 heaviest keys is {error:.2f} times the peer's.",
        "Serialised bytes for the error that HLL with 4,096 registers shows, after merging 8 sites: UltraLogLog needs",
        f"{merged:.2f} of HLL_8's and {packed:.2f} of HLL_4's, which is packed too. In a single stream, never merged,",
        f"where HLL has a better estimator, it needs {single:.2f} of HLL_8's.",
    ]
    columns = ("catchment", "M/s", "datasketches", "M/s", "ratio")
    return Report("Events a second on one core, in millions", columns, rows, figures, notes)


def _rate(make: Callable[[], Any], keys: Any, repeats: int = 3) -> float:
    """Events a second of one update of an empty sketch with all keys."""
    make().update(keys[:1000])  # compiled
    sketches = [make() for _ in range(repeats)]
    return len(keys) / min(_seconds(lambda sketch=sketch: sketch.update(keys)) for sketch in sketches)  # type: ignore[misc]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peer_rate(update: Callable[[Any], object], keys: list[Any]) -> float:
    return len(keys) / _seconds(lambda: deque(map(update, keys), maxlen=0))


def _count_min() -> CountMin:
    return CountMin.sized(width=272, depth=3)


def _space_saving() -> SpaceSaving:
    return SpaceSaving.sized(capacity=3 * 2**LG_COUNTERS // 4)


def _ultraloglog(seed: int = 0) -> UltraLogLog:
    return UltraLogLog.sized(precision=LG_REGISTERS, seed=seed)


def _hll() -> Any:
    return datasketches.hll_sketch(LG_REGISTERS, datasketches.tgt_hll_type.HLL_8)


def _heavy_hitter_errors(keys: NDArray[np.int64]) -> dict[str, float]:
    """The widest interval over the thousand heaviest keys, ours over theirs; and whether ours ever missed."""
    part = keys
    ours = _space_saving()
    ours.update(part)
    theirs = datasketches.frequent_items_sketch(LG_COUNTERS)
    deque(map(theirs.update, part.tolist()), maxlen=0)
    truth = np.bincount(part)
    heaviest = np.argsort(-truth, kind="stable")[:1000]
    answer = ours.estimate(heaviest)
    width = np.max(np.asarray(answer.high) - answer.low)
    peer = max(theirs.get_upper_bound(key) - theirs.get_lower_bound(key) for key in heaviest.tolist())
    return {
        "space_saving_error_over_datasketches": float(width / peer),
        "space_saving_missed_truths": float(np.sum(~answer.holds(truth[heaviest]))),
    }


def _bytes_for_equal_error(trials: int) -> dict[str, float]:
    """Bytes scale with one over the squared error, so bytes * error^2 compares sizes at equal error."""
    distinct, sites = 40_000, 8
    cost: dict[str, list[float]] = {"ours": [], "ours merged": [], "theirs": [], "theirs merged": []}
    sizes = {"ours": 0, "theirs": 0}
    for trial in range(trials):
        keys = np.random.default_rng(trial).integers(0, 2**62, distinct)
        whole = _ultraloglog(trial)
        whole.update(keys)
        parts = [_ultraloglog(trial) for _ in range(sites)]
        for part, share in zip(parts, np.array_split(keys, sites), strict=True):
            part.update(share)
        peer = _filled_hll(keys.tolist())
        union = datasketches.hll_union(LG_REGISTERS)
        for share in np.array_split(keys, sites):
            union.update(_filled_hll(share.tolist()))
        for name, value in (
            ("ours", whole.estimate().value),
            ("ours merged", UltraLogLog.merge(parts).estimate().value),
            ("theirs", peer.get_estimate()),
            ("theirs merged", union.get_estimate()),
        ):
            cost[name].append((float(value) / distinct - 1) ** 2)
        sizes["ours"], sizes["theirs"] = len(whole.to_bytes()), len(peer.serialize_compact())
    packed = datasketches.hll_sketch(LG_REGISTERS, datasketches.tgt_hll_type.HLL_4)
    deque(map(packed.update, keys.tolist()), maxlen=0)
    share_of_bytes = sizes["ours"] / sizes["theirs"]
    merged_error = np.mean(cost["ours merged"]) / np.mean(cost["theirs merged"])
    return {
        "ultraloglog_error": float(np.sqrt(np.mean(cost["ours merged"]))),
        "hll8_error": float(np.sqrt(np.mean(cost["theirs merged"]))),
        "ultraloglog_bytes": sizes["ours"],
        "hll8_bytes": sizes["theirs"],
        "hll4_bytes": len(packed.serialize_compact()),
        "ultraloglog_bytes_over_hll8": float(share_of_bytes * merged_error),
        "ultraloglog_bytes_over_hll4": float(sizes["ours"] / len(packed.serialize_compact()) * merged_error),
        "ultraloglog_bytes_over_hll8_single_stream": float(
            share_of_bytes * np.mean(cost["ours"]) / np.mean(cost["theirs"])
        ),
    }


def _filled_hll(keys: list[int]) -> Any:
    sketch = _hll()
    deque(map(sketch.update, keys), maxlen=0)
    return sketch
