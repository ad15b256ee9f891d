"""HeavyHitters: which items make up at least phi of all sites' events? After DHHE (chapters 4 and 5 of the thesis)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from catchment.errors import ParameterError
from catchment.kernel.hashing import draws
from catchment.monitor.fingerprint import fingerprint_of
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.keys import hash_keys
from catchment.window.clock import TIME_LIMIT

__all__ = ["HeavyHitters"]

_HAIR = 1e-12
"""Thresholds are this much lower than phi, relatively: rounding can then only add an item, never lose one."""
_MOST_CELLS = 1 << 26
"""Half a gigabyte at a site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyHitters:
    """The items that make up at least `phi` of all events of all sites, in the whole history or in a window.

    **Guarantee.** At the cut of a claim every item with phi of all events or more is named, always, with an upper bound
    of its count that always holds and a lower one that holds with probability 1 - delta (`claim.py` has the proof).
    Sites keep a Count-Min sketch each, with hash functions of their own, and the names of their own heavy items.

    Where all counts fit into the sites' memory and a number of events is what matters, `Items` is simpler, and certain.

    Parameters
    ----------
    number
        The query's number, the same everywhere; from 1 to 65,535.
    phi
        The share of all events from which on an item is heavy (the thesis's theta).
    epsilon, delta
        The error of a site's Count-Min, relative to the count of a heavy item, and the probability of failure: width
        ceil(2(1 - phi)/(epsilon phi)), depth ceil(log2(1/delta)), by Lemma 4.6 of the thesis.
    rho
        How long sites may gather warnings before they send: the sizes of the buffers as a share of the largest useful
        ones. Small: every candidate is sent at once; 1: the fewest messages.
    window, panes
        Ask about the last so many ticks of time instead of the whole history; time then goes by panes, window/panes
        ticks long (see `recent.py`).
    seed
        Each site draws its own hash functions from this and its name. Keep it from whoever sends the events.

    Examples
    --------
    >>> from catchment.monitor import Arrived, Coordinator, Site
    >>> from catchment.testing.lockstep import Lockstep
    >>> watch = HeavyHitters(phi=0.3)
    >>> watch.width, watch.depth, watch.timer
    (47, 4, 6)
    >>> coordinator = Coordinator((watch,), ("berlin", "paris"))
    >>> world = Lockstep(coordinator, {name: Site(name, (watch,)) for name in ("berlin", "paris")})
    >>> world.give("berlin", Arrived(["/index"] * 70 + [f"/{page}" for page in range(30)]))
    >>> world.give("paris", Arrived(["/index"] * 20 + [f"/{page}" for page in range(80)]))
    >>> world.pass_time(10_000)  # who is not heavy at a site is asked for, or told of with a heartbeat
    >>> claim = coordinator.heavy_hitters(1)
    >>> [(found.key, 90 in found.answer) for found in claim.heavy], claim.total
    ([('/index', True)], 200)

    References
    ----------
    E. Anceaume, Y. Busnel, N. Rivetti, B. Sericola: Identifying global icebergs in distributed streams, SRDS 2015; and
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, chapters 4 and 5.
    """

    kind: ClassVar[str] = "HeavyHitters"

    number: int = 1
    phi: float
    epsilon: float = 0.1
    delta: float = 0.1
    rho: float = 1.0
    window: int | None = None
    panes: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("number", self.number, 1, 65_535)
        for name in ("phi", "epsilon", "delta"):
            check_fraction(name, getattr(self, name))
        if not 0 < self.rho <= 1:
            raise ParameterError(f"rho={self.rho!r}", "give a number above 0 and at most 1")
        check_whole("seed", self.seed, 0, 2**64 - 1)
        check_whole("panes", self.panes, 1, 4096)
        if self.window is not None:
            check_whole("window", self.window, 1, TIME_LIMIT)
            if self.window % self.panes:
                raise ParameterError(
                    f"window={self.window} and panes={self.panes}", "give a window that is a multiple of its panes"
                )
        cells = self.width * self.depth * (1 if self.window is None else self.panes + 1)
        if cells > _MOST_CELLS:
            raise ParameterError(
                f"{cells:,} counters at every site for phi={self.phi:g}, epsilon={self.epsilon:g}"
                + ("" if self.window is None else f" in {self.panes} panes"),
                f"choose a larger phi or epsilon, or fewer panes: {_MOST_CELLS:,} are the most",
            )

    @property
    def fingerprint(self) -> int:
        """A number, never 0, that two different watches hardly share."""
        return fingerprint_of(self)

    @property
    def table_key(self) -> Any:
        """Watches with equal keys share one sketch at a site."""
        return "heavy hitters", self.phi, self.epsilon, self.delta, self.window, self.panes, self.seed

    @property
    def width(self) -> int:
        return math.ceil(2 * (1 - self.phi) / (self.epsilon * self.phi) - 1e-9)

    @property
    def depth(self) -> int:
        return max(1, math.ceil(math.log2(1 / self.delta) - 1e-9))

    @property
    def timer(self) -> int:
        """Readings that a warning may wait: H(floor(1/phi))/phi, the time to collect 1/phi items (Lemma 4.3)."""
        return math.floor(sum(1 / k for k in range(1, math.floor(1 / self.phi) + 1)) / self.phi)

    @property
    def pane(self) -> int:
        """Ticks of a pane."""
        return (self.window or self.panes) // self.panes

    @property
    def share(self) -> float:
        """The threshold that is compared with."""
        return self.phi * (1 - _HAIR)

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
