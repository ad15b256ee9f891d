"""What was shed widens answers until they hold for all events: against exact truth, in windows, after merges."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import (
    BloomFilter,
    BottomK,
    BytesError,
    CountMin,
    ECMSketch,
    FastAMS,
    InputError,
    MergeError,
    Panes,
    QueryError,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
    Wave,
    WeightError,
)
from catchment.answer import Answer
from catchment.balance.shed_record import ShedRecord
from catchment.errors import CatchmentError
from catchment.sketch.codec import open_envelope, seal_envelope
from catchment.testing.exact import Exact, ExactWindow

SITES = 3
KEYS = 8

event = st.tuples(
    st.integers(0, KEYS), st.integers(1, 100), st.integers(1, 5), st.booleans(), st.integers(0, SITES - 1)
)
events = st.lists(event, min_size=1, max_size=60)


def parted(
    stream: list[tuple[int, int, int, bool, int]],
    make: Callable[[], Any],
    *,
    weightless: bool = False,
    **settings_: Any,
) -> tuple[Any, ShedRecord]:
    """Each site sketches what it keeps and records what it sheds; then all are merged, as a chain."""
    sketches: list[Any] = []
    records = []
    taken = {*make().inputs, "weights"} - ({"weights"} if weightless else set())
    for site in range(SITES):
        mine = sorted((e for e in stream if e[4] == site), key=lambda e: e[1])
        kept, shed = [e for e in mine if e[3]], [e for e in mine if not e[3]]
        sketch, record = make(), ShedRecord(**settings_)
        if kept:
            given: dict[str, Any] = {"keys": np.array([e[0] for e in kept]), "at": [e[1] for e in kept]}
            given["weights"] = np.array([e[2] for e in kept])
            sketch.update(**{name: array for name, array in given.items() if name in taken})
        if shed:
            record.add(np.array([e[0] for e in shed]), at=[e[1] for e in shed], weights=np.array([e[2] for e in shed]))
        sketches.append(sketch)
        records.append(record)
    first, second, third = records
    return type(sketches[0]).merge(sketches), ShedRecord.merge([ShedRecord.merge([first, second]), third])


def exact(stream: list[Any]) -> Exact:
    truth = Exact()
    truth.update([e[0] for e in stream], weights=[e[2] for e in stream])
    return truth


HISTORY: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: CountMin(0.01, 1e-6), "estimate", "frequency"),
    (lambda: CountMin.sized(width=2, depth=2), "estimate", "frequency"),
    (lambda: CountMin(0.01, 1e-6), "self_join", "self_join"),
    (lambda: CountMin(0.01, 1e-6), "total", "total"),
    (lambda: SpaceSaving.sized(capacity=4), "estimate", "frequency"),
    (lambda: SpaceSaving.sized(capacity=4), "total", "total"),
    (lambda: FastAMS(0.3, 1e-4), "self_join", "self_join"),
    (lambda: FastAMS(0.3, 1e-4), "estimate", "frequency"),
]


@pytest.mark.parametrize(("make", "question", "truth"), HISTORY)
@pytest.mark.parametrize("epsilon", [0.05, None])
@settings(max_examples=15)
@given(stream=events)
def test_answers_hold_for_all_events(
    make: Callable[[], Any], question: str, truth: str, epsilon: float | None, stream: list[Any]
) -> None:
    sketch, record = parted(stream, make, epsilon=epsilon)
    whole = exact(stream)
    if truth == "frequency":
        answer = record.ask(sketch, question, np.arange(KEYS + 1))
        assert np.all(answer.holds([whole.frequency(key) for key in range(KEYS + 1)]))
        assert record.ask(sketch, question, 3) == answer[3]
    else:
        answer = record.ask(sketch, question)
        assert answer.holds(getattr(whole, truth)())
    assert np.all(np.asarray(answer.low) <= answer.value)
    assert np.all(answer.value <= np.asarray(answer.high))
    if all(e[3] for e in stream):
        plain = getattr(sketch, question)(*([np.arange(KEYS + 1)] if truth == "frequency" else []))
        assert answer == plain


@pytest.mark.parametrize(
    "make", [lambda: UltraLogLog(0.05, 1e-6), lambda: BottomK(0.1, 1e-6), lambda: BloomFilter(capacity=100, delta=1e-6)]
)
@settings(max_examples=40)
@given(stream=events)
def test_distinct_counts_hold_for_all_events(make: Callable[[], Any], stream: list[Any]) -> None:
    sketch, record = make(), ShedRecord()
    sketch.update(np.array([e[0] for e in stream if e[3]], dtype=np.int64))
    record.add(np.array([e[0] for e in stream if not e[3]], dtype=np.int64))
    assert record.ask(sketch, "estimate").holds(exact(stream).distinct())


@settings(max_examples=30)
@given(stream=events)
def test_distinct_self_joins_hold_for_all_events(stream: list[Any]) -> None:
    sketch = TugOfWar.sized(dimensions=64, counter="bottom_k", counter_size=80, delta=1e-6)
    record, truth = ShedRecord(), Exact()
    keys, attributes, kept = (np.array([e[place] for e in stream]) for place in (0, 1, 3))
    sketch.update(keys[kept], attributes=attributes[kept])
    record.add(keys[~kept])
    truth.update(keys.tolist(), attributes=attributes.tolist())
    assert record.ask(sketch, "self_join").holds(truth.distinct_self_join())
    assert record.ask(sketch, "distinct").holds(truth.distinct())


WINDOWS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: ECMSketch(0.05, 1e-5, window=200), "estimate", "frequency"),
    (lambda: ECMSketch(0.05, 1e-5, window=200), "total", "total"),
    (lambda: ECMSketch(0.05, 1e-5, window=200), "self_join", "self_join"),
    (lambda: Panes(CountMin(0.05, 1e-6), window=200, panes=20), "estimate", "frequency"),
    (lambda: Panes(UltraLogLog(0.05, 1e-6), window=200, panes=20), "estimate", "distinct"),
    (lambda: Wave(0.1, window=200), "estimate", "total"),
]


@pytest.mark.parametrize(("make", "question", "truth"), WINDOWS)
@pytest.mark.parametrize("shape", [(1, 4096), (7, 3)])
@settings(max_examples=12)
@given(stream=events, last=st.integers(1, 100), back=st.integers(0, 50))
def test_answers_about_a_window_hold_for_all_events_in_it(
    make: Callable[[], Any], question: str, truth: str, shape: tuple[int, int], stream: list[Any], last: int, back: int
) -> None:
    if truth == "distinct":
        stream = [(*e[:2], 1, *e[3:]) for e in stream]
    pane, panes = shape

    sketch, record = parted(stream, make, weightless=truth == "distinct", pane=pane, panes=panes)
    if sketch.newest is None:
        return
    now = max(sketch.newest - back, 1)
    truths = ExactWindow()
    truths.update([e[0] for e in stream], at=[e[1] for e in stream], weights=[e[2] for e in stream])
    whole = truths.over(now - last, now)
    if truth == "frequency":
        answer = record.ask(sketch, question, np.arange(KEYS + 1), last=last, now=now)
        assert np.all(answer.holds([whole.frequency(key) for key in range(KEYS + 1)]))
    else:
        assert record.ask(sketch, question, last=last, now=now).holds(getattr(whole, truth)())


@settings(max_examples=60)
@given(stream=events, other=events, recorded=st.booleans())
def test_inner_products_hold_for_all_events(stream: list[Any], other: list[Any], recorded: bool) -> None:
    mine, record = parted(stream, lambda: CountMin(0.01, 1e-6))
    kept = other if recorded else [(*e[:3], True, e[4]) for e in other]
    theirs, their_record = parted(kept, lambda: CountMin(0.01, 1e-6))
    answer = record.ask(mine, "inner_product", theirs, other=their_record if recorded else None)
    assert answer.holds(exact(stream).inner_product(exact(other)))
    assert answer.confidence >= 1 - 3e-6 - 1e-12


@settings(max_examples=60)
@given(stream=events)
def test_rankings_hold_for_all_events_and_say_what_may_be_missing(stream: list[Any]) -> None:
    sketch, record = parted(stream, lambda: SpaceSaving.sized(capacity=KEYS + 1))
    small, _ = parted(stream, lambda: SpaceSaving.sized(capacity=4))
    whole = exact(stream)
    shed = sum(e[2] for e in stream if not e[3])
    for ranking in (record.ask(small, "top", 3), record.ask(sketch, "heavy_hitters", count=4)):
        for key, answer in ranking:
            assert answer.holds(whole.frequency(key))
        assert ("were shed" in ranking.note) == any(not e[3] for e in stream)
    listed = record.ask(sketch, "heavy_hitters", count=4).keys
    everything = whole.keys()
    for key in everything:
        if key not in listed:
            assert whole.frequency(key) < 4 + shed


def test_negative_weights_are_allowed_for() -> None:
    sketch, record = FastAMS(0.05, 1e-6), ShedRecord()
    sketch.update(["a", "b"], weights=[-10, 3])
    record.add(["a"] * 10)
    assert 9 in record.ask(sketch, "self_join")
    assert record.ask(sketch, "self_join").low < 9
    assert 0 in record.ask(sketch, "estimate", "a")


def test_without_the_record_the_answers_are_wrong() -> None:
    sketch, record = CountMin(0.001, 0.001), ShedRecord()
    sketch.update(["a"] * 100)
    record.add(["a"] * 50 + ["b"] * 3)
    assert not sketch.estimate("a").holds(150)
    assert record.ask(sketch, "estimate", "a").holds(150)
    assert record.ask(sketch, "estimate", "a").high == 150
    assert record.ask(sketch, "estimate", "c").high == 0
    assert ShedRecord(epsilon=None).ask(sketch, "total") == sketch.total()


def test_a_crowded_record_tells_too_much_of_a_key_and_never_too_little() -> None:
    record, counts = ShedRecord(epsilon=0.9, delta=0.5), np.arange(1, 201)
    record.add(np.repeat(np.arange(200), counts))
    answer = record.ask(CountMin(), "estimate", np.arange(200))
    assert np.all(answer.holds(counts))
    assert np.all(np.asarray(answer.high) > 10 * np.asarray(answer.low))


def test_what_nobody_can_know_is_refused() -> None:
    record, values = ShedRecord(), ValueEstimator()
    values.update(["a"], values=[3])
    record.add(["a"])
    with pytest.raises(QueryError, match="side output"):
        record.ask(values, "estimate", "a")
    with pytest.raises(QueryError, match="contains"):
        record.ask(BloomFilter(capacity=10), "contains", "a")
    with pytest.raises(QueryError, match="window of arrivals"):
        record.ask(ECMSketch(0.1, 0.1, arrivals=100), "total")
    with pytest.raises(QueryError):
        record.widen(Answer(1, 1, 1, 1.0, 0.0), "mean_value")


@settings(max_examples=60)
@given(stream=events, cut=st.integers(1, 7), shape=st.tuples(st.integers(1, 9), st.integers(1, 12)))
def test_the_same_dropped_events_are_the_same_bytes(stream: list[Any], cut: int, shape: tuple[int, int]) -> None:
    def built(parts: list[list[Any]]) -> ShedRecord:
        record = ShedRecord(pane=shape[0], panes=shape[1])
        for part in parts:
            record.add([e[0] for e in part], at=[e[1] for e in part], weights=[e[2] for e in part])
        return record

    parts = [stream[start : start + cut] for start in range(0, len(stream), cut)]
    whole = built([stream])
    assert built(parts) == whole == ShedRecord.merge([built([part]) for part in parts])
    assert ShedRecord.from_bytes(whole.to_bytes()) == whole
    assert (whole.events, whole.weight) == (len(stream), sum(e[2] for e in stream))


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_range_has_the_panes_that_it_cuts_at_most_and_those_inside_it_at_least(parts: int) -> None:
    """By hand: panes of ten ticks, of which two are kept one by one; what has no time may have been in any range."""
    dropped: list[tuple[int | None, int]] = [(5, 1), (15, 2), (25, 4), (35, 8), (20, 32), (None, 16)]
    records = [ShedRecord(pane=10, panes=2) for _ in range(parts)]
    for place, (at, weight) in enumerate(dropped):
        records[place % parts].add(["a"], at=None if at is None else [at], weights=[weight])
    record = ShedRecord.merge(records)
    assert (record.events, record.weight) == (6, 63)
    for window, least, most in (
        (None, (6, 63), (6, 63)),
        ((20, 40), (2, 12), (3, 28)),
        ((19, 40), (2, 12), (6, 63)),
        ((11, 40), (2, 12), (6, 63)),
        ((21, 40), (1, 8), (3, 28)),
        ((20, 39), (1, 4), (3, 28)),
        ((30, 40), (1, 8), (2, 24)),
        ((40, 50), (0, 0), (1, 16)),
    ):
        found = record.between(window)
        assert ((found.events_low, found.weight_low), (found.events, found.weight)) == (least, most), window


def test_bad_input_is_refused_and_changes_nothing() -> None:
    record = ShedRecord()
    record.add(["a"], at=[5])
    before = record.to_bytes()
    bad: list[tuple[type[CatchmentError], dict[str, Any]]] = [
        (WeightError, {"keys": ["a"], "weights": [-1]}),
        (InputError, {"keys": ["a"], "at": [2**61]}),
        (InputError, {"keys": ["a", None], "at": [1, 2]}),
        (InputError, {"keys": ["a"], "at": [1, 2]}),
        (WeightError, {"keys": ["a"], "weights": [2**62]}),
    ]
    for error, arguments in bad:
        with pytest.raises(error):
            record.add(**arguments)
    assert record.to_bytes() == before
    with pytest.raises(MergeError):
        ShedRecord.merge([])
    with pytest.raises(MergeError):
        ShedRecord.merge([record, ShedRecord(pane=2)])


def test_damage_is_named() -> None:
    record = ShedRecord(pane=3, panes=20, epsilon=0.3)
    rng = np.random.default_rng(1)
    record.add(rng.integers(0, 99, 300), at=rng.integers(0, 90, 300), weights=rng.integers(0, 9, 300))
    blob = record.to_bytes()
    family, parameters, payload = open_envelope(blob)
    head, body = bytes(parameters.raw(parameters.left)), bytes(payload.raw(payload.left))
    draw, survivors = random.Random(3), 0
    for _ in range(400):
        hurt_head, hurt = bytearray(head), bytearray(body)
        target = hurt_head if draw.random() < 0.2 else hurt
        target[draw.randrange(len(target))] = draw.randrange(256)
        if draw.random() < 0.2:
            hurt = hurt[: draw.randrange(len(hurt))]
        try:
            read = ShedRecord.from_bytes(seal_envelope(family, bytes(hurt_head), bytes(hurt)))
        except BytesError:
            continue
        survivors += 1
        assert read.between((0, 50)).events <= read.events
    assert survivors < 400
    with pytest.raises(BytesError):
        ShedRecord.from_bytes(CountMin().to_bytes())
    with pytest.raises(BytesError):
        Sketch.from_bytes(blob)
