"""Claims, as people and other programs read them: lines on the terminal, and a file beside the coordinator's state."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catchment.answer import plain
from catchment.app.watch_tables import AnyWatch
from catchment.errors import NameNotFoundError
from catchment.monitor.claim import Claim
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.heavy_hitters import Alarm, Detector, HeavyClaim, HeavyHitters
from catchment.monitor.items import Items, ItemsClaim
from catchment.monitor.watch import Watch
from catchment.net.settings import read_coordinator

__all__ = ["CLAIMS", "Teller", "claim_line", "read_claims", "shown_claim", "shown_heavy"]

CLAIMS = "claims.json"
OLD = 10.0
"""Seconds after which a claim is said to be old: a running coordinator dates the file anew whenever it looks."""
_ITEMS_SHOWN = 5
_ITEMS_KEPT = 10_000
"""The heaviest items of a set, in claims.json; how many more there are is said beside them."""


def read_claims(file: Path) -> tuple[str, float]:
    """What the coordinator of this file claims, as JSON, and how many seconds ago it last said so."""
    found = read_coordinator(file, also=("watch",), starts=False).state / CLAIMS
    if not found.exists():
        raise NameNotFoundError(f"no claims at {found}", "start catchment coordinator with this file first")
    return found.read_text(), max(time.time() - found.stat().st_mtime, 0.0)


class Teller:
    """Prints claims that have changed, and keeps them in a file for others."""

    def __init__(self, watches: dict[str, AnyWatch], sites: int, file: Path, every: float) -> None:
        self._watches, self._file, self._every = watches, file, every
        self._detectors = {
            watch.number: Detector(watch, sites) for watch in watches.values() if isinstance(watch, HeavyHitters)
        }
        self._next = 0.0
        self._told: dict[str, Any] = {}

    def look(self, machine: Coordinator, clock: Callable[[], float] = time.monotonic) -> None:
        """Tell, unless that was done a moment ago."""
        if clock() < self._next:
            return
        self._next = clock() + self._every
        self.tell(machine)

    def tell(self, machine: Coordinator) -> None:
        now = {name: self._shown(machine, watch) for name, watch in self._watches.items()}
        if now == self._told:
            if self._file.exists():
                os.utime(self._file)  # it is still what is claimed
            return
        for name, claim in now.items():
            if claim != self._told.get(name):
                print(f"{time.strftime('%H:%M:%S')} {claim_line(name, claim)}", flush=True)
        self._told = now
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(now, indent=2, allow_nan=False))
        beside.replace(self._file)

    def _shown(self, machine: Coordinator, watch: AnyWatch) -> dict[str, Any] | None:
        if isinstance(watch, Items):
            return shown_claim(machine.items(watch.number), watch)
        if isinstance(watch, Watch):
            return shown_claim(machine.claim(watch.number), watch)
        claim, detector = machine.heavy_hitters(watch.number), self._detectors[watch.number]
        if claim is None:
            return None
        detector.observe(claim)
        return {**shown_heavy(claim, detector.active), "window": watch.window}


def shown_heavy(claim: HeavyClaim, alarms: tuple[Alarm, ...]) -> dict[str, Any]:
    """A claim of heavy hitters as JSON, and since when, through which sites and how surely each is heavy."""
    return {**claim.to_dict(), "alarms": [alarm.to_dict() for alarm in alarms]}


def shown_claim(claim: Claim | ItemsClaim | None, watch: Watch | Items) -> dict[str, Any] | None:
    """A claim as JSON; of a watch with a threshold also the side that the value is on, within theta of the line."""
    if claim is None:
        return None
    if isinstance(claim, ItemsClaim):
        whole = claim.to_dict()
        kept, left_out = whole["items"][:_ITEMS_KEPT], max(len(whole["items"]) - _ITEMS_KEPT, 0)
        return {**whole, "window": watch.window, "items": kept, "left_out": left_out}
    answer = claim.answer.to_dict()
    del answer["epsilon"]  # what a watch promises is theta
    more: dict[str, Any] = {
        "theta": watch.theta, "window": watch.window, "cut": claim.cut, "left": claim.left, "state": claim.state,
        "round": claim.round,
    }  # fmt: skip
    if watch.threshold is not None:
        more |= {"threshold": watch.threshold, "side": "above" if claim.estimate >= watch.threshold else "below"}
    shown: dict[str, Any] = plain({**answer, **more})
    return shown


def claim_line(name: str, claim: dict[str, Any] | None) -> str:
    if claim is None:
        return f"{name}: nothing yet"
    events = sum(position for position, _ in claim["cut"].values())
    missing = f", missing {', '.join(claim['missing'])}" if claim["missing"] else ""
    about = f"of {_counted(events, 'event')} at {_counted(len(claim['cut']), 'site')}{missing}"
    if "items" in claim:
        return f"{name}: {_item_words(claim)}, {about}"
    if "alarms" in claim:
        return f"{name}: {_heavy_words(claim)}, {about}"
    low, high = (_number(claim[end], endless) for end, endless in (("low", "-∞"), ("high", "∞")))
    side = f"{claim['side']} {_number(claim['threshold'])}: " if "side" in claim else ""
    return f"{name}: {side}{_number(claim['value'])} in [{low}, {high}], {about}"


def _number(value: float | None, endless: str = "") -> str:
    """Whole where it is large, for six digits of a million are not it.

    >>> _number(1_234_567.0), _number(0.123456789), _number(None, "∞")
    ('1,234,567', '0.123457', '∞')
    """
    if value is None:
        return endless
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:,.6g}"


def _item_words(claim: dict[str, Any]) -> str:
    """How many items, and the first of them; one that may be below the threshold has a question mark."""
    items = claim["items"]
    count = len(items) + claim.get("left_out", 0)
    first = [
        f"{_printable(item['key'])}{'' if item['certain'] else '?'} in [{item['low']:,}, {item['high']:,}]"
        for item in items[:_ITEMS_SHOWN]
    ]
    more = ["..."] if len(items) > _ITEMS_SHOWN else []
    listed = f": {', '.join(first + more)}" if items else ""
    return f"{_counted(count, 'item')} from {claim['threshold']:,.6g} on{listed}"


def _heavy_words(claim: dict[str, Any]) -> str:
    """Who has the share, as far as it is known, the heaviest first."""
    alarms = sorted(claim["alarms"], key=lambda alarm: -alarm["count"][1])
    first = [_alarm_words(alarm) for alarm in alarms[:_ITEMS_SHOWN]]
    more = ["..."] if len(alarms) > _ITEMS_SHOWN else []
    listed = f": {', '.join(first + more)}" if alarms else ""
    asked = f", {len(claim['unresolved']):,} more asked for" if claim["unresolved"] else ""
    return f"{_counted(len(alarms), 'item')} with {claim['phi']:g} of all{listed}{asked}"


def _alarm_words(alarm: dict[str, Any]) -> str:
    low, high = alarm["count"]
    through = ", ".join(sorted(alarm["sites"], key=lambda site: -alarm["sites"][site])[:_ITEMS_SHOWN])
    return (
        f"{_printable(alarm['target'])} in [{low:,}, {high:,}] since {alarm['started']} through {through}, "
        f"confidence {alarm['confidence']:.4g}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _printable(key: int | str) -> str:
    """A key as it may go to a terminal: whoever sent the traffic chose it."""
    text = str(key)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
