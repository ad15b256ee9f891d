"""Push: each site may hold back its share of the slack and flushes by itself when that is used up; nobody is asked.

Every zone here has slope at most 1, so ζ(X) >= ζ(0) - |X|: the cheap safe function of EDBT 2019, which needs one
number. Of X only the rows with the longest drifts count, as many as a quorum's sums have (`Zone.counted`). A site keeps
k |X_j| within a budget b <= ζ(0), and then every site's ζ is positive. A flush moves everyone's vector; the coordinator
works out the new ζ(0), gives much smaller budgets if it is below those that are out, none after a few times, and larger
ones when they have become much too small. The claim is proven only while no budget that may be in use is above ζ(0).

A flush need not be all of the drift. What is left counts against the budget as before, and any vector may be taken out
of it: the keys with the largest weights are, as few as bring it down to half of the budget. In skewed streams that is a
handful of keys, and the thousands that came once stay where they are, which is most of what a flush costs. Then what
the coordinator has is not the site's vector at any position; so when it loses a site, it goes back to the last whole
flush.

This costs one message and its acknowledgement for each flush, and no rounds. It is what forwarding the updates is, done
with the slack that there is: with a budget of 0 (`centralise`) every batch is forwarded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.rules.base import Collect, Decision, Guard, Hold, Keep, SiteView, Steersman, Terms, check_terms
from catchment.monitor.safe import Zone
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.thresholds import Band

__all__ = ["PushGuard", "PushSteersman"]

I64 = NDArray[np.int64]

NEWS_BYTES = 200
"""Budgets are raised when small ones have cost so much more for each site; to tell one takes some 20, and less of them
40: a tenth of what everything costs may be spent on news, and not more."""
LEFT = 0.5
"""A flush may leave drift of so much of the budget at the site: mostly keys that came once or twice, which are many and
hardly lengthen it."""
FALLEN = 0.5
"""Where the slack has fallen, the new budgets are so much of it, so that the next news come when it has halved."""
MOST_FALLS = 2
"""After so many of these in one round there are no budgets any more: all is told, and a further fall costs nothing."""
GROWN = 2.0
UNCHANGED = 8
SETTLED_BYTES, SETTLED_CELLS = 3_000, 4
"""The rule is chosen anew when the slack has changed by this factor, and each site has flushed so many bytes, and so
many for each cell, that the new round is little beside it: some 100 bytes and a flush of all that parts have left. In a
young stream all that is not forwarding is lost. Where the slack has not changed it takes so many times as much."""


class PushGuard(Guard):
    """Flushes when the site's drift is beyond its budget."""

    falls = True

    def __init__(self, drift: Drift, sites: int, counted: int, *, rises: bool) -> None:
        super().__init__(drift)
        self._sites, self._counted, self._rises, self._budget = sites, counted, rises, 0.0

    def statistic(self) -> tuple[float, ...]:
        return ()

    def hold(self, terms: Terms) -> bool:
        check_terms(terms)
        smaller = terms.quantum < self._budget
        self._budget = terms.quantum
        return smaller  # nothing can be claimed before all have it

    def must_flush(self) -> bool:
        # With a zone for what only rises, a site that has had a fall has no budget.
        budget = 0.0 if self._rises and self.drift.fell else self._budget
        return self._sites * self.drift.reach(self._counted) > budget

    def part(self) -> bytes:
        return (
            self.drift.taken_part(LEFT * self._budget / self._sites, self._counted)
            if self._counted and self._budget and not (self._rises and self.drift.fell)
            else b""
        )

    def look(self) -> int:
        return int(self.must_flush())


class PushSteersman(Steersman):
    """Follows the flushes with value and budgets.

    `around` gives, for everyone's vector and for whether it only grows, the value, its band and a zone. With `rises`
    the claim is ahead of the estimate, which only growth allows. With `settles` the rule is chosen anew after so many
    times the usual bytes.
    """

    pushes = True

    def __init__(
        self,
        name: str,
        number: int,
        around: Callable[[I64, bool], tuple[float, Band, Zone]],
        total: I64,
        sites: int,
        *,
        grows: bool,
        rises: bool,
        budgets: bool = True,
        settles: float = 0.0,
    ) -> None:
        self.name, self.number = name, number
        self._around, self._sites, self._budgets, self._settles = around, sites, budgets, settles
        self._given: dict[str, dict[int, float]] = {}
        self._now = self._lost = 0.0
        self._spent = self._falls = self._since_fall = 0
        self._rises = rises
        self.flushed(total, 0, grows=grows)
        self._first = self._room
        self._counts = self._counted
        self._settled = max(SETTLED_BYTES, SETTLED_CELLS * int(np.count_nonzero(total))) * sites * (settles or 1.0)
        self._zone = sites.to_bytes(4, "little") + bytes([self._counted, rises])

    def flushed(self, total: I64, size: int, *, grows: bool) -> None:
        self._spent += size
        self.value, band, zone = self._around(total, grows)
        self.low, self.high = band.low, band.high
        self._room, self._counted, self._grows = zone.at_zero, zone.counted, grows
        self._since_fall += 0 if grows else size
        # With the whole room it would have been so much less often.
        self._lost += size * max(1 - self._now / self._room, 0.0) if self._room else 0.0

    def zone(self) -> bytes:
        return self._zone

    def open(self, sites: Mapping[str, SiteView]) -> Decision:
        return self._hold(sites)

    def _hold(self, sites: Mapping[str, SiteView], share: float = 0.98) -> Hold:
        # A little less than there is, so that the next small change does not ask for smaller ones at once.
        # With less than one for each site everything is told anyway, and of 0 nobody need be told that it is less.
        room = share * self._room
        self._now = room if self._budgets and room >= self._sites else 0.0
        self._lost = 0.0
        for site, view in sites.items():
            known = self._given.setdefault(site, {})
            kept = {step: budget for step, budget in known.items() if step >= view.confirmed}
            self._given[site] = kept | {view.step + 1: self._now}
        return Hold({site: Terms(quantum=self._now) for site in sites})

    def _largest_out(self, sites: Mapping[str, SiteView]) -> float:
        """The largest budget that a site may be using still."""
        return max(
            (
                budget
                for site, view in sites.items()
                for step, budget in self._given[site].items()
                if step >= view.confirmed
            ),
            default=0.0,
        )

    def decide(self, sites: Mapping[str, SiteView]) -> Decision:
        if self._counted > self._counts:
            return Collect(tuple(sites))
        if not self._budgets:
            return Keep()
        if self._rises and not self._grows and self._since_fall > self._settled / 2:
            return Collect(tuple(sites))  # the zone is another one now: till then, who has had a fall tells everything
        if self._settles and self._has_settled():
            return Collect(tuple(sites))
        if self._now > self._room:
            self._falls += 1
            return self._hold(sites, FALLEN if self._falls <= MOST_FALLS else 0.0)
        if self._lost > NEWS_BYTES * self._sites * 4**self._falls:  # what went up and down may do so again
            return self._hold(sites)
        return Keep()

    def _has_settled(self) -> bool:
        grown = not self._first / GROWN <= self._room <= self._first * GROWN
        return self._spent > (self._settled if grown else UNCHANGED * self._settled)

    def weigh(self, sites: Mapping[str, SiteView]) -> Decision:
        return Keep()

    def proven(self, sites: Mapping[str, SiteView]) -> bool:
        return (
            self._counted <= self._counts
            and self._largest_out(sites) <= self._room
            and not any(view.level for view in sites.values())
        )
