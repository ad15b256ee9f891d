"""One operator with a queue behind a load shedder, on a virtual clock: thousands of runs in a minute, nothing sleeps.

    work = make_workload(32_768, seed=1, cheapest=100, dearest=6_400, instances=1, provisioning=0.75)
    run = simulate(work, LEARNT, target=6_400)
    run.average, run.dropped

The operator is measured as it would be outside: a tuple's queueing time is from its arrival to its start. The loop is
one kernel, made of the same steps as `LoadShedder` and `CostLearner`; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.shedder import shed_rules
from catchment.errors import ParameterError
from catchment.kernel.hashing import column_draws, draws
from catchment.kernel.shedding import EVERYTHING, FULL_KNOWLEDGE, LEARNT, RANDOM, STRAW_MAN, simulate_shedding
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.keys import hash_keys
from catchment.sketch.value_estimator import ValueEstimator
from catchment.testing.workload import Workload

__all__ = ["EVERYTHING", "FULL_KNOWLEDGE", "LEARNT", "POLICIES", "RANDOM", "STRAW_MAN", "ShedRun", "simulate"]

F64 = NDArray[np.float64]

POLICIES = {
    "none": EVERYTHING, "random": RANDOM, "straw man": STRAW_MAN, "LAS": LEARNT, "full knowledge": FULL_KNOWLEDGE,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ShedRun:
    """What one run came to: the queueing time of each tuple, -1 where it was dropped."""

    waits: F64
    told: int
    answered: int

    @property
    def kept(self) -> NDArray[np.bool_]:
        return self.waits >= 0

    @property
    def dropped(self) -> int:
        return int(np.count_nonzero(self.waits < 0))

    @property
    def average(self) -> float:
        """The average queueing time of what was kept, in microseconds."""
        kept = self.kept
        return float(self.waits[kept].mean()) if kept.any() else 0.0

    def series(self, length: int, *, costs: Any = 0, failed: float = np.inf) -> tuple[F64, F64]:
        """The average queueing time and the dropped share of each `length` tuples.

        With the tuples' costs it is the average completion time. Tuples for which it is above `failed` are not in the
        average, though they were not dropped; it is NaN where none is left.
        """
        size = self.waits.size // length * length
        times = (self.waits + costs)[:size].reshape(-1, length)
        kept = self.kept[:size].reshape(-1, length)
        counted = kept & (times <= failed)
        with np.errstate(invalid="ignore"):
            return np.where(counted, times, 0).sum(axis=1) / counted.sum(axis=1), 1 - kept.mean(axis=1)


def simulate(
    work: Workload,
    policy: int = LEARNT,
    *,
    target: int,
    drop_share: float = 0.0,
    guess: float | None = None,
    latency: int = 0,
    window: int = 1024,
    tolerance: float = 0.05,
    first: int = 1,
    epsilon: float = 0.05,
    delta: float = 0.1,
    sizes: tuple[int, int] | None = None,
    seed: int = 0,
    thesis: bool = False,
    **rules: Any,
) -> ShedRun:
    """Run one stream against one shedder.

    Parameters
    ----------
    work
        The stream, of one instance.
    policy
        What the shedder goes by: EVERYTHING is kept, RANDOM, STRAW_MAN, LEARNT (LAS) or FULL_KNOWLEDGE.
    target
        The queueing time that is allowed, in microseconds.
    drop_share
        What RANDOM drops.
    guess
        What STRAW_MAN takes each tuple to cost: the mean of the stream, if it is not given.
    latency
        How long whatever the operator tells is on its way, in microseconds. The thesis names none for its simulator: 0
        is as there. LAS keeps what is asked of it up to some three mean costs; with messages that take longer than the
        queue may be, it finds out too late.
    window, tolerance, first, epsilon, delta, seed
        Of the operator's learner.
    sizes
        Width and depth of the matrices, over epsilon and delta: (1, 1) knows the mean alone.
    thesis
        LAS as in the thesis's listings, without what was added here.
    rules
        More of `shed_rules`: constraint, memory, margin, ask_every, accounts.
    """
    if policy not in POLICIES.values():
        raise ParameterError(f"policy={policy!r}", f"give one of {', '.join(map(str, POLICIES.values()))}")
    if not 0 <= drop_share <= 1:
        raise ParameterError(f"drop_share={drop_share!r}", "give a share from 0 to 1")
    check_whole("latency", latency, 0, 2**40)
    check_whole("window", window, 1, 2**31)
    check_fraction("tolerance", tolerance)
    if thesis:
        first, rules = 0, {"margin": 1 + epsilon, "ask_every": 0, "accounts": False} | rules
    size = ValueEstimator.suggest(epsilon, delta)
    width, depth = sizes or (size["width"], size["depth"])
    hashes, _ = hash_keys(work.keys)
    waits, told = np.empty(len(work)), np.zeros(2, dtype=np.int64)
    simulate_shedding(
        policy, hashes, work.costs_on(0), work.arrivals, column_draws(seed, depth), width, shed_rules(target, **rules),
        window, tolerance, check_whole("first", first, 0, 2**31), float(latency),
        float(work.costs.mean()) if guess is None else float(guess), drop_share, draws(seed, 1)[0], waits, told,
    )  # fmt: skip
    return ShedRun(waits, int(told[0]), int(told[1]))
