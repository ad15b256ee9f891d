"""The four windowed Count-Min sketches against the truth, the thesis's listings, and bytes that lie."""

from __future__ import annotations

import contextlib
import random
import struct
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment import (
    BytesError,
    CountMin,
    DamagedBytesError,
    MergeError,
    ParameterError,
    QueryError,
    Sketch,
    WeightError,
)
from catchment.kernel.checksum import crc32c
from catchment.kernel.hashing import column_of
from catchment.sketch.keys import hash_keys
from catchment.testing import STREAMS, contract, failures_allowed
from catchment.window.perfect_count_min import PerfectCountMin
from catchment.window.proportional_count_min import ProportionalCountMin
from catchment.window.simple_count_min import SimpleCountMin
from catchment.window.splitter_count_min import SplitterCountMin
from catchment.window.windowed_count_min import WindowedCountMin
from tests.sketch.cases import name_of
from tests.sketch.test_damage import mutated
from tests.sketch.test_guarantees import random_tree
from tests.window.listings import ProportionalListing, SplitterListing

I64 = NDArray[np.int64]

KINDS: list[type[WindowedCountMin]] = [PerfectCountMin, SimpleCountMin, ProportionalCountMin, SplitterCountMin]
WHOLE_ONLY = KINDS[1:]
SMALL: list[dict[str, Any]] = [
    {"width": 20, "depth": 3, "window": 300, "lateness": 10},
    {"width": 1, "depth": 1, "window": 7, "lateness": 0},
    {"width": 15, "depth": 2, "window": 100_000, "lateness": 100},
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=name_of)
whole_only = pytest.mark.parametrize("kind", WHOLE_ONLY, ids=name_of)


@pytest.mark.parametrize("sizes", [{}, *SMALL], ids=name_of)
@kinds
@pytest.mark.parametrize("check", contract.CHECKS, ids=name_of)
def test_contract(check: Callable[..., None], kind: type[Sketch], sizes: dict[str, Any]) -> None:
    check(kind, **sizes)


# -- against the truth ----------------------------------------------------------------------------------------


DELTA = 0.02


