"""Key grouping: the thesis's Figures 7.4 to 7.12 anew: imbalance against k, mu, theta, alpha, and against PKG.

As in section 7.1.2: streams of 100,000 events over 10,000 keys with random names, 80,000 to learn from and 20,000 to
judge by, epsilon = theta/2. Imbalance is the thesis's lambda, in percent: how far the busiest part is above the mean.
SD is the standard deviation of the parts' loads, in events. "worst" is the largest of all streams. The thesis has
10,000 streams for each point and gives most results as plots; where its text or Table 7.3 has numbers, they are beside
ours.

`ours` are our defaults, theta = 1/(64 k) and mu = 64. DKG WOSIM is the thesis's variant that hashes sparse keys
straight to parts; PKG, DKG-PKG and D-Choices split keys, for states that merge. Where the thesis does not say k or the
skew (7.10, 7.11) they are ours. Figure 7.12 has the DEBS trace there; here it is a seeded trace, or that of --data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from catchment.app.report import Progress, Report
from catchment.balance import (
    DChoices,
    KeyLearner,
    PairedPieces,
    TwoChoices,
    build_map,
    full_knowledge,
    hash_map,
    imbalance,
)
from catchment.balance.partition_build import greedy
from catchment.sketch.keys import hash_keys
from experiments.key_streams import KeyStream, key_stream, trace_stream
from experiments.traces import load, web_like

Loads = NDArray[np.float64]
Algorithm = Callable[[KeyStream, int], Any]

COLUMNS = (
    "figure", "stream", "k", "theta", "mu", "algorithm", "imbalance", "worst", "thesis", "thesis worst", "SD",
    "SD worst",
)  # fmt: skip
NO_THETA = 0.999
"""The thesis's theta = 1.0: no key is heavy."""
TABLE = {  # a and b of a * k + b, Table 7.3
    "full knowledge": ((60.7, -100), (60.7, -100)),
    "hash": ((60.7, -60.7), (87.3, -73.0)),
    "DKG": ((60.7, -100), (62, -100)),
    "one part": ((100, -100), (100, -100)),
}


def _learnt(stream: KeyStream, theta: float, buckets: int) -> KeyLearner:
    learner = KeyLearner(theta, buckets, seed=stream.seed)
    learner.update(stream.training)
    return learner


def _judged(stream: KeyStream, parts: Any, k: int) -> Loads:
    return np.bincount(parts, weights=stream.counts, minlength=k).astype(np.float64)


def dkg(theta: float | None, mu: int) -> Algorithm:
    """DKG with the thesis's parameters, or with ours."""

    def loads(stream: KeyStream, k: int) -> Loads:
        learner = _learnt(stream, 1 / (mu * k) if theta is None else theta, mu * k)
        return _judged(stream, build_map(learner, k).place(stream.names), k)

    return loads


def wosim(theta: float) -> Algorithm:
    """Heavy keys as in DKG, all others straight to a part by their hash."""

    def loads(stream: KeyStream, k: int) -> Loads:
        learner = _learnt(stream, theta, k)
        heavy = learner.heavy_keys()
        own = dict(zip(heavy.keys, greedy(heavy.loads, k)[0].tolist(), strict=True))
        parts = learner.buckets_of(hash_keys(stream.names)[0])
        for place, name in enumerate(stream.names.tolist()):
            parts[place] = own.get(name, parts[place])
        return _judged(stream, parts, k)

    return loads


def hashed(stream: KeyStream, k: int) -> Loads:
    return _judged(stream, hash_map(k, seed=stream.seed).place(stream.names), k)


def informed(stream: KeyStream, k: int) -> Any:
    return full_knowledge(stream.counts, k)


def together(stream: KeyStream, k: int) -> Any:
    return np.array([stream.counts.sum(), *[0] * (k - 1)])


def pkg(stream: KeyStream, k: int) -> Any:
    router = TwoChoices(k, seed=stream.seed)
    router.route(stream.validation())
    return router.loads


