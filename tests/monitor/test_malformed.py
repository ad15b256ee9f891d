"""Messages that nobody of ours sends, a field of a real one set to something else: no site, no coordinator ends by it.

Real orders and reports are recorded in worlds of all rules; one field, or a field of a part, is replaced by a number at
an edge, by another's value, by bytes that were cut, turned or made up. What is read is then obeyed, as far as it can
be: events, ticks and questions follow, and none of them may raise.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from catchment.errors import CatchmentError
from catchment.monitor import Arrived, Coordinator, Items, Site, Total
from catchment.monitor.items.messages import ItemsOrder
from catchment.monitor.machine import COORDINATOR, Received, Send, Tick
from catchment.monitor.messages import Order
from catchment.monitor.quantities import Distinct, InnerProduct, RangeSum, SelfJoin
from catchment.monitor.watch import Watch
from catchment.monitor.wire import BYTES, DOUBLE, DOUBLES, SINT, UINT, Message, read_frame, write_frame

MESSAGES = 27_000
"""In all; the links' own test has 100,000 more."""
SITES = ("a", "b")
SMALL: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.4}
WORLDS: dict[str, tuple[Watch | Items, ...]] = {
    "counts": (Total(number=1, rule="near"), RangeSum(number=2, keys=(1, 2), factors=(3, -1)), Total(number=3)),
    "push": (SelfJoin(number=1, rule="push", **SMALL), Total(number=2, rule="centralise")),
    "countdown": (SelfJoin(number=1, rule="near", **SMALL), SelfJoin(number=2, rule="full", **SMALL)),
    "balance": (SelfJoin(number=1, rule="eager", **SMALL), SelfJoin(number=2, rule="lazy", **SMALL)),
    "relative": (SelfJoin(number=1, rule="relative", **SMALL), Distinct(number=2, rule="near", **SMALL)),
    "windows": (SelfJoin(number=1, rule="two-phase", window=40, **SMALL), Total(number=2, window=40, epsilon=0.05)),
    "distinct": (Distinct(number=1, rule="full", **SMALL), Distinct(number=2, window=40, rule="push", **SMALL)),
    "products": (InnerProduct(number=1, rule="full", **SMALL), InnerProduct(number=2, rule="eager", **SMALL)),
    "items": (Items(number=1, threshold=10, theta=0.5), Items(number=2, threshold=6, theta=0.5, window=30)),
}
EDGES = (0, 1, 2, 3, 127, 128, 2**31, 2**32 - 1, 2**50, 2**53, 2**60, 2**62, 2**63 - 1)
DOUBLES_AT_EDGES = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan)


