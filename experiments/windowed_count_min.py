"""Windowed Count-Min: the thesis's Figures 5.10 to 5.17 anew, and Splitter against ECM at equal memory.

As in section 5.2.1: 28 columns, one row unless stated, 1,000 items, streams of three windows whose distribution moves
right by two items for each row every period. The error is the mean over all items of the distance to what
PerfectCountMin says, so it is the error in time alone; it is averaged over the second and third window (20 questions in
each), over three distributions and over the trials. All algorithms have the same hash functions. "splits" are sub-cells
beyond two for each counter. The thesis gives its numbers in the text, and a few only; where there is none, "-".

Not in the thesis: the width of its Normal, here a tenth of the items; and, with --data, the same on a real trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from catchment.app.report import Progress, Report
from catchment.errors import InputError
from catchment.window.ecm import ECMSketch
from catchment.window.perfect_count_min import PerfectCountMin
from catchment.window.proportional_count_min import ProportionalCountMin
from catchment.window.simple_count_min import SimpleCountMin
from catchment.window.splitter_count_min import SplitterCountMin
from experiments.traces import load

I64 = NDArray[np.int64]

ITEMS = np.arange(1000)
WIDTH = 28
DISTRIBUTIONS = ("normal", "zipf-1", "zipf-2")
ALGORITHMS = ("Simple", "Proportional", "Splitter", "ECM-wave")
QUESTIONS_A_WINDOW = 20
COLUMNS = ("figure", "parameter", "algorithm", "error", "thesis", "splits", "thesis splits", "bytes in memory")

Row = tuple[str, str, str, float, float | None, float | None, float | None, float | None]


# -- streams --------------------------------------------------------------------------------------------------


def _ranks(distribution: str, events: int, rng: np.random.Generator) -> I64:
    count = ITEMS.size
    if distribution == "uniform":
        return rng.integers(0, count, events)
    if distribution == "normal":
        return np.clip(np.rint(rng.normal(count / 2, count / 10, events)), 0, count - 1).astype(np.int64)
    odds = np.arange(1, count + 1) ** -float(distribution.removeprefix("zipf-"))
    return np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(events))


def _shifting(ranks: I64, period: int, rows: int) -> I64:
    """The distribution moved right by 2 * rows items after each period."""
    shifted: I64 = (ranks + 2 * rows * (np.arange(ranks.size) // period)) % ITEMS.size
    return shifted


def _stream(distribution: str, setting: Setting, trial: int) -> I64:
    """Three windows of a stream: one that shifts, as in the thesis, or one that changes otherwise."""
    rng = np.random.default_rng([trial, *distribution.encode()])
    events = 3 * setting.window
    if distribution == "reordered":  # Zipf-1 whose items change places at random after each period
        places = np.stack([rng.permutation(ITEMS.size) for _ in range(-(-events // setting.period))])
        return places[np.arange(events) // setting.period, _ranks("zipf-1", events, rng)]
    if distribution == "bursts":  # runs of one item, fifty on average
        runs = rng.geometric(0.02, events)
        return np.repeat(rng.integers(0, ITEMS.size, events), runs)[:events]
    return _shifting(_ranks(distribution, events, rng), setting.period, setting.rows)


def _swapping(scale: float, rng: np.random.Generator) -> I64:
    """The stream of Figures 5.13 to 5.15: 400,000 items, another distribution every 60,000, a shift every 15,000."""
    order = ("uniform", "normal", "uniform", "zipf-1", "uniform", "zipf-2", "uniform")
    parts = [_ranks(name, round(60_000 * scale), rng) for name in order]
    return _shifting(np.concatenate(parts)[: round(400_000 * scale)], round(15_000 * scale), 1)


# -- one run --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run varies; the defaults are the thesis's."""

    window: int
    period: int
    rows: int = 1
    gamma: float = 0.05
    beta: float = 1.5
    algorithms: tuple[str, ...] = ALGORITHMS
    wave_size: int = ECMSketch.suggest(0.1, 0.5)["size"]

    def built(self, name: str, seed: int) -> Any:
        sizes: dict[str, Any] = {"width": WIDTH, "depth": self.rows, "delta": 2.0**-self.rows, "seed": seed}
        sizes |= {"window": self.window, "clock": "arrivals"}
        if name == "ECM-wave":
            return ECMSketch.sized(**sizes, counter="wave", size=self.wave_size)
        if name == "Splitter":
            return SplitterCountMin.sized(**sizes, gamma=self.gamma, beta=self.beta)
        kinds = {"Perfect": PerfectCountMin, "Simple": SimpleCountMin, "Proportional": ProportionalCountMin}
        return kinds[name].sized(**sizes)


