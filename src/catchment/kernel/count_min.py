"""Loops of the Count-Min sketch over cells of shape (depth, width)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["add_conservative", "add_ones", "add_weights", "look_up_cells", "look_up_smallest", "place_cells"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@kernel
def place_cells(hashes: U64, rows: U64, width: int, out: NDArray[np.int32]) -> None:
    """The cell of each key in each row, numbered through: `out` has shape (depth, keys)."""
    for row in range(rows.shape[0]):
        a, b, c = rows[row, 0], rows[row, 1], rows[row, 2]
        for i in range(hashes.size):
            out[row, i] = np.int64(column_of(hashes[i], a, b, c, np.uint64(width))) + row * width


@kernel
def add_ones(cells: I64, rows: U64, hashes: U64) -> None:
    # Row by row over the whole batch: the row's counters stay in L1 and the loop needs no inner loop over depth.
    width = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        counters = cells[row]
        a, b, c = rows[row, 0], rows[row, 1], rows[row, 2]
        for i in range(hashes.size):
            counters[column_of(hashes[i], a, b, c, width)] += 1


@kernel
def add_weights(cells: I64, rows: U64, hashes: U64, weights: I64) -> None:
    width = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        counters = cells[row]
        a, b, c = rows[row, 0], rows[row, 1], rows[row, 2]
        for i in range(hashes.size):
            counters[column_of(hashes[i], a, b, c, width)] += weights[i]


@kernel
def add_conservative(cells: I64, rows: U64, hashes: U64, weights: I64) -> None:
    """Raise each of a key's counters only as far as its new estimate (Estan and Varghese, TOCS 21(3), 2003)."""
    width = np.uint64(cells.shape[1])
    for i in range(hashes.size):
        smallest = np.int64(0x7FFFFFFFFFFFFFFF)
        for row in range(cells.shape[0]):
            smallest = min(smallest, cells[row, column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], width)])
        raised = smallest + weights[i]
        for row in range(cells.shape[0]):
            at = column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], width)
            if cells[row, at] < raised:
                cells[row, at] = raised


@kernel
def look_up_smallest(cells: I64, rows: U64, hashes: U64, out: I64) -> None:
    width = np.uint64(cells.shape[1])
    for i in range(hashes.size):
        smallest = np.int64(0x7FFFFFFFFFFFFFFF)
        for row in range(cells.shape[0]):
            smallest = min(smallest, cells[row, column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], width)])
        out[i] = smallest


@kernel
def look_up_cells(cells: I64, rows: U64, hashes: U64, out: I64) -> None:
    """The counter of each key in each row: `out` has shape (depth, keys)."""
    width = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        for i in range(hashes.size):
            out[row, i] = cells[row, column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], width)]
