"""A stream's state depends on its events, not on how they were cut into batches or in which order they came."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import (
    BottomK,
    CountMin,
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    FastAMS,
    Panes,
    PerfectCountMin,
    ProportionalCountMin,
    SimpleCountMin,
    SpaceSaving,
    SplitterCountMin,
    UltraLogLog,
    Wave,
)
from catchment.errors import BytesError, InputError, ParameterError, TimeError, UnknownFormatError, WeightError
from catchment.sketch.base import Sketch
from catchment.testing.exact import ExactWindow
from catchment.window import counted_events, listed_events, part_events
from catchment.window.events import Arrivals, Events
from catchment.window.gather import build, gathered, kind_of
from catchment.window.stream_state import StreamState

SKETCHES: dict[str, Callable[[], Sketch]] = {
    "ecm": lambda: ECMSketch(0.2, 0.2, window=40),
    "ecm-eh": lambda: ECMSketch(0.2, 0.2, window=40, counter="eh"),
    "ecm-randomized": lambda: ECMSketch(0.4, 0.4, window=40, counter="randomized"),
    "ecm-panes": lambda: ECMSketch(0.2, 0.2, window=40, counter="panes"),
    "dyadic": lambda: DyadicECM(0.3, 0.3, window=40, bits=4, step=2),
    "wave": lambda: Wave(0.2, window=40),
    "histogram": lambda: ExponentialHistogram(0.2, window=40),
    "top": lambda: Panes(SpaceSaving(0.3), window=40, panes=8),
    "distinct": lambda: Panes(UltraLogLog(0.2), window=40, panes=8),
    "bottom-k": lambda: BottomK(0.3),
    "count-min": lambda: CountMin(0.2, 0.2),
    "conservative": lambda: CountMin(0.2, 0.2, conservative=True),
    "fast-ams": lambda: FastAMS(0.3, 0.3),
    "space-saving": lambda: SpaceSaving(0.3),
    "perfect": lambda: PerfectCountMin(0.3, 0.3, window=40),
    "simple": lambda: SimpleCountMin(0.3, 0.3, window=40),
    "proportional": lambda: ProportionalCountMin(0.3, 0.3, window=40),
    "splitter": lambda: SplitterCountMin(0.3, 0.3, window=40),
}
WEIGHTED = {"ecm", "ecm-eh", "ecm-randomized", "ecm-panes", "dyadic", "wave", "top", "count-min", "space-saving"}
ORDERED = {"top", "space-saving", "splitter", "ecm-randomized", "conservative"}
"""The order of the events of one tick matters to these; `build` has one of its own."""
LATENESS = 5


def columns(using: Sketch, keys: Any, times: Any, weights: Any = None) -> dict[str, Any]:
    """The arrays that this sketch takes."""
    given: dict[str, Any] = {"at": times}
    if "keys" in using.inputs:
        given["keys"] = keys
    return given if weights is None else {**given, "weights": weights}


def fed(using: Sketch, batches: list[tuple[Any, ...]], every: int) -> tuple[StreamState, list[tuple[int, bytes]]]:
    """A state after the batches, written and read between any two of them, and its snapshots."""
    state, snapshots = StreamState(using, lateness=LATENESS, every=every), []
    for batch in batches:
        half = len(batch[0]) // 2  # two tasks each
        parts = [
            gathered(using, **columns(using, *(column[side] for column in batch)), every=every)
            for side in (slice(None, half), slice(half, None))
        ]
        parts = [type(part).from_bytes(using, part.to_bytes()) for part in parts]
        snapshots += [(at, sketch.to_bytes()) for at, sketch in state.take(parts)]
        state = StreamState.from_bytes(state.to_bytes())
    return state, snapshots


@st.composite
def streams(draw: st.DrawFn) -> tuple[Any, Any, Any, list[int], int]:
    """Keys, times with delays of at most LATENESS in the order of arrival, weights, where to cut, and a seed."""
    count = draw(st.integers(1, 60))
    # Now and then nothing for longer than a stretch and the lateness together.
    steps = draw(st.lists(st.integers(0, 6) | st.sampled_from([8, 13, 30]), min_size=count, max_size=count))
    delays = draw(st.lists(st.integers(0, LATENESS), min_size=count, max_size=count))
    keys = draw(st.lists(st.integers(0, 15), min_size=count, max_size=count))
    weights = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    cuts = draw(st.lists(st.integers(0, count), max_size=4))
    newest = np.maximum.accumulate(np.cumsum(steps))
    return np.array(keys), newest - np.array(delays), np.array(weights), sorted(cuts), draw(st.integers(0, 2**16))


@pytest.mark.parametrize("name", SKETCHES)
@pytest.mark.parametrize("every", [0, 7])
@settings(max_examples=12)
@given(stream=streams())
def test_any_cut_gives_the_same_bytes_and_snapshots(name: str, every: int, stream: Any) -> None:
    keys, times, weights, cuts, seed = stream
    using = SKETCHES[name]()
    arrays = (keys, times, weights) if name in WEIGHTED else (keys, times)
    whole, of_whole = fed(using, [arrays], every)
    borders = [0, *cuts, len(keys)]
    batches = [tuple(column[start:stop] for column in arrays) for start, stop in pairwise(borders)]
    rng = np.random.default_rng(seed)
    shuffled = [
        tuple(column[order] for column in batch)
        for batch in batches
        if (order := rng.permutation(len(batch[0]))) is not None
    ]
    for pieces in (batches, shuffled):
        state, of_pieces = fed(using, pieces, every)
        assert state.late == 0
        assert state.to_bytes() == whole.to_bytes()
        assert of_pieces == of_whole
        assert state.current() == build(using, **columns(using, *arrays))
    for at, blob in of_whole:
        before = times <= at
        expected = build(using, **columns(using, *(column[before] for column in arrays)))
        assert blob == expected.to_bytes(), f"the snapshot at {at}"


@pytest.mark.parametrize("name", [name for name in SKETCHES if name not in ORDERED])
def test_one_go_is_the_sketch_updated_in_order(name: str) -> None:
    rng = np.random.default_rng(5)
    keys, times = rng.integers(0, 16, 3000), np.sort(rng.integers(0, 150, 3000))
    using, order = SKETCHES[name](), rng.permutation(3000)
    sketch = using.copy()
    given = columns(using, keys, times)
    if not hasattr(using, "window"):
        del given["at"]
    sketch.update(**given)
    assert build(using, **columns(using, keys[order], times[order])) == sketch


def test_what_does_not_fit_a_table_is_sorted_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    keys, times, groups = rng.integers(0, 50, 4000), rng.integers(0, 90, 4000), rng.integers(0, 9, 4000)
    for name in ("ecm", "wave", "distinct", "top"):
        using = SKETCHES[name]()
        results = []
        for room in (1 << 23, 300, 30_000):
            monkeypatch.setattr(counted_events, "TABLE_CELLS", room)
            monkeypatch.setattr(listed_events, "HELD_EVENTS", room)
            monkeypatch.setattr(part_events, "HELD_BYTES", room)
            results.append(_gather_in_batches(using, keys, times, groups))
        assert results[0] == results[1] == results[2]
        for group in range(9):
            chosen = groups == group
            assert results[0][group] == build(using, **columns(using, keys[chosen], times[chosen])).to_bytes()


@pytest.mark.parametrize("name", sorted(SKETCHES.keys() - ORDERED))
def test_a_task_that_meets_older_events_later_gives_the_same(name: str) -> None:
    rng = np.random.default_rng(7)
    keys, times, groups = rng.integers(0, 15, 3000), rng.integers(0, 30, 3000), rng.integers(0, 3, 3000)
    order = np.argsort(-(times // 5), kind="stable")  # batches go back in time, and so does each of them
    using = SKETCHES[name]()
    found = _gather_in_batches(using, keys[order], times[order], groups[order])
    for group in range(3):
        chosen = groups == group
        assert found[group] == build(using, **columns(using, keys[chosen], times[chosen])).to_bytes()


def _gather_in_batches(using: Sketch, keys: Any, times: Any, groups: Any) -> dict[int, bytes]:
    kind = kind_of(using)
    gatherer, found = kind.gatherer(using), dict[int, list[Events]]()
    for start in range(0, len(keys), 700):
        part = slice(start, start + 700)
        given = {"keys": using.read_keys(keys[part])} if "keys" in using.inputs else {}
        for group, events in gatherer.add(Arrivals(groups[part].astype(np.int32), times[part], given)):
            found.setdefault(group, []).append(events)
    for group, events in gatherer.flush():
        found.setdefault(group, []).append(events)
    sketches = {}
    for group, parts in found.items():
        whole, sketch = kind.events(using), using.copy()
        whole.add(parts)
        whole.replay(sketch)
        sketches[group] = sketch.to_bytes()
    return sketches


@pytest.mark.parametrize("name", ["ecm", "ecm-eh", "top", "distinct"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), late=st.integers(6, 80))
def test_later_events_than_allowed_are_in_the_answer_and_its_bounds_hold(name: str, seed: int, late: int) -> None:
    rng = np.random.default_rng(seed)
    keys, times = rng.integers(0, 12, 400), np.sort(rng.integers(0, 120, 400))
    times = np.where(rng.random(400) < 0.2, np.maximum(times - rng.integers(0, late, 400), 0), times)
    using = SKETCHES[name]()
    state = StreamState(using, lateness=LATENESS)
    for start in range(0, 400, 50):
        part = slice(start, start + 50)
        state.take([gathered(using, keys[part], at=times[part])])
        state = StreamState.from_bytes(state.to_bytes())
    assert state.events == 400
    sketch: Any = state.current()
    exact = ExactWindow()
    exact.update(keys.tolist(), at=times.tolist())
    truth = exact.over(sketch.newest - 30, sketch.newest)
    if name == "distinct":
        assert sketch.too_late == 0
        assert sketch.estimate(last=30).holds(truth.distinct())
        return
    for key in range(12):
        # What was too late for the sketch itself is told, and may be missing from the count.
        answer = sketch.estimate(key, last=30)
        assert answer.low <= truth.frequency(key) <= answer.high + sketch.too_late


@pytest.mark.parametrize("name", ["ecm", "ecm-eh", "top", "space-saving", "dyadic"])
def test_an_event_as_late_as_is_allowed_is_in_order_and_the_next_is_late(name: str) -> None:
    using = SKETCHES[name]()
    state = StreamState(using, lateness=LATENESS)
    for tick, late in ((20, 0), (20 - LATENESS, 0), (20 - LATENESS - 1, 1)):
        state.take([gathered(using, [1], at=[tick])])
        assert state.late == late, f"tick {tick}"
    assert state.events == 3


@pytest.mark.parametrize("name", ["ecm", "ecm-eh", "wave", "dyadic", "top", "space-saving"])
def test_an_event_of_weight_0_is_none(name: str) -> None:
    using = SKETCHES[name]()
    keys, times, weights = np.array([1, 2, 3, 2]), np.array([3, 1, 2, 9]), np.array([4, 0, 2, 0])
    some = weights > 0
    expected = build(using, **columns(using, keys[some], times[some], weights[some]))
    assert build(using, **columns(using, keys, times, weights)) == expected


def test_late_events_are_counted_and_move_no_snapshot() -> None:
    using = ECMSketch(0.1, 0.1, window=100)
    state = StreamState(using, lateness=2, every=10)
    assert [snapshot.at for snapshot in state.take([gathered(using, [1, 2], at=[5, 20])])] == [10]
    assert state.take([gathered(using, [3, 4], at=[5, 6])]) == []
    assert state.current().total().high == 4  # type: ignore[attr-defined]
    for known in (state, StreamState.from_bytes(state.to_bytes())):
        assert (known.late, known.events, known.newest) == (2, 4, 20)


@pytest.mark.parametrize("name", ["ecm", "top", "space-saving", "distinct"])
def test_a_stretch_whose_events_are_over_before_it_is_has_its_snapshot_too(name: str) -> None:
    using = SKETCHES[name]()
    state, snapshots = StreamState(using, lateness=10, every=60), list[tuple[int, Sketch]]()
    for tick in (5, 7, 70, 300, 400):
        snapshots += state.take([gathered(using, [tick], at=[tick], every=60)])
        state = StreamState.from_bytes(state.to_bytes())
    assert [at for at, _ in snapshots] == [60, 120, 300]
    assert snapshots[0][1] == build(using, [5, 7], at=[5, 7])


def test_the_last_snapshot_of_a_silent_stream_is_not_lost_when_its_events_are_over() -> None:
    using = ECMSketch(0.1, 0.1, window=100)
    state = StreamState(using, lateness=2, every=10)
    for tick in (1, 2, 8):
        state.take([gathered(using, [tick], at=[tick])])
    snapshot = state.unfinished(10)
    assert snapshot is not None
    assert (snapshot.at, snapshot.sketch) == (10, build(using, [1, 2, 8], at=[1, 2, 8]))


@pytest.mark.parametrize("name", ["ecm", "wave", "top"])
def test_weights_above_what_a_float_can_tell_apart_are_read_again(name: str) -> None:
    using = SKETCHES[name]()
    weights = np.random.default_rng(1).integers(2**52, 2**55, 40)
    events = gathered(using, **columns(using, np.arange(40), np.arange(40), weights))
    assert events.weight == int(weights.sum())
    assert type(events).from_bytes(using, events.to_bytes()).to_bytes() == events.to_bytes()


@pytest.mark.parametrize("name", ["ecm", "wave", "top"])
def test_weights_that_would_wrap_around_are_refused(name: str) -> None:
    using = SKETCHES[name]()
    with pytest.raises(WeightError, match=r"2\^62"):
        gathered(using, **columns(using, np.zeros(4, int), np.zeros(4, int), np.full(4, 2**62)))
    most = gathered(using, **columns(using, [1], [1], np.array([2**62 - 1])))
    with pytest.raises(WeightError, match=r"2\^62"):
        StreamState(using).take([most] * 5)


@pytest.mark.parametrize("name", ["ecm", "wave", "top", "distinct", "count-min"])
def test_times_out_of_range_are_refused_before_they_are_sent(name: str) -> None:
    using = SKETCHES[name]()
    with pytest.raises(TimeError, match="2\\^60"):
        gathered(using, **columns(using, [1, 2], [1, 2**61]))


def test_ticks_that_wrap_around_are_damaged_bytes() -> None:
    using = Wave(0.2, window=40)
    events: Any = gathered(using, at=np.arange(9))
    events.ticks = np.cumsum(np.r_[0, np.full(8, 2**61)])  # back at the first: 2^64 in all
    events.newest = int(events.ticks[-1])
    with pytest.raises(BytesError, match="out of order"):
        type(events).from_bytes(using, events.to_bytes())


def test_a_task_with_many_groups_holds_few_sketches_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    using = CountMin(0.1, 0.1)
    monkeypatch.setattr(part_events, "HELD_BYTES", 10 * using.nbytes)
    gatherer = part_events.PartGatherer(using)
    groups = np.arange(500, dtype=np.int32)
    arrivals = Arrivals(groups, np.zeros(500, dtype=np.int64), {"keys": using.read_keys(groups)})
    most, found = 0, set()
    for group, _ in gatherer.add(arrivals):
        found.add(group)
        most = max(most, len(gatherer._parts))
    assert most <= 11
    assert found | {group for group, _ in gatherer.flush()} == set(range(500))


def test_a_silent_stream_can_be_asked_for_its_last_snapshot_without_being_changed() -> None:
    using = ECMSketch(0.1, 0.1, window=100)
    state = StreamState(using, lateness=2, every=10)
    state.take([gathered(using, [1, 2], at=[5, 9])])
    before = state.to_bytes()
    assert state.ends == [10]
    assert state.unfinished(9) is None
    snapshot = state.unfinished(10)
    assert snapshot is not None
    assert (snapshot.at, snapshot.sketch) == (10, build(using, [1, 2], at=[5, 9]))
    assert state.to_bytes() == before
    assert state.take([gathered(using, [1], at=[40])])[0].sketch == snapshot.sketch


def test_waiting_events_take_room_by_ticks_not_by_events() -> None:
    using = ECMSketch(0.05, 0.05, window=3600)
    rng = np.random.default_rng(3)

    def size(events: int) -> int:
        state = StreamState(using, lateness=10)
        state.take([gathered(using, rng.integers(0, 10_000, events), at=rng.integers(0, 3000, events))])
        return len(state.to_bytes())

    assert size(2_000_000) < 1.6 * size(200_000)


def test_windows_of_arrivals_and_negative_weights_are_refused() -> None:
    with pytest.raises(ParameterError, match="arrivals"):
        gathered(ECMSketch(0.1, 0.1, arrivals=100), [1], at=[1])
    for name in ("ecm", "top"):
        with pytest.raises(InputError, match="-1"):
            gathered(SKETCHES[name](), [1], at=[1], weights=np.array([-1]))


@pytest.mark.parametrize("name", ["ecm", "wave", "top", "distinct", "space-saving", "dyadic"])
def test_damaged_states_and_events_are_refused_by_name(name: str) -> None:
    using = SKETCHES[name]()
    state = StreamState(using, lateness=LATENESS, every=7)
    state.take([gathered(using, **columns(using, [3, 4, 5, 3], [1, 2, 9, 9]), every=7)])
    blob, rng = state.to_bytes(), np.random.default_rng(9)
    events = gathered(using, **columns(using, [3, 4, 5, 3], [1, 2, 9, 9]), every=7)
    with pytest.raises(UnknownFormatError, match="unknown family 25"):
        Sketch.from_bytes(blob)
    with pytest.raises(UnknownFormatError, match="not a state"):
        StreamState.from_bytes(using.to_bytes())
    with pytest.raises(UnknownFormatError, match="not events"):
        type(events).from_bytes(using, blob)
    for original, read in (
        (blob, StreamState.from_bytes),
        (events.to_bytes(), lambda damaged: type(events).from_bytes(using, damaged)),
    ):
        for cut in range(len(original)):
            with pytest.raises(BytesError):
                read(original[:cut])
        for _ in range(400):
            _read_or_refuse(read, _resealed(original, rng))


def _resealed(blob: bytes, rng: np.random.Generator) -> bytes:
    """A byte or two of the payload altered, under a checksum that is right."""
    from catchment.sketch.codec import open_envelope, seal_envelope

    family, parameters, payload = open_envelope(blob)
    body = bytearray(payload.raw(payload.left))
    for _ in range(int(rng.integers(1, 3))):
        body[int(rng.integers(len(body)))] = int(rng.integers(256))
    return seal_envelope(family, bytes(parameters.raw(parameters.left)), bytes(body))


def _read_or_refuse(read: Callable[[bytes], Any], blob: bytes) -> None:
    try:
        found = read(blob)
    except BytesError:
        return
    assert found.to_bytes()