class Case:
    """A stream with late events, fed to a sketch in batches of random size, and what is true of it."""

    def __init__(self, kind: type[WindowedCountMin], stream: str, trial: int, *, arrivals: bool = False) -> None:
        self.rng = np.random.default_rng([trial, sum(stream.encode())])
        events = STREAMS[stream](400, seed=int(self.rng.integers(1, 2**32)))
        # With few keys hardly any collide, so lower bounds are tight, and one that is too high shows.
        self.keys, self.at = events.keys % int(self.rng.choice([4, 150])), events.at
        self.weights = events.weights if trial % 2 else np.ones(400, dtype=np.int64)
        self.window = int(self.rng.choice([1, 3, 40, 150, 399, 2000]))
        self.lateness = 0 if arrivals or trial % 3 else int(self.rng.integers(0, self.window + 1))
        if self.lateness:
            self.at = self.at - (self.rng.random(400) < 0.2) * self.rng.integers(0, 2 * self.lateness, 400)
        self.arrivals = arrivals
        self.options = {
            "window": self.window, "clock": "arrivals" if arrivals else "time", "lateness": self.lateness,
            "width": 25, "depth": 3, "delta": DELTA, "seed": int(self.rng.integers(1, 2**32)),
        }  # fmt: skip
        if kind is SplitterCountMin and trial % 4 < 2:  # hardly a split, so that bounds and truth are far apart
            self.options |= {"gamma": 1.0, "beta": 100.0}
        self.kind = kind

    def built(self) -> WindowedCountMin:
        return self.kind.sized(**self.options)

    def feed(self, sketch: WindowedCountMin, chosen: NDArray[np.bool_]) -> WindowedCountMin:
        places = np.flatnonzero(chosen)
        cuts = np.sort(self.rng.integers(0, places.size + 1, int(self.rng.integers(0, 8))))
        for part in np.split(places, cuts):
            times = {} if self.arrivals else {"at": self.at[part]}
            sketch.update(self.keys[part], weights=self.weights[part], **times)
        return sketch

    def taken(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the chosen events were not too late, one by one."""
        taken, newest = np.zeros(400, dtype=np.bool_), -(10**9)
        for place in np.flatnonzero(chosen):
            taken[place] = self.arrivals or newest - self.at[place] <= self.lateness
            newest = max(newest, int(self.at[place]))
        return taken

    def truth(self, taken: NDArray[np.bool_], now: int) -> Counter[int]:
        at = np.arange(1, 401) if self.arrivals else self.at
        inside = taken & (at > now - self.window) & (at <= now)
        truth: Counter[int] = Counter()
        for key, weight in zip(self.keys[inside].tolist(), self.weights[inside].tolist(), strict=True):
            truth[key] += weight
        return truth


def check_case(case: Case, sketch: WindowedCountMin, taken: NDArray[np.bool_]) -> int:
    """Upper bounds and totals must hold; return whether the lower bound of one key, drawn blindly, does not."""
    newest = sketch.newest
    assert newest is not None
    later = newest + int(case.rng.integers(0, 3 * case.window)) * int(case.rng.integers(0, 2))
    truth = case.truth(taken, later)
    keys = np.unique(case.keys)
    answer = sketch.estimate(keys, now=later)
    true = np.array([truth[int(key)] for key in keys])
    assert np.all(true <= answer.high)
    assert np.all((answer.low <= answer.value) & (answer.value <= answer.high))
    assert answer.window == (later - case.window, later)
    assert sum(truth.values()) in sketch.total(now=later)  # type: ignore[attr-defined]
    asked = int(case.rng.integers(0, keys.size))
    return int(true[asked] < answer[asked].low)


@kinds
@pytest.mark.parametrize("arrivals", [False, True], ids=["time", "arrivals"])
def test_bounds_fail_no_more_often_than_delta(kind: type[WindowedCountMin], arrivals: bool) -> None:
    failures, everything = 0, np.ones(400, dtype=np.bool_)
    trials = [(stream, trial) for stream in STREAMS for trial in range(40)]
    for stream, trial in trials:
        case = Case(kind, stream, trial, arrivals=arrivals)
        sketch = case.feed(case.built(), everything)
        failures += check_case(case, sketch, case.taken(everything))
    assert failures <= failures_allowed(len(trials), DELTA)


@kinds
def test_bounds_hold_after_trees_of_merges(kind: type[WindowedCountMin]) -> None:
    failures, trials = 0, [(stream, trial) for stream in STREAMS for trial in range(30)]
    for stream, trial in trials:
        case = Case(kind, stream, trial)
        sites = case.rng.integers(0, 1 + trial % 5, 400)
        chosen = [sites == site for site in range(int(sites.max()) + 1)]
        merged = random_tree(kind, [case.feed(case.built(), part) for part in chosen], case.rng)
        assert isinstance(merged, kind)
        taken = np.any([case.taken(part) for part in chosen], axis=0)
        failures += check_case(case, merged, taken)
        more = case.feed(merged, np.zeros(400, dtype=np.bool_))  # nothing: and nothing changes
        assert more.to_bytes() == merged.to_bytes()
    assert failures <= failures_allowed(len(trials), DELTA)


@pytest.mark.parametrize("stream", ["drifting", "bursts", "uniform"])
def test_a_merged_splitter_goes_on_truthfully(stream: str) -> None:
    for trial in range(60):
        case = Case(SplitterCountMin, stream, trial)
        early, sites = np.arange(400) < 250, case.rng.integers(0, 3, 400)
        parts = [case.feed(case.built(), early & (sites == site)) for site in range(3)]
        merged = SplitterCountMin.merge(parts)  # type: ignore[arg-type]
        before = merged.newest
        assert before is not None
        late = ~early & (case.at >= before)
        case.feed(merged, late)
        taken = np.any([case.taken(early & (sites == site)) for site in range(3)], axis=0) | case.taken(late)
        check_case(case, merged, taken)


def test_a_sub_cell_that_takes_in_a_shorter_one_keeps_its_end() -> None:
    """Only in merged queues can the bottom end before its predecessor does."""
    options = {"width": 1, "depth": 1, "window": 100, "gamma": 0.5, "beta": 1e9}
    long, short = SplitterCountMin.sized(**options), SplitterCountMin.sized(**options)
    long.update(["a", "a"], at=[10, 90], weights=[1, 20])
    short.update("b", at=20, weights=40)
    merged = SplitterCountMin.merge([long, short])
    assert [merged._init[:2].tolist(), merged._last[:2].tolist()] == [[10, 20], [90, 20]]
    merged.update("b", at=95)
    assert merged._sub_cells(-100)[0].size == 2, "the bottom was merged into its predecessor"
    assert merged.estimate("a", now=150).high >= 20


def columns_of(sketch: WindowedCountMin, keys: Any) -> I64:
    """Each key's column in each row."""
    hashes, _ = hash_keys(keys)
    with np.errstate(over="ignore"):
        columns = [column_of.py_func(hashes, *row, np.uint64(sketch.width)) for row in sketch._rows]  # type: ignore[attr-defined]
    return np.array(columns).astype(np.int64)


@pytest.mark.parametrize("stream", ["drifting", "zipf-1.5", "bursts"])
def test_every_cell_of_a_splitter_lies_within_its_bounds(stream: str) -> None:
    """No luck about it: the counters of the exact window are between the numbers that the queues keep."""
    for trial in range(40):
        case = Case(SplitterCountMin, stream, 2 * trial + 1)
        case.lateness, case.at = 0, np.sort(case.at)
        case.options["lateness"] = 0
        sketch = case.feed(case.built(), np.ones(400, dtype=np.bool_))
        assert isinstance(sketch, SplitterCountMin)
        newest = int(case.at[-1])
        for now in (newest, newest + case.window // 3, newest + case.window, newest + 2 * case.window):
            exact = np.zeros((sketch.depth, sketch.width), dtype=np.int64)
            inside = case.at > now - case.window
            for row, columns in enumerate(columns_of(sketch, case.keys[inside])):
                np.add.at(exact[row], columns, case.weights[inside])
            _, low, high = (cells.reshape(exact.shape) for cells in sketch._read_all((now - case.window, now)))
            assert np.all(low <= exact)
            assert np.all(exact <= high)


@kinds
@pytest.mark.parametrize("arrivals", [False, True], ids=["time", "arrivals"])
def test_bytes_do_not_depend_on_batches_or_questions(kind: type[WindowedCountMin], arrivals: bool) -> None:
    for trial in range(30):
        case = Case(kind, "drifting", trial, arrivals=arrivals)
        everything = np.ones(400, dtype=np.bool_)
        whole = case.feed(case.built(), everything)
        asked = case.built()
        for place in range(400):
            times = {} if arrivals else {"at": int(case.at[place])}
            asked.update(int(case.keys[place]), weights=int(case.weights[place]), **times)
            if place % 7 == 0:
                asked.estimate([1, 2, 3], now=int(asked.newest or 0) + place)
            if place % 50 == 0:
                assert asked.to_bytes() == asked.copy().to_bytes()
        assert asked.to_bytes() == whole.to_bytes()
        assert kind.from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()


# -- what each is ---------------------------------------------------------------------------------------------


def test_perfect_is_the_count_min_of_the_window_and_of_any_range_in_it() -> None:
    for trial in range(60):
        case = Case(PerfectCountMin, "zipf-1.1", trial)
        sketch = case.feed(case.built(), np.ones(400, dtype=np.bool_))
        assert isinstance(sketch, PerfectCountMin)
        assert sketch.newest is not None
        last = int(case.rng.integers(1, case.window + 1))
        now = sketch.newest - int(case.rng.integers(0, case.window - last + 1))
        at, taken = case.at, case.taken(np.ones(400, dtype=np.bool_))
        inside = taken & (at > now - last) & (at <= now)
        options = {name: case.options[name] for name in ("width", "depth", "delta", "seed")}
        count_min = CountMin.sized(**options)
        count_min.update(case.keys[inside], weights=case.weights[inside])
        keys = np.arange(150)
        ours, theirs = sketch.estimate(keys, last=last, now=now), count_min.estimate(keys)
        assert [ours.value.tolist(), ours.low.tolist(), ours.high.tolist()] == [  # type: ignore[union-attr]
            theirs.value.tolist(), theirs.low.tolist(), theirs.high.tolist(),  # type: ignore[union-attr]
        ]  # fmt: skip
        assert sketch.total(last=last, now=now).value == count_min.total().value


def test_perfect_is_not_needlessly_loose() -> None:
    events = STREAMS["zipf-1.1"](20_000, seed=4, universe=10_000)
    sketch = PerfectCountMin.sized(width=272, depth=3, window=8000)
    sketch.update(events.keys, at=events.at)
    recent = Counter(events.keys[events.at > events.at[-1] - 8000].tolist())
    answer = sketch.estimate(list(recent))
    error = answer.value - np.array(list(recent.values()))
    assert np.mean(answer.high - answer.low) < 20 * np.mean(error)


def test_simple_knows_the_current_jump_window_and_nothing_of_the_one_before() -> None:
    sketch = SimpleCountMin.sized(width=50, depth=4, window=100)
    sketch.update(["a"] * 60 + ["b"] * 40, at=np.arange(100))
    assert (sketch.estimate("a").low, sketch.estimate("a").value, sketch.estimate("a").high) == (60, 60, 60)
    sketch.update("a", at=100)
    answer = sketch.estimate("a")
    assert (answer.low, answer.value, answer.high) == (1, 1, 101)
    assert sketch.estimate("a", now=199).high == 1, "the jump window before is out of the window"
    assert sketch.estimate("a", now=200).high == 1
    assert sketch.estimate("a", now=300).high == 0


def splitter_stream() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Gaps, columns' keys and weights: runs of one key and silences, which is what makes sub-cells."""
    event = st.tuples(st.sampled_from([0, 1, 1, 1, 2, 5, 30]), st.integers(0, 5), st.integers(1, 4))
    return st.lists(event, min_size=1, max_size=80)


# Odd numbers, so that no ratio of small integers ties with them and rounding cannot decide between the two.
GAMMAS = st.sampled_from([0.0501303, 0.2300171, 0.7100037])
BETAS = st.sampled_from([0.9, 1.3100177, 1.5137131, 4.7100193])


@settings(max_examples=200)
@given(splitter_stream(), st.integers(1, 14), st.integers(1, 4), GAMMAS, BETAS, st.integers(0, 20), st.booleans())
def test_splitter_is_the_listing_touching_every_cell_at_every_tick(
    events: list[tuple[int, int, int]], window: int, width: int, gamma: float, beta: float, silence: int, counted: bool
) -> None:
    check_against_the_listing(events, window, width, gamma, beta, silence, counted)


@pytest.mark.parametrize("counted", [False, True], ids=["time", "arrivals"])
def test_splitter_is_the_listing_on_longer_streams(counted: bool) -> None:
    """Long ones, which hypothesis seldom makes: sub-cells that are filled and fade at once."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        gaps, keys = rng.choice([0, 1, 1, 1, 2, 9], 120), rng.integers(0, 3, 120)
        events = list(zip(gaps.tolist(), keys.tolist(), rng.integers(1, 4, 120).tolist(), strict=True))
        gamma, beta = rng.choice([0.2300171, 0.9700013]), rng.choice([1.3100177, 4.7100193])
        check_against_the_listing(events, int(rng.integers(5, 60)), 2, gamma, beta, int(rng.integers(0, 9)), counted)


def check_against_the_listing(
    events: list[tuple[int, int, int]], window: int, width: int, gamma: float, beta: float, silence: int, counted: bool
) -> None:
    """With time, and with arrivals, where steps are items and the listing's M is the window."""
    if counted:
        events = [(1, key, 1) for _, key, _ in events]
    gaps, keys, weights = (np.array(part) for part in zip(*events, strict=True))
    times = np.cumsum(gaps)
    sketch = SplitterCountMin.sized(
        width=width, depth=1, window=window, clock="arrivals" if counted else "time", gamma=gamma, beta=beta, seed=5
    )
    sketch.update(keys, weights=weights, **({} if counted else {"at": times}))
    listing = SplitterListing(width, window, Fraction(gamma), Fraction(beta))
    columns = columns_of(sketch, keys)[0]
    totals: Counter[int] = Counter()
    end = int(times[-1]) + silence
    for tick in range(int(times[0]), end + 1):
        listing.tick(tick)
        for place in np.flatnonzero(times == tick):
            jump = (tick - int(counted)) // window
            totals[jump] += int(weights[place])
            usual = max(totals[jump], totals[jump - 1], window if counted else 0)
            listing.sample(tick, int(columns[place]), int(weights[place]), usual)
    values, _, _ = sketch._read_all((end - window, end))
    assert values == pytest.approx([float(entry.v) for entry in listing.entries], abs=1e-9)
    cells, fields = sketch._sub_cells(end - window)
    queues = [entry.queue for entry in listing.entries]
    assert np.bincount(cells, minlength=width).tolist() == [len(queue) for queue in queues]
    assert fields["_last"].tolist() == [part.last for queue in queues for part in queue]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 12), st.integers(1, 4))
