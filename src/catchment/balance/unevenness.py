"""How uneven loads are: two measures, each with one name, and this is where both are defined.

    imbalance        by how many percent the busiest is above the mean    0 is even, [3, 1, 2] has 50
    peak_over_mean   the busiest over the mean                            1 is even, [3, 1, 2] has 1.5

The first is the thesis's lambda (section 7.1), in which maps of keys are judged; gaps between two of them are points.
The second is how much longer a stage takes than it would with even tasks. imbalance = 100 * (peak_over_mean - 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["imbalance", "peak_over_mean"]


def peak_over_mean(loads: Any) -> float:
    """The largest load over the mean; 1 is even, and so is nothing at all.

    >>> peak_over_mean([3, 1, 2]), peak_over_mean([]), peak_over_mean([0, 0])
    (1.5, 1.0, 1.0)
    """
    weights = np.asarray(loads, dtype=np.float64)
    total = float(weights.sum())
    return float(weights.max() * weights.size / total) if total > 0 else 1.0


def imbalance(loads: Any) -> float:
    """The thesis's lambda: by how many percent the busiest part is above the mean. 0 is perfect.

    >>> imbalance([30, 10, 20]), imbalance([])
    (50.0, 0.0)
    """
    return (peak_over_mean(loads) - 1) * 100
