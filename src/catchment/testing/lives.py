"""Lives of a coordinator in worlds in which neither its clock nor its disk can be relied on.

In most worlds lives are counted, so that a later one has the larger number whatever the disk says. In some they are
numbers that no earlier life had, and no more than that, as of a clock that is set; and the disk is often an old one. A
life may then learn only from the sites that there was a later one.
"""

from __future__ import annotations

import random
from dataclasses import replace

from catchment.testing.faults import Faults

__all__ = ["Lives"]

_SHARE = 0.15
_HIGHEST = 1 << 50


class Lives:
    """The numbers of a coordinator's lives in the world of a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.wander = random.Random(f"lives {seed}").random() < _SHARE

    def number(self, life: int) -> int:
        """The number of a life, counted from 1."""
        return random.Random(f"life {life} of {self._seed}").randint(1, _HIGHEST) if self.wander else life

    def strike(self, faults: Faults) -> Faults:
        """With restarts of the coordinator from old disks, where its lives wander."""
        if not self.wander:
            return faults
        return replace(
            faults, crash_coordinator=max(faults.crash_coordinator, 0.01), rollback=max(faults.rollback, 0.4)
        )