def test_proportional_is_the_listing_touching_every_cell_at_every_item(
    keys: list[int], window: int, width: int
) -> None:
    sketch = ProportionalCountMin.sized(width=width, depth=1, window=window, clock="arrivals", seed=3)
    sketch.update(keys)
    listing = ProportionalListing(width, window)
    for column in columns_of(sketch, keys)[0]:
        listing.update(int(column))
    phase = sketch._phase(len(keys))
    current, previous = phase.seen(sketch._cells)
    assert (current + previous * phase.left)[0] == pytest.approx([float(f) for f in listing.f], abs=1e-9)


@pytest.mark.parametrize("beta", [0.9, 1.5])
@pytest.mark.parametrize("gamma", [0.02, 0.05, 0.5])
def test_splits_stay_below_lemma_3_7(gamma: float, beta: float) -> None:
    sketch = SplitterCountMin.sized(width=28, depth=2, window=5000, clock="arrivals", gamma=gamma, beta=beta)
    most = 0
    for phase in range(60):
        sketch.update(STREAMS["zipf-1.5"](500, seed=phase).keys + 3 * phase)
        most = max(most, sketch.splits)
    assert 0 < most <= sketch.depth * sketch.width / gamma
    room = sketch._counts.size
    assert room <= 2 * (sketch.depth * sketch.width * (1 / gamma + 2) + 16), "the pool is reused, and stays small"


