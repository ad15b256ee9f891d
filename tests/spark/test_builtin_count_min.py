"""Spark's Count-Min sketch outside the JVM: the same columns, the same bytes, and bounds that hold."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import BytesError, DamagedBytesError, MergeError, UnknownFormatError
from catchment.spark.builtin import SparkCountMin

pytestmark = pytest.mark.spark

ALPHABET = "abcxyz019 /.-éß日本🙂\0"


def revealing(depth: int, width: int, seed: int) -> bytes:
    """A sketch whose rows are permutations of 0 … width - 1: a wrong column gives a wrong estimate."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(width) for _ in range(depth)])
    header = struct.pack(">iqii", 1, width * (width - 1) // 2, depth, width)
    return header + rng.integers(0, 2**31 - 1, depth).astype(">i8").tobytes() + rows.astype(">i8").tobytes()


def in_jvm(spark: Any, blob: bytes) -> Any:
    return spark.sparkContext._jvm.org.apache.spark.util.sketch.CountMinSketch.readFrom(blob)


def agree(spark: Any, blob: bytes, keys: list[Any]) -> None:
    theirs = in_jvm(spark, blob)
    ours = SparkCountMin.from_bytes(blob).estimate(keys)
    assert [theirs.estimateCount(key) for key in keys] == ours.value.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(("depth", "width"), [(1, 10_007), (7, 4096)])
def test_integers_are_where_the_jvm_looks(spark: Any, depth: int, width: int) -> None:
    rng = np.random.default_rng(depth)
    wide = rng.integers(-(2**63), 2**63 - 1, 1000).tolist()
    narrow = rng.integers(-(2**31), 2**31 - 1, 1000).tolist()
    keys = [*range(-300, 300), *wide, *narrow, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
    agree(spark, revealing(depth, width, seed=1), keys)


@pytest.mark.parametrize(("depth", "width"), [(1, 10_007), (7, 4096), (60, 33)])
def test_strings_of_every_length_are_where_the_jvm_looks(spark: Any, depth: int, width: int) -> None:
    rng = random.Random(depth)
    texts = ["".join(rng.choices(ALPHABET, k=length)) for length in range(41) for _ in range(30)]
    agree(spark, revealing(depth, width, seed=2), ["", "é", "日本", *texts])


def test_binaries_of_every_length_are_where_the_jvm_looks(spark: Any) -> None:
    rng = random.Random(3)
    blobs = [rng.randbytes(length) for length in range(41) for _ in range(30)]
    agree(spark, revealing(1, 10_007, seed=3), blobs)
    agree(spark, revealing(5, 1000, seed=4), blobs)


def made(spark: Any, keys: str, seed: int = 7) -> list[bytes]:
    """Three sketches of parts of 6,000 rows."""
    query = f"SELECT count_min_sketch({keys}, 0.05D, 0.95D, {seed}) AS s FROM range(6000) GROUP BY id % 3"
    return [bytes(row.s) for row in spark.sql(query).collect()]


@pytest.mark.parametrize("keys", ["id * id % 101", "concat('clé ', id % 77)", "CAST(id % 5 AS TINYINT)"])
def test_merged_bytes_are_those_of_the_jvm(spark: Any, keys: str) -> None:
    parts = made(spark, keys)
    ours = SparkCountMin.merge(map(SparkCountMin.from_bytes, parts))
    assert [SparkCountMin.from_bytes(part).to_bytes() for part in parts] == parts
    theirs = in_jvm(spark, parts[0])
    for part in parts[1:]:
        theirs = theirs.mergeInPlace(in_jvm(spark, part))
    assert ours.to_bytes() == bytes(theirs.toByteArray())
    assert bytes(in_jvm(spark, ours.to_bytes()).toByteArray()) == ours.to_bytes()
    assert (ours.total, ours.epsilon, ours.confidence) == (
        theirs.totalCount(),
        theirs.relativeError(),
        theirs.confidence(),
    )


def test_partners_that_do_not_fit(spark: Any) -> None:
    one = SparkCountMin.from_bytes(made(spark, "id")[0])
    other = SparkCountMin.from_bytes(made(spark, "id", seed=8)[0])
    with pytest.raises(MergeError, match="another seed"):
        SparkCountMin.merge([one, other])
    with pytest.raises(MergeError, match="same eps and confidence"):
        SparkCountMin.merge([one, SparkCountMin.from_bytes(revealing(2, 10, 1))])
    with pytest.raises(MergeError, match="at least one"):
        SparkCountMin.merge([])
    heavy = SparkCountMin.from_bytes(struct.pack(">iqiiqq", 1, 2**62, 1, 1, 5, 2**62))
    with pytest.raises(MergeError, match="below 2\\^63"):
        SparkCountMin.merge([heavy, heavy])


def test_what_is_no_sketch_is_refused_by_name() -> None:
    blob = revealing(3, 20, seed=5)
    with pytest.raises(UnknownFormatError, match="count_min_sketch made"):
        SparkCountMin.from_bytes(b"CATCH" + blob)
    with pytest.raises(DamagedBytesError, match="header"):
        SparkCountMin.from_bytes(b"")
    with pytest.raises(DamagedBytesError, match="which take"):  # a terabyte by its header: no memory is taken for it
        SparkCountMin.from_bytes(struct.pack(">iqii", 1, 5, 2**17, 2**20))
    with pytest.raises(DamagedBytesError, match="add up"):
        SparkCountMin.from_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(DamagedBytesError, match="31 bits"):
        SparkCountMin.from_bytes(blob[:20] + b"\xff" + blob[21:])


def outcome(blob: bytes) -> None:
    try:
        sketch = SparkCountMin.from_bytes(blob)
    except BytesError:
        return
    assert sketch.to_bytes() == blob


VALID = revealing(3, 12, seed=6)


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_random_bytes(blob: bytes) -> None:
    outcome(blob)
    outcome(VALID[:4] + blob)
    outcome(VALID[:20] + blob)


@settings(max_examples=500)
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(VALID)))
def test_flips_and_truncations(edits: list[tuple[int, int]], length: int) -> None:
    damaged = bytearray(VALID)
    for place, byte in edits:
        damaged[place] = byte
    outcome(bytes(damaged))
    outcome(bytes(damaged[:length]))
    if length < len(VALID):
        with pytest.raises(BytesError):
            SparkCountMin.from_bytes(VALID[:length])
