"""The parts of a top-k peer: certificates against all counts that could be, local counts against a naive window."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import DamagedBytesError, KeyTypeError, TimeError, WeightError
from catchment.monitor.top_k import ExactCounts, SketchedCounts, certify
from catchment.monitor.top_k.items import values_of
from catchment.sketch.keys import KeyBatch
from catchment.sketch.space_saving import SpaceSaving
from catchment.window.panes import Panes

boxes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(boxes, st.integers(0, 3), st.integers(1, 3), st.randoms(use_true_random=False))
def test_an_item_is_certain_iff_no_counts_within_the_bounds_put_it_out(
    bounds: list[tuple[int, int]], unknown: int, k: int, rng: Any
) -> None:
    low = np.array([low for low, _ in bounds])
    high = low + np.array([spread for _, spread in bounds])
    order = list(range(len(bounds)))
    rng.shuffle(order)
    found = certify(low, high, np.array(order), unknown, k)
    always = set(range(len(bounds)))
    for counts in itertools.product(*(range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True))):
        # As many strangers as can matter, each with as much as can be, and first in the order.
        world = [(-count, order[item], item) for item, count in enumerate(counts) if count]
        world += [(-unknown, -1, -1) for _ in range(k) if unknown]
        always &= {item for *_, item in sorted(world)[:k]}
    places = found.places.tolist()
    assert {place for place, sure in zip(places, found.certain.tolist(), strict=True) if sure} == always
    rest = [int(high[item]) for item in range(len(bounds)) if item not in places]
    assert found.left_out == max([unknown, *rest])


class Naive:
    def __init__(self, window: int | None) -> None:
        self.window = window
        self.events: list[tuple[Any, int, int]] = []
        self.time: int | None = None

    def update(self, keys: Any, at: Any, weights: Any, until: int | None) -> None:
        self.events += zip(keys, at, weights, strict=True)
        told = [*at, *([] if until is None else [until]), *([] if self.time is None else [self.time])]
        self.time = max(told, default=None)

    def counts(self) -> dict[Any, int]:
        found: Counter[Any] = Counter()
        for key, at, weight in self.events:
            if self.window is None or (self.time is not None and at > self.time - self.window):
                found[key] += weight
        return {key: count for key, count in found.items() if count}


def told(counts: ExactCounts) -> dict[Any, int]:
    counted = counts.counted()
    assert np.array_equal(counted.low, counted.high)
    pairs = zip(values_of(counted.keys), counted.low.tolist(), strict=True)
    assert np.array_equal(counted.find(counted.hashes), np.arange(counted.hashes.size))
    return {key: count for key, count in pairs if count}


events = st.lists(st.tuples(st.integers(0, 6), st.integers(-20, 60), st.integers(0, 3)), max_size=12)
batches = st.lists(st.tuples(events, st.none() | st.integers(-20, 80)), max_size=6)


@settings(max_examples=200, deadline=None)
@given(batches, st.none() | st.integers(1, 40), st.booleans(), st.integers(0, 5))
def test_exact_counts_are_those_of_a_naive_window(
    parts: list[tuple[list[tuple[int, int, int]], int | None]], window: int | None, texts: bool, reread: int
) -> None:
    counts, naive = ExactCounts(window), Naive(window)
    for place, (part, until) in enumerate(parts):
        keys, at, weights = ([row[column] for row in part] for column in range(3))
        named = [f"item {key}" for key in keys] if texts else keys
        counts.update(named, at=at, weights=weights, until=until)
        naive.update(named, at, weights, until)
        assert told(counts) == naive.counts()
        if place == reread:
            blob = counts.to_bytes()
            counts = ExactCounts(window)
            counts.load(blob)
            assert counts.to_bytes() == blob
            assert told(counts) == naive.counts()
        assert counts.position == len(naive.events)
        assert counts.time == (naive.time or 0)


def test_items_that_have_left_are_forgotten_and_room_is_used_again() -> None:
    counts = ExactCounts(window=50)
    for start in range(0, 20_000, 100):
        counts.update(np.arange(start, start + 100), at=np.arange(start, start + 100))
    assert told(counts) == dict.fromkeys(range(19_950, 20_000), 1)
    assert counts.counted().hashes.size <= 300
    assert len(counts.to_bytes()) < 1_000


def test_times_far_apart_are_counted_too() -> None:
    counts = ExactCounts(window=2**60)
    counts.update([1, 2, 1], at=[-(2**60) + 1, 2**60, 2**60])
    assert told(counts) == {1: 1, 2: 1}


def test_what_cannot_be_counted_is_refused_and_changes_nothing() -> None:
    counts = ExactCounts(window=10)
    counts.update(["a"], at=[5])
    before = counts.to_bytes()
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (TimeError, {"keys": ["b"]}),
        (TimeError, {"keys": ["b"], "at": [2**61]}),
        (TimeError, {"keys": [], "until": 2**61}),
        (KeyTypeError, {"keys": [3], "at": [50]}),
        (KeyTypeError, {"keys": KeyBatch.of_hashes(np.array([3], dtype=np.uint64)), "at": [50]}),
        (WeightError, {"keys": ["b"], "at": [50], "weights": [-1]}),
        (WeightError, {"keys": ["b"], "at": [50], "weights": [2**51]}),
    ]
    for error, arguments in refused:
        with pytest.raises(error):
            counts.update(**arguments)
        assert counts.to_bytes() == before


def test_counts_are_read_only_by_what_they_fit() -> None:
    counts = ExactCounts()
    counts.update([1, 2])
    with pytest.raises(DamagedBytesError, match="do not add up"):
        ExactCounts(window=10).load(counts.to_bytes())
    sketched = SketchedCounts(SpaceSaving(0.1))
    with pytest.raises(DamagedBytesError, match="build the peer as before"):
        sketched.load(SketchedCounts(SpaceSaving(0.2)).to_bytes())


@settings(max_examples=60, deadline=None)
@given(batches, st.booleans(), st.integers(1, 4))
def test_sketched_counts_hold_the_truth(
    parts: list[tuple[list[tuple[int, int, int]], int | None]], windowed: bool, capacity: int
) -> None:
    inner = SpaceSaving.sized(capacity=capacity)
    counts = SketchedCounts(Panes(inner, window=30, panes=3) if windowed else inner)
    naive = Naive(30 if windowed else None)
    for part, until in parts:
        keys, at, weights = ([row[column] for row in part] for column in range(3))
        counts.update(keys, at=at, weights=weights, until=until)
        naive.update(keys, at, weights, until)
        counted = counts.counted()
        bounds = dict(
            zip(values_of(counted.keys), zip(counted.low.tolist(), counted.high.tolist(), strict=True), strict=True)
        )
        for key, count in naive.counts().items():
            low, high = bounds.get(key, (0, counted.beyond))
            assert low <= count <= high