def test_splitter_follows_a_change_that_proportional_does_not() -> None:
    """Two thirds of a window of a, then none: a third of a window later all of it is still there."""
    keys = ["a"] * 1000 + ["b"] * 2000 + ["a"] * 2000 + ["b"] * 2000
    splitter, proportional = SplitterCountMin(arrivals=3000), ProportionalCountMin(arrivals=3000)
    splitter.update(keys)
    proportional.update(keys)
    assert splitter.estimate("a").value == pytest.approx(1000, abs=10 * 3000 * 0.05 / 28)
    assert proportional.estimate("a").value != pytest.approx(1000, abs=300)


# -- questions that are refused, silence, weights, late events ------------------------------------------------


@whole_only
def test_questions_about_parts_of_the_window_are_refused(kind: type[WindowedCountMin]) -> None:
    sketch = kind(window=100)
    sketch.update(["a", "b"], at=[10, 50])
    for method in (lambda **when: sketch.estimate("a", **when), sketch.total):  # type: ignore[attr-defined]
        for when in ({"last": 99}, {"last": 0}, {"last": True}, {"now": 49}, {"last": 101}):
            with pytest.raises(QueryError, match="ECMSketch"):
                method(**when)
        assert method(last=100, now=50) == method()
    with pytest.raises(ParameterError, match="now="):
        sketch.estimate("a", now="soon")  # type: ignore[arg-type]


