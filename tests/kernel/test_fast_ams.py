"""A drift that is tracked: the same cells, and squares and products as if taken anew."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.kernel.fast_ams import add_signed, add_signed_tracked, measure_rows
from catchment.kernel.hashing import draws

NONE = np.zeros((0, 0), dtype=np.int64)
ONE = np.ones(1, dtype=np.int64)
I64 = NDArray[np.int64]


def _measured(drift: I64, reference: I64) -> tuple[list[int], list[int]]:
    """In integers of any size."""
    exact, other = drift.astype(object), reference.astype(object)
    return (exact**2).sum(axis=1).tolist(), (exact * other).sum(axis=1).tolist()


def _hashes(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return rng.integers(0, 2**64, count, dtype=np.uint64)


@pytest.mark.parametrize("depth", [1, 3, 7])
@pytest.mark.parametrize("width", [1, 5, 300])
def test_squares_and_products_are_exact_below_2_to_53(depth: int, width: int) -> None:
    rng = np.random.default_rng([depth, width])
    rows, reference = draws(3, depth), rng.integers(-(2**20), 2**20, (depth, width))
    cells, drift, plain = (np.zeros((depth, width), dtype=np.int64) for _ in range(3))
    norms2, dots = np.zeros(depth), np.zeros(depth)
    for size in (0, 1, 700, 50):
        hashes, weights = _hashes(rng, size), rng.integers(-(2**12), 2**12, size)
        share = ONE if size == 50 else weights
        if size == 1:
            share = weights[:1]
        add_signed_tracked(cells, rows, hashes, share, drift, reference, norms2, dots)
        add_signed(plain, rows, hashes, share)
        assert (norms2.tolist(), dots.tolist()) == _measured(drift, reference)
    assert np.array_equal(cells, plain)
    assert np.array_equal(drift, plain)
    taken = np.empty(depth), np.empty(depth)
    measure_rows(drift, reference, *taken)
    assert (taken[0].tolist(), taken[1].tolist()) == _measured(drift, reference)


def test_cells_and_drift_may_have_started_apart() -> None:
    rng = np.random.default_rng(4)
    rows, hashes = draws(3, 2), _hashes(rng, 100)
    cells, drift = rng.integers(-9, 9, (2, 8)), rng.integers(-9, 9, (2, 8))
    before, moved = cells.copy(), drift.copy()
    norms2 = (drift.astype(float) ** 2).sum(axis=1)
    add_signed_tracked(cells, rows, hashes, ONE, drift, NONE, norms2, np.zeros(2))
    assert np.array_equal(cells - before, drift - moved)
    assert norms2.tolist() == _measured(drift, drift)[0]


def test_no_reference_leaves_the_products_and_no_cells_need_be_given() -> None:
    rng = np.random.default_rng(5)
    rows, hashes = draws(3, 2), _hashes(rng, 100)
    drift, other = np.zeros((2, 8), dtype=np.int64), np.zeros((2, 8), dtype=np.int64)
    norms2, dots = np.zeros(2), np.array([7.0, 8.0])
    add_signed_tracked(NONE, rows, hashes, ONE, drift, NONE, norms2, dots)
    add_signed(other, rows, hashes, ONE)
    assert np.array_equal(drift, other)
    assert dots.tolist() == [7.0, 8.0]
    assert norms2.tolist() == _measured(drift, drift)[0]
    measure_rows(drift, NONE, norms2, dots)
    assert (norms2.tolist(), dots.tolist()) == (_measured(drift, drift)[0], [0.0, 0.0])


def test_beyond_2_to_53_each_event_rounds_once() -> None:
    rng = np.random.default_rng(6)
    rows, reference = draws(3, 3), rng.integers(-(2**40), 2**40, (3, 20))
    drift = np.zeros((3, 20), dtype=np.int64)
    norms2, dots = np.zeros(3), np.zeros(3)
    events = 4000
    weights = rng.integers(-(2**40), 2**40, events)
    add_signed_tracked(NONE, rows, _hashes(rng, events), weights, drift, reference, norms2, dots)
    exact2, exact = _measured(drift, reference)
    assert max(exact2) > 2**80
    # No cell has been beyond 2^50, so no square sum beyond 20 × 2^100; a few roundings for each event.
    assert max(abs(int(a) - b) for a, b in zip(norms2, exact2, strict=True)) <= 3 * events * 2**-53 * 20 * 2.0**100
    assert norms2 == pytest.approx([float(n) for n in exact2], rel=1e-10)
    assert dots == pytest.approx([float(n) for n in exact], rel=1e-8)
    measure_rows(drift, reference, norms2, dots)
    assert norms2 == pytest.approx([float(n) for n in exact2], rel=1e-14)
