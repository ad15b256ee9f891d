"""Loops that count events by group, tick and cell, exactly: what a stream sends on its way to a sketch.

A *table* has the shape (groups, ticks, cells), flat. A *list* is what of it is not zero, tick by tick in order: the
ticks, how many cells each has, those cells in order, and their counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["add_list", "count_list", "count_ones", "count_runs", "count_times", "count_weights", "list_counts"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@kernel
def count_ones(table: I64, ticks: int, width: int, rows: U64, codes: I32, origin: int, times: I64, hashes: U64) -> None:
    """One for each event, in the cell of each row."""
    depth, wide = rows.shape[0], np.uint64(width)
    cells = depth * width
    for i in range(hashes.size):
        first = (codes[i] * ticks + times[i] - origin) * cells
        for row in range(depth):
            table[first + row * width + column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], wide)] += 1


@kernel
def count_weights(
    table: I64, ticks: int, width: int, rows: U64, codes: I32, origin: int, times: I64, hashes: U64, weights: I64
) -> None:
    depth, wide = rows.shape[0], np.uint64(width)
    cells = depth * width
    for i in range(hashes.size):
        first = (codes[i] * ticks + times[i] - origin) * cells
        for row in range(depth):
            at = first + row * width + column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], wide)
            table[at] += weights[i]


@kernel
def count_times(table: I64, ticks: int, codes: I32, origin: int, times: I64, weights: I64) -> None:
    """The same where there is one cell and no key; `weights` has one entry for each event, or one for all."""
    single = weights.size == 1
    for i in range(times.size):
        table[codes[i] * ticks + times[i] - origin] += weights[0] if single else weights[i]


@kernel
def count_list(table: I64, cells: int, sizes: I64) -> int:
    """How many cells of each tick are not zero, and of all."""
    total = 0
    for tick in range(sizes.size):
        found = 0
        for at in range(tick * cells, (tick + 1) * cells):
            found += table[at] != 0
        sizes[tick] = found
        total += found
    return total


@kernel
def list_counts(table: I64, cells: int, out_cells: I32, out_counts: I64) -> None:
    """The cells that are not zero, and their counts."""
    to = 0
    for at in range(table.size):
        if table[at] != 0:
            out_cells[to] = at % cells
            out_counts[to] = table[at]
            to += 1


@kernel
def add_list(table: I64, cells: int, places: I64, sizes: I64, own_cells: I32, counts: I64) -> None:
    """Add a list into a table of one group, its ticks at these places."""
    at = 0
    for tick in range(sizes.size):
        first = places[tick] * cells
        for _ in range(sizes[tick]):
            table[first + own_cells[at]] += counts[at]
            at += 1


@kernel
def count_runs(
    starts: I64, width: int, rows: U64, hashes: U64, weights: I64, sizes: I64, out_cells: I32, out_counts: I64
) -> int:
    """A list of events that lie in runs of one group and tick each, run r from starts[r] to starts[r + 1].

    One row of counters serves all runs; only what a run touched is looked at and cleared.
    """
    depth, wide = rows.shape[0], np.uint64(width)
    counters = np.zeros(depth * width, dtype=np.int64)
    touched = np.empty(depth * width, dtype=np.int32)
    to = 0
    for run in range(sizes.size):
        found = 0
        for i in range(starts[run], starts[run + 1]):
            for row in range(depth):
                cell = row * width + np.int64(column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], wide))
                if counters[cell] == 0 and weights[i] != 0:
                    touched[found] = cell
                    found += 1
                counters[cell] += weights[i]
        touched[:found].sort()
        for place in range(found):
            cell = touched[place]
            out_cells[to], out_counts[to] = cell, counters[cell]
            counters[cell] = 0
            to += 1
        sizes[run] = found
    return to
