"""Planner: which rule will cost the fewest bytes for an event, judged by the round that has just ended.

When a round ends the coordinator has every site's drift of that round, the number of events that made it, and the bytes
that flushing it took. So each rule can be tried on it: how much of its slack would that drift have used up, hence how
many events its round would last, and what would be sent in it.

- *Countdown* with a zone: k times the steps of a round, the zone, and one flush of every site, over as many events
  as use up k ζ(0). (What FGM/O of EDBT 2019 does for two zones of different price.)
- *Push*: one flush whenever a site's own drift has used up its share; no steps, but more and smaller flushes.

The bytes of a flush of m events are taken to grow like a power of m between the sizes that were seen: an event that
repeats a key costs nothing. Forwarding everything is push with no slack, so the choice is never much worse than that.

A round foretells the next one only as long as the stream goes on as it did. Where it does not (a load that comes and
goes), a zone with the whole reference, which every site is sent, has been paid for in vain. So what such zones have
cost and not saved is kept below a small share of all that was spent (`Purse`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.safe import Zone
from catchment.monitor.shift import Shift

__all__ = ["Past", "Plan", "Purse", "Tally", "plan"]

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
CHEAP_ZONE = 200
"""A zone of so many bytes is little beside a flush, and is not counted."""
RISK = 0.05
"""The share of all bytes that may be lost on zones; a push may lose about as much on news of its budgets."""


@dataclass(slots=True)
class Purse:
    """What was spent on flushes, and how much of what zones have cost was not saved by them.

    >>> purse = Purse()
    >>> purse.note(events=1000, size=50_000)
    >>> purse.allows(2_000), purse.allows(3_000)
    (True, False)
    >>> purse.pay(2_000)
    >>> purse.allows(2_000)
    False
    >>> purse.note(events=1000, size=10_000)
    >>> purse.settle(cost=50.0)  # a push would have taken 50,000 bytes for these events
    >>> purse.allows(2_000)
    True
    """

    spent: float = 0.0
    lost: float = 0.0
    events: int = 0  # since a zone was paid for
    size: float = 0.0

    def note(self, events: int, size: float) -> None:
        """A round has ended, in which so many events took so many bytes."""
        self.spent += size
        self.events += events
        self.size += size

    def settle(self, cost: float) -> None:
        """What the zone has saved, if a push would have cost so much for an event."""
        self.lost = max(self.lost - max(cost * self.events - self.size, 0.0), 0.0)
        self.events, self.size = 0, 0.0

    def allows(self, price: float) -> bool:
        return self.lost + price <= RISK * self.spent

    def pay(self, price: float) -> None:
        self.lost += price
        self.events, self.size = 0, 0.0


@dataclass(slots=True)
class Tally:
    """What was flushed in a round; parts are flushes of some of a drift only, whose events are counted later."""

    events: int = 0
    flushes: int = 0
    flush_bytes: int = 0
    parts: int = 0
    part_bytes: int = 0

    @property
    def size(self) -> int:
        """All bytes, with what is around a flush."""
        return self.part_bytes + self.flush_bytes + FLUSH_BYTES * (self.parts + self.flushes)


@dataclass(frozen=True, slots=True)
class Past:
    """A round that has ended: its rule, what was flushed in it, how far those moved who flushed; and all before it."""

    rule: str
    tally: Tally
    moves: tuple[I64, ...]
    purse: Purse = field(default_factory=Purse)


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
    if past is None or not past.tally.events or not past.tally.flushes:
        return Plan("push", math.inf)
    first = next(iter(zones.values()))
    shifts = [Shift(cells) for cells in past.moves if np.any(cells)]
    size = _flush_size(past.tally)
    push = _push(first, sites, past, shifts, size)
    past.purse.settle(push.cost)
    prices = {name: sites * len(zone.to_bytes()) for name, zone in zones.items()}
    dear = {name: price for name, price in prices.items() if price > sites * CHEAP_ZONE}
    allowed = {name: zone for name, zone in zones.items() if name not in dear or past.purse.allows(dear[name])}
    plans = [push] + [_countdown(name, zone, sites, past, shifts, size) for name, zone in allowed.items()]
    best = min(plans, key=lambda one: one.cost)
    present = next((one for one in plans if one.rule == past.rule), best)
    chosen = best if best.cost < BETTER * present.cost else present
    if chosen.rule in dear:
        past.purse.pay(dear[chosen.rule])
    return chosen


def _flush_size(tally: Tally) -> tuple[float, float]:
    """The bytes of a flush of m events as scale · m^power."""
    events, size = max(tally.events / tally.flushes, 2.0), max(tally.flush_bytes / tally.flushes, 1.0)
    power = min(max(math.log(size / KEY_BYTES) / math.log(events), 0.0), 1.0)
    return size / events**power, power


def _push(zone: Zone, sites: int, past: Past, shifts: list[Shift], size: tuple[float, float]) -> Plan:
    tally = past.tally
    if past.rule == "push" and tally.parts > tally.flushes:  # as it went on, so it will
        return Plan("push", tally.size / tally.events)
    scale, power = size
    each = tally.events / max(len(shifts), 1)
    cost = 0.0
    for shift in shifts:
        reach = sites * shift.reach(zone.counted)
        held = max(each * zone.at_zero / max(reach, 1e-300), 1.0)
        cost += (scale * held**power + FLUSH_BYTES) * (each / held)
    return Plan("push", cost / tally.events)


def _countdown(name: str, zone: Zone, sites: int, past: Past, shifts: list[Shift], size: tuple[float, float]) -> Plan:
    scale, power = size
    used = 0.0
    for shift in shifts:
        zone.follow(shift)
        used += zone.at_zero - zone.slack(shift, sites)
    longer = min(sites * zone.at_zero / max(used, 1e-300), LONGEST)
    events = max(past.tally.events * longer, 1.0)
    data = sites * (scale * max(events / sites, 1.0) ** power + FLUSH_BYTES + len(zone.to_bytes()))
    step = sites * STEP_BYTES
    # A step more is worth the share of the round that is left: end when that is less than it costs.
    enough = min(max(step / (data + 4 * step), 0.01), 0.3)
    steps = math.log2(1 / enough)
    return Plan(name, (data + steps * step) / (events * (1 - enough)), enough)
