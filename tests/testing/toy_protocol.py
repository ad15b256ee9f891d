"""A small protocol to prove the network by: sites report running totals, a coordinator claims their sum at a cut.

`right` is what the project's rules ask for. The others break one rule each, and the network must catch them:
increments instead of totals, reports that are never sent again, an acknowledgement of what is not durable yet.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from catchment.monitor.machine import COORDINATOR, Action, Persist, Received, Send
from catchment.testing.faults import Faults
from catchment.testing.host import Node
from catchment.testing.network import Network

VARIANTS = ("right", "increments", "no-resend", "ack-before-persist")
BATCHES, BATCH = 40, 5
RESEND, HEARTBEAT = 150, 200
SITES = ("north", "east", "west")
REPORT, ACK = struct.Struct("<qqqq"), struct.Struct("<qq")


class Site:
    """Adds up what it is fed, and tells the coordinator until it is told back."""

    def __init__(self, variant: str, blobs: dict[str, bytes], life: int) -> None:
        self.variant = variant
        self.life = life
        self.position = self.total = self.seq = 0
        self.epoch = self.acknowledged = 0
        self.due: int | None = 0
        if "state" in blobs:
            self.position, self.total = json.loads(blobs["state"])

    def handle(self, event: Any, now: int) -> list[Action]:
        if isinstance(event, Received):
            epoch, position = ACK.unpack(event.frame)
            if epoch > self.epoch:
                self.epoch, self.acknowledged = epoch, position
            elif epoch == self.epoch:
                self.acknowledged = max(self.acknowledged, position)
            if self.due is None and self.acknowledged < self.position and self.variant != "no-resend":
                self.due = now
            return []
        if isinstance(event, np.ndarray):
            added = int(event.sum())
            self.position += len(event)
            self.total += added
            self.due = None if self.variant == "no-resend" else now + RESEND
            return [self._state(), self._report(added)]
        if self.acknowledged >= self.position:
            self.due = None
            return []
        self.due = now + RESEND
        return [self._report(0)]

    def _state(self) -> Persist:
        return Persist("state", json.dumps([self.position, self.total]).encode())

    def _report(self, added: int) -> Send:
        self.seq += 1
        number = added if self.variant == "increments" else self.total
        return Send(COORDINATOR, REPORT.pack(self.life, self.seq, self.position, number))


class Coordinator:
    """Keeps the newest report of each site, and claims the sum of the totals at the cut of their positions."""

    def __init__(self, variant: str, blobs: dict[str, bytes], life: int) -> None:
        self.variant = variant
        self.life = life
        self.due: int | None = 0
        self.known: dict[str, list[int]] = json.loads(blobs["known"]) if "known" in blobs else {}

    @property
    def claim(self) -> tuple[dict[str, int], int]:
        """The cut, and the sum at it."""
        return {site: row[2] for site, row in self.known.items()}, sum(row[3] for row in self.known.values())

    def handle(self, event: Any, now: int) -> list[Action]:
        if not isinstance(event, Received):
            self.due = now + HEARTBEAT
            return [self._ack(site) for site in SITES]
        life, seq, position, number = REPORT.unpack(event.frame)
        before = self.known.get(event.sender, [0, 0, 0, 0])
        if self.variant == "increments":
            self.known[event.sender] = [life, seq, max(position, before[2]), before[3] + number]
        elif (life, seq) > (before[0], before[1]):
            self.known[event.sender] = [life, seq, position, number]
        else:
            return [self._ack(event.sender)]
        persist, ack = Persist("known", json.dumps(self.known).encode()), self._ack(event.sender)
        return [ack, persist] if self.variant == "ack-before-persist" else [persist, ack]

    def _ack(self, site: str) -> Send:
        return Send(site, ACK.pack(self.life, self.known.get(site, [0, 0, 0, 0])[2]))


class Source:
    """What a site is fed: the same values from any position on, a batch every 50 ms of virtual time."""

    def __init__(self, seed: int, index: int) -> None:
        self.values = np.random.default_rng([seed, index]).integers(1, 100, BATCHES * BATCH)
        self.sums = [0, *accumulate(self.values.tolist())]

    def feed(self, site: Site) -> Iterator[tuple[int, Any]]:
        for at in range(site.position, len(self.values), BATCH):
            yield at // BATCH * 50, self.values[at : at + BATCH]


def world(seed: int, *, variant: str = "right", faults: Faults | None = None, settle: bool = True) -> Network:
    """Three sites and a coordinator, every claim checked against the sources."""
    sources = {name: Source(seed, index) for index, name in enumerate(SITES)}
    nodes = [Node(COORDINATOR, functools.partial(Coordinator, variant))]
    nodes += [Node(name, functools.partial(Site, variant), source.feed) for name, source in sources.items()]

    def claims_are_true(network: Network) -> None:
        coordinator = network.machine(COORDINATOR)
        if network.last != COORDINATOR or coordinator is None:
            return
        cut, total = coordinator.claim
        network.claims += 1
        truth = sum(sources[site].sums[position] for site, position in cut.items())
        assert total == truth, f"claimed {total} at {cut}, it was {truth}"

    def acknowledged_is_durable(network: Network) -> None:
        if network.struck["rollback"]:
            return  # a backup may be older than what was acknowledged: then only claims stay true
        site = network.machine(network.last)
        if isinstance(site, Site):
            known = json.loads(network.durable(COORDINATOR).get("known", b"{}"))
            durable = known.get(network.last, [0, 0, 0, 0])[2]
            assert site.acknowledged <= durable, f"{network.last} was told {site.acknowledged}, {durable} is durable"

    def all_is_known(network: Network) -> bool:
        coordinator = network.machine(COORDINATOR)
        sites = {name: network.machine(name) for name in SITES if not network.has_left(name)}
        if coordinator is None or not all(sites.values()):
            return False
        cut, _ = coordinator.claim
        return all(cut.get(name, 0) == site.position == site.acknowledged for name, site in sites.items())

    def script(network: Network) -> None:
        network.run()
        if settle:
            network.settle(all_is_known, messages=400, feeding=False)

    return Network(
        nodes,
        seed=seed,
        faults=Faults.random(seed) if faults is None else faults,
        checks=[claims_are_true, acknowledged_is_durable],
        until=4000,
        script=script,
    )


def world_with_everything(seed: int, *, variant: str = "right") -> Network:
    """All kinds of fault at once."""
    return world(seed, variant=variant, faults=Faults.random(seed, chance=1.0))
