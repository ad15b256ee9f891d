"""Load: who gets which events, so that no part waits for another; what the sketches learn decides."""

from __future__ import annotations

from catchment.balance.choices import DChoices, PairedPieces, TwoChoices
from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_build import build_map, full_knowledge, hash_map
from catchment.balance.partition_map import PartitionMap, imbalance
from catchment.balance.partition_report import PartitionReport
from catchment.balance.partitioner import Partitioner
from catchment.balance.relearn import Reconsidered, reconsider

__all__ = [
    "DChoices",
    "KeyLearner",
    "PairedPieces",
    "PartitionMap",
    "PartitionReport",
    "Partitioner",
    "Reconsidered",
    "TwoChoices",
    "build_map",
    "full_knowledge",
    "hash_map",
    "imbalance",
    "reconsider",
]
