from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.kernel.hashing import column_draws, column_of, draws, hash_bytes, hash_int64s, mixed
from catchment.sketch.keys import as_keys, hash_pairs
from tests import naive


def test_bytes_of_every_length_hash_as_the_definition_says() -> None:
    rng = random.Random(1)
    blobs = [rng.randbytes(length) for length in range(301)]
    assert as_keys(blobs).hashes().tolist() == [naive.xxh64(blob, 42) for blob in blobs]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1))
def test_integers_hash_as_their_eight_bytes(value: int, seed: int) -> None:
    out = np.empty(1, dtype=np.uint64)
    hash_int64s(np.array([value]), np.uint64(seed), out)
    assert int(out[0]) == naive.xxh64(value.to_bytes(8, "little", signed=True), seed)


@given(st.binary(max_size=80), st.binary(max_size=80), st.integers(0, 7))
def test_a_span_hashes_the_same_wherever_it_lies(before: bytes, key: bytes, shift: int) -> None:
    data = np.frombuffer(b"x" * shift + before + key + b"tail", dtype=np.uint8)
    out = np.empty(1, dtype=np.uint64)
    start = shift + len(before)
    hash_bytes(data, np.array([start, start + len(key)]), np.uint64(42), out)
    assert int(out[0]) == naive.xxh64(key, 42)


@given(st.text(max_size=40), st.integers(-(2**63), 2**63 - 1))
def test_a_pair_hashes_the_second_with_the_first_as_seed(text: str, number: int) -> None:
    first = naive.xxh64(text.encode(), 42)
    assert hash_pairs([text], [number])[1].tolist() == [naive.xxh64(number.to_bytes(8, "little", signed=True), first)]


def test_draws_are_all_different_and_even() -> None:
    drawn = draws(3, 1000)
    assert len(set(drawn.tolist()) | set(draws(4, 1000).tolist())) == 2000
    ones = np.bitwise_count(drawn).sum()
    assert abs(int(ones) - 32_000) < 5 * np.sqrt(64_000) / 2


CHOSEN = [(1, 9), (1, 273), (0, 2**63), (5, 5 + 2**61), (7, 7 + 2**32), (2**40, 2**40 + 2**56), (0, 1)]


@pytest.mark.parametrize(("one", "other"), CHOSEN)
@pytest.mark.parametrize("width", [8, 16, 272])
def test_chosen_hashes_share_a_column_as_rarely_as_any(one: int, other: int, width: int) -> None:
    """Whoever chooses hashes without the seed gains nothing: the rate over seeds is 1/width, and not twice that."""
    rows, pair = column_draws(1, 40_000), np.array([one, other], dtype=np.uint64)
    with np.errstate(over="ignore"):
        columns = [column_of.py_func(h, rows[:, 0], rows[:, 1], rows[:, 2], np.uint64(width)) for h in pair]  # type: ignore[attr-defined]
    meetings = float(np.mean(columns[0] == columns[1]))
    assert abs(meetings - 1 / width) < 5 * np.sqrt(1 / width / 40_000)


@pytest.mark.parametrize(("one", "other"), CHOSEN)
def test_chosen_hashes_share_no_bit_of_their_mix(one: int, other: int) -> None:
    seeds, pair = draws(1, 20_000), np.array([one, other], dtype=np.uint64)
    mixes = [mixed.py_func(h, seeds) for h in pair]  # type: ignore[attr-defined]
    for bit in range(64):
        differ = np.mean(((mixes[0] ^ mixes[1]) >> np.uint64(bit)) & np.uint64(1))
        assert abs(differ - 0.5) < 6 * 0.5 / np.sqrt(20_000), bit


def test_columns_are_even_and_pairs_meet_as_rarely_as_chance() -> None:
    """A chi-square over the columns, and the rate at which two keys share one over many rows."""
    hashes = as_keys(np.arange(200_000)).hashes()
    with np.errstate(over="ignore"):
        columns = np.stack([column_of.py_func(hashes, *row, np.uint64(272)) for row in column_draws(9, 20)])  # type: ignore[attr-defined]
    for row in columns:
        observed = np.bincount(row.astype(np.int64), minlength=272)
        expected = 200_000 / 272
        assert ((observed - expected) ** 2 / expected).sum() < 272 + 6 * np.sqrt(2 * 272)
    meetings = (columns[:, :100_000] == columns[:, 100_000:]).mean(axis=1)
    assert np.all(np.abs(meetings * 272 - 1) < 0.2)
    both = (columns[0, :100_000] == columns[0, 100_000:]) & (columns[1, :100_000] == columns[1, 100_000:])
    assert both.mean() < 10 / 272**2


def test_signs_are_even_and_unrelated_to_columns_and_rows() -> None:
    hashes = as_keys(np.arange(200_000)).hashes()
    with np.errstate(over="ignore"):
        rows = np.stack([mixed.py_func(hashes, row) for row in draws(5, 8)])  # type: ignore[attr-defined]
    signs = 1.0 - 2.0 * (rows & np.uint64(1)).astype(np.float64)
    columns = (rows >> np.uint64(32)).astype(np.float64)
    tolerance = 6 / np.sqrt(200_000)
    assert np.all(np.abs(signs.mean(axis=1)) < tolerance)
    assert np.all(np.abs(np.corrcoef(np.concatenate([signs, columns])) - np.eye(16)) < tolerance)
    # Four-wise: products of the signs of four keys vanish on average, which the variance of Fast-AMS rests on.
    assert np.all(
        np.abs((signs[:, 0::4] * signs[:, 1::4] * signs[:, 2::4] * signs[:, 3::4]).mean(axis=1)) < 2 * tolerance
    )
