"""Durable state of monitors, written half-way for every later version to go on with.

Three sites see a phase of events. One of them leaves; the others see another phase. What site and coordinator have made
durable by then, and every frame between them, is a file of `v1/monitor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.monitor import Arrived, Coordinator, Leave, Site
from catchment.monitor.machine import COORDINATOR, Action, Machine, Received, Send
from catchment.testing.lockstep import Lockstep
from tests.golden import store
from tests.golden.streams import PHASE_TICKS, SITES, Event, batches, events_of
from tests.golden.watches import CASES, Case

__all__ = ["GOES", "LIFE", "STAYS", "HalfWay", "Recorder", "events_at", "feed", "golden", "half_way", "main"]

STAYS, GOES = ("a", "b"), "c"
LIFE = 7
"""Of the coordinator and of the sites, when the files were written."""


class Recorder:
    """A machine that is listened to: `heard` and `said` have the frames, with times and names."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.heard: list[tuple[int, str, bytes]] = []
        self.said: list[tuple[int, str, bytes]] = []

    @property
    def due(self) -> int | None:
        return self._machine.due

    def handle(self, event: Any, now: int) -> list[Action]:
        if isinstance(event, Received):
            self.heard.append((now, event.sender, event.frame))
        actions = self._machine.handle(event, now)
        self.said += [(now, action.to, action.frame) for action in actions if isinstance(action, Send)]
        return actions


def events_at(case: Case, site: str, phases: range) -> list[Event]:
    """What a site sees in these phases."""
    kept = phases if site != GOES else range(phases.start, min(phases.stop, 1))
    given = {"keys": case.keys, "weights": case.weights, "streams": case.streams}
    return [event for phase in kept for event in events_of(site, phase, **given)]  # type: ignore[arg-type]


def feed(world: Lockstep, case: Case, sites: tuple[str, ...], phase: int) -> None:
    """Give these sites a phase of events, batch by batch, and the time at its end."""
    parts = {site: batches(events_at(case, site, range(phase, phase + 1)), timed=case.timed) for site in sites}
    for row in zip(*parts.values(), strict=True):
        for site, batch in zip(parts, row, strict=True):
            world.give(site, batch)
        world.pass_time(700)
    if case.timed:
        for site in sites:
            world.give(site, Arrived(time=PHASE_TICKS * (phase + 1) - 200))
    world.pass_time(1_000)


def half_way(case: Case) -> dict[str, Any]:
    """All that is durable after two phases, by machine and name; and what the machines have said."""
    coordinator = Recorder(Coordinator(case.watches, SITES, life=LIFE))
    sites: dict[str, Machine] = {name: Site(name, case.watches, life=LIFE, keep=1) for name in SITES}
    world = Lockstep(coordinator, sites)
    feed(world, case, SITES, 0)
    world.give(GOES, Leave())
    feed(world, case, STAYS, 1)
    durable: dict[str, dict[str, str]] = {name: {} for name in (COORDINATOR, *SITES)}
    for (machine, name), blob in sorted(world.durable.items()):
        durable[machine][name] = store.as_text(blob)
    return {
        "durable": durable,
        "heard": [f"{now} {sender} {store.as_text(frame)}" for now, sender, frame in coordinator.heard],
        "said": [f"{now} {to} {store.as_text(frame)}" for now, to, frame in coordinator.said],
    }


@dataclass(frozen=True, slots=True)
class HalfWay:
    """A golden file: all that is durable, by machine and name; and frames, with their times and who has the other end.

    `heard` is what the coordinator got, `said` what it sent.
    """

    durable: dict[str, dict[str, bytes]]
    heard: list[tuple[int, str, bytes]]
    said: list[tuple[int, str, bytes]]


def golden(name: str) -> HalfWay:
    """The golden file of a case."""
    content = store.read(f"states/{name}")
    durable = {
        machine: {blob: store.as_bytes(text) for blob, text in blobs.items()}
        for machine, blobs in content["durable"].items()
    }
    heard, said = ([_frame(line) for line in content[way]] for way in ("heard", "said"))
    return HalfWay(durable, heard, said)


def _frame(line: str) -> tuple[int, str, bytes]:
    now, name, frame = line.split()
    return int(now), name, store.as_bytes(frame)


def main() -> None:
    for name, case in CASES.items():
        store.write(f"states/{name}", half_way(case))