def d_choices(stream: KeyStream, k: int) -> Any:
    router = DChoices(k, seed=stream.seed)
    router.route(stream.training)  # the source knows what it has sent before
    before = router.loads.copy()
    router.route(stream.validation())
    return router.loads - before


def dkg_pkg(theta: float, mu: int) -> Algorithm:
    def loads(stream: KeyStream, k: int) -> Any:
        router = PairedPieces(build_map(_learnt(stream, theta, mu * k), k, split="pairs"))
        router.route(stream.validation())
        return router.loads

    return loads


@dataclass(frozen=True, slots=True)
class Point:
    """One algorithm at one setting, over many streams."""

    figure: str
    stream: str
    k: int
    theta: float | None
    mu: int | None
    algorithm: str
    loads: Algorithm
    thesis: tuple[float | None, float | None] = (None, None)

    def row(self, found: list[Any]) -> tuple[Any, ...]:
        """The means over what the parts had of each stream."""
        shares, spread = [imbalance(loads) for loads in found], [float(np.std(loads)) for loads in found]
        return (
            self.figure, self.stream, self.k, self.theta, self.mu, self.algorithm, float(np.mean(shares)), max(shares),
            *self.thesis, float(np.mean(spread)), max(spread),
        )  # fmt: skip


def _table(algorithm: str, k: int) -> tuple[float, float]:
    (a, b), (c, d) = TABLE[algorithm]
    return a * k + b, c * k + d


def _against_k(ks: tuple[int, ...]) -> Iterator[Point]:
    named: tuple[tuple[str, Algorithm], ...] = (
        ("full knowledge", informed), ("DKG", dkg(0.1, 2)), ("hash", hashed), ("one part", together),
    )  # fmt: skip
    for k in ks:
        for name, loads in named:
            theta, mu = (0.1, 2) if name == "DKG" else (None, None)
            yield Point("7.4, 7.5", "zipf-2", k, theta, mu, name, loads, _table(name, k))
        yield Point("7.4, 7.5", "zipf-2", k, 1 / (64 * k), 64, "ours", dkg(None, 64))


def _against_parameters(skews: tuple[int, ...], *, quick: bool) -> Iterator[Point]:
    for skew in skews:
        stream = f"zipf-{skew}"
        for mu in (1, 2, 8) if quick else (1, 2, 3, 4, 6, 8, 10):
            yield Point("7.7", stream, 2, 1.0, mu, "DKG", dkg(NO_THETA, mu))
        for theta in (0.05, 0.9) if quick else (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9):
            yield Point("7.8", stream, 2, theta, 1, "DKG", dkg(theta, 1))
        for theta in (0.01, 0.2) if quick else (0.01, 0.05, 0.1, 0.2, 0.5):
            for mu in (1, 8) if quick else (1, 2, 4, 8):
                yield Point("7.9", stream, 5, theta, mu, "DKG", dkg(theta, mu))


