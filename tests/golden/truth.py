"""What is true of some events, counted one by one: what claims of the golden monitors are held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catchment.monitor import (
    Distinct,
    Frequency,
    HeavyHitters,
    InnerProduct,
    Items,
    RangeSum,
    SelfJoin,
    Total,
    Watch,
)
from tests.golden.streams import Event

__all__ = ["check", "in_cut", "value_of"]


def in_cut(events: Sequence[Event], cut: tuple[int, int], window: int | None) -> list[Event]:
    """Of a site's events those at a cut: so many of the first, and those of them in the window up to its time."""
    position, time = cut
    return [event for event in events[:position] if window is None or time - window < event.time <= time]


def _counts(events: Sequence[Event], stream: int = 0) -> Counter[Any]:
    counts = Counter[Any]()
    for event in events:
        if event.stream == stream:
            counts[event.key] += event.weight
    return counts


def _range_sum(watch: RangeSum, counts: Counter[Any]) -> int:
    factors = watch.factors or (1,) * len(watch.keys)
    return sum(factor * counts[key] for key, factor in zip(watch.keys, factors, strict=True))


_VALUES: dict[type[Watch], Callable[[Any, Sequence[Event]], int]] = {
    Total: lambda _, events: sum(event.weight for event in events),
    Frequency: lambda watch, events: _counts(events)[watch.key],
    RangeSum: lambda watch, events: _range_sum(watch, _counts(events)),
    SelfJoin: lambda _, events: sum(count * count for count in _counts(events).values()),
    InnerProduct: lambda _, events: sum(_counts(events)[key] * count for key, count in _counts(events, 1).items()),
    Distinct: lambda _, events: len({event.key for event in events}),
}


def value_of(watch: Watch, events: Sequence[Event]) -> int:
    """The value that a watch follows."""
    return _VALUES[type(watch)](watch, events)


def check(watch: Watch | Items | HeavyHitters, claim: Any, streams: Mapping[str, Sequence[Event]]) -> None:
    """Hold a claim to the events of its own cut."""
    cut = {
        site: (mark.position, mark.time) if isinstance(watch, HeavyHitters) else tuple(mark)
        for site, mark in claim.cut.items()
    }
    there = [event for site, events in streams.items() for event in in_cut(events, cut[site], watch.window)]
    if isinstance(watch, Watch):
        assert value_of(watch, there) in claim.answer
    elif isinstance(watch, Items):
        _check_items(watch, claim, _counts(there))
    else:
        _check_heavy(watch, claim, _counts(there))


def _check_items(watch: Items, claim: Any, counts: Counter[Any]) -> None:
    assert {key for key, count in counts.items() if count >= watch.threshold} <= set(claim.keys)
    for item in claim.items:
        assert counts[item.key] in item.answer
        assert not item.certain or counts[item.key] >= watch.threshold


def _check_heavy(watch: HeavyHitters, claim: Any, counts: Counter[Any]) -> None:
    assert claim.total == counts.total()
    assert {key for key, count in counts.items() if count >= watch.phi * claim.total} <= set(claim.keys)
    for found in (*claim.heavy, *claim.unresolved):
        assert counts[found.key] in found.answer
