"""AMPLab's queries over two clouds of real Spark Connect servers: with and without indexes, and against one Spark.

Two clouds of one core each hold half of `rankings` and `uservisits`; one Spark of two cores holds all of it, as the
same files. The tables of the paper (LEADS, deliverable 3.4, tables 3 and 4) were measured on other machines, eight of
four cores: its numbers stand beside ours to compare ratios, not seconds. Times are medians of runs after one that is
not counted, on servers that have been asked for a while: a Java machine compiles itself faster for its first hundreds
of statements, and a cluster is not restarted for every query. That helps short statements most, so the gain of an
index is smaller on a server that was just started. Parameters are drawn from the data. Every answer is compared with
the one Spark's, and must be equal. A list of a table's files may serve the queries of a second: `speed_up_alone` is
what an index gives where it does not.

Tables that were made are kept (below the user's cache folder) and used again.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.amplab_parts.measure import Answers, fastest, same, shipped, timed
from benchmarks.amplab_parts.world import World, world
from catchment.app.report import Progress, Report
from catchment.federation.amplab import QUERIES, SELECTIVE
from catchment.spark.cache import user_cache
from catchment.spark.logs import hush, program_log

WHOLE = ("Q1a", "Q1b", "Q2a", "Q2b", "Q3a", "Q3b")
ALONE = ("Q4", "Q6")
"""Measured also as if no query had come in the second before: each has the clouds list the table's files."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    small: int = 4_000_000
    large: int = 16_000_000
    draws: int = 3
    repeats: int = 5
    predicates: int = 50
    warm: int = 50
    """Rounds of statements before anything is timed."""


QUICK = Effort(40_000, 160_000, draws=1, repeats=1, predicates=10, warm=2)

PAPER = {
    # Tables 3 and 4: seconds at 4 million rows, and at 16.
    "Q1a": (8, 22), "Q2a": (177, 687), "Q3a": (28, 95), "Q1b": (11, 30), "Q2b": (199, 738), "Q3b": (61, 257),
    "Q4 without": (8, 21), "Q5 without": (11, 41), "Q6 without": (8, 21),
    "Q7 without": (12, 40), "Q8 without": (25, 67), "Q9 without": (13, 45),
    "Q4 with": (1, 1), "Q5 with": (3, 3), "Q6 with": (1, 1),
    "Q7 with": (3, 3), "Q8 with": (7, 7), "Q9 with": (5, 5),
}  # fmt: skip

Times = dict[str, float]


def run(*, quick: bool, progress: Progress) -> Report:
    hush(program_log("bench-amplab"))
    effort = QUICK if quick else Effort()
    folder = Path(tempfile.mkdtemp(prefix="catchment-amplab-")) if quick else user_cache() / "amplab"
    figures: dict[str, float] = {}
    times: dict[int, Times] = {}
    notes: list[str] = []
    wrong: list[str] = []
    compared = 0
    try:
        for number, rows in enumerate((effort.small, effort.large)):
            # The small tables serve for growth alone; everything else is measured on the large.
            here = _share(progress, *((0.0, 0.3) if number == 0 else (0.3, 1.0)))
            with world(folder / str(rows), rows, _share(here, 0.0, 0.25)) as clouds:
                answers = Answers(clouds)
                if number == 1:  # first, since a cloud is not sent again what it was sent before
                    figures |= _bytes(clouds, answers, notes, _share(here, 0.25, 0.4))
                _warm(clouds, effort.warm, _share(here, 0.4, 0.5))
                times[rows] = _queries(clouds, answers, effort, _share(here, 0.5, 0.75))
                if number == 1:
                    figures |= _planner(clouds, answers, effort, notes, _share(here, 0.75, 1.0))
                wrong += answers.wrong
                compared += answers.compared
    finally:
        if quick:
            shutil.rmtree(folder, ignore_errors=True)
    small, large = times.values()
    figures |= _figures(small, large)
    figures["wrong_answers"] = float(len(wrong))
    notes.insert(0, f"{compared} answers were compared with the one Spark's: {len(wrong)} were not equal.")
    notes += [f"not equal: {sql}" for sql in wrong[:5]]
    sizes = [f"{rows / 1e6:g} M" for rows in times]
    columns = ("table", "query", "index", "paper, 4 M", f"ours, {sizes[0]}", "paper, 16 M", f"ours, {sizes[1]}",
               f"one Spark, {sizes[1]}", "times one Spark", "times faster with index")  # fmt: skip
    return Report("AMPLab's queries over two clouds, seconds", columns, list(_rows(small, large)), figures, notes)


def _warm(clouds: World, rounds: int, progress: Progress) -> None:
    """Ask in every way equally often, with other parameters than are measured; the long Q8 in some rounds only."""
    queries = clouds.drawn(seed=99)
    for place in range(rounds):
        progress(f"statements to warm the servers, {clouds.rows:,} rows", place / rounds)
        for name in SELECTIVE:
            if name != "Q8" or place % 10 == 0:
                for ask in (clouds.forcing.sql, clouds.scanning.sql, clouds.one_spark):
                    ask(queries[name])


