from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import CountMin, InputError, KeyTypeError, NullKeyError
from catchment.sketch.keys import as_keys, hash_keys, hash_pairs
from tests import naive

INTEGERS = [-(2**63), -1, 0, 1, 42, 2**63 - 1]
TEXTS = ["", "a", "naïve", "日本語", "🙂", "x" * 100, "a\0", "a"]
BLOBS = [b"", b"a", b"\xff\xfe", b"x" * 100]


def hashed(keys: Any) -> list[int]:
    return hash_keys(keys)[0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "keys",
    [
        INTEGERS,
        tuple(INTEGERS),
        np.array(INTEGERS),
        np.array(INTEGERS, dtype=object),
        [np.int64(n) for n in INTEGERS],
        pa.array(INTEGERS),
        pa.chunked_array([INTEGERS[:2], INTEGERS[2:]]),
        pa.array(INTEGERS).dictionary_encode(),
        pd.Series(INTEGERS),
        np.repeat(np.array(INTEGERS), 2)[::2],
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_integers_of_any_container_are_the_same_keys(keys: Any) -> None:
    assert hashed(keys) == [naive.xxh64(n.to_bytes(8, "little", signed=True), 42) for n in INTEGERS]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64])
def test_integers_of_any_width_are_the_same_keys(dtype: Any) -> None:
    assert hashed(np.array([0, 7, 100], dtype=dtype)) == hashed([0, 7, 100])
    assert hashed(pa.array([0, 7, 100], type=pa.from_numpy_dtype(dtype))) == hashed([0, 7, 100])


@pytest.mark.parametrize(
    "keys",
    [
        TEXTS,
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=np.dtypes.StringDType()),
        pa.array(TEXTS),
        pa.array(TEXTS, type=pa.large_string()),
        pa.array(TEXTS, type=pa.string_view()),
        pa.array(["skipped", *TEXTS, "cut"])[1:-1],
        pa.chunked_array([TEXTS[:3], [], TEXTS[3:]]),
        pa.array(TEXTS).dictionary_encode(),
        pd.Series(TEXTS),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_strings_of_any_container_are_the_same_keys(keys: Any) -> None:
    assert hashed(keys) == [naive.xxh64(text.encode(), 42) for text in TEXTS]


def test_fixed_width_strings_are_strings() -> None:
    assert hashed(np.array(["a", "naïve"])) == hashed(["a", "naïve"])
    assert hashed(list(np.array(["a", "naïve"]))) == hashed(["a", "naïve"])
    assert hashed(np.array([b"a", b"bc"])) == hashed(["a", "bc"])


@pytest.mark.parametrize(
    "keys", [BLOBS, pa.array(BLOBS), pa.array(BLOBS, type=pa.large_binary()), pa.array(BLOBS, type=pa.binary_view())]
)
def test_bytes_of_any_container_are_the_same_keys(keys: Any) -> None:
    assert hashed(keys) == [naive.xxh64(blob, 42) for blob in BLOBS]


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_a_dictionary_of_views_is_read(view: Any) -> None:
    values = pa.array(["a", "b"]).cast(pa.binary() if view == pa.binary_view() else pa.string()).cast(view)
    assert hashed(pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), values)) == hashed(["b", "a", "b"])


def test_text_and_its_bytes_are_one_key_and_eight_bytes_are_their_integer() -> None:
    assert hashed(["username"]) == hashed([b"username"]) == hashed([int.from_bytes(b"username", "little")])


def test_strings_of_numpy_and_of_python_mix() -> None:
    assert hashed(["a", np.str_("b")]) == hashed(["a", "b"])
    assert hashed([b"a", np.bytes_(b"b")]) == hashed(["a", "b"])


def test_fixed_size_binary_is_bytes() -> None:
    assert hashed(pa.array([b"ab", b"cd"], type=pa.binary(2))) == hashed([b"ab", b"cd"])


@pytest.mark.parametrize("key", [5, np.int32(5), "five", np.str_("five"), b"five", pa.scalar("five"), pa.scalar(5)])
def test_one_key_by_itself_is_a_batch_of_one(key: Any) -> None:
    hashes, scalar = hash_keys(key)
    assert scalar
    assert hashes.tolist() == hashed([key.as_py() if isinstance(key, pa.Scalar) else key])


