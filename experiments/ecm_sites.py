"""ECM-sketch, 2015, Figures 6 and 7: error and bytes moved against the number of sites, and against epsilon.

Figure 7: 2 to 256 sites, ECM-RW up to 64, epsilon = delta = 0.15. Figure 6: 16 sites, epsilon from 0.05 to 0.3. The
sites are the leaves of a balanced binary tree and every event goes to a site at random, as in section 7.3.1; each edge
carries one sketch, as bytes, and the volume is the sum over all edges. The same three ways as in Table 4: `tree` is the
paper's and claims nothing where the library refuses the merge, `tree, fit` has leaves built for the tree, and in
`at once` every site sends its sketch to the root.

The papers draw these figures and print no numbers, but for three orders of magnitude between the volumes of ECM-RW and
ECM-EH.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt

from catchment.app.report import Progress, Report
from catchment.window.ecm import ECMSketch
from experiments.ecm_trials import NAMES, POINT, PURPOSES, Merged, Observed, leaves, merged, observed, ranges_of
from experiments.traces import Trace, chosen, described

EPSILON = DELTA = 0.15
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
SITES = (2, 4, 8, 16, 32, 64, 128, 256)
FIXED_SITES = 16
MOST_RANDOMIZED = 64
TREE, FIT, ONCE = "tree", "tree, fit", "at once"
PAPER_VOLUME_OVER_EH = {"randomized": 1000.0}
COLUMNS = (
    "stream", "figure", "query", "sketch", "merged", "sites", "epsilon", "mean error", "over one site", "total off",
    "claimed", "beyond claim", "outside", "broken", "bytes moved", "over ECM-EH", "paper: over ECM-EH",
)  # fmt: skip

Row = dict[str, Any]


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    traces = chosen(data, 10_000 if quick else 200_000, quick=quick)
    rows: list[Row] = []
    for place, trace in enumerate(traces):
        done = place / len(traces)
        for figure, settings in _settings(quick=quick).items():
            progress(f"{trace.name}, Figure {figure}", done)
            for share, (sites, epsilon) in enumerate(settings):
                progress(f"{trace.name}, Figure {figure}", done + share / len(settings) / 2 / len(traces))
                rows += _rows(trace, figure, sites, epsilon)
            done += 1 / 2 / len(traces)
    _compare_volumes(rows)
    return Report(
        f"ECM-sketch 2015, Figures 6 and 7: error and volume by sites and epsilon, delta {DELTA:g}",
        COLUMNS,
        [[row[column] for column in COLUMNS] for row in rows],
        _figures(rows),
        notes=[
            *map(described, traces),
            "The site of each event is drawn at random, as in the paper.",
            "beyond claim, outside: shares of answers further off than the merged sketch's epsilon, or its interval.",
            f"Both may be up to delta = {DELTA:g}. broken: bounds that must always hold and did not.",
            "'-' under claimed: the library refuses this merge, as its counters could be off by all they count.",
            "over one site: below 1 is no gain, for what counters lose by merging makes up for collisions.",
            "total off: the counters' own error, with its sign, in the range where it is largest.",
            "A range within one pane gets a share of a whole pane: there ECM-panes errs by many times the truth.",
            "paper: its text says three orders of magnitude.",
        ],
        chart=_chart(rows),
    )


def _settings(*, quick: bool) -> dict[str, list[tuple[int, float]]]:
    sites = (16, 256) if quick else SITES
    epsilons = (0.3,) if quick else EPSILONS
    return {"7": [(count, EPSILON) for count in sites], "6": [(FIXED_SITES, epsilon) for epsilon in epsilons]}


def _rows(trace: Trace, figure: str, sites: int, epsilon: float) -> Iterator[Row]:
    ranges = ranges_of(trace)
    for counter, purposes in PURPOSES.items():
        if counter == "randomized" and sites > MOST_RANDOMIZED:
            continue
        for purpose in purposes:
            alone = ECMSketch(epsilon, DELTA, window=trace.window, counter=counter, optimize_for=purpose)
            whole = alone.copy()
            whole.update(trace.keys, at=trace.at)
            single = observed(whole, ranges, purpose).mean
            for way, root in _ways(trace, sites, epsilon, alone):
                found = observed(root.root, ranges, purpose)
                yield {
                    "stream": trace.name, "like": trace.like, "figure": figure, "query": purpose, "counter": counter,
                    "sketch": NAMES[counter], "merged": way, "sites": sites, "epsilon": epsilon,
                    "mean error": found.mean, "over one site": found.mean / single if single else 1.0,
                    "total off": found.total_off, "bytes moved": root.moved, **_claims(root, found),
                }  # fmt: skip


def _claims(root: Merged, found: Observed) -> Row:
    if not root.claims:
        return dict.fromkeys(("claimed", "beyond claim", "outside", "broken"))
    return {
        "claimed": root.root.epsilon,
        "beyond claim": found.beyond / found.asked,
        "outside": found.outside / found.asked,
        "broken": found.broken,
    }


def _ways(trace: Trace, count: int, epsilon: float, alone: ECMSketch) -> Iterator[tuple[str, Merged]]:
    sites, _ = trace.sites(count, at_random=True)
    parts = leaves(trace, sites, count, alone)
    yield TREE, merged(parts)
    if alone.counter in ("eh", "wave"):
        height = (count - 1).bit_length()
        fit = ECMSketch.for_tree(
            epsilon, DELTA, window=trace.window, height=height, counter=alone.counter, optimize_for=alone.optimize_for
        )
        yield FIT, merged(leaves(trace, sites, count, fit))
        yield ONCE, merged(parts, fan_in=count)


def _compare_volumes(rows: list[Row]) -> None:
    """Each volume over that of the paper's way with ECM-EH, in the same setting."""

    def setting(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("stream", "figure", "query", "sites", "epsilon"))

    volumes = {setting(row): row["bytes moved"] for row in rows if (row["counter"], row["merged"]) == ("eh", TREE)}
    for row in rows:
        row["over ECM-EH"] = row["bytes moved"] / volumes[setting(row)]
        row["paper: over ECM-EH"] = PAPER_VOLUME_OVER_EH.get(row["counter"])


