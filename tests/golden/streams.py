"""Events of the golden monitors: for each site and phase the same for ever, few of the keys frequent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.monitor import Arrived

__all__ = ["KEYS", "PHASE_TICKS", "SITES", "Event", "batches", "events_of", "key_of"]

SITES = ("a", "b", "c")
PHASE_TICKS = 400
_EVENTS = 150
_BATCHES = 3
_FIRST_TICK = -200
"""Times may be negative, and become positive."""

KEYS: dict[str, Callable[[int], Any]] = {
    "text": lambda number: f"/page/{number}.html",
    "integer": lambda number: number * 1_000_003 - 500,
    "bytes": lambda number: b"\xff\x00" + bytes([number]),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a site."""

    key: Any
    time: int
    weight: int = 1
    stream: int = 0


def key_of(keys: str, number: int) -> Any:
    """A key by its number; 1 and 2 are frequent."""
    return KEYS[keys](number)


def events_of(site: str, phase: int, *, keys: str, weights: str = "ones", streams: int = 1) -> list[Event]:
    """What a site sees in a phase, in order; `weights` are ones, some, or signed."""
    place = SITES.index(site)
    x = np.arange(1, _EVENTS + 1) * (place + 3) + 17 * phase
    numbers = np.where(x % 3 == 0, 100 + (x * x + 13 * phase) % 89, 89 // (1 + (7 * x) % 89))
    times = _FIRST_TICK + PHASE_TICKS * phase + np.minimum(np.cumsum(x % 5), PHASE_TICKS - 1)
    given = {"ones": np.ones_like(x), "some": x % 4, "signed": np.where(x % 7 == 0, -1, x % 4)}[weights]
    which = np.arange(_EVENTS) * _BATCHES // _EVENTS % streams
    return [
        Event(key_of(keys, int(number)), int(time), int(weight), int(stream))
        for number, time, weight, stream in zip(numbers, times, given, which, strict=True)
    ]


def batches(events: Sequence[Event], *, timed: bool) -> list[Arrived]:
    """The same events as a site gets them; a batch is of one stream."""
    size = _EVENTS // _BATCHES
    parts = [events[start : start + size] for start in range(0, len(events), size)]
    found = []
    for part in parts:
        weights = [event.weight for event in part]
        found.append(
            Arrived(
                [event.key for event in part],
                times=[event.time for event in part] if timed else None,
                weights=1 if set(weights) == {1} else np.array(weights),
                stream=part[0].stream,
            )
        )
    return found
