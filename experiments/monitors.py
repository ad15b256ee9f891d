"""Geometric monitoring, Figures 3 to 10: what watching a join costs, against CG, an oracle and forwarding.

Figures 3, 4 and 6: a self-join, 4 sites, over theta. Figure 5: the same for the join of two streams, each event of
either by chance, its errors as shares of |f| |g|. Figures 7 and 8: over epsilon/theta at one theta. Figures 9 and 10:
over the number of sites; past 32 monitoring begins after two million events. `eager` and `lazy` are the paper's, `auto`
is what this library does by itself, `relative` is CG. The oracles are told by nobody and know everything: sites flush,
all or the one with the most updates first, only when the sketches' sum has really left its band; no message but the
flushes is counted. They live here only.

The paper draws these figures; its text says: total costs up to 35 % below CG's; with 20 sites a quarter of CG's data;
with many sites CG half of forwarding, eager and lazy 2 to 4.5 times forwarding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from catchment.app.report import Progress, Report
from catchment.monitor.quantities import InnerProduct, SelfJoin
from catchment.monitor.vectors import Drift
from catchment.monitor.watch import Watch
from catchment.sketch.keys import hash_keys
from catchment.testing.watched import STEP, inner_products, self_joins, watched
from experiments.monitor_streams import WEB, Drawn, draw

DELTA = 1 / 2**7
RULES = ("relative", "eager", "lazy", "auto")
ORACLES = ("oracle, eager", "oracle, lazy")
EVENT_BYTES = 8
PAPER = {
    "3-6": "total up to 35 % below CG (Fig. 4)",
    "5": "the same broad effect as for self-joins (Fig. 5)",
    "7-8": "best at epsilon = theta/2 (Fig. 7)",
    "9-10": "data a quarter of CG's (lazy, 20 sites); over forwarding CG 0.5, eager and lazy 2 to 4.5",
}
COLUMNS = (
    "figure", "sites", "theta", "epsilon", "rule", "events", "warm-up", "data bytes", "total bytes", "data over CG",
    "total over CG", "overhead", "over forwarding", "largest error", "paper",
)  # fmt: skip

Row = dict[str, Any]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is watched of a drawn stream, and the truth after each of its events."""

    kind: type[Watch]
    drawn: Drawn
    truth: I64
    scale: F64
    """What an error is a share of."""
    streams: I64 | None = None

    @classmethod
    def self_join(cls, drawn: Drawn) -> Question:
        truth = self_joins(drawn.keys)
        return cls(SelfJoin, drawn, truth, truth.astype(np.float64))

    @classmethod
    def join(cls, drawn: Drawn) -> Question:
        streams = np.random.default_rng(5).integers(0, 2, drawn.keys.size)
        norms = np.ones(drawn.keys.size)
        for mine in (streams == 0, streams == 1):
            norms *= np.sqrt(np.concatenate(([0], self_joins(drawn.keys[mine])))[np.cumsum(mine)])
        return cls(InnerProduct, drawn, inner_products(drawn.keys, streams), np.maximum(norms, 1.0), streams)

    def error(self, claimed: F64, ends: I64) -> float:
        """The largest error of what was claimed after so many events each; NaN is no claim."""
        return float(np.nanmax(np.abs(claimed - self.truth[ends - 1]) / self.scale[ends - 1]))


def run(*, quick: bool, progress: Progress) -> Report:
    rows: list[Row] = []
    settings = _settings(quick=quick)
    for place, (figure, sites, theta, epsilon, events, warm) in enumerate(settings):
        progress(f"Figure {figure}, {sites} sites, theta {theta:g}, epsilon {epsilon:g}", place / len(settings))
        ask = Question.join if figure == "5" else Question.self_join
        rows += _rows(figure, sites, theta, epsilon, warm, ask(draw(WEB, warm + events, sites)))
    return Report(
        "Geometric monitoring 2013: bytes of a watched join",
        COLUMNS,
        [[row[column] for column in COLUMNS] for row in rows],
        _figures(rows),
        notes=[
            draw(WEB, 1, 1).note,
            "data: flushes and zones, up and down. overhead: the share of all bytes that is not data.",
            "Streams here are far shorter than the paper's: early on an event is a large share of all, and costs most.",
            "warm-up: events that come at once before anything is counted. While a stream is young, the paper's rules "
            "with many sites synchronise at nearly every event.",
        ],
        chart=_chart(rows),
    )


def _settings(*, quick: bool) -> list[tuple[str, int, float, float, int, int]]:
    """Figure, sites, theta, epsilon, and how many events are counted after how many that are not."""
    if quick:
        return [
            ("3-6", 4, 0.2, 0.1, 10_000, 0), ("5", 4, 0.2, 0.1, 10_000, 0), ("9-10", 8, 0.2, 0.1, 1_000, 0),
            ("9-10", 16, 0.2, 0.1, 1_000, 20_000),
        ]  # fmt: skip
    events = 1_000_000
    return [
        *(("3-6", 4, theta, epsilon, events, 0) for epsilon in (0.02, 0.05) for theta in (0.06, 0.1, 0.15, 0.2)),
        *(("5", 4, theta, 0.02, events, 0) for theta in (0.06, 0.1, 0.15, 0.2)),
        *(("7-8", 4, 0.1, share * 0.1, events, 0) for share in (0.3, 0.5, 0.7, 0.9)),
        *(("9-10", sites, 0.1, 0.05, 200_000, 0) for sites in (2, 4, 8, 16, 32)),
        *(("9-10", sites, 0.1, 0.05, 200_000, 2_000_000) for sites in (64, 256)),
    ]


