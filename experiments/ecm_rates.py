"""ECM-sketch, 2015, Table 3: updates and point queries a second, by counter.

epsilon = 0.1 (the 2012 paper's for this table; the 2015 one does not say), delta = 0.15, a window of a quarter of the
trace. Updates: the whole trace in one call. Queries: every key of every range of 10^i ticks, a call for each range, as
in section 7.1. Single queries: one key in a call, and another range than in the call before, so that nothing is
remembered; Python takes most of that time. The best of several rounds, in which the counters take turns.

The papers ran Java on one core of a Xeon E5-2450. Times on different machines cannot be compared: look at the ratios
to ECM-EH, which stand beside the paper's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from catchment.app.report import Progress, Report
from catchment.window.ecm import ECMSketch
from experiments.ecm_trials import NAMES, Range, ranges_of
from experiments.traces import CAIDA, WC98, Trace, chosen, described

EPSILON, DELTA = 0.1, 0.15
UPDATES, QUERIES, SINGLE = "updates", "queries", "single queries"
PAPER: dict[tuple[str, str], dict[str, float]] = {
    (WC98, UPDATES): {"eh": 4_343_095, "wave": 6_067_130, "randomized": 70_468},
    (WC98, QUERIES): {"eh": 1_641_935, "wave": 1_850_909, "randomized": 11_905},
    (CAIDA, UPDATES): {"eh": 5_344_982, "wave": 6_205_999, "randomized": 72_778},
    (CAIDA, QUERIES): {"eh": 2_377_502, "wave": 3_827_267, "randomized": 15_108},
}
COLUMNS = ("stream", "rate of", "sketch", "a second", "paper: a second", "over ECM-EH", "paper: over ECM-EH")

Row = tuple[str, str, str, float, float | None, float, float | None]


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    traces = chosen(data, 20_000 if quick else 1_000_000, quick=quick)
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for place, trace in enumerate(traces):
        progress(trace.name, place / len(traces))
        rates = _rates(trace, rounds=2 if quick else 5)
        for kind in (UPDATES, QUERIES, SINGLE):
            paper = PAPER.get((trace.like, kind), {})
            for counter, name in NAMES.items():
                rate, theirs = rates[kind][counter], paper.get(counter)
                ratio = rate / rates[kind]["eh"]
                rows.append((trace.name, kind, name, rate, theirs, ratio, theirs and theirs / paper["eh"]))
                figures[f"{trace.like}_{kind.replace(' ', '_')}_{counter}_over_eh"] = ratio
    return Report(
        f"ECM-sketch 2015, Table 3: rates by counter at epsilon {EPSILON:g}, delta {DELTA:g}",
        COLUMNS,
        rows,
        figures,
        notes=[
            *map(described, traces),
            "Only the ratios within a run count: the times are this machine's and those of the paper another's.",
        ],
        chart=_chart(rows),
    )


def _rates(trace: Trace, *, rounds: int) -> dict[str, dict[str, float]]:
    """The best rate of each kind, by counter."""
    ranges = ranges_of(trace)
    asked = sum(part.keys.size for part in ranges)
    single = _single_questions(ranges)
    best: dict[str, dict[str, float]] = {kind: dict.fromkeys(NAMES, 0.0) for kind in (UPDATES, QUERIES, SINGLE)}
    for turn in range(rounds + 1):
        for counter in NAMES:
            sketch = ECMSketch(EPSILON, DELTA, window=trace.window, counter=counter)
            taken = {
                UPDATES: len(trace) / _seconds(partial(sketch.update, trace.keys, at=trace.at)),
                QUERIES: asked / _seconds(partial(_ask_all, sketch, [(part.keys, part.last) for part in ranges])),
                SINGLE: len(single) / _seconds(partial(_ask_all, sketch, single)),
            }
            if turn:  # the first compiles
                for kind, rate in taken.items():
                    best[kind][counter] = max(best[kind][counter], rate)
    return best


def _single_questions(ranges: list[Range]) -> list[tuple[int, int]]:
    """A key and a range, a hundred times, the range another each time."""
    questions = [ranges[place % len(ranges)] for place in range(100)]
    return [(int(part.keys[place % part.keys.size]), part.last) for place, part in enumerate(questions)]


def _ask_all(sketch: ECMSketch, questions: Sequence[tuple[Any, int]]) -> None:
    for keys, last in questions:
        sketch.estimate(keys, last=last)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return max(time.perf_counter() - start, 1e-9)


def _chart(rows: list[Row]) -> Any:
    points = [
        {"stream": row[0], "rate of": row[1], "sketch": row[2], "who": who, "over ECM-EH": value}
        for row in rows
        for who, value in (("ours", row[5]), ("paper", row[6]))
        if value
    ]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(filled=True, size=80)
        .encode(
            x=alt.X("over ECM-EH:Q", scale=alt.Scale(type="log"), title="rate over that of ECM-EH"),
            y=alt.Y("sketch:N", sort=list(NAMES.values()), title=None),
            color=alt.Color("who:N", title=None),
            row=alt.Row("stream:N", title=None),
            column=alt.Column("rate of:N", sort=[UPDATES, QUERIES, SINGLE], title=None),
        )
        .properties(width=200, height=110, title="Table 3: rates over those of ECM-EH")
    )
