"""What `balanced_map` did with a batch: what it expected, what it measured, and what that took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.balance.unevenness import peak_over_mean as imbalance

__all__ = ["BatchReport"]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch. Costs are in seconds of the function, all tasks together or one for each task.

    `estimated` and `equal_counts` are what the tasks were expected to take as dealt, and with equal counts; both empty
    where nothing was known yet. `known_rows` is what is remembered after this batch. Seconds are of the driver's clock:
    `dealing` looks at the keys and deals, `running` is the job with the function, `learning` merges and keeps what was
    measured, together with what measuring took in the longest task.
    """

    number: int
    rows: int
    tasks: int
    estimated: tuple[float, ...]
    equal_counts: tuple[float, ...]
    measured: tuple[float, ...]
    known_rows: int
    mean_cost: float
    dealing: float
    running: float
    learning: float
    notes: tuple[str, ...] = ()

    @property
    def imbalance(self) -> float:
        """The slowest task's cost over the mean, as measured; 1 is even."""
        return imbalance(self.measured)

    @property
    def learning_share(self) -> float:
        """What balancing took, of everything but the sink."""
        whole = self.dealing + self.running + self.learning
        return (self.dealing + self.learning) / whole if whole else 0.0

    @property
    def error(self) -> float | None:
        """How far the tasks' estimated costs were from the measured ones, over these; None where there were none."""
        if not self.estimated or not sum(self.measured):
            return None
        pairs = zip(self.estimated, self.measured, strict=True)
        return sum(abs(guess - truth) for guess, truth in pairs) / sum(self.measured)

    def metrics(self) -> dict[str, float]:
        """The same as plain numbers by name, for whatever collects metrics."""
        found: dict[str, Any] = {
            "batch": self.number,
            "rows": self.rows,
            "tasks": self.tasks,
            "measured_cost_seconds": sum(self.measured),
            "measured_imbalance": self.imbalance,
            "estimated_cost_seconds": sum(self.estimated) if self.estimated else None,
            "estimated_imbalance": imbalance(self.estimated) if self.estimated else None,
            "equal_counts_imbalance": imbalance(self.equal_counts) if self.equal_counts else None,
            "estimate_error": self.error,
            "known_rows": self.known_rows,
            "mean_cost_seconds": self.mean_cost,
            "dealing_seconds": self.dealing,
            "running_seconds": self.running,
            "learning_seconds": self.learning,
            "learning_share": self.learning_share,
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    def __str__(self) -> str:
        lines = [
            f"batch {self.number}: {self.rows:,} rows to {self.tasks} tasks, {self.running:.2f} s",
            f"  measured   {sum(self.measured):8.2f} s of work, the slowest task {self.imbalance:.2f} of the mean",
        ]
        if self.estimated:
            lines.append(
                f"  estimated  {sum(self.estimated):8.2f} s of work, the slowest task {imbalance(self.estimated):.2f} "
                f"of the mean; in equal counts {imbalance(self.equal_counts):.2f}; off by {self.error or 0:.0%}"
            )
        else:
            lines.append("  estimated  nothing: rows were dealt in equal counts")
        lines.append(
            f"  known      {self.known_rows:,} rows, {1000 * self.mean_cost:.3g} ms each; "
            f"balancing took {self.learning_share:.1%} of the time"
        )
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])
