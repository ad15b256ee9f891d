"""What a rule is: a guard at every site, and a steersman at the coordinator.

A guard looks at its site's drift after every batch and gives a level: 0 as long as all is well, and more the further
the site has used up what it was given; the level of a step never falls. A steersman sees levels, and the small
statistics that it asked for, and decides: go on (`Keep`), ask sites for a statistic (`Ask`), give sites new terms
(`Hold`), or have sites flush (`Collect`). It also says whether what it knows proves that the quantity is still in
bounds at the cut that the sites have reported (`proven`); nothing else makes a claim true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.vectors import Drift

__all__ = ["Ask", "Collect", "Decision", "Guard", "Hold", "Keep", "SiteView", "Steersman", "Terms", "check_terms"]

I64 = NDArray[np.int64]

LARGEST_NUMBER = 1e100
"""Terms and statistics stay below this, so that no sum of their squares is infinite."""


@dataclass(slots=True)
class SiteView:
    """What a steersman knows of a site: its newest report in this round.

    Every order to a site is a step. `step` is the last one that it was given, `confirmed` the one that its report is
    about. When it was asked, its report stands still at the cut of its statistic until it has new terms; a flush is
    such a statistic, too, with no drift. `pending` is the number of updates since its flush.
    """

    step: int = 0
    confirmed: int = 0
    level: int = 0
    statistic: tuple[float, ...] = ()
    slack: tuple[float, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """What a site is given for a step."""

    quantum: float = 0.0
    slack: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask these sites for their statistics: a new step for them."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Give these sites new terms: they count from the statistic that they gave last."""

    terms: Mapping[str, Terms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collect:
    """Have these sites flush; then a new round begins. With `guarded` all of them have this round's zone."""

    sites: tuple[str, ...]
    guarded: bool = False


Decision = Keep | Ask | Hold | Collect


class Guard(ABC):
    """A rule at a site, for one round.

    With `falls` the level is that of this moment, and not the worst of the step; with `stands` the site gives its
    statistic when the level rises, and stands still there.
    """

    falls = False
    stands = False

    def __init__(self, drift: Drift) -> None:
        self.drift = drift

    @abstractmethod
    def statistic(self) -> tuple[float, ...]:
        """The small vector for the coordinator; from now on the guard counts from here."""

    @abstractmethod
    def hold(self, terms: Terms) -> bool:
        """New terms, counted from the statistic that was given last or from the flush; whether to say so at once.

        Raise a `BytesError`, and change nothing, for terms that no coordinator of ours gives (`check_terms`).
        """

    @abstractmethod
    def look(self) -> int:
        """The level."""

    def must_flush(self) -> bool:
        """Whether the site is to flush by itself."""
        return False

    def part(self) -> bytes:
        """Some of the drift instead of all of it, packed, if that will do and is much shorter; nothing, if not."""
        return b""

    def restart(self, share: float) -> None:
        """Another round with the same zone, of whose slack this share is the sites'; it begins at a flush."""
        raise DamagedBytesError("a zone that cannot be kept for another round")


def check_terms(terms: Terms, *, slack: int = 0) -> None:
    """Refuse a quantum that is no size, and a slack that is not nothing or a vector of so many numbers."""
    if not 0 <= terms.quantum < LARGEST_NUMBER:
        raise DamagedBytesError(f"a quantum of {terms.quantum}")
    if len(terms.slack) not in (0, slack) or not all(abs(one) < LARGEST_NUMBER for one in terms.slack):
        raise DamagedBytesError(f"a slack of {len(terms.slack)} numbers where {slack} are needed, or one too large")


class Steersman(ABC):
    """A rule at the coordinator, for one round.

    `value` is the estimate that it holds on to; while it is proven, the estimate at the cut is between `low` and
    `high`.
    """

    name: str
    number: int
    value: float
    low: float
    high: float
    pushes: bool = False
    """Whether sites flush by themselves, and the value follows."""
    statistic_size: int = 0
    share: float = 1.0
    """The part of the zone's slack that is the sites'; less than all of it in a round that keeps an old zone."""

    def fits(self, statistic: tuple[float, ...], level: int) -> bool:
        """Whether a site with this rule may report this; often there is no statistic."""
        return not statistic or (len(statistic) == self.statistic_size and all(map(self._may_be, statistic)))

    def _may_be(self, number: float) -> bool:
        """Whether a statistic may be this number."""
        return abs(number) < LARGEST_NUMBER

    @abstractmethod
    def zone(self) -> bytes:
        """What every site needs to know for this round."""

    @abstractmethod
    def open(self, sites: Mapping[str, SiteView]) -> Decision:
        """The terms of the round's first step, in which each site counts from its flush; or flush more sites."""

    @abstractmethod
    def decide(self, sites: Mapping[str, SiteView]) -> Decision:
        """What to do, now that a report has come."""

    @abstractmethod
    def weigh(self, sites: Mapping[str, SiteView]) -> Decision:
        """What to do, now that all who were asked have given their statistics."""

    @abstractmethod
    def proven(self, sites: Mapping[str, SiteView]) -> bool:
        """Whether the newest reports prove that the quantity is in bounds at their cut."""

    def rebalanced(self, total: I64, flushed: int, *, grows: bool) -> Steersman | None:
        """Another round with this one's zone, after a flush of so many bytes; None, if a new one is better."""
        return None

    def flushed(self, total: I64, size: int, *, grows: bool) -> None:
        """A site has flushed so many bytes by itself, and this is everyone's vector now."""
        raise TypeError(f"{self.name} does not let sites flush by themselves")
