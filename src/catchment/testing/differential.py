"""Hold a federation to one Spark: the same random query to both, the answers compared, a failing query made small."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import pyarrow as pa

from catchment.errors import CatchmentError, StatementError, TooManyBytesError
from catchment.federation import planner
from catchment.federation.cloud import Purpose
from catchment.federation.federation import Federation, Outcome
from catchment.federation.plan import Keep, Put, Run
from catchment.federation.rules import bloom_join, deal
from catchment.federation.rules.deal import DEALT, SCATTERED
from catchment.testing.query_text import shrink, text
from catchment.testing.random_queries import RandomQuery
from catchment.testing.same_answer import difference

__all__ = ["Exact", "Verdict", "check", "every_way", "minimal"]

Exact = Callable[[str, bool], pa.Table]
"""What one Spark with the union says; the flag asks for the tables with the column `_cloud`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a query."""

    query: RandomQuery
    problem: str = ""
    """What is wrong with the federation's answer, or nothing."""
    refused: str = ""
    """The reason of a federation that does not answer; an answer refused is not a wrong one, but must be rare."""
    invalid: str = ""
    """Why one Spark has no answer: then a federation must not have one either."""
    ways: frozenset[str] = frozenset()
    """How the federation came to its answer."""


@contextmanager
def every_way() -> Iterator[None]:
    """Small tables are treated as large ones are: kept, dealt and filtered, however little that saves."""
    with (
        patch.object(planner, "LEAST_KEPT", 0),
        patch.object(bloom_join, "LEAST_SAVING", -math.inf),
        patch.object(deal, "LEAST_DEALT", 0),
    ):
        yield


def check(federation: Federation, exact: Exact, query: RandomQuery) -> Verdict:
    """One query to both."""
    try:
        expected = exact(query.text, query.uses_cloud)
    except Exception as problem:
        invalid = _said(problem)
        try:
            federation.sql(query.text)
        except CatchmentError:
            return Verdict(query, invalid=invalid)
        return Verdict(query, f"there is an answer, and one Spark has none: {invalid}", invalid=invalid)
    try:
        outcome = federation.query(query.text)
    except (StatementError, TooManyBytesError) as problem:
        return Verdict(query, refused=_said(problem))
    except Exception as problem:
        return Verdict(query, f"{type(problem).__name__}: {_said(problem)}")
    found = difference(expected, outcome.table, ordered=query.ordered, approximate=query.approximate)
    return Verdict(query, found or "", ways=_ways(outcome))


def minimal(federation: Federation, exact: Exact, verdict: Verdict) -> str:
    """A report of a failure: the smallest query found that fails in the same way, its plan, and where it comes from."""
    kind = verdict.problem.split(":")[0]

    def fails(query: RandomQuery) -> bool:
        found = check(federation, exact, query)
        return not found.invalid and found.problem.split(":")[0] == kind

    body = shrink(verdict.query.body, lambda body: fails(replace(verdict.query, body=body)))
    small = check(federation, exact, replace(verdict.query, body=body))
    problem = small.problem or f"the second time all is well; the first time: {verdict.problem}"
    lines = [f"seed {verdict.query.seed}: {problem}", f"  {text(body)}", f"  shrunk from {verdict.query.text}"]
    try:
        lines.append(federation.explain(text(body)))
    except CatchmentError as problem:
        lines.append(f"  no plan: {problem}")
    return "\n".join(lines)


def _said(problem: Exception) -> str:
    return str(problem).split("\n\nJVM stacktrace")[0].strip()[:600]


def _ways(outcome: Outcome) -> frozenset[str]:
    """By a plan's steps: split, dealt, scattered, Bloom filter, broadcast, shipped, kept, one cloud, put together."""
    plan = outcome.plan
    if plan is None:
        return frozenset()
    found = set()
    if any(note.startswith(("rows go to", "tables go to")) for note in plan.notes):
        found.add("shipped")
    for step in plan:
        if isinstance(step, Put):
            names = {Purpose.FILTER: "Bloom filter", Purpose.PARTIAL: "split", Purpose.ROWS: "broadcast"}
            found.add(names.get(step.purpose, "broadcast"))
        elif isinstance(step, Keep):
            found.add("kept")
        elif step.why in (DEALT, SCATTERED):
            found.add("dealt" if step.why == DEALT else "scattered")
    if not found:
        found.add("put together" if sum(isinstance(step, Run) for step in plan) > 1 else "one cloud")
    return frozenset(found)
