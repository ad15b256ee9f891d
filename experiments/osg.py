"""Online scheduling of tuples by their cost: the thesis's Figures 7.20 to 7.27 anew, its rules and ours.

As in section 7.2.3: streams of 100,000 tuples of 4,096 items, 64 execution times from 1 to 64 ms dealt to the items at
random, 5 instances, zipf-1 and 100 % over-provisioning where nothing else is said; window 1,024, tolerance 0.05,
epsilon 0.05, delta 0.1. Every stream has costs, an order and hash functions of its own. Each goes through round-robin,
OSG by the thesis's rules, OSG by ours (jumping and sliding) and greedy scheduling by the true costs.

The clock is virtual: a tuple comes every so many microseconds exactly and takes what it costs exactly, where the
thesis's simulator had threads that waited. The figure `jitter` has execution times that vary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy as np

from catchment.app.report import Progress, Report
from catchment.balance.scheduler import SchedulerSettings
from catchment.testing.queueing import (
    Operated,
    operate_full_knowledge,
    operate_osg,
    operate_round_robin,
    speed_up,
)
from catchment.testing.workload import DISTRIBUTIONS, Phase, Workload, make_workload

COLUMNS = (
    "figure", "setting", "round-robin ms", "OSG ms", "speed-up", "least", "most", "sliding", "thesis's rules",
    "full knowledge", "thesis: OSG", "thesis: full knowledge", "messages a 1,000",
)  # fmt: skip

INSTANCES = 5
CHANGE_AT, TIMED = 75_000, 150_000
BEFORE, AFTER = (1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10)
THESIS_RUN_AT, THESIS_RECOVERED_AT = 10_690, 84_912
STEP = 2_000

RULES: dict[str, dict[str, Any]] = {
    "the thesis's": {"measure": "work", "stability": "cells", "resync": 0},
    "by backlog": {"measure": "backlog", "stability": "cells", "resync": 0},
    "and stable by tuples": {"measure": "backlog", "stability": "tuples", "resync": 0},
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
    found += [Case("7.26", f"epsilon {epsilon:g}", {}, {"epsilon": epsilon}) for epsilon in epsilons]
    found += [Case("rules at 105 %", name, {"provisioning": 1.05}, rule) for name, rule in RULES.items()]
    found += [
        Case("jitter at 105 %", f"{share} %", {"provisioning": 1.05, "jitter": share / 100})
        for share in ((20,) if quick else (5, 20, 50))
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
        ours = operate_osg(work, SchedulerSettings(**{"seed": seed, **case.osg}))
        sliding = operate_osg(work, SchedulerSettings(**{"seed": seed, "windows": "sliding", **case.osg}))
        size = {name: value for name, value in case.osg.items() if name == "epsilon"}
        theirs = operate_osg(work, SchedulerSettings.thesis(seed=seed, **size))
        full = operate_full_knowledge(work, measure="backlog")
        messages = 1000 * (ours.learnt + ours.replies) / tuples
        faster = [speed_up(one, turns) for one in (ours, sliding, theirs, full)]
        found.append((turns.mean, ours.mean, *faster, messages))
    columns = list(zip(*found, strict=True))
    means = [float(np.mean(column)) for column in columns]
    return Point(case, means[0], means[1], columns[2], means[3], means[4], means[5], means[6])


def series_work(*, seed: int = 0, scale: int = 1) -> Workload:
    """The stream of Figure 7.27: the instances' speeds change in the middle."""
    phases = (Phase(CHANGE_AT // scale, factors=BEFORE), Phase((TIMED - CHANGE_AT) // scale, factors=AFTER))
    return make_workload(seed=seed, instances=INSTANCES, phases=phases)


def recovered_at(operated: Operated, change: int) -> int | None:
    """The tuple at which loads were put right with matrices that each instance sent after the change."""
    anew: set[int] = set()
    for at, who in operated.log:
        if at >= change and who >= 0:
            anew.add(who)
        if who < 0 and len(anew) == INSTANCES:
            return at
    return None


def _series(work: Workload, runs: dict[str, Operated]) -> list[dict[str, Any]]:
    points = []
    for name, operated in runs.items():
        for start in range(0, len(work) - STEP + 1, STEP):
            part = operated.completion[start : start + STEP] / 1000
            points.append(
                {"tuple": start + STEP, "who": name, "mean": part.mean(), "least": part.min(), "most": part.max()}
            )
    return points


def run(*, quick: bool, progress: Progress) -> Report:
    tuples, streams = (40_000, 2) if quick else (100_000, 100)
    wanted = cases(quick=quick)
    points = []
    for done, case in enumerate(wanted):
        progress(f"figure {case.figure}, {case.setting}", done / (len(wanted) + 1))
        points.append(measured(case, tuples=tuples, streams=streams))
    progress("figure 7.27, a change", len(wanted) / (len(wanted) + 1))
    scale = 2 if quick else 1
    work = series_work(scale=scale)
    change = CHANGE_AT // scale
    runs = {
        "round-robin": operate_round_robin(work),
        "OSG": operate_osg(work, SchedulerSettings()),
        "OSG, the thesis's rules": operate_osg(work, SchedulerSettings.thesis()),
    }
    ours = runs["OSG"]
    back = recovered_at(ours, change)
    figures = _figures(points)
    figures |= {
        "series_run_at": float(ours.first_run or -1),
        "series_recovered_after": float(-1 if back is None else back - change),
        "series_speed_up": speed_up(ours, runs["round-robin"]),
    }
    return Report(
        "OSG: average completion time against round-robin",
        COLUMNS,
        [point.row() for point in points],
        figures,
        [
            f"{streams} streams of {tuples:,} tuples a row; the thesis has 5,000 runs. Speed-ups are over round-robin: "
            "mean, least and most for our rules, means for the others. Messages are those to the scheduler.",
            "The thesis's columns are what its text says of its figures; at 100 %, Figure 7.22, its least from 100 to "
            "108 %.",
            f"Figure 7.27: RUN from tuple {ours.first_run:,} on (thesis: {THESIS_RUN_AT:,}); costs on all instances "
            f"learnt anew {'never' if back is None else f'{back - change:,}'} tuples after the change "
            f"(thesis: {THESIS_RECOVERED_AT - CHANGE_AT:,}; its prototype, Figure 7.28: 7,311).",
        ],
        _chart(points, _series(work, runs)),
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


def _chart(points: list[Point], series: list[dict[str, Any]]) -> Any:
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
    change = (
        alt.Chart(alt.InlineData(values=series))
        .mark_line()
        .encode(
            x=alt.X("tuple:Q"),
            y=alt.Y("mean:Q", scale=alt.Scale(type="log"), title="completion, ms"),
            color=alt.Color("who:N", title=None),
        )
        .properties(width=880, height=220, title="7.27: the instances' speeds change in the middle")
    )
    return alt.vconcat(alt.concat(*panels, columns=3), change)
