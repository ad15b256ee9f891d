"""From the rows' slacks to one: enough rows must be good (Garofalakis and Samoladas, ICDT 2017; EDBT 2019).

A sketch of d rows gives d estimates. Their median is on the right side when `need` = floor(d/2) + 1 rows are (for an
even d that is more than the mean of the two middle ones asks for, so still safe). The minimum, as of Count-Min, is
below a threshold when ONE row is, and above it when ALL are.

Row i has a concave slack ζ_i of its own part of the drift. Let L be the rows with w_i = ζ_i(0) > 0, and m = |L| - need
+ 1. If every m rows of L include a good one, at most m - 1 of L are bad and `need` are good. Therefore

    ζ(X) = min over I ⊆ L, |I| = m of  Σ_{i∈I} w_i ζ_i(X) / sqrt(Σ_{i∈I} w_i²)

is safe: a sum that is not negative has a term that is not. It is concave, as a minimum of sums of concave functions.
Rows are disjoint parts of the drift, so where each ζ_i has slope 1, each sum has slope 1 ("eikonal"), and ζ(X) >= ζ(0)
- |X|. There are C(|L|, m) sums: 35 for d = 7, 126 for d = 9.

**Cheap** divides all sums by the largest of the square roots. Then the least sum is that of the m smallest products,
one sort. It is as safe and concave, its slope is at most 1, and it is smaller where it is positive. It is taken when
there are too many sums.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.slacks import least_sum

__all__ = ["MOST_SUMS", "RULES", "Quorum", "Sides", "rows_needed"]

F64 = NDArray[np.float64]

RULES = ("median", "minimum")
MOST_SUMS = 2000
"""d = 13 has 1,716 sums, d = 15 has 6,435."""


def rows_needed(rule: str, depth: int) -> tuple[int, int]:
    """How many rows must be high enough for the estimate to be, and how many low enough.

    >>> rows_needed("median", 7), rows_needed("minimum", 7)
    ((4, 4), (7, 1))
    """
    if rule not in RULES:
        raise ParameterError(f"rule={rule!r}", f"give one of {', '.join(map(repr, RULES))}")
    if depth < 1:
        raise ParameterError(f"{depth} rows", "give at least one")
    return (depth // 2 + 1,) * 2 if rule == "median" else (depth, 1)


class Quorum:
    """One slack of `need` good rows, from the rows' slacks.

    Parameters
    ----------
    at_zero
        Each row's slack without drift, w_i; at least `need` of them must be positive.
    need
        How many rows must be good.
    cheap
        Whether to take the cheap form; None takes it when the other has more than `MOST_SUMS` sums.

    Examples
    --------
    >>> quorum = Quorum([3.0, 4.0, -1.0], need=1)
    >>> quorum.at_zero, quorum.slack(np.array([0.0, 5.0, -9.0]))
    (5.0, 4.0)
    """

    def __init__(self, at_zero: Any, need: int, *, cheap: bool | None = None) -> None:
        weights = np.array(at_zero, dtype=np.float64)
        if weights.ndim != 1 or not 1 <= need <= weights.size or not np.isfinite(weights).all():
            raise ParameterError(f"need={need} of the rows' slacks {weights}", "give one finite slack for each row")
        members = np.flatnonzero(weights > 0)
        if members.size < need:
            raise ParameterError(
                f"{members.size} of {weights.size} rows are within the thresholds and {need} are needed",
                "take thresholds around the estimate, with room on either side, and an odd number of rows",
            )
        self.depth = weights.size
        self.count = members.size - need + 1
        self.cheap = math.comb(members.size, self.count) > MOST_SUMS if cheap is None else cheap
        self._members = members
        if self.cheap:
            self._weights = weights[members] / math.sqrt(np.sort(weights[members] ** 2)[-self.count :].sum())
        else:
            self.sums = _sums(weights, members, self.count)
        self.at_zero = self.slack(weights)

    def slack(self, rows: F64) -> float:
        """ζ of the rows' slacks at one point."""
        if self.cheap:
            products = (self._weights * rows[self._members]).tolist()
            return float(sum(sorted(products)[: self.count]))
        return float(least_sum(self.sums, rows))


class Sides:
    """One slack of several conditions on the same rows, each a `Quorum`: the least of theirs.

    Their rows' slacks come side by side in one array. All sums stand in one matrix, so that a look costs one product.

    >>> sides = Sides([Quorum([2.0], need=1), Quorum([1.0], need=1)])
    >>> sides.at_zero, sides.slack(np.array([0.5, 3.0]))
    (1.0, 0.5)
    """

    def __init__(self, sides: list[Quorum]) -> None:
        if not sides:
            raise ParameterError("no threshold at all", "give a finite low or a finite high")
        self._sides = sides
        self._sums = None if any(side.cheap for side in sides) else _blocks([side.sums for side in sides])
        self.at_zero = min(side.at_zero for side in sides)

    def slack(self, rows: F64) -> float:
        if self._sums is not None:
            return float(least_sum(self._sums, rows))
        return min(side.slack(part) for side, part in zip(self._sides, self._parts(rows), strict=True))

    def _parts(self, rows: F64) -> list[F64]:
        depth = self._sides[0].depth
        return [rows[..., i * depth : (i + 1) * depth] for i in range(len(self._sides))]


def _blocks(matrices: list[F64]) -> F64:
    """The matrices along a diagonal, zero elsewhere."""
    height, width = sum(len(m) for m in matrices), sum(m.shape[1] for m in matrices)
    whole = np.zeros((height, width))
    row = column = 0
    for m in matrices:
        whole[row : row + len(m), column : column + m.shape[1]] = m
        row, column = row + len(m), column + m.shape[1]
    return whole


def _sums(weights: F64, members: NDArray[np.intp], count: int) -> F64:
    """A matrix whose rows are the normalised sums, so that one product with the rows' slacks gives them all."""
    chosen = np.array(list(combinations(members.tolist(), count)), dtype=np.intp)
    matrix = np.zeros((len(chosen), weights.size))
    np.put_along_axis(matrix, chosen, weights[chosen], axis=1)
    scaled: F64 = matrix / np.sqrt((matrix**2).sum(axis=1, keepdims=True))
    return scaled
