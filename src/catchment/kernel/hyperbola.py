"""The nearest point of a hyperbola: what inner products of sketches ask, once a row at every look.

The branch is u = sqrt(v² + tau), tau > 0, in a plane where the point (p, r) has r >= 0. The nearest point has v >= 0
and a normal through (p, r): with u = sqrt(v² + tau),

    phi(v) = 2v - p v/u - r = 0.

v/u is concave for v >= 0. So phi is convex where p >= 0 and concave where p < 0, is -r < 0 at 0, and has one root
beyond. Newton's steps start on the side from which they go towards the root and never past it: (r + p)/2, where
phi >= 0, for p >= 0, and 0 for p < 0. There is no bracket to keep and nothing to fall back on. r = 0 is solved by hand.

(a, b) = (u + v, u - v) turns the branch into ab = tau, the form of the quartic in 004 §3.5.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["nearest_on_hyperbola", "squares_to_products"]

F64 = NDArray[np.float64]

_STEPS = 100
_CLOSE = 1e-12


@kernel
def nearest_on_hyperbola(p: float, r: float, tau: float) -> float:
    """The v >= 0 of the point of u = sqrt(v² + tau) that is nearest to (p, r), for r >= 0 and tau > 0.

    The distance is flat there: v to 1e-12 of itself is a distance to the last bit.
    """
    if r == 0.0:
        over = 0.25 * p * p - tau
        return math.sqrt(over) if p > 0.0 and over > 0.0 else 0.0
    v = 0.5 * (r + p) if p > 0.0 else 0.0
    for _ in range(_STEPS):
        u2 = v * v + tau
        u = math.sqrt(u2)
        slope = 2.0 - (p / u) * (tau / u2)
        step = (2.0 * v - p * v / u - r) / slope
        # At p = 2 sqrt(tau) and r near 0 the root is flat, and what is left of it is rounding: v is as good as it gets.
        if slope <= 0.0 or step >= v > 0.0:
            break
        v -= step
        if abs(step) <= _CLOSE * v:
            break
    return v


@kernel
def squares_to_products(alpha: F64, beta: F64, tau: F64, out: F64) -> None:
    """The squared distance of each (α, β) from {(a, b) : ab >= τ}, a τ of any sign."""
    for i in range(alpha.size):
        a, b, t = alpha[i], beta[i], tau[i]
        if a * b >= t:
            out[i] = 0.0
        elif t == 0.0:
            out[i] = min(a * a, b * b)
        else:
            # Below 0 the point is inside one of the branches of a(-b) >= -τ. Above 0 it is between two branches,
            # mirrors of each other, and nearer to the one on its side of a + b = 0.
            if t < 0.0:
                b, t = -b, -t
            p, r = 0.5 * abs(a + b), 0.5 * abs(a - b)
            v = nearest_on_hyperbola(p, r, t)
            out[i] = 2.0 * ((p - math.sqrt(v * v + t)) ** 2 + (r - v) ** 2)
