"""The operator of the benchmarks on Spark: waits for a row as for a model that is called, 1 ms to 1 s by its kind.

Kinds are as frequent as each other, and their costs at a constant ratio: a heavy tail, in which the dearest tenth of
the rows takes half of the time.
"""

from __future__ import annotations

import time

import numpy as np

from catchment.testing.workload import cost_values

__all__ = ["CHEAPEST", "DEAREST", "KINDS", "seconds_of_kinds", "wait"]

KINDS = 256
CHEAPEST, DEAREST = 1_000, 1_000_000


def seconds_of_kinds(dearest: int = DEAREST) -> dict[int, float]:
    """How long a row of each kind takes, in seconds; `dearest` in microseconds."""
    values = np.random.default_rng(7).permutation(cost_values(KINDS, CHEAPEST, dearest, spacing="geometric"))
    return {kind: float(value) / 1e6 for kind, value in enumerate(values)}


def wait(seconds: dict[int, float], kind: int) -> None:
    time.sleep(seconds[kind])