def _queries(clouds: World, answers: Answers, effort: Effort, progress: Progress) -> Times:
    """Seconds of Q1 to Q3, of the one Spark too on the large tables, and of Q4 to Q9 with and without indexes."""
    times: Times = {}
    for place, name in enumerate(WHOLE):
        progress(f"{name}, {clouds.rows:,} rows", 0.6 * place / len(WHOLE))
        sql, one = QUERIES[name], f"{name} one"
        times[name], found = timed(partial(clouds.choosing.sql, sql), effort.repeats)
        if clouds.rows == effort.large:
            times[one], expected = timed(partial(clouds.one_spark, sql), effort.repeats)
        else:
            expected = clouds.one_spark(sql)
        answers.check(QUERIES[name], found, expected)
    drawn = [clouds.drawn(seed) for seed in range(effort.draws)]
    for place, name in enumerate(SELECTIVE):
        ways = {"with": clouds.forcing, "without": clouds.scanning}
        if name in ALONE:
            ways["alone"] = clouds.listing
        for how, federation in ways.items():
            progress(f"{name} {how} index, {clouds.rows:,} rows", 0.6 + 0.4 * place / len(SELECTIVE))
            seconds = []
            for queries in drawn:
                taken, found = timed(partial(federation.sql, queries[name]), effort.repeats)
                answers.check(queries[name], found)
                seconds.append(taken)
            times[f"{name} {how}"] = statistics.median(seconds)
    return times


def _bytes(clouds: World, answers: Answers, notes: list[str], progress: Progress) -> Times:
    """What crosses borders, over what would if columns were shipped."""
    figures: Times = {}
    progress("bytes of Q2", 0.0)
    columns = shipped(clouds, "SELECT sourceIP, adRevenue FROM uservisits")
    coarse = QUERIES["Q2a"].replace("1, 8", "1, 3")
    for name, sql in (("q2a", QUERIES["Q2a"]), ("q2b", QUERIES["Q2b"]), ("q2_short", coarse)):
        asked = clouds.choosing.query(sql)
        figures[f"{name}_bytes_over_columns"] = asked.ledger.bytes() / columns
        groups = asked.table.num_rows
        notes.append(
            f"{name.replace('_', ', ').capitalize()} has {groups:,} groups of {clouds.rows:,} visits and moves "
            f"{figures[f'{name}_bytes_over_columns']:.2%} of what its columns would be."
        )
    answers.check(coarse, asked.table)
    progress("bytes of a join", 0.4)
    until = next(day for day, share in _shares(clouds) if share >= 0.01)
    wide = ", ".join(f"MAX(UV.{name}) AS {name}" for name in ("sourceIP", "userAgent", "searchWord", "languageCode"))
    join = (
        f"SELECT COUNT(*) AS visits, SUM(UV.adRevenue) AS revenue, {wide}, MAX(R.pageRank) AS pageRank "
        f"FROM uservisits AS UV JOIN rankings AS R ON R.pageURL = UV.destURL WHERE UV.visitDate <= DATE'{until}'"
    )
    asked = clouds.choosing.query(join)
    answers.check(join, asked.table)
    side = shipped(clouds, "SELECT pageURL, pageRank FROM rankings")
    figures["bloom_join_bytes_over_side"] = asked.ledger.bytes() / side
    figures["bloom_join_filter_bytes"] = float(asked.ledger.bytes(purpose="filter"))
    reasons = "; ".join(note for note in (asked.plan.notes if asked.plan is not None else ()) if "Bloom" in note)
    notes.append(
        f"A join of 1 % of the visits with the pages moves {asked.ledger.bytes() / side:.2%} of what the pages would "
        f"be, {figures['bloom_join_filter_bytes']:,.0f} bytes of it as filters ({reasons or 'no Bloom filter'})."
    )
    progress("word count", 0.7)
    figures["word_count_bytes_over_map_output"] = _word_count(clouds, answers)
    return figures


def _word_count(clouds: World, answers: Answers) -> float:
    """Bytes with a local reduce over bytes without, on a tenth of the visits where they are many."""

    def words(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"key": batch.column(0), "value": np.ones(batch.num_rows, dtype=np.int64)}

    condition = "duration = 1" if clouds.rows > 1_000_000 else "duration > 0"
    how: dict[str, Any] = {"map_batches": words, "columns": ["searchWord"], "where": condition}
    reduced = clouds.choosing.map_reduce("uservisits", local_reduce="sum", **how)
    whole = clouds.choosing.map_reduce("uservisits", reduce="sum", **how)
    sql = f"SELECT searchWord AS key, COUNT(*) AS value FROM uservisits WHERE {condition} GROUP BY searchWord"
    for counted in (reduced, whole):
        answers.check(sql, counted.to_arrow())
    return reduced.ledger.bytes(outward=True) / whole.ledger.bytes(outward=True)


