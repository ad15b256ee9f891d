"""Load: who gets which events, in which order of places, and which are dropped; what the sketches learn decides.

Pure: no clock, no socket, no Spark. Parts of keys (BPART, DKG) are here, and what sheds (LAS); `scheduler` has OSG.
"""

from __future__ import annotations

from catchment.balance import scheduler
from catchment.balance.choices import DChoices, PairedPieces, TwoChoices
from catchment.balance.cost_learner import CostLearner
from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_build import build_map, full_knowledge, hash_map
from catchment.balance.partition_map import PartitionMap
from catchment.balance.partition_report import PartitionReport
from catchment.balance.partitioner import Partitioner
from catchment.balance.relearn import Reconsidered, reconsider
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shed_record import ShedRecord
from catchment.balance.shedder import LoadShedder
from catchment.balance.unevenness import imbalance, peak_over_mean

__all__ = [
    "CostLearner",
    "DChoices",
    "KeyLearner",
    "LoadShedder",
    "PairedPieces",
    "PartitionMap",
    "PartitionReport",
    "Partitioner",
    "Reconsidered",
    "ShedOperator",
    "ShedRecord",
    "TwoChoices",
    "build_map",
    "full_knowledge",
    "hash_map",
    "imbalance",
    "peak_over_mean",
    "reconsider",
    "scheduler",
]
