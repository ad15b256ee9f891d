"""A batch of events taken apart by pane: one slice of every column for each, and no Python per event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.sketch.keys import KeyBatch

__all__ = ["Run", "split_into_runs"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one pane, in order of arrival: from the `first` to the `last` of their times."""

    number: int
    first: int
    last: int
    columns: dict[str, Any]


def split_into_runs(numbers: I64, times: I64, columns: Mapping[str, Any]) -> Iterator[Run]:
    """One run for each number; columns are batches of keys, arrays, or one value that all events share.

    >>> runs = split_into_runs(np.array([2, 1, 2]), np.array([25, 14, 21]), {"weights": np.array([7, 8, 9]), "unit": 1})
    >>> [(run.number, run.first, run.last, run.columns["weights"].tolist()) for run in runs]
    [(1, 14, 14, [8]), (2, 21, 25, [7, 9])]
    """
    if np.any(numbers[1:] < numbers[:-1]):
        order = np.argsort(numbers, kind="stable")
        numbers, times = numbers[order], times[order]
        columns = {name: _taken(column, order) for name, column in columns.items()}
    starts = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
    firsts, lasts = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
    for place, (start, stop) in enumerate(zip(starts, [*starts[1:], numbers.size], strict=True)):
        parts = {name: _part(column, int(start), int(stop)) for name, column in columns.items()}
        yield Run(int(numbers[start]), int(firsts[place]), int(lasts[place]), parts)


def _taken(column: Any, order: I64) -> Any:
    if isinstance(column, KeyBatch):
        return column.take(order)
    return column[order] if isinstance(column, np.ndarray) else column


def _part(column: Any, start: int, stop: int) -> Any:
    if isinstance(column, KeyBatch):
        return column.part(start, stop)
    return column[start:stop] if isinstance(column, np.ndarray) else column