def _rows(figure: str, sites: int, theta: float, epsilon: float, warm: int, question: Question) -> list[Row]:
    drawn, found = question.drawn, list[Row]()
    events = drawn.keys.size - warm
    for rule in RULES:
        watch = question.kind(theta=theta, epsilon=epsilon, delta=DELTA, rule=rule)
        result = watched(watch, drawn.keys, drawn.places, sites, streams=question.streams, warm=warm)
        data = result.up.bytes("data") + result.down.bytes("data")
        error = question.error(result.claimed, result.ends)
        found.append({"rule": rule, "data bytes": data, "total bytes": result.bytes, "largest error": error})
    for rule in ORACLES:
        watch = question.kind(theta=theta, epsilon=epsilon, delta=DELTA)
        size, error = oracle(watch, question, sites, lazy="lazy" in rule, warm=warm)
        found.append({"rule": rule, "data bytes": size, "total bytes": size, "largest error": error})
    baseline = found[0]
    for row in found:
        row |= {
            "figure": figure, "sites": sites, "theta": theta, "epsilon": epsilon, "events": events, "warm-up": warm,
            "data over CG": row["data bytes"] / max(1, baseline["data bytes"]),
            "total over CG": row["total bytes"] / max(1, baseline["total bytes"]),
            "overhead": 1 - row["data bytes"] / row["total bytes"] if row["total bytes"] else 0.0,
            "over forwarding": row["total bytes"] / (EVENT_BYTES * events),
            "paper": PAPER[figure],
        }  # fmt: skip
    return found


def oracle(watch: Watch, question: Question, sites: int, *, lazy: bool, warm: int = 0) -> tuple[int, float]:
    """The bytes of the flushes alone when they happen only on true violations, and the largest error.

    The first `warm` events are one step, which costs nothing.
    """
    vectors = [watch.new_vector() for _ in range(sites)]
    drifts = [Drift(vector) for vector in vectors]
    held = np.zeros(vectors[0].shape, dtype=np.int64)
    hashes, _ = hash_keys(question.drawn.keys)
    streams = np.zeros(hashes.size, dtype=np.int64) if question.streams is None else question.streams
    one = np.ones(1, dtype=np.int64)
    ends = np.minimum(np.arange(warm + STEP, hashes.size + STEP, STEP), hashes.size)
    if warm:
        ends = np.concatenate(([warm], ends))
    claimed = np.empty(ends.size)
    value, size, begin = 0.0, 0, 0
    for step, end in enumerate(ends.tolist()):
        part, begin = slice(begin, end), end
        for place in np.unique(question.drawn.places[part]):
            for stream in range(vectors[0].streams):
                mine = (question.drawn.places[part] == place) & (streams[part] == stream)
                vectors[place].add(hashes[part][mine], one, None, stream)
        while watch.value(held + sum(drift.cells for drift in drifts)) not in watch.band(held, value):
            chosen = [max(drifts, key=lambda drift: drift.updates)] if lazy else drifts
            for drift in chosen:
                held += drift.cells
                size += sum(map(len, drift.taken()))
            value = watch.value(held)
        claimed[step] = value
        if end == warm:
            size = 0
    return size, question.error(claimed, ends)


def _figures(rows: list[Row]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in rows:
        name = f"{row['rule'].replace(', ', '_')}_{row['sites']}_{row['theta']:g}_{row['epsilon']:g}"
        join = "join_" if row["figure"] == "5" else ""
        figures[f"{join}{name}_total_over_cg"] = row["total over CG"]
    figures["largest_error_over_theta"] = max(row["largest error"] / row["theta"] for row in rows)
    return figures


def _chart(rows: list[Row]) -> Any:
    values = [
        {key: row[key] for key in ("figure", "rule", "sites", "theta", "epsilon", "total over CG")} for row in rows
    ]

    def panel(figure: str, x: str, title: str) -> Any:
        return (
            alt.Chart(alt.InlineData(values=[value for value in values if value["figure"] == figure]))
            .mark_line(point=True)
            .encode(x=x, y=alt.Y("total over CG:Q"), color=alt.Color("rule:N", sort=None), strokeDash="epsilon:N")
            .properties(width=320, height=200, title=title)
        )

    return alt.hconcat(
        panel("3-6", "theta:Q", "Figures 3, 4, 6: over theta, 4 sites"),
        panel("5", "theta:Q", "Figure 5: two streams, over theta, 4 sites"),
        panel("7-8", "epsilon:Q", "Figures 7, 8: over epsilon at one theta"),
        panel("9-10", "sites:Q", "Figures 9, 10: over sites"),
    )
