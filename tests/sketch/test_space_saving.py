from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import KeyTypeError, ParameterError, QueryError, SpaceSaving
from catchment.testing import STREAMS, Exact
from tests import naive

weighted_events = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=80)


def slots_of(sketch: SpaceSaving) -> list[tuple[int, int, int]]:
    used = np.arange(sketch._used)
    counts, errors = sketch._counts[: sketch._used].tolist(), sketch._errors[: sketch._used].tolist()
    return list(zip(map(int, sketch._items.get(used)), counts, errors, strict=True))


@given(weighted_events, st.integers(1, 6))
def test_the_kernel_does_what_the_list_does(events: list[tuple[int, int]], capacity: int) -> None:
    sketch = SpaceSaving.sized(capacity=capacity)
    sketch.update([key for key, _ in events], weights=[weight for _, weight in events])
    slots, floor = naive.space_saving(events, capacity)
    assert slots_of(sketch) == slots
    assert sketch._floor == floor


@pytest.mark.parametrize("weighted", [False, True])
def test_sweep_and_heap_agree_with_the_list_on_long_streams(weighted: bool) -> None:
    """Weights that differ bring the heap in after a few poor sweeps; a gap below the kept keys does too."""
    rng = np.random.default_rng(5)
    gap = np.where(rng.random(3000) < 0.8, rng.integers(0, 39, 3000), rng.integers(100, 10_000, 3000))
    for keys in (STREAMS["zipf-1.1"](3000, seed=1).keys, rng.integers(0, 500, 3000), gap):
        weights = rng.integers(1, 1000, 3000) if weighted else np.ones(3000, dtype=np.int64)
        sketch = SpaceSaving.sized(capacity=40)
        sketch.update(keys, weights=weights if weighted else 1)
        slots, floor = naive.space_saving(list(zip(keys.tolist(), weights.tolist(), strict=True)), 40)
        assert slots_of(sketch) == slots
        assert sketch._floor == floor


@given(st.lists(weighted_events, min_size=1, max_size=5), st.integers(1, 6))
def test_merged_bounds_always_hold(parts: list[list[tuple[int, int]]], capacity: int) -> None:
    truth, sketches = Exact(), []
    for events in parts:
        keys, weights = [key for key, _ in events], [weight for _, weight in events]
        truth.update(keys, weights=weights)
        sketches.append(SpaceSaving.sized(capacity=capacity))
        sketches[-1].update(keys, weights=weights)
    merged = SpaceSaving.merge(sketches)
    for key in range(13):
        assert truth.frequency(key) in merged.estimate(key)
    assert merged._floor <= truth.total() / (capacity + 1)
    more = SpaceSaving.merge([merged, sketches[0]])
    more.update(list(range(13)))
    assert all(truth.frequency(key) + sketches[0].estimate(key).low + 1 <= more.estimate(key).high for key in range(13))


def test_items_come_back_as_they_were() -> None:
    sketch = SpaceSaving(epsilon=0.05)
    sketch.update(["naïve", "", "日本"] * 3)
    sketch.update([-5, 2**62] * 2)
    sketch.update([b"\xff\x00"])
    back = SpaceSaving.from_bytes(sketch.to_bytes())
    expected = {"naïve": 3, "": 3, "日本": 3, -5: 2, 2**62: 2, b"\xff\x00": 1}
    assert {key: answer.value for key, answer in back.top(10)} == expected


def test_one_key_under_two_names_merges_in_any_order() -> None:
    text, raw, number = SpaceSaving(), SpaceSaving(), SpaceSaving()
    text.update(["username", "b"])
    raw.update([b"username", b"c"])
    number.update([int.from_bytes(b"username", "little")])
    orders = [[text, raw, number], [number, raw, text], [raw, text, number]]
    assert len({SpaceSaving.merge(order).to_bytes() for order in orders}) == 1
    assert SpaceSaving.merge([raw, text]).estimate("username").value == 2


def test_a_string_that_is_no_utf8_is_kept_as_its_bytes() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 2, 4], dtype=np.int32)), pa.py_buffer(b"\xff\xfeok")]
    sketch = SpaceSaving()
    sketch.update(pa.Array.from_buffers(pa.string(), 2, buffers))
    assert set(SpaceSaving.from_bytes(sketch.to_bytes()).top(2).keys) == {b"\xff\xfe", "ok"}


def test_items_survive_many_evictions_and_merges() -> None:
    sketch = SpaceSaving.sized(capacity=5)
    for start in range(0, 3000, 7):
        sketch.update([f"key {n % 1000} of many" for n in range(start, start + 7)])
    sketch.update(["heavy"] * 5000)
    merged = SpaceSaving.merge([sketch, sketch])
    assert merged.top(1).keys == ("heavy",)
    assert merged.top(1).answers.low[0] == 10_000  # type: ignore[index]
    assert all(key.startswith("key ") or key == "heavy" for key in merged.top(5).keys)


def test_fewer_than_k_says_why() -> None:
    sketch = SpaceSaving.sized(capacity=3)
    sketch.update(["a", "b"])
    assert sketch.top(5).note == "only 2 keys were seen"
    sketch.update(list("cdefgh"))
    assert "only 3 keys were kept, being the capacity" in sketch.top(5).note
    assert sketch.top(2).note == ""


def test_heavy_hitters_in_both_modes_by_share_and_by_count() -> None:
    sketch, truth = SpaceSaving.sized(capacity=60), Exact()
    events = STREAMS["zipf-1.1"](4000, seed=2)
    sketch.update(events.keys)
    truth.update(events.keys.tolist())
    heavy = truth.heavy_hitters(0.03 * 4000)
    sure = sketch.heavy_hitters(0.03, mode="no_false_positives").keys
    maybe = sketch.heavy_hitters(0.03, mode="no_false_negatives").keys
    assert set(sure) <= heavy <= set(maybe)
    assert sketch.heavy_hitters(count=120).keys == maybe
    values = np.asarray(sketch.heavy_hitters(0.03).answers.value)
    assert np.all(values[:-1] >= values[1:])


def test_a_threshold_below_the_floor_is_refused_where_it_could_miss() -> None:
    sketch = SpaceSaving.sized(capacity=3)
    sketch.update(np.arange(1000))
    with pytest.raises(QueryError, match="may be missing"):
        sketch.heavy_hitters(0.1)
    assert len(sketch.heavy_hitters(0.1, mode="no_false_positives")) == 0


@pytest.mark.parametrize("arguments", [{}, {"phi": 0.1, "count": 3}, {"phi": 0.0}, {"phi": 2.0}, {"count": 0}])
def test_a_threshold_must_be_one_and_sensible(arguments: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        SpaceSaving().heavy_hitters(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no_false_negatives"):
        SpaceSaving().heavy_hitters(0.1, mode="all")


def test_nothing_is_heavy_in_an_empty_sketch() -> None:
    assert len(SpaceSaving().heavy_hitters(0.1)) == 0
    assert SpaceSaving().top(3).note == "only 0 keys were seen"


def test_a_refused_batch_changes_nothing() -> None:
    sketch = SpaceSaving()
    sketch.update(["a"])
    before = sketch.to_bytes()
    with pytest.raises(KeyTypeError):
        sketch.update(["b", 3])
    assert sketch.to_bytes() == before


def test_memory_grows_on_need_up_to_the_capacity() -> None:
    sketch = SpaceSaving(epsilon=1e-6)
    assert sketch.nbytes < 10_000
    sketch.update(np.arange(1000))
    assert sketch.nbytes < 200_000
    assert sketch.top(1000).answers.low.tolist() == [1] * 1000  # type: ignore[union-attr]
