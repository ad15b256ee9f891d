"""Shift: a change of a vector, measured row by row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.fast_ams import measure_rows

__all__ = ["NOTHING", "Shift", "row_norms"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

NOTHING = np.zeros((0, 0), dtype=np.int64)
"""No reference."""


def row_norms(cells: I64) -> F64:
    """The squared norm of each row; several times as fast as einsum, which turns the cells into floats first."""
    norms, unused = np.zeros(len(cells)), np.zeros(len(cells))
    measure_rows(np.ascontiguousarray(cells), NOTHING, norms, unused)
    return norms


class Shift:
    """A change of a vector, with the squared norm of each row and its product with that row of `reference`."""

    def __init__(self, cells: I64) -> None:
        self.cells = cells
        self.reference: I64 = NOTHING
        self._measure()

    def _measure(self) -> None:
        self.norms: F64 = np.zeros(len(self.cells))
        self.dots: F64 = np.zeros(len(self.cells))
        measure_rows(self.cells, self.reference, self.norms, self.dots)

    def reach(self, counted: int) -> float:
        """Its length by so many of its rows, the longest; by the number of cells that went up or down by 1, for 0."""
        norms = self.norms.tolist()
        return math.sqrt(math.fsum(sorted(norms)[-counted:])) if counted else math.fsum(norms)

    def follow(self, reference: I64 | None) -> None:
        """From now on keep the products with this."""
        self.reference = NOTHING if reference is None else reference
        self._measure()
