"""Synthetic work for an operator, as flat arrays from a seed: what comes, when, and how long it takes.

The streams of the thesis (sections 7.2.3 and 8.3): items drawn from a uniform or Zipf distribution, a few values of
execution time dealt out to the items at random, one arrival every `provisioning * mean cost / instances`, and changes
in mid-stream by phases. Times are whole microseconds on a virtual clock that starts at 0; nothing here sleeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.sketch.checks import check_choice, check_whole

__all__ = ["DISTRIBUTIONS", "Phase", "Workload", "cost_values", "make_workload"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

DISTRIBUTIONS = {"uniform": 0.0, **{f"zipf-{skew:g}": skew for skew in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)}}
"""The thesis's distributions of items, by name: the skew of each, 0 being uniform."""

_LONGEST = 2**40  # microseconds, twelve days: sums of a stream's costs stay far from 2^63


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the stream in which nothing changes.

    `provisioning` is what the instances can take over what comes: 1 is just enough, 1.05 five parts of a hundred more
    than needed, 0.8 too little. It is measured against the costs of the whole stream before any phase changes them, so
    a `slowdown` (which multiplies every cost) or a `swap` (the most frequent item changes places with the most frequent
    of the dearest ones) brings more work at the same rate. `factors` multiply the costs on each instance.
    """

    tuples: int
    provisioning: float = 1.0
    slowdown: float = 1.0
    factors: tuple[float, ...] = ()
    swap: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A stream of work: for each tuple its item, its cost on an instance of speed one, its arrival and its phase.

    `factors[phase, instance]` multiplies the cost. `mean_cost` is of the whole stream before any phase changes it.
    """

    keys: I64
    costs: I64
    arrivals: I64
    phases: I64
    factors: F64
    mean_cost: float

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def instances(self) -> int:
        return int(self.factors.shape[1])

    def costs_on(self, instance: int) -> I64:
        """How long each tuple takes on that instance, to the nearest microsecond."""
        costs: I64 = np.rint(self.costs * self.factors[self.phases, instance]).astype(np.int64)
        return costs


def cost_values(count: int, cheapest: int, dearest: int, *, spacing: str = "linear") -> I64:
    """`count` execution times from `cheapest` to `dearest` at constant distance, or at constant ratio.

    >>> cost_values(4, 1000, 64_000).tolist(), cost_values(4, 1000, 64_000, spacing="geometric").tolist()
    ([1000, 22000, 43000, 64000], [1000, 4000, 16000, 64000])
    """
    check_whole("count", count, 1, 2**20)
    check_whole("cheapest", cheapest, 1, _LONGEST)
    check_whole("dearest", dearest, cheapest, _LONGEST)
    check_choice("spacing", spacing, ("linear", "geometric"))
    spaced = np.linspace if spacing == "linear" else np.geomspace
    return np.rint(spaced(cheapest, dearest, count)).astype(np.int64)


def make_workload(
    tuples: int = 100_000,
    *,
    seed: int,
    skew: float = 1.0,
    items: int = 4096,
    values: int = 64,
    cheapest: int = 1_000,
    dearest: int = 64_000,
    spacing: str = "linear",
    instances: int = 5,
    provisioning: float = 1.0,
    jitter: float = 0.0,
    phases: Sequence[Phase] = (),
) -> Workload:
    """The work of one seed; item 0 is the most frequent.

    Parameters
    ----------
    tuples, provisioning, phases
        The length of the stream and its load, or the phases, which say both.
    seed
        Chooses everything that is drawn.
    items, instances
        How many different items there are, and on how many instances of the operator the load is measured.
    skew
        The i-th item has probability proportional to i^-skew; 0 is uniform. `DISTRIBUTIONS` has the thesis's by name.
    values, cheapest, dearest, spacing
        The execution times, in microseconds: see `cost_values`. Each is dealt to the same number of items, at random.
    jitter
        A tuple takes up to so much more or less than its item's cost, as a share of it, evenly drawn.

    Examples
    --------
    >>> work = make_workload(1000, seed=1, instances=5, provisioning=1.05)
    >>> len(work), round(float(work.arrivals[-1]) / 999 * 5 / work.mean_cost, 2)
    (1000, 1.05)
    """
    spans = tuple(phases) or (Phase(tuples, provisioning),)
    _check(spans, skew, items, values, instances, jitter, seed)
    rng = np.random.default_rng(seed)
    of_item = rng.permutation(np.resize(cost_values(values, cheapest, dearest, spacing=spacing), items))
    lengths = np.array([span.tuples for span in spans])
    phase = np.repeat(np.arange(len(spans)), lengths)
    keys = _drawn(skew, items, int(lengths.sum()), rng)
    mean = float(of_item[keys].mean())
    for number, span in enumerate(spans):
        if span.swap:
            keys = np.where(phase == number, _swapped(items, of_item)[keys], keys)
    costs = of_item[keys] * np.array([span.slowdown for span in spans])[phase]
    if jitter:
        costs = costs * (1 + jitter * rng.uniform(-1, 1, keys.size))
    gaps = np.array([span.provisioning for span in spans])[phase] * mean / instances
    # Summed before it is rounded, so that a gap of no whole number does not drift.
    arrivals = np.floor(np.cumsum(gaps) - gaps[0]).astype(np.int64)
    factors = np.array([span.factors or (1.0,) * instances for span in spans])
    return Workload(keys, np.maximum(np.rint(costs), 1).astype(np.int64), arrivals, phase, factors, mean)


def _drawn(skew: float, items: int, count: int, rng: np.random.Generator) -> I64:
    odds = np.arange(1, items + 1, dtype=np.float64) ** -skew
    return np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(count), side="right")


def _swapped(items: int, of_item: I64) -> I64:
    """Items renamed so that the most frequent and the most frequent of the dearest change places."""
    renamed = np.arange(items)
    other = int(of_item.argmax())
    renamed[0], renamed[other] = other, 0
    return renamed


def _check(
    spans: tuple[Phase, ...], skew: float, items: int, values: int, instances: int, jitter: float, seed: int
) -> None:
    check_whole("seed", seed, 0, 2**64 - 1)
    check_whole("instances", instances, 1, 2**16)
    check_whole("items", items, 1, 2**24)
    check_whole("values", values, 1, items)
    if not 0 <= skew <= 100:
        raise ParameterError(f"skew={skew!r}", "give a number from 0 (uniform) to 100, such as 1.0")
    if not 0 <= jitter < 1:
        raise ParameterError(f"jitter={jitter!r}", "give a share from 0 to below 1, such as 0.1")
    for span in spans:
        check_whole("tuples", span.tuples, 1, 2**31)
        if span.factors and len(span.factors) != instances:
            raise ParameterError(f"{len(span.factors)} factors for {instances} instances", "give one for each, or none")
        for name, value in (("provisioning", span.provisioning), ("slowdown", span.slowdown)):
            if not 1e-3 <= value <= 1e3:
                raise ParameterError(f"{name}={value!r}", "give a number from 0.001 to 1000; 1 changes nothing")
        if any(not 1e-3 <= factor <= 1e3 for factor in span.factors):
            raise ParameterError(f"factors={span.factors!r}", "give numbers from 0.001 to 1000; 1 changes nothing")
