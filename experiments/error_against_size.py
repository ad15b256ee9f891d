"""Error against size for each sketch, with the bound that it states and the error that its size promises.

Each trial is a zipf(1.1) stream and a seed of its own. The error is the distance of the estimate from the truth; the
bound is the largest distance that the answer's interval leaves open. Both are relative: to the total weight for
frequencies, to the range of values for the value estimator, to the truth for everything else. Means over keys and
trials. The epsilon of a Bloom filter, a value estimator and a tug of war is not of that kind, and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np

import catchment
from catchment import Sketch
from catchment.app.report import Progress, Report
from catchment.sketch.base import KEYED_TRUTHS
from catchment.testing import Events, Exact
from catchment.testing.contract import feed, truth_of
from catchment.testing.streams import zipf

SIZES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "CountMin": ("estimate", [{"width": 2**n, "depth": 5} for n in range(5, 12)]),
    "FastAMS": ("self_join", [{"width": 2**n, "depth": 5} for n in range(5, 12)]),
    "SpaceSaving": ("estimate", [{"capacity": 2**n} for n in range(4, 11)]),
    "ValueEstimator": ("estimate", [{"width": 2**n, "depth": 4} for n in range(5, 12)]),
    "BloomFilter": ("estimate", [{"bits": 2**n, "probes": 4} for n in range(14, 19)]),
    "FMSketch": ("estimate", [{"bitmaps": 2**n} for n in range(4, 11)]),
    "BottomK": ("estimate", [{"size": 2**n} for n in range(4, 11)]),
    "UltraLogLog": ("estimate", [{"precision": n} for n in range(4, 14)]),
    "TugOfWar": ("self_join", [{"dimensions": 2**n, "counter_size": 14} for n in range(5, 8)]),
}

OTHER_UNIT = {"BloomFilter", "TugOfWar", "ValueEstimator"}

Row = tuple[str, int, float, float, float | None, float]
"""Sketch, bytes, error, bound, epsilon, share of truths missed."""


def run(*, quick: bool, progress: Progress) -> Report:
    trials, events = (2, 3_000) if quick else (12, 30_000)
    rows: list[Row] = []
    steps = sum(len(sizes) for _, sizes in SIZES.values())
    for name, (question, sizes) in SIZES.items():
        for size in sizes[:3] if quick else sizes:
            progress(name, len(rows) / steps)
            rows.append(_measured(getattr(catchment, name), size, question, trials=trials, events=events))
    columns = ("sketch", "bytes in memory", "error", "bound", "epsilon of the size", "truths missed")
    return Report(
        f"Error against size: {trials} trials of {events:,} events, zipf(1.1)",
        columns,
        rows,
        _figures(rows),
        notes=["epsilon is what the size promises for the worst stream; the bound is what the answer said."],
        chart=_chart(rows),
    )


def _measured(kind: type[Sketch], size: dict[str, Any], question: str, *, trials: int, events: int) -> Row:
    errors, bounds, missed, taken = [], [], [], 0
    for trial in range(trials):
        stream = zipf(events, seed=trial, skew=1.1, universe=10_000)
        seeded = {"seed": trial} if "seed" in kind._layout else {}
        sketch = feed(kind.sized(**size, **seeded), stream)
        truth = truth_of(sketch, stream)
        keys, true, scale = _truth(kind, question, truth, stream)
        answer = getattr(sketch, question)(*([keys] if keys else []))
        errors.append(np.mean(np.abs(answer.value - true)) / scale)
        bounds.append(np.mean(np.maximum(answer.value - answer.low, answer.high - answer.value)) / scale)
        missed.append(np.mean(~np.atleast_1d(answer.holds(true))))
        taken = sketch.nbytes
    comparable = kind.__name__ not in OTHER_UNIT and np.isfinite(sketch.epsilon)
    epsilon = float(sketch.epsilon) if comparable else None
    return kind.__name__, taken, float(np.mean(errors)), float(np.mean(bounds)), epsilon, float(np.mean(missed))


def _truth(kind: type[Sketch], question: str, truth: Exact, stream: Events) -> tuple[list[int], Any, float]:
    """The keys to ask about, the true answers, and what errors are relative to."""
    exact: Callable[..., float] = getattr(truth, kind.measures[question])
    if kind.measures[question] not in KEYED_TRUTHS:
        return [], exact(), exact()
    keys = truth.keys()
    spread = float(np.ptp(stream.values)) if kind.measures[question] == "mean_value" else float(truth.total())
    return keys, np.array([exact(key) for key in keys]), spread


def _figures(rows: list[Row]) -> dict[str, float]:
    """For each sketch at its largest size: its error, its bound over that, and how often it missed."""
    largest = {row[0]: row for row in rows}
    figures = {}
    for name, (_, _, error, bound, _, missed) in largest.items():
        figures[f"{name}_error"] = error
        figures[f"{name}_bound_over_error"] = bound / error if error else 1.0
        figures[f"{name}_missed"] = missed
    return figures


def _chart(rows: list[Row]) -> Any:
    points = [
        {"sketch": row[0], "bytes": row[1], "measure": measure, "relative error": value}
        for row in rows
        for measure, value in (("error", row[2]), ("bound of the answer", row[3]), ("epsilon of the size", row[4]))
        if value
    ]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("bytes:Q", scale=alt.Scale(type="log"), title="bytes in memory"),
            y=alt.Y("relative error:Q", scale=alt.Scale(type="log")),
            color=alt.Color("measure:N", sort=["error", "bound of the answer", "epsilon of the size"], title=None),
        )
        .properties(width=240, height=170)
        .facet(facet=alt.Facet("sketch:N", title=None), columns=3)
        .resolve_scale(x="independent", y="independent")
        .properties(title="Error against size, with the bound drawn in")
    )