def test_perfect_refuses_what_left_its_window() -> None:
    sketch = PerfectCountMin(window=100)
    sketch.update(["a", "b"], at=[10, 150])
    with pytest.raises(QueryError, match="has left the window"):
        sketch.estimate("a", now=149)
    assert sketch.estimate("a", last=50, now=149).value == 0


@kinds
@pytest.mark.parametrize("arrivals", [False, True], ids=["time", "arrivals"])
def test_several_silent_windows_leave_nothing(kind: type[WindowedCountMin], arrivals: bool) -> None:
    sketch = kind(**({"arrivals": 50} if arrivals else {"window": 50}))
    sketch.update([1] * 80, **({} if arrivals else {"at": np.arange(80)}))
    newest = sketch.newest
    assert newest is not None
    for later in (100, 101, 150, 10**9):
        answer = sketch.estimate(1, now=newest + later)
        assert (answer.low, answer.value, answer.high) == (0, 0, 0)
        assert sketch.total(now=newest + later).high == 0  # type: ignore[attr-defined]
    if not arrivals:
        sketch.update(2, at=10**6)
        assert sketch.estimate(1).high == 0
        assert sketch.estimate(2).low == 1


@kinds
def test_a_weight_is_that_many_events_at_once(kind: type[WindowedCountMin]) -> None:
    """For all but the queues of Splitter, which may split between two events, and not within one."""
    heavy, many = kind(window=40), kind(window=40)
    keys, weights, at = np.arange(60) % 7, np.arange(60) % 5, np.arange(60) * 3
    heavy.update(keys, weights=weights, at=at)
    many.update(np.repeat(keys, weights), at=np.repeat(at, weights))
    many.update([], at=[])
    if kind is not SplitterCountMin:
        assert heavy.estimate(np.arange(7)) == many.estimate(np.arange(7))
    assert heavy.total() == many.total()  # type: ignore[attr-defined]
    with pytest.raises(WeightError):
        heavy.update(1, weights=-1, at=200)
    before = heavy.to_bytes()
    with pytest.raises(WeightError):
        heavy.update([1, 2], weights=2**61, at=200)
    assert heavy.to_bytes() == before


