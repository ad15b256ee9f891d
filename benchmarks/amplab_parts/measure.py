"""Times, bytes and answers of queries, as the tables of the benchmark have them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from benchmarks.amplab_parts.world import World, errand
from catchment.federation.ledger import Ledger

Answer = TypeVar("Answer")

LONG = 20.0
"""Seconds after which a query is not repeated again."""


def timed(ask: Callable[[], Answer], repeats: int) -> tuple[float, Answer]:
    """The median of some runs after one that is not counted, and the answer; a long query is run less often."""
    answer = ask()
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < LONG:
        start = time.perf_counter()
        answer = ask()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), answer


def fastest(ask: Callable[[], Answer], repeats: int) -> tuple[float, Answer]:
    """The best of some runs, and the answer; for statements whose like have run before."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        answer = ask()
        best = min(best, time.perf_counter() - start)
    return best, answer


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Whether two answers have the same rows, in any order; numbers must be equal to the last bit."""
    if found.num_rows != expected.num_rows or found.schema.types != expected.schema.types:
        return False
    names = [f"c{place}" for place in range(found.num_columns)]  # those of two engines may differ, or be double
    order: list[tuple[str, str]] = [(name, "ascending") for name in names]
    sorted_ones = [table.rename_columns(names).sort_by(order) for table in (found, expected)]
    # Column by column: tables are also compared by whether a column could have nulls.
    return all(left.equals(right) for left, right in zip(*(table.columns for table in sorted_ones), strict=True))


def shipped(world: World, sql: str) -> int:
    """The bytes that cross if the rows of a SELECT leave all clouds, over the same channel."""
    ledger = Ledger()
    for cloud in world.clouds:
        for _ in cloud.stream(sql, errand(ledger)):
            pass
    return ledger.bytes()


class Answers:
    """Compares every answer with the one Spark's; each statement is asked of it once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, pa.Table] = {}
        self.compared = 0
        self.wrong: list[str] = []

    def check(self, sql: str, found: pa.Table, expected: pa.Table | None = None) -> None:
        if expected is None:
            expected = self._known.get(sql)
            if expected is None:
                expected = self._known[sql] = self._world.one_spark(sql)
        self.compared += 1
        if not same(found, expected):
            self.wrong.append(sql)
