"""PartitionReport: what was learnt of the keys and what the map makes of it, to be printed or counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_build import hash_map
from catchment.balance.partition_map import PartitionMap
from catchment.balance.unevenness import imbalance

__all__ = ["HeavyKey", "PartitionReport", "describe"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key with a place of its own."""

    key: Any
    share: float
    """Of the whole load."""
    parts: tuple[int, ...]
    """Where it is: one part, or several if it is split."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What there is to know about a map and what it was drawn from."""

    parts: int
    learnt: int
    """The weight of the events that were learnt."""
    distinct: float
    heavy: tuple[HeavyKey, ...]
    heavy_share: float
    split_keys: int
    expected_imbalance: float
    """In percent, by what was learnt."""
    hash_imbalance: float
    """What plain hashing would have."""
    last_change: str = ""

    def metrics(self) -> dict[str, float]:
        """The numbers by name."""
        return {
            "parts": self.parts,
            "learnt": self.learnt,
            "distinct_keys": self.distinct,
            "heavy_keys": len(self.heavy),
            "heavy_share": self.heavy_share,
            "split_keys": self.split_keys,
            "expected_imbalance_percent": self.expected_imbalance,
            "hash_imbalance_percent": self.hash_imbalance,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.parts} parts; learnt from a load of {self.learnt:,} on about {self.distinct:,.0f} keys",
            f"expected imbalance {self.expected_imbalance:.1f} %, with plain hashing about {self.hash_imbalance:.0f} %",
            f"{len(self.heavy)} keys with a place of their own hold {100 * self.heavy_share:.1f} % of the load"
            + (f"; {self.split_keys} of them are split" if self.split_keys else ""),
        ]
        for entry in self.heavy[:_SHOWN]:
            where = ", ".join(map(str, entry.parts))
            lines.append(f"  {100 * entry.share:6.2f} %  {entry.key!r} in part{'s'[: len(entry.parts) > 1]} {where}")
        if len(self.heavy) > _SHOWN:
            lines.append(f"  and {len(self.heavy) - _SHOWN} more")
        return "\n".join([*lines, *([self.last_change] if self.last_change else [])])


def describe(chart: PartitionMap, learner: KeyLearner, *, last_change: str = "") -> PartitionReport:
    """The report of a map on what a learner saw.

    >>> from catchment.balance.partition_build import build_map
    >>> learner = KeyLearner(theta=0.1, buckets=64)
    >>> learner.update(["a"] * 60 + ["b"] * 30 + [f"rare {n}" for n in range(30)])
    >>> print(describe(build_map(learner, 2), learner))
    2 parts; learnt from a load of 120 on about 31 keys
    expected imbalance 0.0 %, with plain hashing about 75 %
    2 keys with a place of their own hold 75.0 % of the load
       50.00 %  'a' in part 0
       25.00 %  'b' in part 1
    """
    found = learner.heavy_keys()
    total = max(learner.total, 1)
    numbers = chart.numbers_of(found.hashes)
    heavy = tuple(
        HeavyKey(key, load / total, tuple(np.unique(chart.parts_of(number)).tolist()))
        for key, load, number in zip(found.keys, found.loads.tolist(), numbers.tolist(), strict=True)
        if number >= 0
    )
    hashed = hash_map(chart.parts, seed=chart.seed).expected_loads(learner)
    return PartitionReport(
        parts=chart.parts,
        learnt=learner.total,
        distinct=float(learner.distinct().value),
        heavy=heavy,
        heavy_share=sum(entry.share for entry in heavy),
        split_keys=sum(len(entry.parts) > 1 for entry in heavy),
        expected_imbalance=imbalance(chart.expected_loads(learner)),
        hash_imbalance=imbalance(hashed),
        last_change=last_change,
    )
