"""How many failures of a bound that may fail are too many."""

from __future__ import annotations

import math

__all__ = ["failures_allowed"]


def failures_allowed(trials: int, delta: float, *, alarm: float = 1e-6) -> int:
    """The most failures in independent trials that a bound with failure probability delta explains.

    The 1 - alarm quantile of Bin(trials, delta): a true bound goes over it once in a million test runs.

    >>> failures_allowed(1000, 0.05)
    86
    """
    tail, failures = 0.0, trials
    while failures >= 0:
        log_term = (
            math.lgamma(trials + 1) - math.lgamma(failures + 1) - math.lgamma(trials - failures + 1)
            + failures * math.log(delta) + (trials - failures) * math.log1p(-delta)
        )  # fmt: skip
        tail += math.exp(log_term)
        if tail > alarm:
            return failures
        failures -= 1
    return 0