@dataclass(frozen=True, slots=True)
class Point:
    """What there is to see at one moment of a stream."""

    at: int
    errors: dict[str, float]
    first: dict[str, float]
    """What each algorithm, and Perfect, says of item 1."""
    splits: int
    bytes: dict[str, int]


def _followed(keys: I64, setting: Setting, seed: int, step: int) -> Iterator[Point]:
    """Feed a stream to all algorithms and stop every so many items to compare them."""
    sketches = {name: setting.built(name, seed) for name in ("Perfect", *setting.algorithms)}
    for start in range(0, keys.size, step):
        for sketch in sketches.values():
            sketch.update(keys[start : start + step])
        at = min(start + step, keys.size)
        values = {name: np.asarray(sketch.estimate(ITEMS).value) for name, sketch in sketches.items()}
        perfect = values["Perfect"]
        yield Point(
            at,
            {name: float(np.abs(values[name] - perfect).mean()) for name in setting.algorithms},
            {name: float(value[1]) for name, value in values.items()},
            sketches["Splitter"].splits,
            {name: sketches[name].nbytes for name in setting.algorithms},
        )


def _points(setting: Setting, distribution: str, trial: int) -> list[Point]:
    """The questions in the second and third window of one stream."""
    step = setting.window // QUESTIONS_A_WINDOW
    followed = _followed(_stream(distribution, setting, trial), setting, trial + 1, step)
    return [point for point in followed if point.at > setting.window]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over questions, distributions and trials."""

    errors: dict[str, float]
    splits: float
    bytes: dict[str, float]

    @classmethod
    def of(cls, points: list[Point]) -> Outcome:
        names = points[0].errors
        return cls(
            {name: float(np.mean([point.errors[name] for point in points])) for name in names},
            float(np.mean([point.splits for point in points])),
            {name: float(np.mean([point.bytes[name] for point in points])) for name in names},
        )


# -- the figures ----------------------------------------------------------------------------------------------


class Runs:
    """Everything that one call of `run` does, a figure a method."""

    def __init__(self, *, quick: bool, progress: Progress) -> None:
        self.scale = 0.04 if quick else 1.0
        self.trials = 1 if quick else 6
        self.quick = quick
        self.rows: list[Row] = []
        self.series: list[dict[str, Any]] = []
        self.figures: dict[str, float] = {}
        self._progress = progress

    def size(self, items: int) -> int:
        return max(20, round(items * self.scale))

    def setting(self, **changes: Any) -> Setting:
        return Setting(**{"window": self.size(50_000), "period": self.size(10_000)} | changes)

    def measured(self, setting: Setting, distributions: tuple[str, ...] = DISTRIBUTIONS) -> Outcome:
        trials = [(name, trial) for name in distributions for trial in range(self.trials)]
        return Outcome.of([point for name, trial in trials for point in _points(setting, name, trial)])

    def add(
        self, figure: str, parameter: str, outcome: Outcome, thesis: Mapping[str, float], thesis_splits: float | None
    ) -> None:
        for name, error in outcome.errors.items():
            splits, theirs = (outcome.splits, thesis_splits) if name == "Splitter" else (None, None)
            given = (thesis.get(name), theirs) if not self.quick else (None, None)  # they are for the full lengths
            self.rows.append((figure, parameter, name, error, given[0], splits, given[1], outcome.bytes[name]))

    def sweep(
        self,
        figure: str,
        label: str,
        values: list[tuple[Any, dict[str, Any]]],
        *,
        thesis: dict[str, float],
        thesis_splits: dict[Any, float],
        share: tuple[float, float],
    ) -> list[Outcome]:
        """One parameter over its values, and the mean over them, for which the thesis gives its numbers."""
        outcomes = []
        for place, (value, changes) in enumerate(values):
            self._progress(f"Figure {figure}", share[0] + (share[1] - share[0]) * place / len(values))
            outcomes.append(self.measured(self.setting(**changes)))
            self.add(figure, f"{label} {value:,}", outcomes[-1], {}, thesis_splits.get(value))
        self.add(figure, f"{label}: mean", _mean(outcomes), thesis, thesis_splits.get("mean"))
        return outcomes

    def windows(self) -> None:
        sizes = [50_000, 100_000] if self.quick else [50_000, 100_000, 200_000, 400_000]
        outcomes = self.sweep(
            "5.10", "window", [(size, {"window": self.size(size)}) for size in sizes],
            thesis={"Simple": 3395, "Proportional": 451, "ECM-wave": 262, "Splitter": 57}, thesis_splits={},
            share=(0, 0.5),
        )  # fmt: skip
        doublings = len(sizes) - 1
        for name in ALGORITHMS:
            growth = outcomes[-1].errors[name] / outcomes[0].errors[name]
            self.figures[f"growth_of_error_with_window_{name}"] = growth ** (1 / doublings)

    def periods(self) -> None:
        periods = [1_000, 4_000, 16_000, 64_000]
        self.sweep(
            "5.11", "period", [(period, {"period": self.size(period)}) for period in periods],
            thesis={"Simple": 900, "Proportional": 140, "ECM-wave": 26, "Splitter": 20},
            thesis_splits={1_000: 166, 64_000: 7}, share=(0.5, 0.6),
        )  # fmt: skip

    def depths(self) -> None:
        self.sweep(
            "5.12", "rows", [(rows, {"rows": rows}) for rows in (1, 2, 4, 8)],
            thesis={"Simple": 331, "Proportional": 126, "ECM-wave": 11, "Splitter": 4}, thesis_splits={},
            share=(0.6, 0.75),
        )  # fmt: skip

    def time_series(self) -> None:
        self._progress("Figures 5.13 to 5.15", 0.75)
        setting = self.setting(period=self.size(15_000))
        runs = [
            list(_followed(_swapping(self.scale, np.random.default_rng(trial)), setting, trial + 1, self.size(2_500)))
            for trial in range(self.trials)
        ]
        points = [point for run in runs for point in run if point.at > setting.window]
        largest = Outcome(
            {name: max(point.errors[name] for point in points) for name in ALGORITHMS},
            max(point.splits for point in points),
            Outcome.of(points).bytes,
        )
        means = {"Simple": 1035, "Proportional": 207, "ECM-wave": 29, "Splitter": 13}
        peaks = {"Simple": 1877, "Proportional": 740, "ECM-wave": 65, "Splitter": 23}
        self.add("5.13, 5.15", "time series: mean", Outcome.of(points), means, 33)
        self.add("5.13, 5.15", "time series: largest", largest, peaks, 63)
        for name in ALGORITHMS:
            distance = float(np.mean([abs(point.first[name] - point.first["Perfect"]) for point in points]))
            self.rows.append(("5.14", "item 1: mean", name, distance, None, None, None, None))
        for point in runs[0]:
            of_all: dict[str, Mapping[str, float]] = {
                "error (5.13)": point.errors,
                "item 1 (5.14)": point.first,
                "splits (5.15)": {"Splitter": point.splits},
            }
            self.series += [
                {"items read": point.at, "algorithm": name, "measure": measure, "value": value}
                for measure, values in of_all.items()
                for name, value in values.items()
                if not (measure.startswith("item") and name == "Simple")  # it would hide the others, as in the thesis
            ]

    def betas(self) -> None:
        theirs = {("zipf-1", 0.9): 18.0, ("zipf-1", 2.5): 4944.0, ("others", 0.9): 110.0, ("others", 2.5): 684.0}
        splits = {1.3: 51.0, 2.5: 20.0}
        for beta in (0.9, 1.5, 2.5) if self.quick else (0.9, 1.0, 1.1, 1.3, 1.5, 1.75, 2.0, 2.5):
            self._progress("Figure 5.16", 0.8)
            setting = self.setting(beta=beta, algorithms=("Splitter",))
            for group, names in (("zipf-1", ("zipf-1",)), ("others", ("normal", "zipf-2"))):
                outcome, thesis = self.measured(setting, names), theirs.get((group, beta))
                given = {} if thesis is None else {"Splitter": thesis}
                self.add("5.16", f"beta {beta:g}, {group}", outcome, given, splits.get(beta))

    def gammas(self) -> None:
        theirs, splits = {0.005: 4.0, 0.1: 610.0, 0.5: 12198.0}, {0.005: 1659.0, 0.02: 77.0, 0.5: 14.0}
        for gamma in (0.05, 0.5) if self.quick else (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
            self._progress("Figure 5.17", 0.85)
            outcome = self.measured(self.setting(gamma=gamma, algorithms=("Splitter",)))
            given = {"Splitter": theirs[gamma]} if gamma in theirs else {}
            self.add("5.17", f"gamma {gamma:g}", outcome, given, splits.get(gamma))

    def trace(self, path: Path) -> None:
        """A real stream of three windows; the items are its thousand most frequent keys, the most frequent first."""
        self._progress("the trace", 0.995)
        keys, places, counts = np.unique(load(path).keys, return_inverse=True, return_counts=True)
        ranks = np.empty(keys.size, dtype=np.int64)
        ranks[np.argsort(-counts, kind="stable")] = np.arange(keys.size)
        stream = ranks[places][: 10_000 if self.quick else None]
        setting = self.setting(window=max(QUESTIONS_A_WINDOW, stream.size // 3))
        step = setting.window // QUESTIONS_A_WINDOW
        points = [
            point
            for trial in range(self.trials)
            for point in _followed(stream, setting, trial + 1, step)
            if point.at > setting.window
        ]
        if not points:
            raise InputError(f"{path} has {stream.size} events", f"give more than {QUESTIONS_A_WINDOW}")
        outcome = Outcome.of(points)
        self.add("data", f"window {setting.window:,}", outcome, {}, None)
        self.figures["data_splitter_over_ecm"] = outcome.errors["Splitter"] / max(outcome.errors["ECM-wave"], 0.01)

    def equal_memory(self) -> None:
        """Give the waves as many bytes as Splitter takes at most, and compare again, stream by stream.

        Besides the thesis's streams, some on which Splitter should do badly: more rows, for its sub-cells are noise
        rather than changes there; a small window, of which waves of that size keep nearly all; and bursts.
        """
        cases = [
            (f"period {period:,}, {name}", name, {"period": self.size(period)})
            for period in (1_000, 10_000, 64_000)
            for name in DISTRIBUTIONS
        ]
        cases += [(f"8 rows, {name}", name, {"rows": 8}) for name in DISTRIBUTIONS]
        small = {"window": self.size(5_000), "period": self.size(1_000)}
        cases += [(f"window 5,000, {name}", name, small) for name in DISTRIBUTIONS]
        cases += [("reordered every 10,000", "reordered", {}), ("bursts", "bursts", {})]
        for place, (label, name, changes) in enumerate(cases):
            self._progress("equal memory", 0.85 + 0.15 * place / len(cases))
            setting = self.setting(**changes, algorithms=("Splitter", "ECM-wave"))
            needed = max(point.bytes["Splitter"] for point in _points(setting, name, 0))
            outcome = self.measured(_with_waves_of(needed, setting, name), (name,))
            self.add("equal memory", label, outcome, {}, None)
            # Waves may err by nothing at all: less than a hundredth of an event counts as that.
            ratio = outcome.errors["Splitter"] / max(outcome.errors["ECM-wave"], 0.01)
            self.figures["splitter_over_ecm_" + label.replace(", ", "_").replace(",", "").replace(" ", "_")] = ratio


def _mean(outcomes: list[Outcome]) -> Outcome:
    names = outcomes[0].errors
    return Outcome(
        {name: float(np.mean([outcome.errors[name] for outcome in outcomes])) for name in names},
        float(np.mean([outcome.splits for outcome in outcomes])),
        {name: float(np.mean([outcome.bytes[name] for outcome in outcomes])) for name in names},
    )


def _with_waves_of(size: int, setting: Setting, distribution: str) -> Setting:
    """The setting with the largest waves that take no more than so many bytes on such a stream, or the smallest."""
    stream = _stream(distribution, setting, 0)
    fits = replace(setting, wave_size=2)
    while True:
        larger = replace(fits, wave_size=fits.wave_size + 1)
        sketch = larger.built("ECM-wave", 1)
        sketch.update(stream)
        if sketch.nbytes > size:
            return fits
        fits = larger


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    runs = Runs(quick=quick, progress=progress)
    steps: list[Callable[[], None]] = [
        runs.windows, runs.periods, runs.depths, runs.time_series, runs.betas, runs.gammas, runs.equal_memory,
    ]  # fmt: skip
    for step in steps:
        step()
    if data is not None:
        runs.trace(data)
    return Report(
        f"Windowed Count-Min as in the thesis's section 5.2: {runs.trials} trial(s), all lengths times {runs.scale:g}",
        COLUMNS,
        runs.rows,
        runs.figures,
        notes=[
            "thesis: its mean over the figure, where its text gives one.",
            "5.11: the thesis gives bounds: Simple above 900, Splitter at most 20, ECM 26 at best, 7 splits at most.",
            "equal memory: ECM takes what Splitter takes at most, or its smallest size where that is more.",
            _verdict(runs.figures),
        ],
        chart=_chart(runs),
    )


def _verdict(figures: dict[str, float]) -> str:
    ratios = {n.removeprefix("splitter_over_ecm_"): r for n, r in figures.items() if n.startswith("splitter_over_ecm_")}
    lost = [f"{name} ({ratio:.2g} times)" for name, ratio in ratios.items() if ratio > 1]
    where = f": {', '.join(lost)}" if lost else ""
    return f"At equal memory Splitter's error is larger than ECM's in {len(lost)} of {len(ratios)} cases{where}."


def _chart(runs: Runs) -> Any:
    sweeps = [
        {"figure": row[0], "parameter": float(row[1].split()[1].rstrip(",").replace(",", "")), "algorithm": row[2]}
        | {"error": row[3], "kind": row[1].partition(", ")[2] if row[0] == "5.16" else ""}
        for row in runs.rows
        if row[0] in {"5.10", "5.11", "5.12", "5.16", "5.17"} and "mean" not in row[1]
    ]
    log = alt.Scale(type="log")
    colour = alt.Color("algorithm:N", sort=[*ALGORITHMS, "Perfect"], title=None)
    lines = (
        alt.Chart(alt.InlineData(values=sweeps))
        .mark_line(point=True)
        .encode(
            x=alt.X("parameter:Q", scale=log),
            y=alt.Y("error:Q", scale=log),
            color=colour,
            strokeDash=alt.StrokeDash("kind:N", legend=None),
        )
        .properties(width=220, height=170)
        .facet(facet=alt.Facet("figure:N", title=None), columns=3)
        .resolve_scale(x="independent", y="independent")
    )
    series = (
        alt.Chart(alt.InlineData(values=runs.series))
        .mark_line()
        .encode(x="items read:Q", y=alt.Y("value:Q", scale=alt.Scale(type="symlog"), title=None), color=colour)
        .properties(width=740, height=150)
        .facet(facet=alt.Facet("measure:N", title="as the stream unfolds"), columns=1)
        .resolve_scale(y="independent")
    )
    return alt.vconcat(lines, series).properties(title="Error against PerfectCountMin, by the thesis's figures")