def _planner(clouds: World, answers: Answers, effort: Effort, notes: list[str], progress: Progress) -> Times:
    """For predicates from one row in a million to all: the time of the plan that was chosen over that of the better.

    The choice is one of the two plans; its time is that plan's, measured once, so that noise makes no difference.
    """
    worst, worst_at, taken = 0.0, "", 0
    predicates = list(_predicates(clouds, effort.predicates))
    for place, (sql, share) in enumerate(predicates):
        progress(f"planner: a share of {share:.2g}", place / len(predicates))
        scan, found = fastest(partial(clouds.scanning.sql, sql), 2)
        index, again = fastest(partial(clouds.forcing.sql, sql), 2)
        chosen = clouds.choosing.query(sql)
        answers.check(sql, chosen.table)
        if not (same(found, chosen.table) and same(again, chosen.table)):
            answers.wrong.append(sql)
        by_index = chosen.plan is not None and any(": index " in note for note in chosen.plan.notes)
        taken += by_index
        ratio = (index if by_index else scan) / min(scan, index)
        if ratio > worst:
            worst, worst_at = ratio, f"a share of {share:.2g}: {index:.2f} s by index, {scan:.2f} s by scan"
    notes.append(
        f"Of {len(predicates)} predicates the planner took the index for {taken}; its worst choice took {worst:.2f} "
        f"times as long as the better one ({worst_at})."
    )
    return {"planner_worst_over_better": worst}


def _predicates(clouds: World, number: int) -> Iterator[tuple[str, float]]:
    """So many, with shares spread evenly on a scale of logarithms: ranks from a value on, dates up to a day."""
    ranks, shares = _cumulated(clouds.ranks), _shares(clouds)
    by_rank = number * 3 // 5
    for wanted in np.logspace(-6, 0, by_rank):
        value, share = min(ranks, key=lambda pair: abs(np.log(pair[1] / wanted)))
        yield f"SELECT COUNT(pageURL), SUM(avgDuration) FROM rankings WHERE pageRank >= {value}", share
    for wanted in np.logspace(np.log10(shares[0][1]), 0, number - by_rank):
        day, share = min(shares, key=lambda pair: abs(np.log(pair[1] / wanted)))
        yield f"SELECT MAX(sourceIP), SUM(adRevenue) FROM uservisits WHERE visitDate <= DATE'{day}'", share


def _cumulated(pairs: list[tuple[int, int]]) -> list[tuple[int, float]]:
    """Each rank, from the smallest on, with the share of pages that have it or more."""
    behind = np.cumsum([rows for _, rows in pairs[::-1]])[::-1]
    return [(value, float(rows / behind[0])) for (value, _), rows in zip(pairs, behind, strict=True)]


def _shares(clouds: World) -> list[tuple[date, float]]:
    """Each day, from the first on, with the share of visits until then."""
    until = np.cumsum([rows for _, rows in clouds.days])
    return [(day, float(rows / until[-1])) for (day, _), rows in zip(clouds.days, until, strict=True)]


def _figures(small: Times, large: Times) -> Times:
    figures = {f"{name.lower()}_speed_up": large[f"{name} without"] / large[f"{name} with"] for name in SELECTIVE}
    figures |= {f"{name.lower()}_speed_up_alone": large[f"{name} without"] / large[f"{name} alone"] for name in ALONE}
    growth = {name: large[f"{name} with"] / small[f"{name} with"] for name in SELECTIVE}
    figures |= {f"{name.lower()}_indexed_growth": ratio for name, ratio in growth.items()}
    figures["largest_indexed_growth"] = max(growth.values())
    overhead = {name: large[name] / large[f"{name} one"] for name in WHOLE}
    figures |= {f"{name.lower()}_over_one_spark": ratio for name, ratio in overhead.items()}
    figures["largest_over_one_spark"] = max(overhead.values())
    return figures


def _rows(small: Times, large: Times) -> Iterator[tuple[Any, ...]]:
    for name in WHOLE:
        one = large[f"{name} one"]
        paper = PAPER[name]
        yield ("3", name, "", paper[0], small[name], paper[1], large[name], one, large[name] / one, None)
    for name in SELECTIVE:
        for how in ("without", "with"):
            key = f"{name} {how}"
            faster = large[f"{name} without"] / large[key] if how == "with" else None
            yield ("4", name, how, PAPER[key][0], small[key], PAPER[key][1], large[key], None, None, faster)


def _share(progress: Progress, start: float, stop: float) -> Progress:
    """The same progress, for a part of the work."""
    return lambda what, done: progress(what, start + (stop - start) * done)
