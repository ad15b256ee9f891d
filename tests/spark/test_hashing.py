"""A key is the value of Spark's `xxhash64`: the two sides hold equal on everything that a key may be."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.kernel.hashing import SPARK_SEED
from catchment.sketch.keys import hash_keys, hash_pairs

pytestmark = pytest.mark.spark


def in_spark(spark: Any, table: pa.Table, expression: str) -> list[int]:
    """The expression over the table, as unsigned integers in the order of its rows."""
    numbered = table.append_column("row", pa.array(range(len(table))))
    rows = spark.createDataFrame(numbered).selectExpr("row", f"{expression} AS hash").collect()
    by_row = {row["row"]: row["hash"] % 2**64 for row in rows}
    return [by_row[place] for place in range(len(table))]


def ours(keys: Any) -> list[int]:
    return hash_keys(keys)[0].tolist()  # type: ignore[no-any-return]


def test_strings_of_every_length_from_0_to_300(spark: Any) -> None:
    rng = random.Random(4)
    alphabet = "abcxyz019 /.-éß日本🙂"
    texts = ["".join(rng.choices(alphabet, k=length)) for length in range(301)]
    texts += ["x" * length for length in range(301)]
    assert in_spark(spark, pa.table({"key": texts}), "xxhash64(key)") == ours(pa.array(texts)) == ours(texts)


def test_binary_of_every_length_from_0_to_300(spark: Any) -> None:
    rng = random.Random(5)
    blobs = [rng.randbytes(length) for length in range(301)]
    assert in_spark(spark, pa.table({"key": pa.array(blobs, pa.binary())}), "xxhash64(key)") == ours(blobs)


def test_bigints(spark: Any) -> None:
    rng = np.random.default_rng(6)
    keys = np.concatenate([[-(2**63), -1, 0, 1, 2**63 - 1], rng.integers(-(2**63), 2**63 - 1, 1000)])
    assert in_spark(spark, pa.table({"key": keys}), "xxhash64(key)") == ours(keys)


@pytest.mark.parametrize("narrow", ["int8", "int16", "int32"])
def test_narrower_integers_after_the_cast_that_the_documentation_asks_for(spark: Any, narrow: str) -> None:
    keys = np.array([-128, -1, 0, 1, 127], dtype=narrow)
    assert in_spark(spark, pa.table({"key": keys}), "xxhash64(CAST(key AS BIGINT))") == ours(keys)
    assert in_spark(spark, pa.table({"key": keys}), "xxhash64(key)") != ours(keys), "the cast would not be needed"


def test_pairs_are_two_columns(spark: Any) -> None:
    texts, numbers = [f"item {n % 7}" for n in range(50)], list(range(50))
    table = pa.table({"item": texts, "attribute": numbers})
    assert in_spark(spark, table, "xxhash64(item, attribute)") == hash_pairs(texts, numbers)[1].tolist()


def test_a_null_is_the_bare_seed_in_spark_and_so_no_key(spark: Any) -> None:
    table = pa.table({"key": pa.array([None, "a"], pa.string())})
    assert in_spark(spark, table, "xxhash64(key)")[0] == SPARK_SEED
