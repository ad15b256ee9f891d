"""Online scheduling of tuples by their cost: the thesis's Figures 7.20 to 7.28 anew, its rules and ours.

As in section 7.2.3: streams of 100,000 tuples of 4,096 items, 64 execution times from 1 to 64 ms dealt to the items at
random, 5 instances, zipf-1 and 100 % over-provisioning where nothing else is said; window 1,024, tolerance 0.05,
epsilon 0.05, delta 0.1. Every stream has costs, an order and hash functions of its own. Each goes through round-robin,
OSG by the thesis's rules, OSG by ours (jumping and sliding) and greedy scheduling by the true costs.

The clock is virtual: a tuple comes every so many microseconds exactly and takes what it costs exactly, where the
thesis's simulator had threads that waited. The figure `jitter` has execution times that vary, `latency` messages that
take their time, and `osg_series` has what unfolds in 7.27 and 7.28.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy as np

from catchment.app.report import Progress, Report
from catchment.balance.scheduler import SchedulerSettings
from catchment.testing.queueing import operate_full_knowledge, operate_osg, operate_round_robin, speed_up
from catchment.testing.workload import DISTRIBUTIONS, make_workload
from experiments.osg_series import INSTANCES, SERIES, Unfolded, unfold

COLUMNS = (
    "figure", "setting", "round-robin ms", "OSG ms", "speed-up", "least", "most", "sliding", "thesis's rules",
    "full knowledge", "thesis: OSG", "thesis: full knowledge", "messages a 1,000",
)  # fmt: skip


RULES: dict[str, dict[str, Any]] = {
    "the thesis's": {"measure": "work", "stability": "cells", "patience": 0, "resync": 0},
    "by backlog": {"measure": "backlog", "stability": "cells", "patience": 0, "resync": 0},
    "and stable by tuples": {"measure": "backlog", "stability": "tuples", "patience": 0, "resync": 0},
    "and not for ever": {"measure": "backlog", "stability": "tuples", "resync": 0},
    "and put right every 1,000": {"measure": "backlog", "stability": "tuples", "resync": 1000},
    "and put right every 200: ours": {"measure": "backlog", "stability": "tuples", "resync": 200},
    "put right every 50": {"measure": "backlog", "stability": "tuples", "resync": 50},
}
"""From the thesis's rules to ours, one change at a time."""


@dataclass(frozen=True, slots=True)
class Case:
    """One point of a figure: how the work is made, how OSG is set, and what the thesis says of it."""

    figure: str
    setting: str
    work: dict[str, Any] = field(default_factory=dict)
    osg: dict[str, Any] = field(default_factory=dict)
    thesis: float | None = None
    thesis_full: float | None = None
    latency: int = 0


