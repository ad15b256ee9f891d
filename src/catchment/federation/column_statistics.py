"""What a cloud's sketches say of one column of one segment: how many rows a predicate leaves, about.

The sketches are Spark's own, made in the cloud in one pass over the segment: a Count-Min sketch for single values, a
KLL sketch for ranges (of strings, every n-th value of the ordered segment), a HyperLogLog sketch for how many differ.
They answer for planning only: an estimate that is off costs time, never a row.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from catchment.federation.intervals import Domain, Interval, Value

if TYPE_CHECKING:  # its kernels take a second to import, and a plan without equality needs none
    from catchment.sketch.spark_count_min import SparkCountMin

__all__ = ["FEW_VALUES", "ColumnStatistics", "matching"]

FEW_VALUES = 32
"""A range of at most so many whole numbers is asked of the Count-Min sketch value by value."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column over some rows.

    `cuts` are values in order with the same number of rows between any two neighbours; the first is the smallest of
    all values and the last the largest.

    >>> ages = ColumnStatistics(Domain.WHOLE, rows=1000, nulls=0, distinct=50, cuts=(0, 10, 20, 40, 90))
    >>> ages.between(Interval(high=20)), ages.between(Interval(15, 30))
    (500.0, 250.0)
    """

    domain: Domain
    rows: int
    nulls: int = 0
    distinct: float = 1.0
    width: float = 8.0
    """Bytes of a value, on average."""
    cuts: tuple[Value, ...] = ()
    counts: SparkCountMin | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> int:
        """Rows that are not null."""
        return self.rows - self.nulls

    def between(self, interval: Interval) -> float:
        """About how many rows have a value inside."""
        if interval.nulls:
            return float(self.nulls)
        if interval.is_empty() or not self.values:
            return 0.0
        if interval.is_point():
            return self.equal(interval.low)
        points = self._points(interval)
        by_rank = self._by_rank(interval)
        return by_rank if points is None else min(by_rank + self.values / max(1, len(self.cuts) - 1), points)

    def equal(self, value: Value) -> float:
        """About how many rows have this value: the Count-Min sketch's answer is never too low."""
        return self.equal_to([value])

    def equal_to(self, values: Sequence[Value]) -> float:
        """About how many rows have one of these values, which differ: a join may ask for thousands."""
        if not self.values:
            return 0.0
        if self.cuts:
            values = [value for value in values if self.cuts[0] <= value <= self.cuts[-1]]
        if self.counts is not None and values and all(isinstance(value, int | bytes) for value in values):
            return float(np.sum(self.counts.estimate(list(values)).value))
        return sum(map(self._evenly, values))

    def _evenly(self, value: Value) -> float:
        """Without a Count-Min sketch: as often as the cuts show, and as any other value at least."""
        same = bisect_right(self.cuts, value) - bisect_left(self.cuts, value)
        often = self.values * (same - 1) / max(1, len(self.cuts) - 1)
        return max(often, self.values / max(1.0, self.distinct))

    def _points(self, interval: Interval) -> float | None:
        """A short range of whole numbers, value by value."""
        if self.counts is None or self.domain not in (Domain.WHOLE, Domain.DATE):
            return None
        if interval.low is None or interval.high is None:
            return None
        first = math.floor(interval.low) + (not interval.with_low)
        last = math.ceil(interval.high) - (not interval.with_high)
        if last - first >= FEW_VALUES:
            return None
        return self.equal_to(range(first, last + 1))

    def _by_rank(self, interval: Interval) -> float:
        low = 0.0 if interval.low is None else self._rank(interval.low, included=not interval.with_low)
        high = 1.0 if interval.high is None else self._rank(interval.high, included=interval.with_high)
        return self.values * max(0.0, high - low)

    def _rank(self, value: Value, *, included: bool) -> float:
        """Which part of the values is below, or not above."""
        last = len(self.cuts) - 1
        if last < 1:
            return 0.5
        place = (bisect_right if included else bisect_left)(self.cuts, value)
        if place == 0 or place > last:
            return min(place, 1)
        return (place - 1 + _part(self.cuts[place - 1], value, self.cuts[place])) / last


def _part(low: Value, value: Value, high: Value) -> float:
    """Where between its neighbours a value is, as if all between were equally frequent; of strings, in the middle."""
    if isinstance(low, bytes) or isinstance(value, bytes) or isinstance(high, bytes):
        return 0.5
    return (value - low) / (high - low) if math.isfinite(high - low) and high > low else 0.5


def matching(parts: Iterable[ColumnStatistics], intervals: Iterable[Interval]) -> float:
    """Which part of all rows is inside one of the intervals, over segments that hold different rows."""
    known, asked = tuple(parts), tuple(intervals)
    wide = [interval for interval in asked if not interval.is_point()]
    # A point inside a range is not counted twice.
    points = [one.low for one in asked if one.is_point() and not any(each.meets(one.low, one.low) for each in wide)]
    rows = sum(part.rows for part in known)
    found = sum(
        min(float(part.rows), part.equal_to(points) + sum(part.between(interval) for interval in wide))
        for part in known
    )
    return min(1.0, found / rows) if rows else 0.0
