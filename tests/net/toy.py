"""A toy monitor for the tests of the network: sites count their events, the coordinator knows the newest counts.

What a site says is cumulative and is said again until it is acknowledged; both sides persist before they speak.

    python -m tests.net.toy site site.toml <events>     ends when all events are counted and acknowledged
    python -m tests.net.toy coordinator coordinator.toml
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catchment.monitor.machine import COORDINATOR, Action, Persist, Received, Send, Stopping, Tick
from catchment.monitor.wire import (
    BYTES,
    DOUBLES,
    SINT,
    SINTS,
    TEXT,
    UINT,
    UINTS,
    Message,
    part,
    read_frame,
    wire,
    write_frame,
)
from catchment.net.driver import Driver
from catchment.net.run import run_coordinator, run_site
from catchment.net.settings import read_coordinator, read_site
from catchment.net.source import Batch
from catchment.sketch.keys import hash_keys

AGAIN = 200


@dataclass(frozen=True, slots=True)
class ToyCount(Message):
    """What a site has counted so far.

    `digest`: the sum of the hashes of all keys, so that a lost event cannot hide behind a doubled one.
    """

    kind = 1900

    incarnation: int = wire(1, UINT)
    seq: int = wire(2, UINT)
    events: int = wire(3, UINT, "How many events.")
    digest: int = wire(4, UINT)


@dataclass(frozen=True, slots=True)
class ToyAck(Message):
    """What the coordinator has of a site."""

    kind = 1901

    incarnation: int = wire(1, UINT)
    seq: int = wire(2, UINT)


@dataclass(frozen=True, slots=True)
class ToyAll(Message):
    """One field of each form."""

    kind = 1902

    small: int = wire(1, UINT)
    signed: int = wire(2, SINT)
    name: str = wire(4, TEXT)
    """A text below a field explains it."""
    blob: bytes = wire(5, BYTES)
    many: tuple[int, ...] = wire(6, UINTS)
    many_signed: tuple[int, ...] = wire(7, SINTS)
    numbers: tuple[float, ...] = wire(16, DOUBLES)
    inner: ToyAck | None = part(17, ToyAck)  # noqa: RUF009 - a field


class ToySite:
    """A site: blob "state" is (incarnation, events, digest)."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        before = np.frombuffer(blobs.get("state", bytes(24)), dtype=np.uint64)
        self.incarnation, self.position, self.digest = int(before[0]) + 1, int(before[1]), int(before[2])
        self.seq = 0
        self.acked = -1
        self.due: int | None = 0
        self.log: list[Any] = []

    def handle(self, event: Any, now: int) -> list[Action]:
        self.log.append(event)
        if isinstance(event, Batch):
            assert event.position == self.position + len(event)
            self.position = event.position
            self.digest = (self.digest + int(hash_keys(event.keys)[0].sum())) % 2**64
        elif isinstance(event, Received):
            ack = read_frame(event.frame)
            assert isinstance(ack, ToyAck)
            if ack.incarnation == self.incarnation:
                self.acked = max(self.acked, ack.seq)
            self.due = None if self.acked == self.seq else self.due
            return []
        else:
            assert isinstance(event, Tick | Stopping)
        self.seq += isinstance(event, Batch)
        self.due = now + AGAIN
        state = np.array([self.incarnation, self.position, self.digest], dtype=np.uint64).tobytes()
        message = ToyCount(self.incarnation, self.seq, self.position, self.digest)
        return [Persist("state", state), Send(COORDINATOR, write_frame(message))]


class ToyCoordinator:
    """A coordinator: a blob for each site, with its newest message."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self.newest = {name: ToyCount.from_bytes(blob) for name, blob in blobs.items()}
        self.due: int | None = None
        self.log: list[Any] = []

    def handle(self, event: Any, now: int) -> list[Action]:
        self.log.append(event)
        assert isinstance(event, Received)
        message = read_frame(event.frame)
        assert isinstance(message, ToyCount)
        before = self.newest.get(event.sender, ToyCount())
        if (message.incarnation, message.seq) >= (before.incarnation, before.seq):
            assert message.events >= before.events, "a site has forgotten what it had said"
            self.newest[event.sender] = message
        ack = write_frame(ToyAck(message.incarnation, message.seq))
        return [Persist(event.sender, self.newest[event.sender].to_bytes()), Send(event.sender, ack)]


def events_of(machine: ToyCoordinator, site: str) -> tuple[int, int]:
    newest = machine.newest.get(site, ToyCount())
    return newest.events, newest.digest


def main(role: str, file: str, *events: str) -> int:
    logging.basicConfig(level=logging.INFO)

    def all_acked(machine: Any, driver: Driver) -> bool:
        return bool(machine.position >= int(events[0]) and machine.acked == machine.seq and driver.source_ended)

    if role == "site":
        return run_site(read_site(Path(file)), ToySite, done=all_acked)
    return run_coordinator(read_coordinator(Path(file)), ToyCoordinator)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