def cases(*, quick: bool) -> list[Case]:
    distributions = ("uniform", "zipf-1", "zipf-2") if quick else tuple(DISTRIBUTIONS)
    gains = {"uniform": 1.04, "zipf-0.5": 1.04, "zipf-1": 1.20}
    peaks = {100: 1.14, 105: 1.29, 115: 1.06}
    found = [
        Case(f"7.20 at {share} %", name, {"skew": DISTRIBUTIONS[name], "provisioning": share / 100}, {}, gain)
        for share in (100, 105)
        for name in distributions
        for gain in [gains.get(name) if share == 100 else peaks[105] if name == "zipf-1" else None]
    ]
    shares = (100, 105) if quick else (95, 98, 99, 100, 101, 102, 103, 105, 108, 109, 112, 115)
    full = {101: 3.6, 115: 1.57}
    found += [
        Case("7.22", f"{share} %", {"provisioning": share / 100}, {}, peaks.get(share), full.get(share))
        for share in shares
    ]
    most = (100, 6_400) if quick else (100, 200, 400, 800, 1_600, 6_400, 25_600, 102_400, 204_800)
    found += [
        Case(
            "7.23", f"max {top / 1000:g} ms", {"cheapest": 100, "dearest": top}, {}, {100: 1.0, 102_400: 1.25}.get(top)
        )
        for top in most
    ]
    values = (2, 64) if quick else (2, 4, 8, 16, 32, 64)
    found += [
        Case("7.24", f"{count} costs", {"values": count, "cheapest": 100, "dearest": 6_400}, {}, 1.19)
        for count in values
    ]
    instances = (2, 5) if quick else (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
    by_k, full_by_k = {2: 1.14, 5: 1.23, 12: 1.09, 20: 1.06}, {20: 2.7}
    found += [
        Case("7.25", f"k {count}", {"instances": count}, {}, by_k.get(count), full_by_k.get(count))
        for count in instances
    ]
    epsilons = (0.05, 0.5) if quick else (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.09, 0.2, 0.5, 0.9)
    found += [
        Case(f"7.26 at {share} %", f"epsilon {epsilon:g}", {"provisioning": share / 100}, {"epsilon": epsilon})
        for share in ((105,) if quick else (100, 105))
        for epsilon in epsilons
    ]
    found += [Case("rules at 105 %", name, {"provisioning": 1.05}, rule) for name, rule in RULES.items()]
    found += [
        Case("jitter at 105 %", f"{share} %", {"provisioning": 1.05, "jitter": share / 100})
        for share in ((20,) if quick else (5, 20, 50))
    ]
    found += [
        Case(
            "latency at 105 %",
            f"{name}, {late / 1000:g} ms",
            {"skew": DISTRIBUTIONS[name], "provisioning": 1.05},
            latency=late,
        )
        for name in (("zipf-1",) if quick else ("zipf-1", "uniform"))
        for late in ((100_000,) if quick else (1_000, 10_000, 100_000, 1_000_000))
    ]
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """What a case came to, over its streams: speed-ups over round-robin."""

    case: Case
    round_robin: float
    ours: float
    speed_ups: tuple[float, ...]
    sliding: float
    thesis: float
    full: float
    messages: float

    def row(self) -> tuple[Any, ...]:
        mean, least, most = np.mean(self.speed_ups), min(self.speed_ups), max(self.speed_ups)
        return (
            self.case.figure, self.case.setting, self.round_robin / 1000, self.ours / 1000, float(mean), least, most,
            self.sliding, self.thesis, self.full, self.case.thesis, self.case.thesis_full, self.messages,
        )  # fmt: skip


def measured(case: Case, *, tuples: int, streams: int) -> Point:
    """The case on so many streams, seeds 0, 1, …"""
    found: list[tuple[float, ...]] = []
    for seed in range(streams):
        work = make_workload(tuples, seed=seed, **{"instances": INSTANCES, **case.work})
        turns = operate_round_robin(work)
        ours = operate_osg(work, SchedulerSettings(**{"seed": seed, **case.osg}), latency=case.latency)
        slides = SchedulerSettings(**{"seed": seed, "windows": "sliding", **case.osg})
        sliding = operate_osg(work, slides, latency=case.latency)
        size = {name: value for name, value in case.osg.items() if name == "epsilon"}
        theirs = operate_osg(work, SchedulerSettings.thesis(seed=seed, **size), latency=case.latency)
        full = operate_full_knowledge(work, measure="backlog")
        messages = 1000 * (ours.learnt + ours.replies) / tuples
        faster = [speed_up(one, turns) for one in (ours, sliding, theirs, full)]
        found.append((turns.mean, ours.mean, *faster, messages))
    columns = list(zip(*found, strict=True))
    means = [float(np.mean(column)) for column in columns]
    return Point(case, means[0], means[1], columns[2], means[3], means[4], means[5], means[6])


def run(*, quick: bool, progress: Progress) -> Report:
    tuples, streams = (40_000, 2) if quick else (100_000, 100)
    wanted = cases(quick=quick)
    points = []
    for done, case in enumerate(wanted):
        progress(f"figure {case.figure}, {case.setting}", done / (len(wanted) + 1))
        points.append(measured(case, tuples=tuples, streams=streams))
    progress("figures 7.27 and 7.28, a change", len(wanted) / (len(wanted) + 1))
    unfolded = [unfold(series, scale=2 if quick else 1) for series in SERIES]
    figures = _figures(points)
    for one in unfolded:
        figures |= one.figures()
    return Report(
        "OSG: average completion time against round-robin",
        COLUMNS,
        [*(point.row() for point in points), *(row for one in unfolded for row in one.rows())],
        figures,
        [
            f"{streams} streams of {tuples:,} tuples a row; the thesis has 5,000 runs. Speed-ups are over round-robin: "
            "mean, least and most for our rules, means for the others. Messages are those to the scheduler.",
            "The thesis's columns are what its text says of its figures; at 100 %, Figure 7.22, its least from 100 to "
            "108 %.",
            "Series: one stream each; mean completion times of its stretches.",
            *(one.note() for one in unfolded),
            "Latency: how long a message to the scheduler takes. The thesis's simulator names none; 0 elsewhere.",
        ],
        _chart(points, unfolded),
    )


def _figures(points: list[Point]) -> dict[str, float]:
    of = {(point.case.figure, point.case.setting): point for point in points}
    by_distribution = [point for point in points if point.case.figure.startswith("7.20")]
    zipf = of["7.20 at 105 %", "zipf-1"]
    return {
        "zipf_1_at_105_speed_up": float(np.mean(zipf.speed_ups)),
        "zipf_1_at_105_least": min(zipf.speed_ups),
        "zipf_1_at_105_thesis_rules": zipf.thesis,
        "zipf_1_at_105_full_knowledge": zipf.full,
        "least_mean_speed_up": min(float(np.mean(point.speed_ups)) for point in by_distribution),
        "least_mean_speed_up_sliding": min(point.sliding for point in by_distribution),
        "messages_a_thousand": zipf.messages,
    }


def _chart(points: list[Point], unfolded: list[Unfolded]) -> Any:
    values = [
        {"figure": point.case.figure, "setting": point.case.setting, "who": who, "speed-up": value, "place": place}
        for place, point in enumerate(points)
        for who, value in (
            ("OSG", float(np.mean(point.speed_ups))),
            ("OSG, the thesis's rules", point.thesis),
            ("full knowledge", point.full),
            ("thesis: OSG", point.case.thesis),
        )
        if value is not None
    ]
    panels = [
        alt.Chart(alt.InlineData(values=[value for value in values if value["figure"] == figure]))
        .mark_line(point=True)
        .encode(
            x=alt.X("setting:N", sort=alt.SortField("place"), title=None),
            y=alt.Y("speed-up:Q", title="times round-robin"),
            color=alt.Color("who:N", title=None),
        )
        .properties(width=280, height=180, title=figure)
        for figure in dict.fromkeys(point.case.figure for point in points)
    ]
    return alt.vconcat(alt.concat(*panels, columns=3), *(one.chart() for one in unfolded))
