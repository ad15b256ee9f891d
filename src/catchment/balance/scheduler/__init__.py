"""OSG: tuples of very different cost, scheduled by what sketches have learnt that they cost.

`OperatorInstance` learns on each instance of an operator, `Scheduler` decides in front of them, `RoundRobin` and
`FullKnowledge` are what it is measured against. `CostModel` and `deal` are the same for work that comes in batches.
"""

from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.scheduler.baselines import FullKnowledge, RoundRobin
from catchment.balance.scheduler.batches import CostModel, Deal, deal
from catchment.balance.scheduler.dispatch import Assignment, Scheduler
from catchment.balance.scheduler.instance import OperatorInstance
from catchment.balance.scheduler.settings import SchedulerSettings

__all__ = [
    "Assignment",
    "CostModel",
    "Deal",
    "FullKnowledge",
    "Learnt",
    "Mark",
    "OperatorInstance",
    "Reply",
    "RoundRobin",
    "Scheduler",
    "SchedulerSettings",
    "deal",
]
