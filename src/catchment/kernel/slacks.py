"""A row's slacks from its drift's length and direction, and the least of their sums: a site's look at its zone.

A site looks after every batch, thousands of times a second, at arrays of a dozen numbers. NumPy spends half a
microsecond or more on each operation on them, twenty times over; these loops spend two in all.

Drifts come flattened: entry i belongs to row i % depth of drift i // depth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hyperbola import nearest_on_hyperbola

__all__ = ["half_product_rows", "least_sum", "self_join_rows"]

F64 = NDArray[np.float64]

_HALF_ROOT = math.sqrt(0.5)


@kernel
def least_sum(sums: F64, rows: F64) -> float:
    """The least entry of the product `sums` times `rows`."""
    least = math.inf
    for i in range(sums.shape[0]):
        total = 0.0
        for j in range(rows.size):
            total += sums[i, j] * rows[j]
        least = min(least, total)
    return least


@kernel
def _length(norm: float, norm2: float, dot: float, scale: float) -> float:
    """|E + k D|, from |E|² + 2 k D.E + k²|D|², which rounding may take below 0."""
    return math.sqrt(max(norm * norm + scale * (2.0 * dot + scale * norm2), 0.0))


@kernel
def _along(norm: float, dot: float, scale: float) -> float:
    """(E + k D) . E/|E|; 0 for an E of 0, which points nowhere."""
    return norm + scale * dot / norm if norm > 0.0 else 0.0


@kernel
def self_join_rows(norms2: F64, dots: F64, scale: float, norms: F64, ceiling: float, floor: float, out: F64) -> None:
    """Each row's upper slack, then each row's lower; a ceiling of inf or a floor of 0 is none, and is not in `out`.

    `dots` of size 0 asks for the near slacks, which hold for any direction of the drift.
    """
    depth = norms.size
    above, below = ceiling < math.inf, floor > 0.0
    stride = depth * (int(above) + int(below))
    shift = depth if above else 0
    for i in range(norms2.size):
        row = i % depth
        place = (i // depth) * stride + row
        norm = norms[row]
        if dots.size:
            high, low = _length(norm, norms2[i], dots[i], scale), _along(norm, dots[i], scale)
        else:
            reach = scale * math.sqrt(max(norms2[i], 0.0))
            high, low = norm + reach, norm - reach
        if above:
            out[place] = ceiling - high
        if below:
            out[place + shift] = low - floor


@kernel
def half_product_rows(
    along_norms: F64,
    along_dots: F64,
    across_norms: F64,
    across_norms2: F64,
    across_dots: F64,
    scale: float,
    tau: float,
    planes: F64,
    out: F64,
    stride: int,
    shift: int,
) -> None:
    """Each row's slack of |x|² >= |y|² + tau; x moves `along`, y `across`.

    For tau > 0 it is the signed distance from a hyperbola, else `planes` has the three numbers of each row's
    half-plane. Drift n's go to n × stride + shift.
    """
    depth = along_norms.size
    for i in range(along_dots.size):
        row = i % depth
        p = _along(along_norms[row], along_dots[i], scale)
        r = _length(across_norms[row], across_norms2[i], across_dots[i], scale)
        if tau > 0.0:
            v = nearest_on_hyperbola(p, r, tau)
            slack = _HALF_ROOT * math.hypot(p - math.sqrt(v * v + tau), r - v)
            if p < math.sqrt(r * r + tau):
                slack = -slack
        else:
            slack = planes[0, row] * p - planes[1, row] * r + planes[2, row]
        out[(i // depth) * stride + shift + row] = slack
