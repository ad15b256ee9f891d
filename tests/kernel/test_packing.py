from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import DamagedBytesError
from catchment.kernel.checksum import crc32c
from catchment.sketch.codec import FREE_CELLS, Reader, Writer
from tests import naive

INT64 = (-(2**63), 2**63 - 1)


def packed(values: np.ndarray) -> bytes:
    writer = Writer()
    writer.integers(values)
    return writer.getvalue()


@given(st.lists(st.integers(*INT64) | st.integers(0, 3), max_size=80))
def test_integers_come_back(values: list[int]) -> None:
    reader = Reader(memoryview(packed(np.array(values, dtype=np.int64))))
    assert reader.integers(len(values), np.int64, low=INT64[0], high=INT64[1]).tolist() == values
    reader.finish()


@given(st.lists(st.integers(0, 2**64 - 1) | st.just(2**64 - 1), max_size=80))
def test_unsigned_integers_come_back(values: list[int]) -> None:
    reader = Reader(memoryview(packed(np.array(values, dtype=np.uint64))))
    assert reader.integers(len(values), np.uint64, low=0, high=2**64 - 1).tolist() == values
    reader.finish()


def test_few_large_values_do_not_make_all_large() -> None:
    values = np.zeros(1000, dtype=np.int64)
    values[[3, 700]] = 2**50
    assert len(packed(values)) < 50


def test_a_large_empty_array_cannot_be_a_bomb() -> None:
    cells = FREE_CELLS + 1
    assert len(packed(np.zeros(cells, dtype=np.int64))) >= cells // 8
    small = packed(np.zeros(1, dtype=np.int64))
    with pytest.raises(DamagedBytesError):
        Reader(memoryview(small)).integers(cells, np.int64, low=0, high=1)


def test_values_outside_the_stated_range_are_refused() -> None:
    with pytest.raises(DamagedBytesError, match="outside"):
        Reader(memoryview(packed(np.array([1, 9])))).integers(2, np.int64, low=0, high=8)
    patched = np.zeros(1000, dtype=np.int64)
    patched[[3, 700]] = 8, 9
    assert Reader(memoryview(packed(patched))).integers(1000, np.int64, low=0, high=9).tolist() == patched.tolist()
    with pytest.raises(DamagedBytesError, match="outside"):
        Reader(memoryview(packed(patched))).integers(1000, np.int64, low=0, high=8)


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(np.frombuffer(b"123456789", dtype=np.uint8)) == 0xE3069283
    rng = random.Random(2)
    for length in (0, 1, 7, 8, 9, 63, 64, 1000):
        blob = rng.randbytes(length)
        assert crc32c(np.frombuffer(blob, dtype=np.uint8)) == naive.crc32c(blob)
