"""Federated queries: random SQL over tables in three clouds answers as one Spark that holds all the rows.

Tables and queries come from seeds (`catchment.testing.random_tables`, `random_queries`). Each query goes to
a federation of three clouds and to one Spark with the union of their tables; names, types and rows must be equal. The
table counts, for every feature of SQL that a query may have, how its queries were answered: *split* into partial
results, those *dealt* out to all clouds, or *scattered* where groups hardly repeat; joined by a *Bloom filter* or a
*broadcast*, partial results *kept* where they are wanted, answered in *one cloud*, *put together*, or their rows
*shipped* to one cloud. In every other world the small tables are treated as large ones. A failure is shrunk to the
smallest query that still fails, and shown with its seed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from catchment.app.report import Progress, Report
from catchment.spark.logs import program_log
from catchment.spark.session import session
from catchment.testing.differential import Verdict, minimal
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import random_world
from experiments.federated_worlds import checked, local_world

WORLDS, QUERIES = 21, 50
WAYS = ("split", "dealt", "scattered", "kept", "Bloom filter", "broadcast", "one cloud", "put together", "shipped")
COLUMNS = ("feature", "queries", *WAYS, "refused", "no query in Spark", "wrong")


def run(*, quick: bool, progress: Progress, spark: Any = None, first: int = 0) -> Report:
    """Ask and compare; `first` is the seed of the first world."""
    worlds, count = (2, 15) if quick else (WORLDS, QUERIES)
    running = spark or session(log=program_log("experiment-federated-queries"))
    verdicts: list[Verdict] = []
    notes = []
    try:
        for number in range(worlds):
            world = random_world(first + number)
            with local_world(running, world) as (federation, exact):
                queries = [random_query(world, seed) for seed in range(count)]
                for verdict in checked(federation, exact, queries):
                    verdicts.append(verdict)
                    progress(f"world {number + 1} of {worlds}", len(verdicts) / (worlds * count))
                    if verdict.problem:
                        notes.append(f"world {world.seed}, {minimal(federation, exact, verdict)}")
    finally:
        if spark is None:
            running.stop()
    figures = {
        "queries": float(len(verdicts)),
        "wrong": float(sum(bool(verdict.problem) for verdict in verdicts)),
        "refused": float(sum(bool(verdict.refused) for verdict in verdicts)),
    }
    refusals = Counter(verdict.refused for verdict in verdicts if verdict.refused)
    notes += [f"refused {times} times: {reason}" for reason, times in refusals.most_common()]
    return Report("Random queries over three clouds, beside one Spark", COLUMNS, _rows(verdicts), figures, notes)


def _rows(verdicts: list[Verdict]) -> list[list[Any]]:
    features = sorted({feature for verdict in verdicts for feature in verdict.query.features})
    rows = [_row(feature, [each for each in verdicts if feature in each.query.features]) for feature in features]
    return [_row("all", verdicts), *rows]


def _row(feature: str, verdicts: list[Verdict]) -> list[Any]:
    ways = Counter(way for verdict in verdicts for way in verdict.ways)
    return [
        feature,
        len(verdicts),
        *(ways[way] for way in WAYS),
        sum(bool(verdict.refused) for verdict in verdicts),
        sum(bool(verdict.invalid) for verdict in verdicts),
        sum(bool(verdict.problem) for verdict in verdicts),
    ]
