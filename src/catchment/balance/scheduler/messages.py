"""What the scheduler and the instances of an operator say to each other. Any message may be lost, late or doubled."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["Learnt", "Mark", "Reply"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Rides on a tuple: how loaded the scheduler believes the instance to be once it has executed this tuple."""

    epoch: int
    load: float


@dataclass(frozen=True, slots=True)
class Reply:
    """An instance has executed the tuple with the mark of this epoch; `delta` is its true work less the mark's load."""

    instance: int
    epoch: int
    delta: float


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """A pair of matrices that is stable. The newest by (life, number) counts, and counts once."""

    instance: int
    life: int
    number: int
    costs: ValueEstimator
