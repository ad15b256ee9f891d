"""Panes of every kind of sketch: the contract, merging, what updates and questions take and refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from catchment import (
    BloomFilter,
    CountMin,
    FastAMS,
    InputError,
    MergeError,
    ParameterError,
    QueryError,
    Sketch,
    SpaceSaving,
    TimeError,
    UltraLogLog,
    WeightError,
)
from catchment.sketch.codec import Writer
from catchment.testing import STREAMS, Exact, contract
from catchment.window.panes import Panes
from tests.sketch.cases import name_of
from tests.window.pane_cases import PROTOTYPES, delayed, fed, random_tree, takes_weights


@pytest.mark.parametrize("prototype", PROTOTYPES.values(), ids=PROTOTYPES)
@pytest.mark.parametrize("check", contract.CHECKS, ids=name_of)
def test_contract(check: Callable[..., None], prototype: Sketch) -> None:
    check(Panes, prototype=prototype, window=300, panes=7)


def test_contract_with_the_example() -> None:
    contract.check_sketch(Panes)


# -- merging --------------------------------------------------------------------------------------------------


def state_of(panes: Panes) -> bytes:
    writer = Writer()
    panes._write_state(writer)
    return writer.getvalue()


@pytest.mark.parametrize("name", [name for name, kind in PROTOTYPES.items() if kind.linear])
def test_parts_merged_are_the_whole_also_when_events_are_late(name: str) -> None:
    prototype = PROTOTYPES[name]
    for trial in range(15):
        rng = np.random.default_rng(trial)
        events = delayed(STREAMS["zipf-1.1"](EVENTS, seed=trial), rng, most=40)
        weighted = takes_weights(prototype) and trial % 2 == 1
        window = int(rng.integers(100, 300))
        whole = fed(Panes(prototype, window, panes=5), events, weighted=weighted)
        parts = [fed(Panes(prototype, window, panes=5), p, weighted=weighted, rng=rng) for p in events.at_sites()]
        merged = random_tree(parts, rng)
        assert whole.late > 0
        assert whole.too_late == 0
        assert state_of(merged) == state_of(whole)
        assert merged.newest == whole.newest
        assert merged._kept[0].number >= (int(events.at.max()) - window) // whole.pane_length


def test_misfits_are_refused_by_name() -> None:
    panes = Panes(CountMin(seed=1), window=100)
    for other, named in (
        (Panes(CountMin(seed=2), window=100), "prototype differs.*seed=1.*seed=2"),
        (Panes(FastAMS(), window=100), "prototype differs: CountMin.*FastAMS"),
        (Panes(CountMin(seed=1), window=100, panes=61), "panes differs: 60 and 61"),
        (Panes(CountMin(seed=1), arrivals=100), "clock differs"),
    ):
        with pytest.raises(MergeError, match=named):
            Panes.merge([panes, other])
        with pytest.raises(MergeError, match=named):
            panes.inner_product(other)
    arrivals = Panes(CountMin(seed=1), arrivals=100)
    with pytest.raises(MergeError, match="arrivals"):
        Panes.merge([arrivals, arrivals])


EVENTS = 400

# -- arrivals, late events, all or nothing --------------------------------------------------------------------


def test_windows_of_arrivals() -> None:
    for trial in range(30):
        rng = np.random.default_rng(trial)
        events = STREAMS["bursts"](EVENTS, seed=trial, universe=40)
        panes = fed(Panes(SpaceSaving.sized(capacity=50), arrivals=150, panes=7), events, rng=rng)
        assert panes.newest == EVENTS
        last = int(rng.integers(1, 151))
        truth = Exact()
        truth.update(events.keys[-last:].tolist())
        keys = list(range(40))
        assert np.all(panes.estimate(keys, last=last).holds(np.array([truth.frequency(key) for key in keys])))
        assert panes.total(last=last).holds(last)
        assert panes.total(last=last).high < last + panes.pane_length
    with pytest.raises(TimeError, match="leave `at` out"):
        panes.update([1], at=[1])
    with pytest.raises(ParameterError, match="give one"):
        Panes(CountMin(), 100, arrivals=100)


def test_late_events_go_to_their_own_pane_and_too_late_ones_are_counted() -> None:
    panes = Panes(SpaceSaving.sized(capacity=10), window=100, panes=10, lateness=30)
    panes.update(["on time", "late", "too late"], at=[100, 75, 65], weights=[1, 5, 7])
    assert (panes.late, panes.too_late) == (1, 1)
    assert panes.estimate("late", last=10, now=80).value == 5
    assert panes.estimate("late", last=20).value == 0
    assert panes.estimate("too late").high == 0


@pytest.mark.parametrize("name", ["SpaceSaving", "CountMin, conservative", "UltraLogLog"])
def test_late_events_one_by_one_are_the_batch(name: str) -> None:
    """Where the order of events matters within a pane, sorting them by pane must not change it."""
    events = delayed(STREAMS["zipf-0.5"](EVENTS, seed=8), np.random.default_rng(8), 60)
    whole, singly = (Panes(PROTOTYPES[name], 200, panes=2, lateness=50) for _ in range(2))
    fed(whole, events)
    for place in range(len(events)):
        fed(singly, events.part(slice(place, place + 1)))
    assert min(whole.late, whole.too_late) > 0
    assert singly.to_bytes() == whole.to_bytes()


def test_only_panes_of_the_window_are_kept() -> None:
    panes = Panes(CountMin(epsilon=0.1), window=100, panes=10)
    panes.update(np.zeros(2000, dtype=np.int64), at=np.arange(2000))
    assert [pane.number for pane in panes._kept] == list(range(190 - 1, 200))
    panes.update([1], at=[10_000])
    assert len(panes._kept) == 1
    assert panes.nbytes == panes.prototype.nbytes


BAD: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("CountMin", {"weights": [1, 1, 1, -1]}, WeightError, "negative"),
    ("CountMin", {"weights": [-1, 1, 1, 1]}, WeightError, "negative"),
    ("CountMin", {"weights": [1, 1, 1, 1, 1, 1, 1, 1]}, WeightError, "shape"),
    ("CountMin", {"weights": np.ma.masked_equal([1, 2, 3, 4], 2)}, WeightError, "masked"),
    ("CountMin", {"weights": 0.5}, WeightError, "float"),
    ("CountMin", {"weights": -1}, WeightError, "negative"),
    ("CountMin", {"weights": [2**61, 2**61, 1, 2**61]}, WeightError, "2\\^62"),
    ("CountMin", {"values": [1, 2, 3, 4]}, InputError, "it takes keys, weights, at"),
    ("UltraLogLog", {"weights": 1}, InputError, "it takes keys, attributes, at"),
    ("UltraLogLog", {"attributes": [1, 2, 3, 4]}, InputError, "by="),
    ("ValueEstimator", {}, InputError, "no values"),
    ("ValueEstimator", {"values": [1, 2, 3]}, WeightError, "shape"),
    ("TugOfWar", {"attributes": ["a", "b"]}, InputError, "2 attributes for 4 keys"),
    ("CountMin", {"at": [1, 2, 3]}, TimeError, "shape"),
    ("CountMin", {"at": None}, TimeError, "no times"),
]


@pytest.mark.parametrize(("name", "arrays", "error", "named"), BAD)
def test_a_batch_is_taken_whole_or_not_at_all(
    name: str, arrays: dict[str, Any], error: type[Exception], named: str
) -> None:
    panes = fed(Panes(PROTOTYPES[name], 100, panes=5), STREAMS["uniform"](50, seed=1))
    assert panes.newest is not None
    before, now = panes.to_bytes(), panes.newest
    # One event goes to a pane that is there, one leaves the window within the batch, two open new panes.
    arrays = {"at": [now + 1, now - 5, now + 60, now + 120]} | arrays
    with pytest.raises(error, match=named):
        panes.update([1, 2, 3, 4], **arrays)
    assert panes.to_bytes() == before


def test_a_batch_with_one_bad_pane_among_many_changes_none() -> None:
    """Totals can only be checked pane by pane: the pane that overflows may come after others that do not."""
    for bad in range(3):
        panes = Panes(CountMin(epsilon=0.5), 100, panes=2)
        panes.update([1, 2], at=[10, 60], weights=2**61)
        before, weights = panes.to_bytes(), [1, 1, 1]
        weights[bad] = 2**61
        panes.update([1, 1], at=[20, 70])
        assert panes.to_bytes() != before
        before = panes.to_bytes()
        if bad == 2:  # a new pane has room for that much
            panes.update([3, 3, 3], at=[30, 80, 110], weights=weights)
            with pytest.raises(QueryError, match="cannot be merged"):
                panes.total()
            continue
        with pytest.raises(WeightError):
            panes.update([3, 3, 3], at=[30, 80, 110], weights=weights)
        assert panes.to_bytes() == before


def test_keys_of_every_type_are_split_alike() -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    texts = ["a", "éé", "", "long key of some bytes", "b\0c", "a"]
    at = [15, 3, 27, 14, 2, 29]
    for keys in (texts, np.array(texts, dtype=object), pa.array(texts), [text.encode() for text in texts]):
        panes = Panes(SpaceSaving.sized(capacity=10), window=100, panes=10)
        panes.update(keys, at=at, weights=[1, 2, 3, 4, 5, 6])
        for text, time, weight in zip(texts, at, [1, 2, 3, 4, 5, 6], strict=True):
            assert panes.estimate(text, last=10, now=-(-time // 10) * 10).value == weight
    pairs = Panes(UltraLogLog(by="pair"), window=100, panes=10)
    pairs.update(texts, attributes=[1, 2, 3, 4, 5, 1], at=at)
    assert pairs.estimate().value == pytest.approx(5, abs=0.1)
    single = Panes(SpaceSaving.sized(capacity=10), window=100)
    single.update("one", at=5)
    assert single.top(1).keys == ("one",)


# -- questions ------------------------------------------------------------------------------------------------


def test_ranges_outside_the_window_are_refused() -> None:
    panes = Panes(CountMin(), window=100, panes=10)
    panes.update([1, 2, 3], at=[10, 150, 200])
    assert panes.total(last=100).value == 2
    for last, now in ((101, None), (100, 150), (1, 100), (0, None), (2.5, None)):
        with pytest.raises(QueryError, match=r"left the window|ask for"):
            panes.total(last=last, now=now)  # type: ignore[arg-type]
    assert panes.total(last=50, now=150).value == 1
    assert panes.total(last=100, now=260).value == 1


def test_questions_that_the_prototype_lacks_are_refused_with_what_there_is() -> None:
    bloom = Panes(BloomFilter(), window=100)
    with pytest.raises(QueryError, match="panes of BloomFilter cannot be asked for self_join: ask for estimate, conta"):
        bloom.self_join()
    assert bloom.contains("a") is False
    assert bloom.ask("false_positive_rate", last=5).value == 0
    with pytest.raises(QueryError, match="ask for estimate"):
        Panes(UltraLogLog(), window=100).top(3)
    with pytest.raises(QueryError, match="give a key"):
        Panes(CountMin(), window=100).estimate()
    with pytest.raises(QueryError, match="leave them out"):
        Panes(UltraLogLog(), window=100).estimate("a")
    conservative = Panes(CountMin(conservative=True), window=100)
    with pytest.raises(QueryError, match="conservative"):
        conservative.inner_product(conservative)
    with pytest.raises(QueryError, match="same parameters"):
        Panes(FastAMS(), window=100).inner_product(FastAMS())  # type: ignore[arg-type]


def test_negative_weights_are_answered_for_whole_panes_only() -> None:
    panes = Panes(FastAMS.sized(width=100, depth=5), window=100, panes=5)
    panes.update([1, 2, 1, 1], weights=[5, 3, -4, 9], at=[10, 25, 38, 55])
    assert panes.self_join(last=40, now=40).value == 10
    assert panes.estimate(1, last=40).value == 5
    for question in ("self_join", "total"):
        with pytest.raises(QueryError, match="whole panes: a range whose ends are multiples of 20"):
            panes.ask(question, last=20, now=50)
    with pytest.raises(QueryError, match="whole panes"):
        panes.inner_product(panes, last=20, now=50)
    assert panes.self_join(last=10, now=60).value == 81, "the pane before has nothing to do with it"


def test_the_merge_is_kept_between_questions_and_forgotten_by_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    panes = Panes(CountMin(), window=100, panes=10)
    panes.update([1, 2], at=[5, 50])
    merges = 0
    plain = Panes._merged

    def counted(self: Panes, *args: Any) -> Sketch:
        nonlocal merges
        merges += 1
        return plain(self, *args)

    monkeypatch.setattr(Panes, "_merged", counted)
    assert [panes.estimate(1).value for _ in range(5)] == [1] * 5
    assert panes.total().value == 2
    assert merges == 1
    panes.update([1], at=[50])
    assert panes.estimate(1).value == 2
    assert merges == 2
    merged = Panes.merge([panes, panes])
    assert merged.estimate(1).value == 4
    size = panes.nbytes
    panes.estimate(1, last=10, now=40)
    assert panes.nbytes == size


def test_whole_panes_keep_their_delta_after_an_inner_product_with_cut_ones() -> None:
    here, there = (Panes(FastAMS.sized(width=30, depth=3, delta=0.1), window=100, panes=5) for _ in range(2))
    here.update(np.arange(50), at=100)
    there.update(np.arange(50), at=np.arange(51, 101))
    before = here.self_join(last=30)
    assert here.inner_product(there, last=30).confidence == pytest.approx(0.9)
    assert here.self_join(last=30) == before


# -- building -------------------------------------------------------------------------------------------------


def test_the_prototype_is_not_shared() -> None:
    prototype = CountMin(epsilon=0.1)
    panes = Panes(prototype, window=100)
    prototype.update([1, 2, 3])
    panes.prototype.update([1])
    assert panes.prototype == CountMin(epsilon=0.1)
    panes.update([9], at=1)
    assert panes.estimate(1).value == 0
    with pytest.raises(ParameterError, match="events in it"):
        Panes(prototype, window=100)
    with pytest.raises(ParameterError, match="whole histories"):
        Panes(panes, window=100)
    with pytest.raises(ParameterError, match="whole histories"):
        Panes(CountMin, window=100)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="panes=0"):
        Panes(CountMin(), window=100, panes=0)


def test_sizes_by_error() -> None:
    panes = Panes.sized(window=1000, **Panes.suggest(0.1, 0.05, kind=CountMin))
    assert panes.prototype == CountMin(epsilon=0.1, delta=0.05)
    assert (panes.panes, panes.pane_length, panes.lateness) == (10, 100, 1000)
    assert Panes(CountMin(), window=30).pane_length == 1


def test_an_array_of_keys_gives_arrays_also_where_a_pane_is_cut() -> None:
    panes = Panes(CountMin(), window=100, panes=2)
    panes.update(np.arange(100), at=np.arange(1, 101))
    answer = panes.estimate(np.array([1, 2, 70]), last=70)
    assert [np.asarray(part).tolist() for part in (answer.low, answer.high)] == [[0, 0, 1], [1, 1, 1]]
    assert answer[2] == panes.estimate(70, last=70)
    assert type(answer[2].low) is int
