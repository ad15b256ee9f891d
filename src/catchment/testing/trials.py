"""How many failures of a bound that may fail are too many, and how many trials it takes to see them."""

from __future__ import annotations

import math

__all__ = ["chance_to_notice", "failures_allowed"]


def failures_allowed(trials: int, delta: float, *, alarm: float = 1e-6) -> int:
    """The most failures in independent trials that a bound with failure probability delta explains.

    The 1 - alarm quantile of Bin(trials, delta): a true bound goes over it once in a million test runs.

    >>> failures_allowed(1000, 0.05)
    86
    """
    tail, failures = 0.0, trials
    while failures >= 0:
        tail += _probability(trials, delta, failures)
        if tail > alarm:
            return failures
        failures -= 1
    return 0


def chance_to_notice(trials: int, delta: float, *, times: float = 2.0, alarm: float = 1e-6) -> float:
    """The power of such a test: how often it catches a bound that fails so many times as often as delta.

    What notices delta doubled costs the fewer trials the larger delta is: a sketch built for 0.2 needs a fifth of those
    of one for 0.05.

    >>> [(trials, round(chance_to_notice(trials, 0.05), 2)) for trials in (300, 1000, 2000)]
    [(300, 0.11), (1000, 0.92), (2000, 1.0)]
    >>> round(chance_to_notice(300, 0.2), 3)
    0.998
    """
    allowed = failures_allowed(trials, delta, alarm=alarm)
    return math.fsum(_probability(trials, times * delta, failures) for failures in range(allowed + 1, trials + 1))


def _probability(trials: int, delta: float, failures: int) -> float:
    """Of exactly so many failures."""
    return math.exp(
        math.lgamma(trials + 1) - math.lgamma(failures + 1) - math.lgamma(trials - failures + 1)
        + failures * math.log(delta) + (trials - failures) * math.log1p(-delta)
    )  # fmt: skip
