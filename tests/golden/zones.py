"""Zones, regions and rules as they stand in orders; and what a site that has them says of some drifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.monitor import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total, Watch
from catchment.monitor.messages import Order
from catchment.monitor.rules.base import Guard, Hold, SiteView, Terms
from catchment.monitor.vectors import Drift, Vector
from catchment.monitor.wire import read_frame, write_frame
from catchment.sketch.keys import hash_keys
from tests.golden import store
from tests.golden.streams import Event, events_of

__all__ = ["RULES", "SITES", "Ruled", "main", "orders_of", "says"]

SITES = 3
_FEW = 8
"""Events between what a site says: some of the slack is used up by them, or all of it."""
_LOOSE: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.02}
_WINDOW = 600


@dataclass(frozen=True, slots=True)
class Ruled:
    """A watch with a rule, and whether all weights of its events are positive."""

    watch: Watch
    grows: bool = True


def _ruled() -> dict[str, Ruled]:
    watches: dict[str, tuple[Watch, bool]] = {
        "total": (Total(), True),
        "total, falling": (Total(), False),
        "total, threshold": (Total(threshold=10_000), True),
        "total, window": (Total(window=_WINDOW, theta=0.4, epsilon=0.2), True),
        "frequency": (Frequency(key="/page/1.html"), True),
        "range_sum": (RangeSum(keys=("/page/1.html", "/page/2.html"), factors=(2, -1)), True),
        "self_join": (SelfJoin(**_LOOSE), True),
        "self_join, falling": (SelfJoin(**_LOOSE), False),
        "self_join, threshold": (SelfJoin(**_LOOSE, threshold=1e6), False),
        "self_join, window": (SelfJoin(**_LOOSE, window=_WINDOW), True),
        "inner_product": (InnerProduct(**_LOOSE), True),
        "inner_product, window": (InnerProduct(**_LOOSE, window=_WINDOW), True),
        "distinct": (Distinct(theta=0.8, epsilon=0.6, delta=0.2), True),
        "distinct, window": (Distinct(theta=0.8, epsilon=0.6, delta=0.2, window=_WINDOW), True),
    }
    return {
        f"{name}, {rule}": Ruled(replace(watch, rule=rule), grows)
        for name, (watch, grows) in watches.items()
        for rule in watch.rules
        if rule != "auto"
    }


def _vector(watch: Watch, site: str) -> Vector:
    """A site's vector after a phase."""
    vector = watch.new_vector()
    _add(vector, watch, events_of(site, 0, keys="text"))
    return vector


def _add(vector: Vector, watch: Watch, events: list[Event]) -> None:
    for stream in range(vector.streams):
        part = events[stream :: vector.streams]
        hashes, _ = hash_keys([event.key for event in part])
        times = np.array([event.time for event in part]) if watch.window is not None else None
        vector.add(hashes, np.ones(1, dtype=np.int64), times, stream)


def orders_of(ruled: Ruled) -> tuple[bytes, bytes, bytes]:
    """Orders as a coordinator gives them after a phase: to open a round, with other terms, and to keep the zone."""
    total = sum((_vector(ruled.watch, site).values() for site in "abc"), np.int64(0))
    rule = ruled.watch.steer(np.asarray(total), SITES, grows=ruled.grows)
    opened = rule.open({site: SiteView() for site in "abc"})
    assert isinstance(opened, Hold)
    terms: Mapping[str, Terms] = opened.terms
    round_: dict[str, Any] = {"query": 1, "epoch": 7, "round": 2, "incarnation": 7, "stored": 1}
    first = Order(
        **round_, step=1, seq=2, acked=1, rule=rule.number, zone=rule.zone(), quantum=float(terms["a"].quantum),
        slack=terms["a"].slack,
    )  # fmt: skip
    balances = rule.name in ("eager", "lazy", "two-phase")
    slack = tuple((-1.0) ** place * (place + 1) / 2 for place in range(rule.statistic_size)) if balances else ()
    second = Order(**round_, step=2, seq=3, acked=2, quantum=first.quantum / 2, slack=slack)
    third = Order(**{**round_, "round": 3}, step=1, seq=4, acked=3, quantum=first.quantum, keeps=2, share=0.625)
    return write_frame(first), write_frame(second), write_frame(third)


def says(ruled: Ruled, frames: Sequence[bytes]) -> list[Any]:
    """What a site with these orders says, before and after a few more events: level, flush or not, and statistic.

    The third order is only for rules that may keep a zone.
    """
    vector = _vector(ruled.watch, "a")
    more = events_of("a", 1, keys="text")
    said: list[Any] = []
    guard: Guard | None = None
    for place, frame in enumerate(frames):
        order = read_frame(frame)
        assert isinstance(order, Order)
        if guard is None:
            guard = ruled.watch.guard(order.rule, order.zone, Drift(vector))
        elif order.keeps and ruled.watch.rule not in ("near", "full"):
            break
        elif order.keeps:
            guard.restart(order.share)
        guard.hold(Terms(order.quantum, order.slack))
        said.append([guard.look(), guard.must_flush()])
        _add(vector, ruled.watch, more[place * _FEW : (place + 1) * _FEW])
        said.append([guard.look(), guard.must_flush(), list(guard.statistic())])
    return said


RULES = _ruled()
"""Every rule of every quantity, over the whole history and in a window."""


def main() -> None:
    table = {}
    for name, ruled in RULES.items():
        frames = orders_of(ruled)
        table[name] = {"orders": [store.as_text(frame) for frame in frames], "says": says(ruled, frames)}
    store.write("orders", table)
