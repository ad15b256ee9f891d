"""The tour: one question of eight streams, without Spark.

Each site keeps sketches, only their bytes move, and the merged answers are set beside the exact ones, which needed
all the data in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.app.report import Progress, Report
from catchment.sketch import CountMin, FastAMS, Sketch, SpaceSaving, UltraLogLog
from catchment.window import ECMSketch, Panes

__all__ = ["run_tour"]

SITES = 8
EVENTS_A_SITE = 600_000
PAGES = 200_000
BATCH = 100_000
HOUR = 3_600_000
"""In milliseconds: the events of a site are spread over one."""
RECENTLY = HOUR // 6

I64 = NDArray[np.int64]


def kinds(seed: int) -> dict[str, Callable[[], Sketch]]:
    """The sketches that each site keeps."""
    return {
        "CountMin": lambda: CountMin(epsilon=0.001, delta=0.01, seed=seed),
        "FastAMS": lambda: FastAMS(epsilon=0.1, delta=0.01, seed=seed),
        "SpaceSaving": lambda: SpaceSaving(epsilon=0.0005),
        "UltraLogLog": lambda: UltraLogLog(epsilon=0.03, delta=0.01, seed=seed),
        "Panes": lambda: Panes(SpaceSaving(epsilon=0.001), window=HOUR, panes=6),
        "ECMSketch": lambda: ECMSketch(epsilon=0.05, delta=0.01, window=HOUR, seed=seed),
    }


@dataclass(frozen=True, slots=True)
class Site:
    """A region's stream: pages popular everywhere, and pages that are more popular, but only here.

    No page of the first kind need be among the ten first anywhere to be first in all.
    """

    number: int
    seed: int

    def events(self, count: int) -> I64:
        rng = np.random.default_rng([self.seed, self.number])
        odds = np.arange(20, PAGES + 20, dtype=np.float64) ** -1.1  # Zipf and Mandelbrot: a flattened head
        ranks = np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(count))
        here = np.random.default_rng([self.seed, self.number, 1]).permutation(PAGES)
        everywhere = np.random.default_rng(self.seed).permutation(PAGES)
        return np.where(rng.random(count) < 0.35, everywhere[ranks], here[ranks])

    def times(self, count: int) -> I64:
        return np.sort(np.random.default_rng([self.seed, self.number, 2]).integers(1, HOUR + 1, count))


def run_tour(*, seed: int, progress: Progress, events_a_site: int = EVENTS_A_SITE) -> tuple[Report, Report]:
    """Run it; the answers and the bytes come back as two tables."""
    names = pa.array([f"/page/{page}.html" for page in range(PAGES)])
    exact, recent = np.zeros((2, SITES, PAGES), dtype=np.int64)
    moved: dict[str, list[bytes]] = {name: [] for name in kinds(seed)}
    raw = 0
    for number in range(SITES):
        sketches = {name: make() for name, make in kinds(seed).items()}
        pages, times = Site(number, seed).events(events_a_site), Site(number, seed).times(events_a_site)
        for start in range(0, len(pages), BATCH):
            progress(f"site {number + 1} of {SITES}", (number + start / len(pages)) / (SITES + 0.5))
            batch = names.take(pa.array(pages[start : start + BATCH]))
            raw += batch.nbytes + 8 * len(batch)  # a log line is at least its page and its time
            for sketch in sketches.values():
                timed = {"at": times[start : start + BATCH]} if "at" in sketch.inputs else {}
                sketch.update(batch, **timed)
        exact[number] = np.bincount(pages, minlength=PAGES)
        recent[number] = np.bincount(pages[times > HOUR - RECENTLY], minlength=PAGES)
        for name, sketch in sketches.items():
            moved[name].append(sketch.to_bytes())
    progress("merging", SITES / (SITES + 0.5))
    merged = {name: Sketch.merge(map(Sketch.from_bytes, blobs)) for name, blobs in moved.items()}
    return _answers(merged, exact, recent, names), _bytes(moved, raw, events_a_site)


def _answers(merged: dict[str, Sketch], exact: I64, recent: I64, names: pa.Array) -> Report:
    totals = exact.sum(axis=0)
    order = np.argsort(-totals, kind="stable")
    rows: list[tuple[str, str, float, float, float, float, str]] = []

    def add(question: str, kind: str, truth: float, answer: Answer) -> None:
        value, low, high = (float(part) for part in (answer.value, answer.low, answer.high))
        rows.append((question, kind, truth, value, low, high, "yes" if truth in answer else "NO"))

    count_min, fast_ams, space_saving, distinct, by_pane, in_time = (merged[name] for name in merged)
    assert isinstance(count_min, CountMin)
    assert isinstance(fast_ams, FastAMS)
    assert isinstance(space_saving, SpaceSaving)
    assert isinstance(distinct, UltraLogLog)
    assert isinstance(by_pane, Panes)
    assert isinstance(in_time, ECMSketch)
    for rank in (0, 9, 99, 9_999):
        page = names[int(order[rank])].as_py()
        add(f"how often was {page} seen?", "CountMin", int(totals[order[rank]]), count_min.estimate(page))
    for place, (page, answer) in enumerate(space_saving.top(3), start=1):
        add(f"number {place} everywhere: {page}", "SpaceSaving", int(totals[names.index(page).as_py()]), answer)
    add("how many distinct pages?", "UltraLogLog", int(np.count_nonzero(totals)), distinct.estimate())
    add("self-join size", "FastAMS", float((totals.astype(np.float64) ** 2).sum()), fast_ams.self_join())
    lately = recent.sum(axis=0)
    for place, (page, answer) in enumerate(by_pane.top(2, last=RECENTLY, now=HOUR), start=1):
        truth = int(lately[names.index(page).as_py()])
        add(f"number {place} of the last ten minutes: {page}", "Panes", truth, answer)
    add("all events of the last ten minutes", "ECMSketch", int(lately.sum()), in_time.total(last=RECENTLY, now=HOUR))
    columns = ("question", "sketch", "exact", "answer", "low", "high", "holds")
    figures = {"answers": len(rows), "answers_that_hold": sum(row[-1] == "yes" for row in rows)}
    return Report("Answers", columns, rows, figures, notes=_top_lists(space_saving, exact, order, names))


def _top_lists(space_saving: SpaceSaving, exact: NDArray[np.int64], order: I64, names: pa.Array) -> list[str]:
    """What uniting the sites' own top-10 lists would have said instead."""
    lists = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    known = np.zeros_like(exact)
    np.put_along_axis(known, lists, np.take_along_axis(exact, lists, axis=1), axis=1)
    united = np.argsort(-known.sum(axis=0), kind="stable")[:10]
    truth = set(order[:10].tolist())
    ours = {names.index(key).as_py() for key in space_saving.top(10).keys}
    low = int(np.sum(known.sum(axis=0)[united] < exact.sum(axis=0)[united]))
    named = len(truth & set(united.tolist()))
    return [
        f"Of the true global top 10, the merged sketches name {len(truth & ours)}, each with its bounds.",
        f"The sites' exact top-10 lists, united, name {named}; {low} of 10 counts are too low, and nothing says which.",
    ]


def _bytes(moved: dict[str, list[bytes]], raw: int, events_a_site: int) -> Report:
    sizes = {name: sum(map(len, blobs)) for name, blobs in moved.items()}
    rows = [(name, sizes[name] // SITES, sizes[name], raw / sizes[name]) for name in moved]
    everything = sum(sizes.values())
    rows += [("all six", everything // SITES, everything, raw / everything), ("raw data", raw // SITES, raw, 1.0)]
    columns = ("what moves", "bytes a site", "bytes in all", "times less than raw")
    title = f"Bytes moved from {SITES} sites of {events_a_site:,} events each"
    return Report(title, columns, rows, {"raw_over_moved": raw / everything})
