"""ECM-sketch, 2015, Figure 8: a self-join in a sliding window, watched over 2 to 256 sites, and over theta.

delta = epsilon = 0.15; the monitor starts when the window has filled for the first time. The volume is a ratio to
forwarding 8 bytes an event. The observed error is relative to the squared number of events in the window. Phases are
those of `two-phase`: first, all sites are asked for what rose and fell; second, all sites flush.

The paper's text: two orders of magnitude below forwarding up to 32 sites, below half of it at 256; the error always
below theta; at 16 sites with caida 7133 first and 2694 second phases for theta 0.05, 5637 and 457 for 0.3.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from catchment.app.report import Progress, Report
from catchment.monitor.quantities import SelfJoin
from catchment.testing.watched import Watched, watched, window_self_joins
from experiments.monitor_streams import FLOW, WEB, draw

EPSILON = DELTA = THETA = 0.15
SITES = (2, 4, 8, 16, 32, 64, 128, 256)
THETAS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
FIXED_SITES = 16
RULES = ("two-phase", "auto")
EVENT_BYTES = 8
PAPER_VOLUME = {32: 0.01, 256: 0.5}
PAPER_PHASES = {0.05: (7133, 2694), 0.3: (5637, 457)}
COLUMNS = (
    "figure", "stream", "rule", "sites", "theta", "over forwarding", "paper", "mean error", "largest error",
    "messages", "rounds", "paper: phases",
)  # fmt: skip

Row = dict[str, Any]


def run(*, quick: bool, progress: Progress) -> Report:
    settings = _settings(quick=quick)
    rows: list[Row] = []
    for place, (figure, stream, rule, sites, theta, window, events) in enumerate(settings):
        progress(f"Figure {figure}, {stream}, {rule}, {sites} sites, theta {theta:g}", place / len(settings))
        rows.append(_row(figure, stream, rule, sites, theta, window, events))
    return Report(
        f"ECM-sketch 2015, Figure 8: a watched self-join in a window, epsilon = delta = {EPSILON:g}",
        COLUMNS,
        [[row[column] for column in COLUMNS] for row in rows],
        {
            **{
                f"{row['stream']}_{row['rule']}_{row['sites']}_{row['theta']:g}_over_forwarding": row["over forwarding"]
                for row in rows
            },
            "largest_error_over_theta": max(row["largest error"] / row["theta"] for row in rows),
        },
        notes=[
            draw(WEB, 1, 1).note,
            draw(FLOW, 1, 1).note,
            "paper: what its text says of the volume; phases: first and second ones, for its caida.",
            "two-phase with 64 sites and more is measured over a tenth of the events: it asks all sites all the time.",
            "Our streams are drawn at random from the logs, so their self-joins are steadier than the logs' own.",
        ],
        chart=_chart(rows),
    )


def _settings(*, quick: bool) -> list[tuple[str, str, str, int, float, int, int]]:
    window, events = (4_000, 1_000) if quick else (200_000, 100_000)
    some = (4, 16) if quick else SITES
    thetas = (0.3,) if quick else THETAS
    return [
        *(("8ab", stream, rule, sites, THETA, window, events // (10 if rule == "two-phase" and sites >= 64 else 1))
          for stream in (WEB, FLOW) for rule in RULES for sites in some),
        *(("8c", stream, rule, FIXED_SITES, theta, window, events)
          for stream in (WEB, FLOW) for rule in RULES for theta in thetas),
    ]  # fmt: skip


def _row(figure: str, stream: str, rule: str, sites: int, theta: float, window: int, events: int) -> Row:
    drawn = draw(stream, window + events, sites)
    times = np.arange(1, window + events + 1)
    watch = SelfJoin(theta=theta, epsilon=EPSILON, delta=DELTA, window=window, rule=rule)
    result: Watched = watched(watch, drawn.keys, drawn.places, sites, times=times, warm=window)
    truth = window_self_joins(drawn.keys, times, window, times[result.ends - 1])
    errors = np.abs(result.claimed - truth) / window**2
    return {
        "figure": figure, "stream": stream, "rule": rule, "sites": sites, "theta": theta,
        "over forwarding": result.bytes / (EVENT_BYTES * result.events),
        "paper": PAPER_VOLUME.get(sites) if theta == THETA else None,
        "mean error": float(errors.mean()), "largest error": float(errors.max()),
        "messages": result.up.messages() + result.down.messages(), "rounds": result.rounds,
        "paper: phases": str(PAPER_PHASES.get(theta, "-")) if figure == "8c" else "-",
    }  # fmt: skip


def _chart(rows: list[Row]) -> Any:
    values = [
        {key: row[key] for key in ("figure", "stream", "rule", "sites", "theta", "over forwarding", "mean error")}
        for row in rows
    ]

    def panel(figure: str, x: Any, y: str) -> Any:
        return (
            alt.Chart(alt.InlineData(values=[value for value in values if value["figure"] == figure]))
            .mark_line(point=True)
            .encode(x=x, y=alt.Y(f"{y}:Q"), color=alt.Color("rule:N", sort=None), strokeDash="stream:N")
            .properties(width=300, height=200)
        )

    sites = alt.X("sites:Q", scale=alt.Scale(type="log", base=2))
    return alt.hconcat(
        panel("8ab", sites, "over forwarding"),
        panel("8ab", sites, "mean error"),
        panel("8c", "theta:Q", "over forwarding"),
    )
