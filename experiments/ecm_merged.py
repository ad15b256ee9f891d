"""ECM-sketch, 2015, Table 4: the error of sixteen sites merged, against that of one sketch of everything.

epsilon = 0.1 and 0.2, delta = 0.15, 16 sites, a window of a quarter of the trace, questions as in Figure 5. Three ways:

- `tree`: the paper's. A balanced binary tree of sketches that are built as for one site. Where the library refuses,
  because the error that could add up is all of a count, the merge is forced and nothing is claimed: "-".
- `tree, fit`: the same tree, and leaves built by `for_tree`, so that its root is as good as promised for one site.
- `at once`: the sketches of one site, all merged in one step.

A ratio below 1 does not mean that merging helps: what merged counters lose makes up for what collisions add. "total
off" shows the counters alone: the error, with its sign, of the count of all events, in the range where it is largest.

Merging ECM-panes and ECM-RW adds no error that leaves could be built against, so they have only the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt

from catchment.app.report import Progress, Report
from catchment.window.ecm import ECMSketch
from experiments.ecm_trials import JOIN, NAMES, POINT, PURPOSES, Merged, leaves, merged, observed, ranges_of
from experiments.traces import CAIDA, I64, WC98, Trace, chosen, described

SITES, HEIGHT = 16, 4
EPSILONS = (0.1, 0.2)
DELTA = 0.15
TREE, FIT, ONCE = "tree", "tree, fit", "at once"
PAPER: dict[tuple[str, float, str, str], tuple[float, float, float | None]] = {
    (WC98, 0.1, POINT, "eh"): (0.018, 0.020, 1.114),
    (WC98, 0.2, POINT, "eh"): (0.034, 0.040, 1.181),
    (CAIDA, 0.1, POINT, "eh"): (0.020, 0.021, 1.043),
    (CAIDA, 0.2, POINT, "eh"): (0.038, 0.041, 1.079),
    (WC98, 0.1, JOIN, "eh"): (0.018, 0.019, 1.053),
    (WC98, 0.2, JOIN, "eh"): (0.034, 0.037, 1.092),
    (CAIDA, 0.1, JOIN, "eh"): (0.020, 0.020, 1.018),
    (CAIDA, 0.2, JOIN, "eh"): (0.037, 0.039, 1.042),
    (WC98, 0.1, POINT, "randomized"): (0.017, 0.017, None),
    (WC98, 0.2, POINT, "randomized"): (0.031, 0.031, None),
    (CAIDA, 0.1, POINT, "randomized"): (0.018, 0.018, None),
    (CAIDA, 0.2, POINT, "randomized"): (0.034, 0.034, None),
}
"""One site, merged, and the increase; where the table leaves out the increase, None."""
COLUMNS = (
    "stream", "epsilon", "query", "sketch", "merged", "one site", "paper: one site", "16 sites", "paper: 16 sites",
    "ratio", "paper: ratio", "total off: one", "total off: 16", "claimed", "questions", "outside", "broken",
)  # fmt: skip

Row = tuple[Any, ...]


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    traces = chosen(data, 20_000 if quick else 200_000, quick=quick)
    rows: list[Row] = []
    figures: dict[str, float] = {"broken_bounds": 0}
    notes = [*map(described, traces)]
    for place, trace in enumerate(traces):
        sites, how = trace.sites(SITES)
        notes.append(how)
        for share, epsilon in enumerate(EPSILONS):
            progress(f"{trace.name}, epsilon {epsilon:g}", (place + share / len(EPSILONS)) / len(traces))
            for row in _rows(trace, sites, epsilon):
                rows.append(row)
                figures["broken_bounds"] += row[16] or 0
                if row[2] == POINT:
                    name = f"{trace.like}_{epsilon:g}_{row[3]}_{row[4]}".replace(", ", "_").replace(" ", "_")
                    figures |= {f"{name}_ratio": row[9], f"{name}_total_off": row[12]}
    figures["largest_ratio"] = max(row[9] for row in rows)
    claimed = [row for row in rows if row[13] is not None]
    figures["outside_share"] = sum(row[15] for row in claimed) / sum(row[14] for row in claimed)
    notes += [
        "claimed: the epsilon that the merged sketch states.",
        f"outside: answers whose interval misses the truth; up to {DELTA:g} of them may.",
        "broken: upper bounds and totals that must always hold and did not.",
        "A range within one pane gets a share of a whole pane: there ECM-panes errs by many times the truth.",
        "'-' under claimed: the library refuses this merge, as its counters could be off by all they count.",
        "The ratio is of mean errors over all questions. Below 1 is no gain: see 'total off', of counters alone.",
    ]
    return Report(
        f"ECM-sketch 2015, Table 4: {SITES} sites merged against one, delta {DELTA:g}",
        COLUMNS, rows, figures, notes, _chart(rows),
    )  # fmt: skip


def _rows(trace: Trace, sites: I64, epsilon: float) -> Iterator[Row]:
    ranges = ranges_of(trace)
    for counter, purposes in PURPOSES.items():
        for purpose in purposes:
            alone = ECMSketch(epsilon, DELTA, window=trace.window, counter=counter, optimize_for=purpose)
            whole = alone.copy()
            whole.update(trace.keys, at=trace.at)
            single = observed(whole, ranges, purpose)
            paper = PAPER.get((trace.like, epsilon, purpose, counter))
            for way, root in _ways(trace, sites, epsilon, alone):
                found = observed(root.root, ranges, purpose)
                theirs = paper if way == TREE and paper else (None, None, None)
                ratio = found.mean / single.mean if single.mean else 1.0
                claims = (root.root.epsilon, found.asked, found.outside, found.broken)
                unclaimed = (None, found.asked, None, None)
                yield (
                    trace.name, epsilon, purpose, NAMES[counter], way, single.mean, theirs[0], found.mean, theirs[1],
                    ratio, theirs[2], single.total_off, found.total_off, *(claims if root.claims else unclaimed),
                )  # fmt: skip


def _ways(trace: Trace, sites: I64, epsilon: float, alone: ECMSketch) -> Iterator[tuple[str, Merged]]:
    parts = leaves(trace, sites, SITES, alone)
    yield TREE, merged(parts)
    if alone.counter in ("eh", "wave"):
        fit = ECMSketch.for_tree(
            epsilon, DELTA, window=trace.window, height=HEIGHT, counter=alone.counter, optimize_for=alone.optimize_for
        )
        yield FIT, merged(leaves(trace, sites, SITES, fit))
        yield ONCE, merged(parts, fan_in=SITES)


def _chart(rows: list[Row]) -> Any:
    points = [
        {"stream": row[0], "query": f"{row[2]}, epsilon {row[1]:g}", "sketch": f"{row[3]} {row[4]}", "who": who}
        | {"error": error}
        for row in rows
        for who, error in (
            ("one site", row[5]),
            ("16 sites", row[7]),
            ("paper, 16 sites", row[8]),
            ("claimed", row[13]),
        )
        if error
    ]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X("error:Q", scale=alt.Scale(type="log"), title="mean error, and the claim"),
            y=alt.Y("sketch:N", title=None, sort=None),
            color=alt.Color("who:N", sort=["one site", "16 sites", "paper, 16 sites", "claimed"], title=None),
            row=alt.Row("stream:N", title=None),
            column=alt.Column("query:N", title=None),
        )
        .properties(width=180, height=150, title="Table 4: one site, sixteen merged, and what is claimed")
    )
