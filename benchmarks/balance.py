"""Load: DKG's parts, OSG's schedule and LAS's drops, each against what it replaces and against full knowledge.

Simulated on a virtual clock over many streams, and on Spark, in one run; `balance_parts` has a file for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.balance_parts import partition, scheduling, shedding
from catchment.app.report import Progress, Report

COLUMNS = ("what", "how", "value", "beside: the worst stream, or what the line says")
Part = Callable[..., tuple[list[Any], dict[str, float], list[str]]]


def _partition(*, quick: bool, progress: Progress) -> tuple[list[Any], dict[str, float], list[str]]:
    rows, figures, notes = partition.figures(quick=quick, progress=progress)
    return [(f"{what}, {case}", how, value, worst) for what, case, how, value, worst in rows], figures, notes


PARTS: dict[str, Part] = {"DKG": _partition, "OSG": scheduling.figures, "LAS": shedding.figures}


def run(*, quick: bool, progress: Progress) -> Report:
    rows: list[Any] = []
    figures: dict[str, float] = {}
    notes: list[str] = []
    for place, (name, part) in enumerate(PARTS.items()):

        def within(label: str, share: float, place: int = place, name: str = name) -> None:
            progress(f"{name}: {label}", (place + share) / len(PARTS))

        more, found, said = part(quick=quick, progress=within)
        rows += more
        figures |= found
        notes += said
    return Report("Balance: parts, schedules and drops by what sketches learn", COLUMNS, rows, figures, notes)
