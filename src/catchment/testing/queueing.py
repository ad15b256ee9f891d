"""An operator of several instances, simulated on a virtual clock: thousands of runs in minutes, and nothing waits.

The same work goes through round-robin, OSG and full knowledge; what comes back is who executed each tuple and when it
was done. Queues are first come first served, one for each instance; a message to the scheduler takes `latency`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.balance.scheduler.settings import MEASURES, SchedulerSettings
from catchment.kernel.queueing import (
    FIRST_RUN,
    LEARNT,
    LOGGED,
    REPLIED,
    operate_assigned,
    operate_knowing,
    operate_online,
)
from catchment.sketch.checks import check_choice, check_whole
from catchment.sketch.keys import hash_keys
from catchment.testing.workload import Workload

__all__ = ["Operated", "operate", "operate_full_knowledge", "operate_osg", "operate_round_robin", "speed_up"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

_LOG_LINES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Operated:
    """What became of the tuples of a workload.

    `learnt` and `replies` count messages to the scheduler. `log` has a line (tuple, instance) for each pair of matrices
    as it came, and with instance -1 for each time that the scheduler got into RUN; `first_run` is the first such tuple,
    None where there was none.
    """

    instances: I32
    ends: I64
    completion: I64
    learnt: int = 0
    replies: int = 0
    first_run: int | None = None
    log: tuple[tuple[int, int], ...] = ()

    @property
    def mean(self) -> float:
        """The average time from a tuple's arrival to its end, in microseconds."""
        return float(self.completion.mean())


def speed_up(operated: Operated, baseline: Operated) -> float:
    """How many times shorter completion is on average than with the baseline."""
    return float(baseline.completion.sum() / operated.completion.sum())


def operate(work: Workload, instances: NDArray[np.integer]) -> Operated:
    """Tuples sent where `instances` says.

    >>> from catchment.testing.workload import make_workload
    >>> work = make_workload(100, seed=1, instances=2, provisioning=1000)
    >>> bool(np.all(operate(work, np.zeros(100, dtype=np.int32)).completion == work.costs))
    True
    """
    chosen = np.ascontiguousarray(instances, dtype=np.int32)
    ends = np.empty(len(work), dtype=np.int64)
    operate_assigned(work.arrivals, work.costs, work.phases, work.factors, chosen, ends)
    return Operated(chosen, ends, ends - work.arrivals)


def operate_round_robin(work: Workload) -> Operated:
    """Instances in turn."""
    return operate(work, np.arange(len(work), dtype=np.int32) % work.instances)


def operate_full_knowledge(work: Workload, *, measure: str = "work") -> Operated:
    """Greedy scheduling by true costs, the bound of what OSG can reach with the same measure."""
    check_choice("measure", measure, MEASURES)
    chosen, ends = np.empty(len(work), dtype=np.int32), np.empty(len(work), dtype=np.int64)
    operate_knowing(work.arrivals, work.costs, work.phases, work.factors, measure == "backlog", chosen, ends)
    return Operated(chosen, ends, ends - work.arrivals)


def operate_osg(work: Workload, settings: SchedulerSettings, *, latency: int = 0) -> Operated:
    """OSG: the machines of `balance.scheduler`, all in one loop.

    Parameters
    ----------
    work, settings
        The stream, and how scheduler and instances are set.
    latency
        How long whatever an instance tells is on its way, in microseconds; marks ride on tuples, which are there at
        once. The thesis names none for its simulator: 0 is as there. With three mean costs the speed-up is nearly the
        same; with thirty, most of it is gone where items are even, and little where they are skewed.
    """
    check_whole("latency", latency, 0, 2**40)
    hashes, _ = hash_keys(np.arange(int(work.keys.max(initial=0)) + 1))
    chosen, ends = np.empty(len(work), dtype=np.int32), np.empty(len(work), dtype=np.int64)
    counters = np.zeros(4, dtype=np.int64)
    log = np.zeros((_LOG_LINES, 2), dtype=np.int64)
    operate_online(
        work.arrivals, work.keys, work.costs, work.phases, work.factors, settings.cells(hashes), settings.width,
        settings.window, settings.tolerance, settings.span if settings.windows == "sliding" else 0,
        settings.patience, settings.stability == "tuples", settings.measure == "backlog", settings.resync, latency,
        chosen, ends, counters, log,
    )  # fmt: skip
    lines = tuple((int(at), int(who)) for at, who in log[: counters[LOGGED]])
    first = int(counters[FIRST_RUN])
    return Operated(
        chosen, ends, ends - work.arrivals, int(counters[LEARNT]), int(counters[REPLIED]),
        None if first < 0 else first, lines,
    )  # fmt: skip
