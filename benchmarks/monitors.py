"""Monitors: bytes both ways against the CG baseline and against forwarding, errors at every 50 events, and speed.

Every byte is one of the real encoding, headers, acknowledgements and heartbeats included. `forwarding` is the ideal
one: 8 bytes an event and nothing else; the rule `centralise` is what it really takes. Streams are drawn from real logs
where they are there, so that keys and sites have real shares; the order is lost by that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.message_cost import seconds_a_report
from benchmarks.monitored_file import events_a_second
from catchment.app.report import Progress, Report
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.quantities import SelfJoin
from catchment.monitor.site import Arrived, Site
from catchment.sketch.fast_ams import FastAMS
from catchment.testing.lockstep import Lockstep
from catchment.testing.watched import Watched, self_joins, watched, window_self_joins
from catchment.window.ecm import ECMSketch
from experiments.monitor_streams import FLOW, WEB, draw

EVENT_BYTES = 8
DELTA = 1 / 2**7
COLUMNS = (
    "stream", "sites", "rule", "theta", "epsilon", "events", "warm-up", "bytes", "data", "over forwarding", "over CG",
    "largest error", "rounds", "mostly",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A stream at some sites, watched by several rules."""

    name: str
    stream: str
    sites: int
    theta: float
    epsilon: float
    delta: float
    events: int
    warm: int = 0
    rules: tuple[str, ...] = ("auto", "relative")