@kinds
def test_an_event_of_no_weight_moves_the_clock_and_nothing_else(kind: type[WindowedCountMin]) -> None:
    sketch = kind(window=10)
    sketch.update(["a", "b"], weights=[5, 0], at=[0, 25])
    assert sketch.newest == 25
    assert sketch.estimate(["a", "b"]).high.tolist() == [0, 0]  # type: ignore[union-attr]


@kinds
def test_late_events_are_taken_and_too_late_ones_counted(kind: type[WindowedCountMin]) -> None:
    sketch = kind(window=100, lateness=30)
    sketch.update(["a", "a", "a", "b"], at=[10, 140, 115, 100], weights=[1, 2, 4, 8])
    assert (sketch.late, sketch.too_late, sketch.newest) == (1, 1, 140)
    assert sketch.estimate("a").high >= 6
    assert sketch.estimate("b").high < 8 or kind is SimpleCountMin
    # At 220 the window starts after 120: the late event, registered at 140, is before it.
    answer = sketch.estimate("a", now=220)
    assert 2 in answer
    assert answer.low <= 2


@kinds
def test_windows_of_arrivals_are_not_merged(kind: type[WindowedCountMin]) -> None:
    sketch = kind(arrivals=10)
    with pytest.raises(MergeError, match="window="):
        kind.merge([sketch, sketch])


