"""Distinct: how many different keys were seen, by a table of presence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.monitor.presence import (
    PresenceVector,
    WindowPresenceVector,
    cells_of,
    keys_at_least,
    keys_at_most,
    keys_of,
    width_for,
)
from catchment.monitor.safe import Presence, Zone
from catchment.monitor.vectors import Vector
from catchment.monitor.watch import ANY_RULES, Watch, check_positive
from catchment.monitor.zones.thresholds import Band

__all__ = ["Distinct"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Watch):
    """How many different keys there were, whichever sites saw them and how often; weights do not matter.

    By a table of presence: 32 cells for each of some 6/epsilon² columns (delta = 0.01). That is 150 kilobytes a copy
    for epsilon = 0.1 and 4 megabytes for 0.02, and a site has three copies, the coordinator two for each site; but only
    the cells that have changed cross the network.
    """

    kind: ClassVar[str] = "Distinct"
    rises: ClassVar[bool] = True

    epsilon: float = 0.05

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        check_positive(self.threshold, "a distinct count")

    @property
    def rules(self) -> tuple[str, ...]:
        return (*ANY_RULES, "near", "full")

    @property
    def vector_key(self) -> Any:
        return self.kind, self.window, self.epsilon, self.delta, self.seed

    @property
    def width(self) -> int:
        """The columns of the table."""
        return width_for(self.epsilon, self.delta)

    def new_vector(self) -> Vector:
        if self.window is None:
            return PresenceVector(width=self.width, seed=self.seed)
        return WindowPresenceVector(width=self.width, seed=self.seed, window=self.window)

    def value(self, total: I64) -> float:
        return keys_of(float(np.count_nonzero(total > 0)), self.width)

    def sketch_error(self) -> float:
        return self.epsilon

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        cells = int(np.count_nonzero(total > 0))
        # What rounding in the curve and back may take away is given back.
        up = max(math.floor(self._cells(band.high) * (1 + 1e-10)) - cells, 0) if band.high < math.inf else math.inf
        down = max(cells - math.ceil(self._cells(band.low) * (1 - 1e-10)), 0) if band.low > 0 else math.inf
        return {"near": Presence(up, down), "full": Presence(up, down, total)}

    def _cells(self, keys: float) -> float:
        return cells_of(keys, self.width)

    def answer(self, value: float, low: float, high: float) -> Answer:
        """By how far the number of cells may stray; see `presence`."""
        if self.threshold is None and low == -math.inf:  # a rising quantity: the least was known when it was claimed
            low = value * (1 + self.epsilon) / (1 + self.theta)
        least = keys_at_least(self._cells(low), self.width, self.delta / 2) if low > 0 else 0.0
        most = keys_at_most(self._cells(high), self.width, self.delta / 2) if high < math.inf else math.inf
        return Answer(value, math.floor(least), most, confidence=1 - self.delta, epsilon=self.theta)