def _cases(*, quick: bool) -> list[Case]:
    less = 100 if quick else 1
    every = ("auto", "relative", "centralise")
    return [
        Case("wide", WEB, 4, 0.04, 0.01 if not quick else 0.02, DELTA, 10_000_000 // less),
        Case("long", WEB, 4, 0.1, 0.02 if not quick else 0.05, DELTA, 20_000_000 // less),
        Case("long", FLOW, 4, 0.1, 0.02 if not quick else 0.05, DELTA, 20_000_000 // less),
        *(
            Case(f"{sites}", stream, sites, 0.1, 0.05, 0.1, (WARM + MEASURED) // less, WARM // less, every)
            for sites in (64, 256)
            for stream in (WEB, FLOW)
        ),
    ]


WARM, MEASURED = 2_000_000, 200_000
"""Ours flushes each site about once while the stream grows by a twelfth, so once or twice in what is measured."""


def run(*, quick: bool, progress: Progress) -> Report:
    rows: list[tuple[Any, ...]] = []
    figures: dict[str, float] = {}
    notes: dict[str, None] = {}
    cases = _cases(quick=quick)
    worst = 0.0
    for place, case in enumerate(cases):
        drawn = draw(case.stream, case.events, case.sites)
        notes[drawn.note] = None
        truth = self_joins(drawn.keys)
        found: dict[str, Watched] = {}
        for part, rule in enumerate(case.rules):
            done = (place + part / len(case.rules)) / len(cases) * 0.8
            label = f"{case.stream}, {case.sites} sites, {rule}"
            progress(label, done)
            watch = SelfJoin(theta=case.theta, epsilon=case.epsilon, delta=case.delta, rule=rule)
            result = found[rule] = watched(
                watch, drawn.keys, drawn.places, case.sites, warm=case.warm, progress=_inner(progress, label, done)
            )
            error = result.worst(truth[result.ends - 1])
            if rule == "auto":
                worst = max(worst, error / case.theta)
            rows.append(_row(case, rule, result, found.get("relative"), error))
        ours, theirs = found["auto"], found["relative"]
        figures[f"{case.stream}_{case.name}_over_cg"] = ours.bytes / theirs.bytes
        figures[f"{case.stream}_{case.name}_over_forwarding"] = ours.bytes / (EVENT_BYTES * ours.events)
    for sites in (32, 256):
        progress(f"windows, {sites} sites", 0.8 if sites == 32 else 0.85)
        over, beyond, row = _windows(sites, quick=quick)
        figures[f"window_{sites}_over_forwarding"] = over
        worst = max(worst, beyond)
        rows.append(row)
    figures["largest_error_over_theta"] = worst
    progress("speed", 0.95)
    speeds = _speeds(200_000 if quick else 4_000_000)
    speeds["file_events_a_second"] = events_a_second(200_000 if quick else 1_000_000)
    figures.update(speeds)
    reports = 500 if quick else 10_000
    few, many = (seconds_a_report(sites, reports) for sites in (4, 256))
    figures["report_256_over_4"] = many / few
    return Report(
        "Monitors of a self-join: bytes both ways",
        COLUMNS,
        rows,
        figures,
        notes=[
            *notes,
            "over forwarding: of 8 bytes an event; CG is the static one of the geometric paper, the rule `relative`. "
            "Its claims are the estimate at the last flush, ours for a stream that only grows are ahead of it.",
            f"With 64 and 256 sites monitoring begins after {WARM:,} events: before that an event is a large share of "
            "what a site may hold back, and CG and ours send nearly each by itself, in some 60 bytes.",
            f"A monitored site takes {speeds['history_events_a_second']:,.0f} events a second in batches of 10,000, "
            f"{speeds['history_over_bare']:.2f} of a bare Fast-AMS update; in a window "
            f"{speeds['window_events_a_second']:,.0f}, {speeds['window_over_bare']:.2f} of a bare ECM-sketch's. "
            f"`catchment site` takes {speeds['file_events_a_second']:,.0f} events a second of the processor from CSV.",
            f"A report with a flush takes the coordinator {few * 1e6:,.0f} microseconds with 4 sites and "
            f"{many / few:.2f} times that with 256, for a small sketch.",
        ],
    )


def _inner(progress: Progress, label: str, done: float) -> Callable[[float], None]:
    return lambda share: progress(f"{label}: {share:.0%}", done)


def _row(case: Case, rule: str, result: Watched, theirs: Watched | None, error: float) -> tuple[Any, ...]:
    data = sum(size for purpose, size in result.by_purpose().items() if purpose.startswith("data"))
    over = None if theirs is None else result.bytes / theirs.bytes
    return (
        case.stream, case.sites, rule, case.theta, case.epsilon, result.events, case.warm, result.bytes, data,
        result.bytes / (EVENT_BYTES * result.events), over, error, result.rounds, result.rules.most_common(1)[0][0],
    )  # fmt: skip


def _windows(sites: int, *, quick: bool) -> tuple[float, float, tuple[Any, ...]]:
    """The ECM monitor of 000 §7.3.2: epsilon = delta = theta = 0.15, after the window has filled for the first time.

    Errors are relative to the squared number of events in the window, as the sketch's own is.
    """
    window = 20_000 if quick else 1_000_000
    events = window + (1_000 if quick else MEASURED)
    drawn = draw(WEB, events, sites)
    times = np.arange(1, events + 1)
    watch = SelfJoin(theta=0.15, epsilon=0.15, delta=0.15, window=window)
    result = watched(watch, drawn.keys, drawn.places, sites, times=times, warm=window)
    truth = window_self_joins(drawn.keys, times, window, times[result.ends - 1])
    error = float(np.abs(result.claimed - truth).max()) / window**2
    over = result.bytes / (EVENT_BYTES * result.events)
    case = Case("window", WEB, sites, 0.15, 0.15, 0.15, events, window)
    return over, error / 0.15, _row(case, "auto, window", result, None, error)


def _speeds(events: int) -> dict[str, float]:
    """Events a second at one monitored site, and over a bare sketch's update with the same batches."""
    drawn = draw(WEB, events, 1)
    times = np.arange(1, events + 1)
    batches = [slice(at, at + 10_000) for at in range(0, events, 10_000)]
    figures = {}
    history = SelfJoin(theta=0.1, epsilon=0.02, delta=DELTA)
    window = SelfJoin(theta=0.15, epsilon=0.15, delta=0.15, window=events // 4)

    def monitored(watch: SelfJoin) -> Callable[[slice], None]:
        network = Lockstep(Coordinator((watch,), ("one",)), {"one": Site("one", (watch,))})

        def work(part: slice) -> None:
            network.pass_time(10)
            network.give("one", Arrived(drawn.keys[part], times=times[part]))

        return work

    def bare_history() -> Callable[[slice], object]:
        sketch = FastAMS(0.02, DELTA)
        return lambda part: sketch.update(drawn.keys[part])

    def bare_window() -> Callable[[slice], object]:
        sketch = ECMSketch(0.15, 0.15, window=events // 4, optimize_for="join", counter="eh")
        return lambda part: sketch.update(drawn.keys[part], at=times[part])

    for name, watch, plain in (("history", history, bare_history), ("window", window, bare_window)):
        rate, least = _rate(partial(monitored, watch), batches), _rate(plain, batches)
        figures[f"{name}_events_a_second"] = rate
        figures[f"{name}_over_bare"] = rate / least
    return figures


def _rate(begin: Callable[[], Callable[[slice], object]], batches: list[slice]) -> float:
    """Events a second of the processor, whatever else the machine does.

    The whole is played once before it is measured: what a round or another rule needs is compiled only when it comes.
    """

    def seconds() -> float:
        work = begin()
        start = time.process_time()
        for part in batches:
            work(part)
        return time.process_time() - start

    seconds()
    return 10_000 * len(batches) / seconds()