@pytest.mark.parametrize("options", [{"gamma": 0}, {"gamma": 1.1}, {"beta": 0}, {"beta": "x"}, {"gamma": True}])
def test_splitter_refuses_parameters_outside_their_limits(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        SplitterCountMin(window=10, **options)


@kinds
def test_sizes_are_those_of_the_thesis(kind: type[WindowedCountMin]) -> None:
    for delta, depth in ((0.5, 1), (0.25, 2), (0.0625, 4), (0.004, 8)):
        sketch = kind(0.1, delta, window=10)
        assert (sketch.width, sketch.depth) == (28, depth)
        assert sketch.epsilon <= 0.1


# -- bytes that lie -------------------------------------------------------------------------------------------


def blob_of(kind: type[WindowedCountMin]) -> bytes:
    sketch = kind.sized(width=9, depth=2, window=150, lateness=20, seed=1)
    events = STREAMS["drifting"](300, seed=8, universe=30)
    at = events.at.copy()
    at[::17] -= 12
    sketch.update(events.keys, at=at, weights=events.weights)
    return sketch.to_bytes()


@kinds
def test_every_truncation_and_every_flipped_bit_is_refused(kind: type[WindowedCountMin]) -> None:
    blob = blob_of(kind)
    for length in range(len(blob)):
        with pytest.raises(BytesError):
            Sketch.from_bytes(blob[:length])
    for bit in range(0, 8 * len(blob), 3):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BytesError):
            Sketch.from_bytes(bytes(damaged))


@kinds
def test_forgeries_with_a_true_checksum_give_the_error_or_a_whole_sketch(kind: type[WindowedCountMin]) -> None:
    rng = random.Random(f"forgeries of {kind.__name__}")
    header = struct.Struct("<4sBBHIQ")
    blob = blob_of(kind)
    magic, version, family, flags, parameters, _ = header.unpack_from(blob)
    taken = 0
    for _ in range(4000):
        body = mutated(blob[header.size : -4], rng)
        lengths = min(parameters, len(body)), max(len(body) - parameters, 0)
        forged = header.pack(magic, version, family, flags, *lengths) + body
        try:
            sketch = Sketch.from_bytes(forged + struct.pack("<I", crc32c(np.frombuffer(forged, dtype=np.uint8))))
        except BytesError:
            continue
        assert isinstance(sketch, kind)
        taken += 1
        use_forged(sketch)
    assert taken > 0, "nothing got past the checks: the forgeries are no test of them"


def use_forged(sketch: WindowedCountMin) -> None:
    """Whatever was taken must answer, go on, merge and be written like any other."""
    assert Sketch.from_bytes(sketch.to_bytes()) == sketch
    newest = sketch.newest or 0
    for now in (newest, newest + sketch.window // 2, newest + sketch.window):
        with contextlib.suppress(ParameterError):  # beyond the end of time
            answer = sketch.estimate([1, 2, 3], now=now)
            assert np.all((answer.low <= answer.value) & (answer.value <= answer.high))
    with contextlib.suppress(WeightError, MergeError):  # a total that is possible, and twice as much that is not
        assert type(sketch).merge([sketch, sketch]).parameters == sketch.parameters
    with contextlib.suppress(WeightError):
        times = {} if sketch.clock == "arrivals" else {"at": np.minimum(newest + np.arange(50), 2**60)}
        sketch.update(np.arange(50), **times)
    assert Sketch.from_bytes(sketch.to_bytes()) == sketch


def test_a_tiny_claim_of_a_huge_sketch_is_refused() -> None:
    for kind in KINDS:
        huge = kind.sized(width=1, depth=1, window=10)
        parameters = bytearray(huge._pack_parameters())
        parameters[:8] = struct.pack("<II", 2**31, 64)
        blob = huge.to_bytes()
        header = struct.Struct("<4sBBHIQ")
        forged = blob[: header.size] + bytes(parameters) + blob[header.size + len(parameters) : -4]
        with pytest.raises(DamagedBytesError):
            Sketch.from_bytes(forged + struct.pack("<I", crc32c(np.frombuffer(forged, dtype=np.uint8))))
