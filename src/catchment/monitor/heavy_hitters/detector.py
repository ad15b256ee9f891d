"""Detector: attacks out of claims: which targets are heavy, since when, through which sites, and how surely.

Pure: it is shown claims one after the other and keeps the alarms that follow from them. A target is heavy if it may
have at least phi of all sites' events (a claim misses none); `confidence` says how sure it is that it has.

**Confidence.** The counts of a target exceed its truth by more than x in all rows with probability at most
(m / (width x))^depth, by Markov for the sum over the sites as in `claim.py`. With x = high - phi m, what the counts
may be too high by before the target is no longer heavy, this is the probability that the alarm is false. Where the
answer's lower end is above phi m, so is the truth with the answer's confidence, which may be more.

**Since when.** In windows each site tells for how long the target has been heavy in every pane; the start is the
earliest of these over the sites involved, to the length of a pane, and no earlier than the window. Without windows
there is no time, and the start is the total of events at which it was first seen to be heavy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from catchment.monitor.heavy_hitters.claim import HeavyClaim, HeavyHitter
from catchment.monitor.heavy_hitters.names import Key, plain_key
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.sketch.checks import check_fraction

__all__ = ["Alarm", "Detector"]

MOST_CLOSED = 100_000
"""Alarms that are over, and are remembered."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One target from its first detection until it is no longer heavy."""

    target: Key
    detected: int
    """When it was first seen to be heavy: the latest time of the claim's cut, or without windows its total."""
    started: int
    """When it became heavy, as the sites saw it."""
    ended: int | None
    """When it was last seen to be heavy, once it is over."""
    share: float
    """Its largest share of all events so far, by the upper bound."""
    count: tuple[int, int]
    """The bounds of its count where its share was largest."""
    sites: Mapping[str, int]
    """The sites through which it came there: those with a sizeable part of it, and how much at most."""
    confidence: float
    """The highest confidence so far that it really was heavy."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, ready for JSON."""
        return {**asdict(self), "target": plain_key(self.target), "count": list(self.count), "sites": dict(self.sites)}


class Detector:
    """Keeps the alarms of one watch.

    Parameters
    ----------
    watch, sites
        What the claims are of, and how many sites take part.
    involved
        The part of a target's count from which on a site is named; one tenth of an even part by default.
    confidence
        Alarms are raised from this confidence on; 0 raises one for all that may be heavy: none is missed.
    """

    def __init__(
        self, watch: HeavyHitters, sites: int, *, involved: float | None = None, confidence: float = 0.0
    ) -> None:
        self._watch = watch
        self._involved = check_fraction("involved", 0.1 / sites if involved is None else involved)
        self._wanted = confidence
        self._open: dict[Key, Alarm] = {}
        self._closed: deque[Alarm] = deque(maxlen=MOST_CLOSED)
        self._last = 0

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All so far, by their start."""
        return tuple(sorted((*self._closed, *self._open.values()), key=lambda alarm: (alarm.started, alarm.detected)))

    @property
    def active(self) -> tuple[Alarm, ...]:
        """Those that are not over."""
        return tuple(self._open.values())

    def observe(self, claim: HeavyClaim) -> tuple[Alarm, ...]:
        """Take a claim in; returns the alarms that it raised. Unresolved items raise none: their round is under way."""
        at = max((mark.time for mark in claim.cut.values()), default=0) if self._watch.window else claim.total
        heavy = {found.key: found for found in claim.heavy}
        undecided = {found.key for found in claim.unresolved}
        raised = []
        for key, found in heavy.items():
            alarm = self._alarm(found, claim.total, at)
            if key in self._open:
                self._open[key] = self._continued(self._open[key], alarm)
            elif alarm.confidence >= self._wanted:
                self._open[key] = alarm
                raised.append(alarm)
        for key in [key for key in self._open if key not in heavy and key not in undecided]:
            self._closed.append(replace(self._open.pop(key), ended=self._last))
        self._last = at
        return tuple(raised)

    def _alarm(self, found: HeavyHitter, total: int, at: int) -> Alarm:
        count = (int(found.answer.low), int(found.answer.high))
        sites = {site: part for site, part in found.by_site.items() if part >= self._involved * max(count[1], 1)}
        started = min((since for site, since in found.onsets.items() if site in sites), default=at)
        share = count[1] / max(total, 1)
        return Alarm(found.key, at, started, None, share, count, sites, self._confidence(found, total))

    @staticmethod
    def _continued(before: Alarm, now: Alarm) -> Alarm:
        worst = max(before, now, key=lambda alarm: alarm.share)
        return replace(
            worst,
            detected=before.detected,
            started=min(before.started, now.started),
            confidence=max(before.confidence, now.confidence),
        )

    def _confidence(self, found: HeavyHitter, total: int) -> float:
        needed = self._watch.phi * total
        proven = found.answer.confidence if float(found.answer.low) >= needed else 0.0
        spare = float(found.answer.high) - needed
        false = (total / (self._watch.width * spare)) ** self._watch.depth if spare > 0 else 1.0
        return max(proven, 1 - false)