class _Recorded:
    """A small world in mid-run, made anew from a seed, and the frames that were sent on the way."""

    def __init__(self, watches: tuple[Watch | Items, ...], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.coordinator = Coordinator(watches, SITES)
        self.sites = {name: Site(name, watches, keep=100) for name in SITES}
        self.sent: list[tuple[str, str, bytes]] = []
        self.now, self.time = 0, 0
        self._carry(COORDINATOR, self.coordinator.handle(Tick(), 0))
        for _ in range(int(rng.integers(3, 12))):
            self.step(rng)
        self._numbers = [watch.number for watch in watches]
        self._items = {watch.number for watch in watches if isinstance(watch, Items)}

    def step(self, rng: np.random.Generator) -> None:
        self.now += 400
        self.time += int(rng.integers(0, 9))
        name = SITES[int(rng.integers(2))]
        keys = rng.zipf(1.5, int(rng.integers(1, 30))) % 9
        self._carry(name, self.sites[name].handle(Arrived(keys, times=np.full(keys.size, self.time)), self.now))

    def _carry(self, sender: str, actions: list[Any]) -> None:
        waiting = [(sender, action) for action in actions if isinstance(action, Send)]
        while waiting:
            sender, send = waiting.pop(0)
            self.sent.append((sender, send.to, send.frame))
            machine = self.coordinator if send.to == COORDINATOR else self.sites[send.to]
            more = machine.handle(Received(sender, send.frame), self.now)
            waiting += [(send.to, action) for action in more if isinstance(action, Send)]

    def ask(self) -> None:
        for number in self._numbers:
            if number in self._items:
                self.coordinator.items(number)
            else:
                self.coordinator.claim(number)


def _changed(value: Any, field: dataclasses.Field[Any], others: list[Any], rng: random.Random) -> Any:
    """Another value of the field's form."""
    form = field.metadata["form"]
    if rng.random() < 0.15:
        return rng.choice(others)  # of another message of the kind
    if form == UINT:
        return rng.choice((*EDGES, 2**64 - 1, max(value - 1, 0), value + 1, value + rng.randrange(1000)))
    if form == SINT:
        return rng.choice((1, -1)) * rng.choice(EDGES)
    if form == DOUBLE:
        return rng.choice((*DOUBLES_AT_EDGES, value / 2, -value))
    if form == DOUBLES:
        some = [rng.choice((*value, *DOUBLES_AT_EDGES)) for _ in range(rng.choice((0, 1, len(value), len(value) + 1)))]
        return tuple(some)
    if form == BYTES:
        return _turned(value, rng)
    if isinstance(form, type):  # a part
        return None if value is None or rng.random() < 0.1 else _mutated(value, {}, rng)
    return value


def _turned(value: bytes, rng: random.Random) -> bytes:
    data = bytearray(value)
    how = rng.randrange(4)
    if how == 0 or not data:
        return rng.randbytes(rng.randrange(40))
    if how == 1:
        return bytes(data[: rng.randrange(len(data))])
    if how == 2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    at = 8 * rng.randrange(len(data) // 8 + 1)  # where a number of a zone is
    data[at : at + 8] = np.array([rng.choice(DOUBLES_AT_EDGES)]).tobytes()
    return bytes(data)


def _mutated(message: Message, others: dict[str, list[Any]], rng: random.Random) -> Message:
    fields = dataclasses.fields(message)
    changes: dict[str, Any] = {}
    for field in rng.sample(fields, rng.choice((1, 1, 1, 2, 3))):
        value = getattr(message, field.name)
        changes[field.name] = _changed(value, field, others.get(field.name, [value]), rng)
    try:
        return dataclasses.replace(message, **changes)
    except CatchmentError:  # it cannot even be said
        return message


def _ahead(message: Any, rng: random.Random) -> Message:
    """Newer than what was said, so that it is looked at: often with the next step, the next flush or the next list."""
    changes: dict[str, Any] = {"seq": message.seq + rng.randrange(1, 50)}
    if isinstance(message, Order):
        changes |= {"step": message.step + rng.randrange(3), "want": rng.choice((0, 0, message.want))}
    elif rng.random() < 0.5:
        changes |= {} if isinstance(message, ItemsOrder) else {"number": message.number + 1}
    ahead: Message = dataclasses.replace(message, **changes) if rng.random() < 0.8 else message
    return ahead


@pytest.mark.parametrize("name", WORLDS)
def test_no_field_of_a_message_ends_a_machine(name: str) -> None:
    rng = random.Random(name)
    kinds: Counter[str] = Counter()
    refused = done = 0
    share = MESSAGES // len(WORLDS)
    while done < share:
        world = _Recorded(WORLDS[name], rng.randrange(2**32))
        recorded = [(sender, to, read_frame(frame)) for sender, to, frame in world.sent]
        by_kind: dict[str, dict[str, list[Any]]] = {}
        for _, _, message in recorded:
            values = by_kind.setdefault(type(message).__name__, {})
            for field in dataclasses.fields(message):
                values.setdefault(field.name, []).append(getattr(message, field.name))
        late = recorded[-8:]  # what is about the state that the machines are in
        draws = np.random.default_rng(done)
        for turn in range(150):
            sender, to, message = rng.choice(late if rng.random() < 0.8 else recorded)
            bad = _mutated(_ahead(message, rng), by_kind[type(message).__name__], rng)
            machine = world.coordinator if to == COORDINATOR else world.sites[to]
            machine.handle(Received(sender, write_frame(bad)), world.now)
            kinds[type(bad).__name__] += 1
            done += 1
            if turn % 10 == 9:
                world.step(draws)
                machine.handle(Tick(), world.now + 5000)
                world.ask()
        refused += world.coordinator.refused + sum(site.refused for site in world.sites.values())
    assert min(kinds.values()) > share // 10, kinds
    assert len(kinds) == 2
    assert refused > share // 50


def test_flags_that_are_neither_set_nor_clear_are_refused() -> None:
    watches = Total(number=1, rule="push"), Items(number=2, threshold=10)
    world = _Recorded(watches, 5)
    before = world.coordinator.refused
    for number, sent in enumerate((read_frame(frame) for _, to, frame in world.sent if to == COORDINATOR), start=1):
        for flag in ("whole", "fell", "partial"):
            part = getattr(sent, "flush", None) or getattr(sent, "bands", None)
            if part is None or not hasattr(part, flag):
                continue
            name = "flush" if hasattr(sent, "flush") else "bands"
            bad = dataclasses.replace(sent, seq=10_000 + number, **{name: dataclasses.replace(part, **{flag: 300})})  # type: ignore[call-arg]
            refused = world.coordinator.refused
            world.coordinator.handle(Received("a", write_frame(bad)), world.now)
            assert world.coordinator.refused == refused + 1, bad
    assert world.coordinator.refused > before + 5
