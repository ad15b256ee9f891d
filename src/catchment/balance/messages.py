"""What those who decide and those who execute say to each other: OSG's machines and LAS's.

    Learnt   when costs are stable  (arrow B of the thesis's Figures 7.15 and 8.1)
    Mark     rides on a tuple       (D)
    Reply    when it was executed   (E)

Any message may be lost, late or doubled.
"""

from __future__ import annotations

from dataclasses import dataclass

from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["Learnt", "Mark", "Reply"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The load that the sender believes the receiver to have once it has executed this tuple, and which request it is.

    The load is work, or the moment at which it will be done; the number is OSG's epoch.
    """

    number: int
    load: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The tuple with the mark of this number was executed; `delta` is the true load less the mark's.

    An operator behind a shedder adds the waits of all tuples that it has executed up to it, their sum and their number;
    one of several instances says which it is.
    """

    number: int
    delta: float
    waited: float = 0.0
    served: float = 0.0
    instance: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """A pair of matrices that is worth telling.

    An operator behind a shedder adds how many tuples it has executed, when the last of them was done, and the waits. Of
    one of several instances the newest by (life, number) counts, and counts once.
    """

    costs: ValueEstimator
    executed: int = 0
    finished: float = 0.0
    waited: float = 0.0
    served: float = 0.0
    instance: int = 0
    life: int = 0
    number: int = 0