def _against_others(ks: tuple[int, ...], *, quick: bool) -> Iterator[Point]:
    for alpha in (1.0, 2.0) if quick else (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        yield Point("7.10", f"zipf-{alpha:g}", 5, 0.1, 2, "DKG", dkg(0.1, 2))
        yield Point("7.10", f"zipf-{alpha:g}", 5, 0.1, 2, "DKG WOSIM", wosim(0.1))
    for skew in (1, 2):
        for k in ks:
            stream = f"zipf-{skew}"
            yield Point("7.11", stream, k, 0.1, 2, "DKG", dkg(0.1, 2))
            yield Point("7.11", stream, k, None, None, "PKG", pkg)
            yield Point("7.11", stream, k, 0.1, 2, "DKG-PKG", dkg_pkg(0.1, 2))
            yield Point("7.11", stream, k, None, None, "D-Choices", d_choices)


def _on_a_trace(name: str, ks: tuple[int, ...]) -> Iterator[Point]:
    for k in ks:
        yield Point("7.12", name, k, None, None, "full knowledge", informed)
        yield Point("7.12", name, k, 0.1, 2, "DKG", dkg(0.1, 2))
        yield Point("7.12", name, k, 1 / (64 * k), 64, "ours", dkg(None, 64))
        yield Point("7.12", name, k, None, None, "hash", hashed)


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    many, some, few = (4, 2, 2) if quick else (1000, 200, 50)
    ks = (2, 5, 10) if quick else tuple(range(2, 11))
    trace = web_like(20_000 if quick else 1_000_000) if data is None else load(data)
    points = [
        *((point, many) for point in _against_k(ks)),
        *((point, some) for point in _against_parameters((1, 2) if quick else (1, 2, 3), quick=quick)),
        *((point, few) for point in _against_others(ks, quick=quick)),
        *((point, 1) for point in _on_a_trace(trace.name, ks)),
    ]
    found: dict[Point, list[Any]] = {point: [] for point, _ in points}
    runs = [(name, seed) for name in dict.fromkeys(point.stream for point in found) for seed in range(many)]
    for done, (name, seed) in enumerate(runs):
        progress(f"{name}, stream {seed + 1}", done / len(runs))
        wanted = [point for point, trials in points if point.stream == name and seed < trials]
        if wanted:
            is_trace = name == trace.name
            stream = trace_stream(trace.keys) if is_trace else key_stream(float(name.removeprefix("zipf-")), seed)
            for point in wanted:
                found[point].append(point.loads(stream, point.k))
    rows = [point.row(loads) for point, loads in found.items()]
    spans = _spans(rows)
    return Report(
        "Key grouping: imbalance of the busiest part, in percent",
        COLUMNS,
        rows,
        _figures(rows),
        [
            f"{many} streams for 7.4 and 7.5, {some} for 7.7 to 7.9, {few} for 7.10 and 7.11, one trace; the thesis "
            "has 10,000 for each point.",
            "Of 20,000 events to judge by, a tenth is 2,000 give or take 42: with many parts some imbalance is chance, "
            "which full knowledge, knowing these very events, does not have.",
            "Figure 7.6: the thesis's SD of plain hashing with k = 2 is from 2,800 to 9,600; " + spans,
        ],
        _chart(rows),
    )


def _spans(rows: list[tuple[Any, ...]]) -> str:
    found = {row[5]: row[-1] for row in rows if row[0] == "7.4, 7.5" and row[2] == 2}
    return f"ours is at most {found['hash']:,.0f}, DKG's at most {found['DKG']:,.0f}."


def _figures(rows: list[tuple[Any, ...]]) -> dict[str, float]:
    """How far DKG is from full knowledge, and from the thesis's own numbers."""
    by = {(row[0], row[1], row[2], row[5]): row for row in rows if row[0] in ("7.4, 7.5", "7.12")}
    gaps: dict[str, float] = {}
    for (figure, stream, k, algorithm), row in by.items():
        if algorithm in ("DKG", "ours", "hash"):
            best = by[figure, stream, k, "full knowledge"]
            name = f"{algorithm.lower()}_{'trace' if figure == '7.12' else 'mean'}_gap"
            gaps[name] = max(gaps.get(name, 0.0), row[6] - best[6])
    thesis = [abs(row[6] - row[8]) for row in rows if row[8] is not None and row[5] == "DKG"]
    split = {row[5]: row[6] for row in rows if row[0] == "7.11" and row[1] == "zipf-2" and row[2] == 10}
    return gaps | {
        "dkg_mean_from_thesis": max(thesis),
        "pkg_zipf_2_k_10": split["PKG"],
        "d_choices_zipf_2_k_10": split["D-Choices"],
    }


def _chart(rows: list[tuple[Any, ...]]) -> Any:
    points = [
        {"k": row[2], "algorithm": row[5], "figure": f"{row[0]}: {row[1]}", "which": which, "imbalance": value}
        for row in rows
        if row[0] in ("7.4, 7.5", "7.11", "7.12")
        for which, value in (("mean", row[6]), ("worst", row[7]))
    ]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("k:Q", title="parts"),
            y=alt.Y("imbalance:Q", title="imbalance of the busiest part, %"),
            color="algorithm:N",
            strokeDash="which:N",
        )
        .properties(width=300, height=220)
        .facet("figure:N", columns=2)
    )
