"""Distributed heavy hitters: the thesis's Figures 5.3 to 5.8 and its DDoS row (Table 5.9) anew.

As in section 5.1.1: 20 sites, 100,000 items each of a universe of 10,000, Zipf 0.5 to 3, theta from 0.005 to 0.1, with
epsilon = delta = 0.1, 4,000 items a second at each site; rho 0.005 (no buffers) and 1 (full buffers). Precision and
recall are those of the list at its own cut, against exact counts there: at the end, and the worst of 20 moments on the
way. Latency is the share of all items that were read when the last of the finally heavy items was first listed.

Bytes are those of the real messages, both ways, acknowledgements and signs of life included, without faults; an item of
the streams counts 8 bytes. The thesis gives its numbers as plots; what its text says of them (at most, over all runs)
is beside ours. Columns are as in Lemma 4.6, where the thesis used the smaller e/theta.

The DDoS row: one target with 15 of 100 items, theta = 0.1, all others far below. With --data, the destinations of a
NetFlow, dealt out to 20 sites at random, which is no part of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from catchment.app.jobs.detect import read_flows
from catchment.app.report import Progress, Report
from catchment.monitor import Arrived, Coordinator, HeavyClaim, HeavyHitters, Site
from catchment.testing.lockstep import Lockstep

I64 = NDArray[np.int64]

SITES = tuple(f"node {number:02}" for number in range(20))
UNIVERSE = 10_000
RATE = 4_000
HEARTBEAT = 5_000
ITEM_BYTES = 8
MOMENTS = 20
THETAS = (0.005, 0.01, 0.02, 0.05, 0.1)
COLUMNS = (
    "stream", "theta", "rho", "heavy", "listed", "recall", "thesis recall", "precision", "worst recall",
    "worst precision", "bytes ratio", "thesis bits ratio", "messages ratio", "thesis messages", "latency",
    "thesis latency", "rounds",
)  # fmt: skip
THESIS_BITS, THESIS_MESSAGES, THESIS_LATENCY = 0.085, 0.012, 0.03
THESIS_DDOS = {0.005: 3.6e-4, 1.0: 3.2e-4}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to."""

    heavy: int
    listed: int
    recall: float
    precision: float
    worst_recall: float
    worst_precision: float
    bytes_ratio: float
    messages_ratio: float
    latency: float
    rounds: int


def zipf(skew: float, events: int, rng: np.random.Generator) -> I64:
    odds = np.arange(1, UNIVERSE + 1) ** -skew
    return np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(events))


def attack(events: int, rng: np.random.Generator) -> I64:
    """One target with 15 of 100 items, the others even over 80,000 addresses."""
    keys = rng.integers(1, 80_001, events)
    keys[rng.random(events) < 0.15] = 0
    return keys


def _exact(streams: list[I64], claim: HeavyClaim) -> tuple[I64, int]:
    """The count of each item at the claim's cut, and of all."""
    size = max(int(stream.max()) for stream in streams) + 1
    counts = np.zeros(size, dtype=np.int64)
    for name, stream in zip(SITES, streams, strict=True):
        if name in claim.cut:
            counts += np.bincount(stream[: claim.cut[name].position], minlength=size)
    return counts, int(counts.sum())


def _scores(streams: list[I64], claim: HeavyClaim, theta: float) -> tuple[float, float, int, int]:
    """Recall, precision, how many are heavy and how many are listed; with nothing to find or listed, 1."""
    counts, total = _exact(streams, claim)
    heavy = set(np.flatnonzero(counts >= max(1.0, theta * total)).tolist())
    listed = set(claim.keys)
    right = len(heavy & listed)
    return right / max(len(heavy), 1) if heavy else 1.0, right / len(listed) if listed else 1.0, len(heavy), len(listed)