@given(st.lists(st.text(max_size=12), max_size=30))
def test_any_text_hashes_as_its_utf8(texts: list[str]) -> None:
    try:
        expected = [naive.xxh64(text.encode(), 42) for text in texts]
    except UnicodeEncodeError:
        with pytest.raises(KeyTypeError, match="surrogate"):
            hash_keys(texts)
    else:
        assert hashed(texts) == expected


@pytest.mark.parametrize(
    "keys",
    [
        [],
        np.array([], dtype=np.int32),
        np.array([], dtype=object),
        pa.array([], type=pa.string()),
        pa.array([], pa.int64()),
        pa.array([]),
    ],
)
def test_no_keys_are_no_keys(keys: Any) -> None:
    assert hashed(keys) == []


def test_a_long_batch_hashes_in_blocks_as_a_whole() -> None:
    texts = [f"key {n}" for n in range(70_000)]
    blobs = [text.encode() for text in texts]
    assert hashed(texts) == hashed(pa.array(texts)) == hashed(blobs)
    assert hashed(["é" + text for text in texts]) == hashed(pa.array(["é" + text for text in texts]))
    assert hashed(list(range(70_000))) == hashed(np.arange(70_000))
    for keys in (np.arange(70_000), texts, pa.array(texts)):
        batch = as_keys(keys)
        assert np.concatenate([block.hashes() for block in batch.blocks()]).tolist() == batch.hashes().tolist()


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (None, "the key is null"),
        (["a", None], "position 1 is null"),
        ([None], "position 0 is null"),
        (["a"] * 9000 + [None], "position 9000 is null"),
        (np.array(["a", None], dtype=object), "position 1 is null"),
        (pa.array([1, None, 3]), "position 1 is null"),
        (pa.array(["a", None]), "position 1 is null"),
        (pa.nulls(2), "position 0 is null"),
        (pa.array(["a", None]).dictionary_encode(), "position 1 is null"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(["a", None])), "position 1 is null"),
        (np.ma.masked_array([1, 2, 3], mask=[False, True, False]), "position 1 is masked"),
        ([pd.NA, float("nan")], "position 0 is null"),
        (pd.Series(["a", None, "b"]), "position 1 is null"),
        (pd.Series([1, None, 2], dtype="Int64"), "position 1 is null"),
        (pd.Series(["a", pd.NA], dtype="string"), "position 1 is null"),
        (pd.Index([1.0, float("nan")]), "position 1 is null"),
        (pd.Series(["a", float("nan")]), "position 1 is null"),
    ],
)
def test_a_null_is_refused_by_its_place(keys: Any, named: str) -> None:
    sketch = CountMin()
    with pytest.raises(NullKeyError, match=named):
        sketch.update(keys)
    assert sketch == CountMin()


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ([1.5], "1.5 at position 0"),
        (["a", 1], "mixed types int, str"),
        ([b"a", "a"], "mixed types bytes, str"),
        ([1] * 5000 + ["a"] * 5000, "mixed types int, str"),
        ([1] * 5000 + [0.5], "0.5 at position 5000"),
        ([1, True], "True at position 1"),
        (True, "bool"),
        (np.timedelta64(5, "ns"), "timedelta64"),
        (np.array([True]), "bool"),
        (np.array([1.5]), "float64"),
        (np.array([[1, 2]]), r"shape \(1, 2\)"),
        (np.array(["2020-01-01"], dtype="datetime64[s]"), "datetime64"),
        (2**63, "9223372036854775808"),
        ([1, -(2**63) - 1], "-9223372036854775809"),
        (np.array([2**63], dtype=np.uint64), "9223372036854775808"),
        (pa.array([1.5]), "double"),
        (pa.array([[1]]), "list"),
        (pa.table({"a": [1]}), "Table"),
        ({"a": 1}, "dict"),
        ("\ud800", "surrogate"),
        (["ok", "\udfff"], "surrogate"),
    ],
)
def test_a_key_without_one_hash_is_refused_by_name(keys: Any, named: str) -> None:
    sketch = CountMin()
    with pytest.raises(KeyTypeError, match=named):
        sketch.update(keys)
    assert sketch == CountMin()


def test_pairs_need_an_attribute_each() -> None:
    with pytest.raises(InputError, match="2 keys with 1 attributes"):
        hash_pairs([1, 2], ["a"])
