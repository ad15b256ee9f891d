"""Planner: which rule will cost the fewest bytes for an event, judged by the round that has just ended.

When a round ends the coordinator has every site's drift of that round, the number of events that made it, and the bytes
that flushing it took. So each rule can be tried on it: how much of its slack would that drift have used up, hence how
many events its round would last, and what would be sent in it.

- *Countdown* with a zone: k times the steps of a round, the zone, and one flush of every site, over as many events
  as use up k ζ(0). (What FGM/O of EDBT 2019 does for two zones of different price.)
- *Push*: one flush whenever a site's own drift has used up its share; no steps, but more and smaller flushes.

The bytes of a flush of m events are taken to grow like a power of m between the sizes that were seen: an event that
repeats a key costs nothing. Forwarding everything is push with no slack, so the choice is never much worse than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.safe import Zone
from catchment.monitor.shift import Shift

__all__ = ["Past", "Plan", "plan"]

I64 = NDArray[np.int64]

STEP_BYTES = 105
"""A step of a countdown at one site, about: asked, answered, new terms, and a level or so in between."""
FLUSH_BYTES = 50
"""What is around a flush, and its acknowledgement."""
KEY_BYTES = 8.5
LONGEST = 8.0
"""A round is not predicted to be longer than the last by more than this factor: drifts do not go straight on."""
BETTER = 0.9
"""A rule takes over when its cost is below this share of the present one's."""


@dataclass(frozen=True, slots=True)
class Past:
    """A round that has ended: its rule, its events, flushes and their bytes, and how far those moved who flushed.

    Parts are flushes of some of a drift only, as a push has them.
    """

    rule: str
    events: int
    flushes: int
    flush_bytes: int
    parts: int
    part_bytes: int
    moves: tuple[I64, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A rule, the bytes that an event is expected to cost with it, and when a countdown should end."""

    rule: str
    cost: float
    enough: float = 0.1


def plan(zones: dict[str, Zone], sites: int, past: Past | None) -> Plan:
    """The cheapest rule for the next round; push, as long as nothing is known, and if nothing happened.

    A round without events has ended because sites came or went: to send all of them a zone for each time that one does
    would have no bound, and a push has none to send.
    """
    if past is None or not past.events or not past.flushes:
        return Plan("push", math.inf)
    first = next(iter(zones.values()))
    shifts = [Shift(cells) for cells in past.moves if np.any(cells)]
    size = _flush_size(past)
    plans = [_push(first, sites, past, shifts, size)]
    plans += [_countdown(name, zone, sites, past, shifts, size) for name, zone in zones.items()]
    best = min(plans, key=lambda one: one.cost)
    present = next((one for one in plans if one.rule == past.rule), best)
    return best if best.cost < BETTER * present.cost else present


def _flush_size(past: Past) -> tuple[float, float]:
    """The bytes of a flush of m events as scale · m^power."""
    events, size = max(past.events / past.flushes, 2.0), max(past.flush_bytes / past.flushes, 1.0)
    power = min(max(math.log(size / KEY_BYTES) / math.log(events), 0.0), 1.0)
    return size / events**power, power


def _push(zone: Zone, sites: int, past: Past, shifts: list[Shift], size: tuple[float, float]) -> Plan:
    if past.rule == "push" and past.parts > past.flushes:  # as it went on, so it will
        bytes_ = past.part_bytes + past.flush_bytes + FLUSH_BYTES * (past.parts + past.flushes)
        return Plan("push", bytes_ / past.events)
    scale, power = size
    each = past.events / max(len(shifts), 1)
    cost = 0.0
    for shift in shifts:
        reach = sites * shift.reach(zone.counted)
        held = max(each * zone.at_zero / max(reach, 1e-300), 1.0)
        cost += (scale * held**power + FLUSH_BYTES) * (each / held)
    return Plan("push", cost / past.events)


def _countdown(name: str, zone: Zone, sites: int, past: Past, shifts: list[Shift], size: tuple[float, float]) -> Plan:
    scale, power = size
    used = 0.0
    for shift in shifts:
        zone.follow(shift)
        used += zone.at_zero - zone.slack(shift, sites)
    longer = min(sites * zone.at_zero / max(used, 1e-300), LONGEST)
    events = max(past.events * longer, 1.0)
    data = sites * (scale * max(events / sites, 1.0) ** power + FLUSH_BYTES + len(zone.to_bytes()))
    step = sites * STEP_BYTES
    # A step more is worth the share of the round that is left: end when that is less than it costs.
    enough = min(max(step / (data + 4 * step), 0.01), 0.3)
    steps = math.log2(1 / enough)
    return Plan(name, (data + steps * step) / (events * (1 - enough)), enough)
