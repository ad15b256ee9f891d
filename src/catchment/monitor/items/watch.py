"""Items: which items have a count of at least T over all sites? After 000 §6.3, with bands in place of safe zones.

The paper's problem is one threshold for each item, without knowing the items beforehand. A count is one number, so
that the safe zone of an item at a site is an interval: its **band**, `[low, low + width(low)]`. The coordinator knows
every site's `low` of every item, 0 for what it was not told of. As long as all counts are in their bands nobody speaks;
a site whose count of an item has left its band, by arrivals or by expiry, tells a new `low`. No site is ever asked.

**Guarantee.** With k sites, and a = theta/2,

    width(low) = max(a T / k, a low).

An item's count C over all sites is between L, the sum of its lows, and H, the sum of the bands' upper ends; and
H - L <= a (T + L). The set is all items with H >= T. So every item with C >= T is in it; and one that is in it has
C >= L >= T (1 - a)/(1 + a) > (1 - theta) T. For L >= T the bounds are within theta of L. All of this is certain: counts
at sites are exact (of items whose 64-bit hashes differ). What a site has not told of has the band [0, a T / k].
A site that has left, or is missing, keeps the bands of the k of its time: where that was less, H - L may be more, and
an item below (1 - theta) T may be in the set; C is between L and H all the same, and none with C >= T is left out.

Where a T / k < 1 every change of a count below 1/a = 2/theta at a site is told, as in a forwarding of all events;
larger counts have bands still. So a set is exact where T <= 2/theta as well, and else only with `rule="centralise"`.

**Where a band is put.** Counts of the whole history only grow, so `low` is the count itself. In a window they fall as
well, and the count is put in the middle of its new band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.monitor.fingerprint import fingerprint_of
from catchment.sketch.checks import check_choice, check_fraction, check_whole
from catchment.window.clock import TIME_LIMIT

__all__ = ["MOST_SITES", "Items"]

I64 = NDArray[np.int64]

RULES = ("auto", "centralise")
MOST_SITES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The set of items with a count of at least `threshold` over all sites, each with bounds that always hold.

    Sites count every item exactly, and need the memory for that: all items of the history, or of the window.

    Parameters
    ----------
    number
        The query's number, the same everywhere; from 1 to 65,535.
    threshold
        T. An item with a count of T or more is in the set; one below (1 - theta) T is not, while no site has left.
    theta
        The share of T that may be undecided; also how far a count's bounds are apart, relatively.
    window
        Ticks; None is the whole history. A late event counts as of its own time.
    rule
        `"auto"`, or `"centralise"` to be told of every change at once.

    Examples
    --------
    >>> from catchment.monitor import Arrived, Coordinator, Site
    >>> from catchment.testing.lockstep import Lockstep
    >>> watch = Items(threshold=1000, theta=0.1)
    >>> coordinator = Coordinator((watch,), ("berlin", "paris"))
    >>> world = Lockstep(coordinator, {name: Site(name, (watch,)) for name in ("berlin", "paris")})
    >>> world.give("berlin", Arrived(["/index"] * 700 + ["/about"] * 700))
    >>> world.give("paris", Arrived(["/index"] * 700))
    >>> claim = coordinator.items(1)
    >>> [(item.key, item.certain, 1400 in item.answer) for item in claim.items]
    [('/index', True, True)]
    """

    kind: ClassVar[str] = "Items"

    number: int = 1
    threshold: float
    theta: float = 0.1
    window: int | None = None
    rule: str = "auto"

    def __post_init__(self) -> None:
        check_whole("number", self.number, 1, 65_535)
        check_fraction("theta", self.theta)
        check_choice("rule", self.rule, RULES)
        if not (isinstance(self.threshold, int | float) and 1 <= self.threshold <= 2**50):
            raise ParameterError(f"threshold={self.threshold!r}", "give a count from 1 to 2^50, such as 1000")
        if self.window is not None:
            check_whole("window", self.window, 1, TIME_LIMIT)

    @property
    def fingerprint(self) -> int:
        """A number, never 0, that two different watches hardly share."""
        return fingerprint_of(self)

    @property
    def table_key(self) -> Any:
        """Watches with equal keys share one table of counts at a site."""
        return "items", self.window

    def narrowest(self, sites: int) -> int:
        """The width of the band of an item that was not told of, with so many sites."""
        return 0 if self.rule == "centralise" else math.floor(self.theta / 2 * self.threshold / sites)

    def widths(self, lows: I64, sites: int) -> I64:
        """The widths of the bands that begin there.

        >>> Items(threshold=1000, theta=0.1).widths(np.array([0, 400, 5000]), 5).tolist()
        [10, 20, 250]
        """
        if self.rule == "centralise":
            return np.zeros_like(lows)
        grown: I64 = np.floor(self.theta / 2 * lows).astype(np.int64)
        return np.maximum(grown, self.narrowest(sites))

    def lows_for(self, counts: I64, sites: int) -> I64:
        """Where the bands of items with these counts are to begin; each count is in its band.

        >>> Items(threshold=1000, theta=0.1, window=60).lows_for(np.array([4, 11, 8000]), 5).tolist()
        [0, 6, 7810]
        """
        if self.window is None:
            return counts.copy()
        # The band must be no narrower than the half that is taken: it begins no lower than a width below the count.
        least = np.maximum(counts - self.widths(counts, sites), 0)
        lows: I64 = np.maximum(counts - self.widths(least, sites) // 2, 0)
        return lows
