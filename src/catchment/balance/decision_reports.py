"""ScheduleReport and ShedderReport: what a scheduler and a shedder have learnt and done, to be printed or counted.

They are to `Scheduler` and `LoadShedder` what `PartitionReport` is to `Partitioner`: `report()` gives one, `str` prints
it, and `metrics()` has its numbers by name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScheduleReport", "ShedderReport"]


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """What there is to know about a scheduler. Costs are in the unit of the caller."""

    instances: int
    state: str
    epoch: int
    """How often loads were put right, or began to be."""
    known: int
    """Instances whose matrices have come."""
    mean_costs: tuple[float, ...]
    """What a tuple costs on each instance on average; empty until all are known."""

    def metrics(self) -> dict[str, float]:
        """The numbers by name."""
        found: dict[str, float] = {"instances": self.instances, "epoch": self.epoch, "known_instances": self.known}
        if self.mean_costs:
            found |= {"least_mean_cost": min(self.mean_costs), "most_mean_cost": max(self.mean_costs)}
        return found

    def __str__(self) -> str:
        head = f"{self.instances} instances, state {self.state}, epoch {self.epoch}; costs of {self.known} are known"
        if not self.mean_costs:
            return f"{head}\ntuples go to instances in turn"
        return f"{head}\na tuple costs {min(self.mean_costs):,.6g} to {max(self.mean_costs):,.6g} on average"


@dataclass(frozen=True, slots=True)
class ShedderReport:
    """What there is to know about a shedder. Times are microseconds."""

    state: str
    target: int
    admitted: int
    dropped: int
    average_wait: float
    """Of what was let through, as far as is known."""
    mean_cost: float

    @property
    def dropped_share(self) -> float:
        came = self.admitted + self.dropped
        return self.dropped / came if came else 0.0

    def metrics(self) -> dict[str, float]:
        """The numbers by name."""
        return {
            "target": self.target,
            "admitted": self.admitted,
            "dropped": self.dropped,
            "dropped_share": self.dropped_share,
            "average_wait": self.average_wait,
            "mean_cost": self.mean_cost,
        }

    def __str__(self) -> str:
        return (
            f"state {self.state}: {self.admitted:,} let through, {self.dropped:,} dropped ({self.dropped_share:.1%})\n"
            f"they wait {self.average_wait:,.6g} on average, {self.target:,} are allowed; one costs "
            f"{self.mean_cost:,.6g}"
        )