def _figures(rows: list[Row]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in rows:
        if row["figure"] != "7" or row["query"] != POINT:
            continue
        way = f"{row['like']}_{row['counter']}_{row['merged'].replace(', ', '_').replace(' ', '_')}"
        if row["sites"] == max(SITES):
            figures[f"{way}_error_at_256_over_one_site"] = row["over one site"]
            figures[f"{way}_total_off_at_256"] = row["total off"]
        if row["sites"] == FIXED_SITES:
            figures[f"{way}_bytes_at_16_over_eh"] = row["over ECM-EH"]
    claimed = [row for row in rows if row["claimed"] is not None]
    certain = [row for row in claimed if row["counter"] != "randomized"]
    figures["broken_bounds"] = sum(row["broken"] for row in certain)
    figures["beyond_claim_largest_share"] = max(row["beyond claim"] for row in claimed if row["counter"] != "panes")
    figures["outside_largest_share_of_point_queries"] = max(row["outside"] for row in claimed if row["query"] == POINT)
    return figures


def _chart(rows: list[Row]) -> Any:
    values = [
        {"stream": row["stream"], "sketch": f"{row['sketch']} {row['merged']}", "sites": row["sites"]}
        | {"epsilon": row["epsilon"], "figure": row["figure"], "error": row["mean error"], "bytes": row["bytes moved"]}
        for row in rows
        if row["query"] == POINT
    ]
    log = alt.Scale(type="log")
    colour = alt.Color("sketch:N", sort=None, title=None)
    sites = alt.X("sites:Q", scale=alt.Scale(type="log", base=2))
    volume = alt.Y("bytes:Q", scale=log, title="bytes moved")

    def panel(figure: str, x: Any, y: Any, title: str) -> Any:
        return (
            alt.Chart(alt.InlineData(values=[value for value in values if value["figure"] == figure]))
            .mark_line(point=True)
            .encode(x=x, y=y, color=colour, order="epsilon:Q" if figure == "6" else "sites:Q")
            .properties(width=260, height=190)
            .facet(column=alt.Column("stream:N", title=title))
        )

    error = alt.Y("error:Q", title="mean error")
    moved = alt.X("bytes:Q", scale=log, title="bytes moved")
    return alt.vconcat(
        panel("7", sites, error, "Figure 7: error by sites"),
        panel("7", sites, volume, "Figure 7: volume by sites"),
        panel("6", moved, error, "Figure 6: error against volume at 16 sites"),
    ).properties(title="Point queries after merging")
