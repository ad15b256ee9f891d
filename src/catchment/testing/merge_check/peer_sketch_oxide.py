"""An adapter for the exponential histogram of the package `sketch_oxide`, which is needed only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import PackageMissingError
from catchment.testing.merge_check.adapter import Claims

__all__ = ["SketchOxideHistogram"]

I64 = NDArray[np.int64]


class SketchOxideHistogram:
    """It counts all events in the whole window, and claims that its interval always holds.

    Its documentation has the window closed at both ends; both ways to count the edge are accepted. It says nothing of
    events out of order, so it gets none. Events of one tick go in by one call with their number: one by one, its
    interval fails on ties even without a merge.
    """

    name = "sketch-oxide-eh"
    claims = Claims(window=1000, keys=False, ranges=False, past=False, either_edge=True)

    def __init__(self, epsilon: float = 0.1) -> None:
        try:
            import sketch_oxide
        except ImportError:
            raise PackageMissingError(
                "sketch_oxide is not installed", "pip install 'catchment[peers]', or leave out sketch-oxide-eh"
            ) from None
        self._kind, self._epsilon = sketch_oxide.ExponentialHistogram, epsilon

    def new(self, seed: int) -> Any:  # nothing in it is random
        return self._kind(self.claims.window, self._epsilon)

    def update(self, state: Any, keys: I64, times: I64) -> None:  # it knows no keys
        ticks, counts = np.unique(times, return_counts=True)
        for tick, count in zip(ticks.tolist(), counts.tolist(), strict=True):
            state.insert(tick, count)

    def merge(self, states: Sequence[Any]) -> Any:
        """One after the other into the first, which is the only way that it has."""
        first, *others = states
        for other in others:
            first.merge(other)
        return first

    def estimate(self, state: Any, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        value, low, high = state.count(now)
        return float(value), float(low), float(high)