def followed(streams: list[I64], *, theta: float, rho: float, batch: int, seed: int = 1) -> Outcome:
    """Run the machines over 20 streams, a batch of each at a time."""
    watch = HeavyHitters(phi=theta, rho=rho, seed=seed)
    coordinator = Coordinator((watch,), SITES, lease=3 * HEARTBEAT)
    sites = {name: Site(name, (watch,), heartbeat=HEARTBEAT) for name in SITES}
    network = Lockstep(coordinator, sites)
    longest = max(stream.size for stream in streams)
    everything = np.bincount(np.concatenate(streams))
    awaited = set(np.flatnonzero(everything >= theta * everything.sum()).tolist())
    latency, scores = 0.0, []
    looks = set(np.linspace(0, (longest - 1) // batch, MOMENTS + 1, dtype=int)[1:].tolist())
    for number, start in enumerate(range(0, longest, batch)):
        for name, stream in zip(SITES, streams, strict=True):
            network.give(name, Arrived(stream[start : start + batch]))
        if awaited:
            awaited -= {found.key for found in _claimed(coordinator).heavy}
            latency = min(1.0, (start + batch) / longest)
        network.pass_time(1000 * batch // RATE)
        if number in looks:
            scores.append(_scores(streams, _claimed(coordinator), theta)[:2])
    network.pass_time(HEARTBEAT)  # one more word from each, about the end
    claim = _claimed(coordinator)
    recall, precision, heavy, listed = _scores(streams, claim, theta)
    books = [coordinator.traffic, *(site.traffic for site in sites.values())]
    total = sum(stream.size for stream in streams)
    return Outcome(
        heavy, listed, recall, precision, min(score[0] for score in scores), min(score[1] for score in scores),
        sum(book.bytes() for book in books) / (ITEM_BYTES * total), sum(book.messages() for book in books) / total,
        latency, coordinator.rounds(watch.number),
    )  # fmt: skip


def _claimed(coordinator: Coordinator) -> HeavyClaim:
    claim = coordinator.heavy_hitters(1)
    assert claim is not None  # every site speaks when it begins
    return claim


def _row(stream: str, theta: float, rho: float, found: Outcome, bits: float, *, ddos: bool = False) -> tuple[Any, ...]:
    return (
        stream, theta, rho, found.heavy, found.listed, found.recall, 1.0, found.precision, found.worst_recall,
        found.worst_precision, found.bytes_ratio, bits, found.messages_ratio, None if ddos else THESIS_MESSAGES,
        found.latency, None if ddos else THESIS_LATENCY, found.rounds,
    )  # fmt: skip


def _flows(data: Path) -> list[I64]:
    flows = read_flows(data, sites=len(SITES))
    codes = flows.targets.dictionary_encode().indices.to_numpy().astype(np.int64)
    return [codes[flows.sites == number] for number in range(len(SITES))]


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    events, batch = (10_000, 500) if quick else (100_000, 200)
    thetas = (0.005, 0.1) if quick else THETAS
    rows: list[tuple[Any, ...]] = []
    runs = [(skew, theta, rho) for skew in (0.5, 1.0, 2.0, 3.0) for theta in thetas for rho in (0.005, 1.0)]
    for done, (skew, theta, rho) in enumerate(runs):
        progress(f"zipf-{skew:g}, theta {theta:g}, rho {rho:g}", done / (len(runs) + 3))
        rng = np.random.default_rng([int(10 * skew), 51])
        streams = [zipf(skew, events, rng) for _ in SITES]
        found = followed(streams, theta=theta, rho=rho, batch=batch)
        rows.append(_row(f"zipf-{skew:g}", theta, rho, found, THESIS_BITS))
    for rho in (0.005, 1.0):
        progress(f"an attack, rho {rho:g}", 0.95)
        rng = np.random.default_rng(15)
        found = followed([attack(events, rng) for _ in SITES], theta=0.1, rho=rho, batch=batch)
        rows.append(_row("attack of 15 %", 0.1, rho, found, THESIS_DDOS[rho], ddos=True))
    if data is not None:
        streams = _flows(data)
        for theta in (0.005, 0.1):
            found = followed(streams, theta=theta, rho=1.0, batch=batch)
            rows.append(_row(data.name, theta, 1.0, found, THESIS_DDOS[1.0], ddos=True))
    return Report(
        "Distributed heavy hitters: 20 sites",
        COLUMNS,
        rows,
        _figures(rows),
        [
            f"{events:,} items at each site in batches of {batch}; one run each, where the thesis has the mean of 100.",
            f"Streams count {ITEM_BYTES} bytes an item; the thesis counts bits of 32-bit numbers on both sides.",
            "The thesis's columns are the most that its text states for all its runs; its DDoS trace is CAIDA's.",
        ],
        _chart(rows),
    )


def _figures(rows: list[tuple[Any, ...]]) -> dict[str, float]:
    column = {name: place for place, name in enumerate(COLUMNS)}
    skewed = [row for row in rows if row[0] in ("zipf-1", "zipf-2", "zipf-3") and row[1] == 0.005]
    return {
        "least_recall": min(min(row[column["recall"]], row[column["worst recall"]]) for row in rows),
        "least_precision_skewed": min(row[column["precision"]] for row in skewed),
        "worst_precision_skewed": min(row[column["worst precision"]] for row in skewed),
        "most_bytes_ratio": max(row[column["bytes ratio"]] for row in rows),
        "most_messages_ratio": max(row[column["messages ratio"]] for row in rows),
        "most_latency": max(row[column["latency"]] for row in rows),
    }


def _chart(rows: list[tuple[Any, ...]]) -> Any:
    place = COLUMNS.index("bytes ratio")
    points = [
        {"stream": row[0], "theta": row[1], "rho": f"rho {row[2]:g}", "ratio": row[place]}
        for row in rows
        if row[0].startswith("zipf")
    ]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("theta:Q", scale=alt.Scale(type="log"), title="theta"),
            y=alt.Y("ratio:Q", scale=alt.Scale(type="log"), title="bytes sent / bytes of the streams"),
            color="stream:N",
            strokeDash="rho:N",
        )
        .properties(width=420, height=280)
    )
