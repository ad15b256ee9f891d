"""Counts by pane: the plain alternative to counters that keep times.

Pane p holds the times after p length, up to and including (p + 1) length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["add_ones", "add_weights"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@kernel
def _row_of(counts: I64, numbers: I64, pane: int) -> int:
    """The row of a pane, cleared of an older one that had it."""
    row = pane % numbers.size
    if numbers[row] != pane:
        numbers[row] = pane
        counts[row, :] = 0
    return row


@kernel
def add_ones(counts: I64, numbers: I64, length: int, cells: I32, times: I64) -> None:
    # Event by event, all its cells at once: row by row, a second row would meet panes that the first has left behind.
    for i in range(times.size):
        pane = _row_of(counts, numbers, (times[i] - 1) // length)
        for row in range(cells.shape[0]):
            counts[pane, cells[row, i]] += 1


@kernel
def add_weights(counts: I64, numbers: I64, length: int, cells: I32, times: I64, weights: I64) -> None:
    for i in range(times.size):
        pane = _row_of(counts, numbers, (times[i] - 1) // length)
        for row in range(cells.shape[0]):
            counts[pane, cells[row, i]] += weights[i]
