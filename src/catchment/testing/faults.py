"""Faults: what goes wrong on the simulated network, how often and for how long.

The list is TigerBeetle's packet simulator's (delay, loss, replay, capacity, clogs, partitions that may be one-way, and
how long each stays) with FoundationDB's swizzle, Kafka's disk that loses what was not flushed, and clocks. All times
are milliseconds of virtual time; a `…_mean` is the mean of an exponential draw.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from catchment.errors import ParameterError
from catchment.monitor.machine import COORDINATOR

__all__ = ["KINDS", "STRIKES", "Faults"]

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "delay": ("delay_mean",),
    "loss": ("loss",),
    "duplicate": ("duplicate",),
    "capacity": ("capacity",),
    "clog": ("clog",),
    "swizzle": ("swizzle_every",),
    "partition": ("partition",),
    "crash": ("crash", "crash_coordinator"),
    "rollback": ("rollback",),
    "flush": ("flush_min", "flush_mean"),
    "skew": ("skew", "offset"),
    "jump": ("jump_every",),
    "join": ("join",),
    "leave": ("leave",),
}
"""Every kind of fault, and the fields that switch it on."""

STRIKES: Final[dict[str, str]] = {
    "loss": "messages lost by chance",
    "duplicate": "messages delivered twice",
    "reorder": "messages that arrived after a later one on their path",
    "capacity": "messages dropped because their path was full",
    "clog": "messages held because their path was clogged",
    "swizzle": "nodes clogged one by one and restored in another order",
    "partition": "partitions",
    "one-way": "partitions in one direction only",
    "cut": "messages lost to a partition",
    "down": "messages to a node that was not there",
    "crash": "crashes",
    "mid-crash": "crashes between two actions of one event",
    "unflushed": "blobs lost in a crash because they were not durable yet",
    "unsent": "messages never sent because a crash came before their blob was durable",
    "rollback": "restarts from an older state of the disk",
    "skew": "nodes whose clock runs fast, slow or apart",
    "jump": "jumps of a clock",
    "join": "nodes that joined late",
    "leave": "nodes that left for good",
}
"""What a network counts, by name: a run whose counts are zero has shown nothing."""

_PARTITIONS = ("none", "isolate", "split", "any")
_SHARES = (
    "loss", "duplicate", "clog", "partition_one_way", "crash", "crash_coordinator", "rollback", "skew", "join", "leave",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A mix of faults; the default is none, with a delay of one millisecond.

    Parameters, in the order of the fields:

    - A message takes `delay_min` and an exponential draw around `delay_mean`: reordering comes from here. It is lost
      with probability `loss`, and comes again with probability `duplicate`, after `duplicate_mean` more. A path between
      two nodes holds `capacity` messages and drops what is over (0: no limit).
    - With probability `clog` a message clogs its path for `clog_mean`: nothing is lost, all of it waits. Every
      `swizzle_every` (0: never) some nodes are clogged one by one and restored in another order, with `swizzle_mean`
      between the steps.
    - Partitions are `"none"`, `"isolate"` (one node), `"split"` (two groups at random), or `"any"` of the two each
      time. With probability `partition_one_way` only one direction is cut. Each lasts `partition_stability` and
      `partition_mean`, and the next comes after `partition_stability` and `partition_every`.
    - With probability `crash` (`crash_coordinator` for the coordinator) handling an event ends in a crash: between any
      two of its actions, or a little later. The node is down for `restart_mean`. With probability `rollback` a node
      named in `rollback_nodes` comes back with an older state of its disk, as from a backup.
    - A blob is durable after `flush_min` and `flush_mean`.
    - A node's clock runs up to `skew` too fast or too slow, starts up to `offset` ahead, and jumps by up to `jump`
      either way every `jump_every` (0: never). It never runs backwards within one life.
    - With probability `join` a site comes only after `join_mean`; with probability `leave` it goes for good after
      `leave_mean`.
    - Batches are handed to a site `feed_mean` apart, at a pace of its own: by a factor of up to `feed_spread` faster or
      slower.

    >>> Faults.quiet() == Faults()
    True
    >>> Faults.random(7) == Faults.random(7), Faults.random(7) == Faults.random(8)
    (True, False)
    >>> Faults(loss=0.1, crash=0.01).without("crash").crash
    0.0
    """

    delay_min: int = 1
    delay_mean: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    duplicate_mean: float = 200.0
    capacity: int = 0
    clog: float = 0.0
    clog_mean: float = 500.0
    swizzle_every: float = 0.0
    swizzle_mean: float = 100.0
    partition: str = "none"
    partition_one_way: float = 0.5
    partition_every: float = 3000.0
    partition_mean: float = 1000.0
    partition_stability: int = 50
    crash: float = 0.0
    crash_coordinator: float = 0.0
    restart_mean: float = 500.0
    rollback: float = 0.0
    rollback_nodes: tuple[str, ...] = (COORDINATOR,)
    flush_min: int = 0
    flush_mean: float = 0.0
    skew: float = 0.0
    offset: int = 0
    jump_every: float = 0.0
    jump: int = 1000
    join: float = 0.0
    join_mean: float = 2000.0
    leave: float = 0.0
    leave_mean: float = 10_000.0
    feed_mean: float = 20.0
    feed_spread: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _SHARES and not 0 <= value <= 1:
                raise ParameterError(f"{field.name}={value}", "give a probability, or share, from 0 to 1")
            if isinstance(value, int | float) and not 0 <= value < 2**40:
                raise ParameterError(f"{field.name}={value}", "give a number of milliseconds, or 0 for none")
        if self.partition not in _PARTITIONS:
            raise ParameterError(f"partition={self.partition!r}", f"choose one of {', '.join(_PARTITIONS)}")
        if self.skew > 0.9:
            raise ParameterError(f"skew={self.skew}", "give at most 0.9, or a clock would stand still")
        if self.feed_spread < 1:
            raise ParameterError(f"feed_spread={self.feed_spread}", "give a factor of 1 or more")

    @classmethod
    def quiet(cls) -> Faults:
        """None at all: every message arrives after a millisecond, in order."""
        return cls()

    @classmethod
    def random(cls, seed: int, *, chance: float = 0.5, without: Collection[str] = ()) -> Faults:
        """A mix drawn from a seed: each kind is in it with this chance, in a strength of its own.

        Few strong faults find other bugs than all of them at once, which drown each other; so not all kinds are in
        all mixes. `without` names kinds that are left out.

        Reference: A. Groce et al., Swarm Testing. ISSTA 2012.
        """
        rng = random.Random(f"faults {seed}")

        def between(low: float, high: float) -> float:
            return round(float(low * (high / low) ** rng.random()), 6)

        drawn: dict[str, Any] = {
            "delay_min": rng.randint(0, 5),
            "delay_mean": between(1, 200),
            "loss": between(0.005, 0.3),
            "duplicate": between(0.005, 0.3),
            "duplicate_mean": between(1, 3000),
            "capacity": rng.randint(1, 20),
            "clog": between(0.001, 0.03),
            "clog_mean": between(50, 2000),
            "swizzle_every": between(500, 5000),
            "swizzle_mean": between(20, 500),
            "partition": rng.choice(_PARTITIONS[1:]),
            "partition_one_way": rng.choice((0.0, 0.5, 1.0)),
            "partition_every": between(200, 5000),
            "partition_mean": between(100, 3000),
            "partition_stability": rng.randint(0, 500),
            "crash": between(0.001, 0.05),
            "crash_coordinator": between(0.001, 0.02),
            "restart_mean": between(10, 2000),
            "rollback": between(0.05, 0.5),
            "flush_min": rng.randint(0, 3),
            "flush_mean": between(1, 100),
            "skew": between(0.0001, 0.3),
            "offset": int(between(1, 1_000_000)),
            "jump_every": between(500, 10_000),
            "jump": int(between(10, 10_000)),
            "join": between(0.1, 0.5),
            "join_mean": between(100, 5000),
            "leave": between(0.05, 0.3),
            "leave_mean": between(500, 10_000),
            "feed_mean": between(5, 100),
            "feed_spread": between(1, 10),
        }
        absent = [kind for kind in KINDS if rng.random() >= chance]
        return cls(**drawn).without(*absent, *without)

    def without(self, *kinds: str) -> Faults:
        """The same mix without these kinds of fault (`KINDS`)."""
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise ParameterError(f"kind {unknown[0]!r} of faults", f"choose from {', '.join(KINDS)}")
        quiet = Faults()
        names = [name for kind in kinds for name in KINDS[kind]]
        return replace(self, **{name: getattr(quiet, name) for name in names})

    def healed(self) -> Faults:
        """What is left when all faults end: delays of the network and the disk, and the pace of the feeds."""
        return self.without(*(kind for kind in KINDS if kind not in ("delay", "flush")))
