"""What a shedder and the operator behind it say to each other (arrows B, D and E of the thesis's Figure 8.1)."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["Learnt", "Reply", "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """Goes with a tuple: when the shedder believes that this tuple will be done."""

    number: int
    busy_until: float


@dataclass(frozen=True, slots=True)
class Reply:
    """How far off the request was (Δ), and the waits of all executed tuples up to it: their sum and their number."""

    number: int
    delta: float
    waited: float
    served: float


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """The operator's matrices, how many tuples it has executed, when the last of them was done, and the waits."""

    costs: ValueEstimator
    executed: int
    finished: float
    waited: float
    served: float
