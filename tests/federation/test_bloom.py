"""The arithmetic of the Bloom filter: sizes, rates, merging, and what is refused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from catchment.errors import ParameterError
from catchment.federation.bloom import BloomShape, as_row, build_sql, false_positives, merge, probe_sql, shape_for


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.03, 0.01, 0.001, 0.0001])
@pytest.mark.parametrize("keys", [1, 10, 1_000, 3_000_000])
def test_the_shape_is_the_smallest_that_keeps_the_rate(keys: int, rate: float) -> None:
    shape = shape_for(keys, rate)
    assert false_positives(keys, shape) <= rate
    if shape.words > 16:
        assert all(false_positives(keys, BloomShape(int(shape.words * 0.999), bits)) > rate for bits in range(1, 6))


def test_the_rate_is_that_of_words_filled_one_by_one() -> None:
    """Another way to the same number: bits thrown into words by NumPy, strangers asked."""
    rng = np.random.default_rng(3)
    shape, keys = BloomShape(4_000, 3), 16_000
    words = np.zeros(shape.words, np.uint64)

    def masks(count: int) -> npt.NDArray[np.uint64]:
        bits = rng.integers(0, 64, (shape.bits, count)).astype(np.uint64)
        found: npt.NDArray[np.uint64] = np.bitwise_or.reduce(np.uint64(1) << bits, axis=0)
        return found

    np.bitwise_or.at(words, rng.integers(0, shape.words, keys), masks(keys))
    asked, at = masks(400_000), rng.integers(0, shape.words, 400_000)
    seen = float(np.mean((words[at] & asked) == asked))
    assert seen == pytest.approx(false_positives(keys, shape), rel=0.03)


def test_parts_are_united_bit_by_bit() -> None:
    shape = BloomShape(4, 2)

    def part(words: list[int], masks: list[int]) -> pa.Table:
        return pa.table({"word": pa.array(words, pa.int32()), "mask": pa.array(masks, pa.int64())})

    words = merge(shape, [part([0, 3], [1, -(2**63)]), part([3, 1], [6, 5]), part([], [])])
    assert words.tolist() == [1, 5, 0, -(2**63) + 6]
    assert as_row(words).to_pylist() == [{"bits": words.tolist()}]
    with pytest.raises(ParameterError, match="one shape"):
        merge(shape, [part([4], [1])])


def test_bytes_are_those_of_the_arrays() -> None:
    shape = shape_for(10_000, 0.01)
    assert shape.bytes == merge(shape, []).nbytes
    assert shape.bytes_built(10) == 120
    assert shape.bytes_built(10_000_000) == 12 * shape.words


@pytest.mark.parametrize("rate", [0, 1, -0.1, 1e-9, float("nan")])
def test_a_rate_that_no_filter_keeps_is_refused(rate: float) -> None:
    with pytest.raises(ParameterError, match="rate"):
        shape_for(10, rate)


def test_what_makes_no_filter_is_refused() -> None:
    with pytest.raises(ParameterError, match="allow a higher rate"):
        shape_for(10**10, 0.01)
    for words, bits in ((0, 1), (2**23, 1), (8, 0), (8, 6)):
        with pytest.raises(ParameterError):
            BloomShape(words, bits)
    with pytest.raises(ParameterError, match="at least one key"):
        build_sql("SELECT 1", [], BloomShape(8, 2))
    with pytest.raises(ParameterError, match="a type for each"):
        probe_sql(["a", "b"], "v", BloomShape(8, 2), ["int"])
