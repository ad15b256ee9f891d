"""Claim: what the coordinator says about one query, and about which events."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.answer import Answer

__all__ = ["Claim"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A value, the interval that holds the truth, and the cut that it is about.

    `answer` holds for the events up to `cut`: by site, how many of its events are in it, and its time. `estimate` is
    between `low` and `high` there, by the sketch alone and for certain; the answer adds the sketch's own error.
    """

    query: int
    answer: Answer
    estimate: float
    low: float
    high: float
    cut: dict[str, tuple[int, int]]
    epoch: int
    round: int
    state: str
    left: tuple[str, ...] = ()
