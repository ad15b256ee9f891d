"""HeavyHitterPlan: what the sites and the coordinator of one question agree on before they start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from catchment.errors import ParameterError
from catchment.kernel.hashing import draws
from catchment.monitor.machine import COORDINATOR
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.keys import hash_keys
from catchment.window.clock import TIME_LIMIT

__all__ = ["HeavyHitterPlan"]

_HAIR = 1e-12
"""Thresholds are this much lower than theta, relatively: rounding can then only add an item, never lose one."""


@dataclass(frozen=True, slots=True)
class HeavyHitterPlan:
    """Which items make up at least `theta` of all events of all sites?

    Parameters
    ----------
    sites
        Their names.
    theta
        The share of all events from which on an item is heavy.
    epsilon, delta
        The error of a site's Count-Min, relative to the count of a heavy item, and the probability of failure: width
        ceil(2(1 - theta)/(epsilon theta)), depth ceil(log2(1/delta)), by Lemma 4.6 of the thesis.
    rho
        How long sites may gather warnings before they send: the sizes of the buffers as a share of the largest useful
        ones. Small: every candidate is sent at once; 1: the fewest messages.
    window, panes
        Ask about the last so many ticks of time instead of the whole history; time then goes by panes, window/panes
        ticks long (see `window.py`).
    seed
        Each site draws its own hash functions from this and its name. Keep it from whoever sends the events.
    resend, lease
        Milliseconds: after `resend` an unanswered message is sent again; a site that was silent for `lease` is named
        as missing. A site speaks at least every lease/3.
    persist_every
        A site keeps its state after at most so many events.

    Examples
    --------
    >>> plan = HeavyHitterPlan(sites=("a", "b"), theta=0.005)
    >>> plan.width, plan.depth, plan.timer
    (3980, 4, 1175)
    """

    sites: tuple[str, ...]
    theta: float
    epsilon: float = 0.1
    delta: float = 0.1
    rho: float = 1.0
    window: int | None = None
    panes: int = 30
    seed: int = 0
    resend: int = 1_000
    lease: int = 15_000
    persist_every: int = 1_000_000

    def __post_init__(self) -> None:
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise ParameterError(f"sites={self.sites!r}", "give at least one, and each once")
        if COORDINATOR in self.sites:
            raise ParameterError(f"a site named {COORDINATOR!r}", "give it another name: this one is taken")
        for name in ("theta", "epsilon", "delta"):
            check_fraction(name, getattr(self, name))
        if not 0 < self.rho <= 1:
            raise ParameterError(f"rho={self.rho!r}", "give a number above 0 and at most 1")
        check_whole("seed", self.seed, 0, 2**64 - 1)
        check_whole("resend", self.resend, 1, 2**40)
        check_whole("lease", self.lease, 3 * self.resend, 2**42)
        check_whole("persist_every", self.persist_every, 1, 2**60)
        check_whole("width", self.width, 1, 2**28)
        if self.window is not None:
            check_whole("panes", self.panes, 1, 4096)
            check_whole("window", self.window, 1, TIME_LIMIT)
            if self.window % self.panes:
                raise ParameterError(
                    f"window={self.window} and panes={self.panes}", "give a window that is a multiple of its panes"
                )

    @property
    def width(self) -> int:
        return math.ceil(2 * (1 - self.theta) / (self.epsilon * self.theta) - 1e-9)

    @property
    def depth(self) -> int:
        return max(1, math.ceil(math.log2(1 / self.delta) - 1e-9))

    @property
    def timer(self) -> int:
        """Readings that a warning may wait: H(floor(1/theta))/theta, the time to collect 1/theta items (Lemma 4.3)."""
        return math.floor(sum(1 / k for k in range(1, math.floor(1 / self.theta) + 1)) / self.theta)

    @property
    def pane(self) -> int:
        """Ticks of a pane."""
        return (self.window or self.panes) // self.panes

    @property
    def share(self) -> float:
        """The threshold that is compared with."""
        return self.theta * (1 - _HAIR)

    @property
    def collision_share(self) -> float:
        """k/width, for the k with k^-depth = delta/2: what others add to all rows' counters, by Markov."""
        return float((self.delta / 2) ** (-1 / self.depth) / self.width)

    def most_unnoticed(self, total: int) -> int:
        """The largest count that is below the threshold of a stream of that total."""
        return max(0, math.ceil(self.share * total) - 1)

    def seed_of(self, site: str) -> int:
        """The seed of a site's hash functions: its own, and the same in each of its lives."""
        hashes, _ = hash_keys(site)
        return int(draws(int(hashes[0]) ^ self.seed, 1)[0])
