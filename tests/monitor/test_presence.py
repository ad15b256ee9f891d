"""Distinct counts under watch: the table, the curve, the zone, and claims held to the exact number of keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment.errors import BytesError, InputError, ParameterError
from catchment.monitor.presence import (
    LEVELS,
    PresenceVector,
    WindowPresenceVector,
    cells_of,
    keys_at_least,
    keys_at_most,
    keys_of,
    width_for,
)
from catchment.monitor.quantities import Distinct
from catchment.monitor.safe import Presence, read_zone
from catchment.monitor.shift import Shift
from catchment.monitor.site import Arrived
from catchment.monitor.vectors import Drift, read_change
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import hash_keys
from catchment.testing import failures_allowed
from tests.monitor.lockstep_world import Watched

I64 = NDArray[np.int64]
_ONE = np.ones(1, dtype=np.int64)


def _cells(keys: Any, *, width: int, seed: int) -> I64:
    vector = PresenceVector(width=width, seed=seed)
    vector.add(hash_keys(np.asarray(keys))[0], _ONE, None, 0)
    return vector.values()


@pytest.mark.parametrize("keys", [1, 4, 30, 400, 3_000, 40_000])
def test_the_interval_of_a_table_holds_the_number_of_keys(keys: int) -> None:
    width, delta, trials = 150, 0.1, 400
    missed, errors = 0, []
    for seed in range(trials):
        cells = int(_cells(np.arange(keys) + 1_000_000 * seed, width=width, seed=seed).sum())
        low, high = keys_at_least(cells, width, delta / 2), keys_at_most(cells, width, delta / 2)
        missed += not low <= keys <= high
        errors.append(keys_of(cells, width) / keys - 1)
    assert missed <= failures_allowed(trials, delta)
    assert abs(float(np.mean(errors))) < 0.03
    if keys >= 3_000:  # the deviation of the coupons is ln 2/sqrt(width)
        assert 0.8 < float(np.std(errors)) / (math.log(2) / math.sqrt(width)) < 1.2
        assert keys_at_most(cells, width, delta / 2) < 2 * keys  # at 150 columns; not needlessly wide
    if keys <= 4:
        assert high <= keys + 4


def test_a_table_has_the_width_that_its_error_needs() -> None:
    epsilon, delta, trials, keys = 0.1, 0.2, 300, 20_000
    width = width_for(epsilon, delta)
    missed = 0
    for seed in range(trials):
        found = keys_of(float(_cells(np.arange(keys) + seed * keys, width=width, seed=seed).sum()), width)
        missed += abs(found - keys) > epsilon * keys
    assert missed <= failures_allowed(trials, delta)
    assert math.log(2) / math.sqrt(width) > epsilon / 6  # no more than twice the width that a normal law would ask for


def test_the_curve_goes_there_and_back() -> None:
    for keys in (1, 10, 1e4, 1e9):
        assert keys_of(cells_of(keys, 300), 300) == pytest.approx(keys, rel=1e-9)
    assert keys_of(0, 300) == 0
    assert keys_at_most(0, 300, 0.01) == 0


def test_a_key_is_seen_once_and_sites_add_up() -> None:
    one, other = _cells([1, 2, 2, 3], width=64, seed=5), _cells([3, 4], width=64, seed=5)
    assert one.sum() == 3
    assert (one + other).max() == 2
    assert np.count_nonzero(one + other) == 4
    assert not np.array_equal(one, _cells([1, 2, 3], width=64, seed=6))


def test_a_window_is_the_table_of_its_keys() -> None:
    rng = np.random.default_rng(3)
    keys, times = rng.integers(0, 300, 2_000), np.sort(rng.integers(0, 1_000, 2_000))
    hashes, _ = hash_keys(keys)
    vector = WindowPresenceVector(width=40, seed=9, window=100)
    for part in np.array_split(np.arange(keys.size), 37):
        vector.add(hashes[part], _ONE, times[part], 0)
        now = int(times[part].max())
        inside = keys[(times <= now) & (times > now - 100) & (np.arange(keys.size) <= part[-1])]
        assert np.array_equal(vector.values(), _cells(inside, width=40, seed=9))
    vector.advance(2_000)
    assert not vector.values().any()


@pytest.mark.parametrize("window", [None, 100])
def test_tables_and_changes_are_written_and_read(window: int | None) -> None:
    watch = Distinct(theta=0.3, epsilon=0.2, delta=0.3, window=window)
    vector = watch.new_vector()
    drift = Drift(vector)
    for batch in range(5):
        before = vector.values()
        vector.add(
            hash_keys(np.arange(40 * batch, 40 * batch + 50))[0], _ONE, np.full(50, 60 * batch, dtype=np.int64), 0
        )
        assert np.array_equal(drift.cells, vector.values() - before)
        assert drift.norms.tolist() == (drift.cells**2).sum(axis=1).tolist()
        cells, updates = drift.taken()
        assert 0 < len(cells) + len(updates) < 150
        assert np.array_equal(read_change(vector, cells, updates), vector.values() - before)
    writer = Writer()
    vector.write(writer)
    again = watch.new_vector()
    again.read(Reader(memoryview(writer.getvalue())))
    assert np.array_equal(again.values(), vector.values())
    for other in (vector, again):
        other.advance(310)
    assert np.array_equal(again.values(), vector.values())


def test_a_change_beyond_the_table_is_refused() -> None:
    small, large = PresenceVector(width=4, seed=0), PresenceVector(width=4_000, seed=0)
    change = np.zeros(large.shape, dtype=np.int64)
    change[3, 3_000] = 1
    with pytest.raises(BytesError, match="cell"):
        small.unpacked(large.packed(change))


@given(st.integers(0, 10**9), st.integers(1, 5), st.booleans(), st.floats(0.2, 1.0))
def test_no_negative_sum_of_slacks_hides_a_cell_too_many(seed: int, sites: int, full: bool, share: float) -> None:
    rng = np.random.default_rng(seed)
    shape = (3, 6)
    held = (rng.random((sites, *shape)) < 0.4).astype(np.int64)
    moved = (rng.random((sites, *shape)) < rng.uniform(0, 0.6)).astype(np.int64)
    now = np.where(rng.random((sites, *shape)) < rng.uniform(0, 0.7), moved, held)
    total, cells = held.sum(axis=0), int(np.count_nonzero(held.sum(axis=0)))
    up, down = float(rng.integers(0, 8)), float(rng.integers(0, 8))
    zone = Presence(up, down, total if full else None)
    zone = read_zone(zone.to_bytes(), *shape)  # type: ignore[assignment]
    # Some of the change has been flushed and is held by the coordinator with the rest of the share.
    flushed = (now - held)[: sites // 2].sum(axis=0) if share < 1 else np.zeros(shape, dtype=np.int64)
    left = [place for place in range(sites) if share == 1 or place >= sites // 2]
    sum_ = sum(zone.slack(Shift(now[place] - held[place]), sites, share) for place in left)
    sum_ += zone.at_zero * share * (sites - len(left))
    if share < 1:
        sum_ += sites * zone.slack(Shift(flushed), 1, 1 - share)
    if sum_ >= 1e-9:
        assert cells - down <= np.count_nonzero(now.sum(axis=0)) <= cells + up
    assert zone.slack(Shift(np.zeros(shape, dtype=np.int64)), sites) == zone.at_zero


@pytest.mark.parametrize("rule", ["auto", "near", "full", "push", "centralise"])
def test_a_distinct_count_is_never_further_off_than_theta(rule: str) -> None:
    world = Watched(Distinct(theta=0.3, epsilon=0.1, delta=0.01, rule=rule), sites=4)
    rng = np.random.default_rng(1)
    seen: set[int] = set()
    for step in range(300):
        keys = rng.integers(0, 4_000, 50) if step % 3 else rng.integers(0, 40, 50)
        world.give(world.names[int(rng.integers(0, 4))], Arrived(keys))
        seen.update(keys.tolist())
        world.tick(step * 50)
        claim = world.claim()
        assert abs(claim.estimate - len(seen)) <= 0.3 * len(seen) + 1
        assert claim.answer.low <= len(seen) <= claim.answer.high
    assert len(seen) > 3_000
    if rule == "auto":
        assert world.bytes < 8 * 300 * 50 / 2


@pytest.mark.parametrize("rule", ["auto", "near", "full", "push"])
def test_a_distinct_count_in_a_window_is_followed_up_and_down(rule: str) -> None:
    window = 1_000
    world = Watched(Distinct(theta=0.35, epsilon=0.1, delta=0.01, window=window, rule=rule), sites=3)
    rng = np.random.default_rng(5)
    newest: dict[int, int] = {}
    most = 0
    for time in range(10, 5_000, 20):
        busy = time < 1_500 or 3_000 < time < 3_500
        for name in world.names:
            keys = rng.integers(0, 2_000, 20 if busy else 1)
            world.give(name, Arrived(keys, times=np.full(keys.size, time), time=time))
            newest.update(dict.fromkeys(keys.tolist(), time))
        world.tick(time)
        truth = sum(when > time - window for when in newest.values())
        most = max(most, truth)
        claim = world.claim()
        assert abs(claim.estimate - truth) <= 0.35 * truth + 1
        assert claim.answer.low <= truth <= claim.answer.high
    assert most > 1_000
    assert truth < 200


def test_distinct_counts_refuse_what_they_cannot_mean() -> None:
    with pytest.raises(ParameterError, match="distinct count"):
        Distinct(threshold=0)
    vector = Distinct().new_vector()
    assert vector.rows == LEVELS
    with pytest.raises(InputError, match="taken back"):
        vector.check(np.array([-1]), 1, None, 0)
    with pytest.raises(InputError, match="times="):
        Distinct(window=10).new_vector().check(_ONE, 1, None, 0)
