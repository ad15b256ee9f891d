"""Loops of the Fast-AMS sketch: one signed counter a row for each key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["add_signed", "add_signed_tracked", "look_up_signed", "measure_rows"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_32 = np.uint64(32)


@kernel
def add_signed(cells: I64, rows: U64, hashes: U64, weights: I64) -> None:
    """`weights` has one entry for each key, or a single one for all."""
    width = np.uint64(cells.shape[1])
    step = 0 if weights.size == 1 else 1
    for row in range(cells.shape[0]):
        counters = cells[row]
        draw = rows[row]
        for i in range(hashes.size):
            x = mixed(hashes[i], draw)
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            counters[((x >> _32) * width) >> _32] += sign * weights[i * step]


@kernel
def add_signed_tracked(
    cells: I64, rows: U64, hashes: U64, weights: I64, drift: I64, reference: I64, norms2: F64, dots: F64
) -> None:
    """`add_signed` to `cells` and to `drift`, with each row's `|drift|²` and `drift . reference` kept up to date.

    `cells` or `reference` of shape (0, 0) stand for none; without a reference `dots` is left as it is. The sums are
    exact while they, and all products on the way, stay below 2^53 in size. Beyond it each event rounds once: after n
    events the sums are wrong by at most n 2^-53 of the largest value they had; `measure_rows` takes them anew.
    """
    width = np.uint64(drift.shape[1])
    step = 0 if weights.size == 1 else 1
    keeps = cells.shape[0] > 0
    measures = reference.shape[0] > 0
    for row in range(drift.shape[0]):
        draw = rows[row]
        moved = drift[row]
        square = norms2[row]
        along = dots[row]
        for i in range(hashes.size):
            x = mixed(hashes[i], draw)
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            column = ((x >> _32) * width) >> _32
            weight = sign * weights[i * step]
            before = moved[column]
            moved[column] = before + weight
            square += (2.0 * np.float64(before) + np.float64(weight)) * np.float64(weight)
            if keeps:
                cells[row, column] += weight
            if measures:
                along += np.float64(weight) * np.float64(reference[row, column])
        norms2[row] = square
        dots[row] = along


@kernel
def measure_rows(drift: I64, reference: I64, norms2: F64, dots: F64) -> None:
    """Each row's `|drift|²` and `drift . reference`, from the beginning; a reference of shape (0, 0) is zero."""
    for row in range(drift.shape[0]):
        square = 0.0
        along = 0.0
        for column in range(drift.shape[1]):
            value = np.float64(drift[row, column])
            square += value * value
            if reference.shape[0] > 0:
                along += value * np.float64(reference[row, column])
        norms2[row] = square
        dots[row] = along


@kernel
def look_up_signed(cells: I64, rows: U64, hashes: U64, out: I64) -> None:
    """Each row's estimate of each key: `out` has shape (depth, keys)."""
    width = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        for i in range(hashes.size):
            x = mixed(hashes[i], rows[row])
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            out[row, i] = sign * cells[row, ((x >> _32) * width) >> _32]
