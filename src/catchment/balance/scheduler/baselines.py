"""What the online scheduler is measured against: knowing nothing, and knowing everything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError
from catchment.kernel.scheduling import least_loaded
from catchment.sketch.checks import check_whole

__all__ = ["FullKnowledge", "RoundRobin"]


class RoundRobin:
    """Instances in turn, whatever comes.

    >>> RoundRobin(2).assign(3).tolist()
    [0, 1, 0]
    """

    def __init__(self, instances: int) -> None:
        self.instances = check_whole("instances", instances, 1, 2**16)
        self._turn = 0

    def assign(self, tuples: int) -> NDArray[np.int32]:
        chosen = (self._turn + np.arange(tuples)) % self.instances
        self._turn = (self._turn + tuples) % self.instances
        return chosen.astype(np.int32)


class FullKnowledge:
    """Greedy scheduling by the true costs of each tuple on each instance, which nobody has: the upper bound.

    With moments, an instance is as loaded as it will be busy; without, as it has ever been given work.

    >>> FullKnowledge(2).assign([[9, 9], [1, 1], [1, 1], [1, 1]]).tolist()
    [0, 1, 1, 1]
    """

    def __init__(self, instances: int) -> None:
        self.instances = check_whole("instances", instances, 1, 2**16)
        self.loads = np.zeros(instances)
        self._turn = 0

    def assign(self, costs: Any, at: Any = None) -> NDArray[np.int32]:
        """`costs[tuple, instance]`, and the moment of each tuple. One tuple at a time: this is for comparing."""
        table = np.asarray(costs, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.instances:
            raise InputError(f"costs of shape {table.shape}", f"give one row a tuple, with {self.instances} costs each")
        moments = np.broadcast_to(np.asarray(-np.inf if at is None else at, dtype=np.float64), (len(table),))
        chosen = np.empty(len(table), dtype=np.int32)
        for i, (row, moment) in enumerate(zip(table, moments, strict=True)):
            place = least_loaded(self.loads, float(moment), self._turn)
            self.loads[place] = max(self.loads[place], moment) + row[place]
            self._turn = (place + 1) % self.instances
            chosen[i] = place
        return chosen
