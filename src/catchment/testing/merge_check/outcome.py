"""Outcome: what became of one sketch in one scenario with so many sites."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from catchment.testing.trials import failures_allowed

__all__ = ["Outcome", "Violation", "pooled"]

_SUMS = ("trials", "refused", "questions", "violations", "surely", "measured", "errors", "misses", "half_widths")


@dataclass(frozen=True, slots=True)
class Violation:
    """An answer whose interval does not hold the truth, and all that is needed to see it again."""

    scenario: str
    sites: int
    seed: int
    trial: int
    tree: str
    key: int | None
    last: int
    now: int
    truth: int
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        asked = "all events" if self.key is None else f"key {self.key}"
        return (
            f"{self.scenario}, {self.sites} sites, {self.tree} tree, seed {self.seed}, trial {self.trial}: {asked} "
            f"in the last {self.last} at {self.now} were {self.truth}, not in [{self.low}, {self.high}]"
        )


@dataclass(slots=True)
class Outcome:
    """Counts over trials; a trial draws streams, a seed and a tree, and asks many questions.

    `surely` counts the violations of what was claimed always to hold: one is too many. The others are measured
    against `allowed`.

    Errors and widths are of the plainest questions alone, the whole window at its newest event, which every sketch
    answers: of shorter ranges, which may hold a handful of events, shares would say little.
    """

    adapter: str
    scenario: str
    sites: int
    delta: float
    trials: int = 0
    refused: int = 0
    questions: int = 0
    violations: int = 0
    surely: int = 0
    first: Violation | None = None
    measured: int = 0
    largest_error: float = 0.0
    """Of a value, as a share of all events in the window."""
    errors: float = 0.0
    misses: float = 0.0
    half_widths: float = 0.0

    def measure(self, truth: int, events: int, answer: tuple[float, float, float]) -> None:
        """Note how near one answer came; there were so many events in its range."""
        value, low, high = answer
        error = abs(value - truth) / max(events, 1)
        self.measured += 1
        self.largest_error = max(self.largest_error, error)
        self.errors += error
        self.misses += abs(value - truth)
        self.half_widths += (high - low) / 2

    @property
    def allowed(self) -> int:
        """The violations that a true claim of delta explains, all but once in a million runs.

        Answers of one trial share their seed and may all fail together, so it is trials that are counted: as many
        questions as that number of trials has.
        """
        answered = self.trials - self.refused
        if not (self.delta and answered):
            return 0
        return math.ceil(failures_allowed(answered, self.delta) * self.questions / answered)

    @property
    def holds(self) -> bool:
        """Whether what was claimed can be true."""
        return not self.surely and self.violations <= self.allowed

    @property
    def rate(self) -> float:
        return self.violations / max(self.questions, 1)

    @property
    def mean_error(self) -> float:
        return self.errors / max(self.measured, 1)

    @property
    def width_over_error(self) -> float | None:
        """The mean half-width of the intervals over the mean error: how much a bound gives away. None without error."""
        return self.half_widths / self.misses if self.misses else None

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "adapter": self.adapter,
            "scenario": self.scenario,
            "sites": self.sites,
            "delta": self.delta,
            "trials": self.trials,
            "refused": self.refused,
            "questions": self.questions,
            "violations": self.violations,
            "violations of what always holds": self.surely,
            "violation rate": self.rate,
            "violations allowed": self.allowed,
            "holds": self.holds,
            "largest error": self.largest_error,
            "mean error": self.mean_error,
            "half-width over error": self.width_over_error,
            "first violation": None if self.first is None else asdict(self.first),
        }


def pooled(outcomes: Iterable[Outcome]) -> Outcome:
    """Several outcomes of one sketch as one: trials of many scenarios see a smaller excess over delta.

    >>> parts = [Outcome("x", "steady", 2, 0.01, trials=5, questions=50), Outcome("x", "late", 4, 0.01, trials=5)]
    >>> whole = pooled(parts)
    >>> whole.scenario, whole.sites, whole.trials, whole.questions
    ('all', 0, 10, 50)
    """
    first, *others = outcomes
    whole = Outcome(first.adapter, first.scenario, first.sites, first.delta)
    for part in (first, *others):
        for name in _SUMS:
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        whole.largest_error = max(whole.largest_error, part.largest_error)
        whole.first = whole.first or part.first
        whole.scenario = part.scenario if part.scenario == whole.scenario else "all"
        whole.sites = part.sites if part.sites == whole.sites else 0
    return whole
