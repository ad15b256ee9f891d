"""Keys of any kind, made one: a batch of hashes, and where needed the items themselves.

A key is its xxh64 with seed 42, the value of Spark's `xxhash64`. Every integer type is widened to 64 bits first, so
that 5 is one key whether it came as a Python int, an int32 column or a uint8 array; in Spark, cast to bigint before
hashing. A string is its UTF-8 bytes, so "a" and b"a" are the same key, as they are in Spark; likewise a string of eight
bytes and the integer of those bytes. Nulls, floats, booleans and times are refused: they have no one hash that every
side agrees on.

Nothing here runs Python code per key, but for strings with a zero byte in them: lists go through `join`, arrays and
Arrow buffers through kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError, KeyTypeError, NullKeyError
from catchment.kernel.hashing import SPARK_SEED, hash_bytes, hash_bytes_chained, hash_int64s, hash_int64s_chained
from catchment.kernel.items import copy_spans

__all__ = ["BINARY", "HASHED", "INTEGER", "TEXT", "KeyBatch", "as_keys", "hash_keys", "hash_pairs", "is_utf8"]

INTEGER, TEXT, BINARY, HASHED = 0, 1, 2, 3

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

_CURE = "use integers, strings or bytes, or cast, for instance to str"
_LEAVE_OUT = "leave nulls out, or give them a name of their own"
_INT64_LIMIT = 2**63
_BLOCK = 1 << 15
_SHORT = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class KeyBatch:
    """Keys of one kind: integers as 8 bytes each, the rest as bytes with offsets; `scalar` when one came alone.

    Keys that were hashed elsewhere, as by Spark, come as their hashes alone: enough for all but those that name items.
    """

    kind: int
    scalar: bool
    data: U8
    offsets: I64

    @classmethod
    def of_integers(cls, integers: I64, *, scalar: bool = False) -> KeyBatch:
        return cls(INTEGER, scalar, integers.view(np.uint8), _NO_OFFSETS)

    @classmethod
    def of_hashes(cls, hashes: U64) -> KeyBatch:
        return cls(HASHED, False, hashes.view(np.uint8), _NO_OFFSETS)

    @property
    def _words(self) -> bool:
        return self.kind in (INTEGER, HASHED)

    def __len__(self) -> int:
        return self.data.size // 8 if self._words else self.offsets.size - 1

    def blocks(self) -> Iterator[KeyBatch]:
        """The batch in parts whose hashes stay in the cache and need no memory worth the name.

        Hashing 20 M keys whole spent a third of the time of a Count-Min update on first touching 160 MB.
        """
        for start in range(0, len(self), _BLOCK):
            yield self.part(start, min(start + _BLOCK, len(self)))

    def part(self, start: int, stop: int) -> KeyBatch:
        """The keys from `start` to before `stop`, in place."""
        if self._words:
            return KeyBatch(self.kind, False, self.data[8 * start : 8 * stop], self.offsets)
        return KeyBatch(self.kind, False, self.data, self.offsets[start : stop + 1])

    def take(self, places: I64) -> KeyBatch:
        """The keys at these places, in that order."""
        if self._words:
            return KeyBatch(self.kind, False, self.data.view(np.int64)[places].view(np.uint8), self.offsets)
        starts, lengths = self.spans(places)
        data = np.empty(int(lengths.sum()), dtype=np.uint8)
        copy_spans(self.data, starts, lengths, data, 0, np.empty_like(starts))
        return KeyBatch(self.kind, False, data, _offsets(lengths))

    def hashes(self) -> U64:
        if self.kind == HASHED:
            return self.data.view(np.uint64)
        out = np.empty(len(self), dtype=np.uint64)
        if self.kind == INTEGER:
            hash_int64s(self.data.view(np.int64), SPARK_SEED, out)
        else:
            hash_bytes(self.data, self.offsets, SPARK_SEED, out)
        return out

    def chained(self, seeds: U64) -> U64:
        """The hash of (what gave the seeds, this key), as Spark's `xxhash64(a, b)`."""
        self._check_named()
        out = np.empty(len(self), dtype=np.uint64)
        if self.kind == INTEGER:
            hash_int64s_chained(self.data.view(np.int64), seeds, out)
        else:
            hash_bytes_chained(self.data, self.offsets, seeds, out)
        return out

    def spans(self, places: I64) -> tuple[I64, I64]:
        """Where in `data` the keys at these places begin, and how long they are."""
        self._check_named()
        if self.kind == INTEGER:
            return places * 8, np.full(places.size, 8, dtype=np.int64)
        return self.offsets[places], self.offsets[places + 1] - self.offsets[places]

    def _check_named(self) -> None:
        if self.kind == HASHED:
            raise KeyTypeError("keys that are hashes only", "give the keys themselves: this sketch needs them")


_NO_OFFSETS = np.zeros(0, dtype=np.int64)


def hash_keys(keys: Any) -> tuple[U64, bool]:
    """The hashes of keys, and whether it was one key by itself.

    >>> hash_keys([1, 2])[0].tolist() == hash_keys(np.array([1, 2], dtype=np.int32))[0].tolist()
    True
    >>> hash_keys("a")
    (array([9864288744972464332], dtype=uint64), True)
    """
    batch = as_keys(keys)
    return batch.hashes(), batch.scalar


def hash_pairs(keys: Any, attributes: Any) -> tuple[U64, U64]:
    """The hashes of the keys, and of the pairs (key, attribute)."""
    items, others = as_keys(keys), as_keys(attributes)
    if len(items) != len(others):
        raise InputError(f"{len(items)} keys with {len(others)} attributes", "give one attribute for each key")
    hashes = items.hashes()
    return hashes, others.chained(hashes)


def as_keys(keys: Any) -> KeyBatch:
    """Read keys of any accepted type; raise `KeyTypeError` or `NullKeyError` naming the first that cannot be."""
    if isinstance(keys, (str, bytes, int, np.integer)) and not isinstance(keys, (bool, np.timedelta64)):
        return _from_list([keys.item() if isinstance(keys, np.generic) else keys], scalar=True)
    if isinstance(keys, KeyBatch):  # read before, and maybe split
        return keys
    if keys is None:
        raise NullKeyError("the key is null", _LEAVE_OUT)
    if type(keys).__module__.split(".")[0] == "pyarrow":
        return _from_arrow(keys)
    if isinstance(keys, (list, tuple)):
        return _from_list(keys)
    if hasattr(keys, "isna") and np.any(keys.isna()):  # pandas, whose nulls may turn into floats on the way to NumPy
        raise NullKeyError(f"the key at position {int(np.argmax(keys.isna()))} is null", _LEAVE_OUT)
    if isinstance(keys, np.ndarray) or hasattr(keys, "__array__"):
        return _from_numpy(keys if isinstance(keys, np.ndarray) else np.asarray(keys))
    raise KeyTypeError(f"keys of type {type(keys).__name__}", _CURE)


def _from_numpy(keys: NDArray[Any]) -> KeyBatch:
    if isinstance(keys, np.ma.MaskedArray) and np.ma.is_masked(keys):
        place = int(np.argmax(np.ma.getmaskarray(keys)))
        raise NullKeyError(f"the key at position {place} is masked", "leave it out, with compressed()")
    if keys.ndim > 1:
        raise KeyTypeError(f"an array of keys with shape {keys.shape}", "give one dimension, for instance with ravel()")
    scalar = keys.ndim == 0
    keys = np.atleast_1d(keys)
    if keys.dtype.kind == "i":
        return KeyBatch.of_integers(np.ascontiguousarray(keys, dtype=np.int64), scalar=scalar)
    if keys.dtype.kind == "u":
        if keys.size and int(keys.max()) >= _INT64_LIMIT:
            raise KeyTypeError(f"the key {keys.max()} is above 2^63 - 1", "view the array as int64, or cast it to str")
        return KeyBatch.of_integers(np.ascontiguousarray(keys, dtype=np.int64), scalar=scalar)
    if keys.dtype.kind in "USTO":
        return _from_list(keys.tolist(), scalar=scalar)
    raise KeyTypeError(f"keys of type {keys.dtype}", _CURE)


def _from_list(keys: Sequence[Any], *, scalar: bool = False) -> KeyBatch:
    """Keys from Python objects, some thousands at a time.

    Each pass over a list goes to memory for every object; a short list is still in the cache for the second. Whole
    lists of 20 M strings ran at two thirds of the speed.
    """
    parts = [_from_short_list(keys[at : at + _SHORT], at) for at in range(0, len(keys), _SHORT)]
    if not parts:
        return KeyBatch.of_integers(np.zeros(0, dtype=np.int64))
    kind = parts[0].kind
    if any(part.kind != kind for part in parts):
        raise _misfit(keys, set(map(type, keys)), 0)
    data = np.concatenate([part.data for part in parts]) if len(parts) > 1 else parts[0].data
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return KeyBatch(kind, scalar, data, _offsets(lengths) if kind != INTEGER else _NO_OFFSETS)


def _from_short_list(keys: Sequence[Any], first: int) -> KeyBatch:
    if isinstance(keys[0], str):
        try:
            joined = "\0".join(keys)  # this is the type check too: it takes nothing but strings
        except TypeError:
            raise _misfit(keys, set(map(type, keys)), first) from None
        return _from_texts(keys, joined)
    kinds = set(map(type, keys))
    if kinds <= {int, *_NUMPY_INTEGERS}:
        return _from_integers(keys)
    if kinds <= {bytes, np.bytes_}:
        return _from_blobs(BINARY, keys)
    raise _misfit(keys, kinds, first)


_NUMPY_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def _from_integers(keys: Sequence[int]) -> KeyBatch:
    try:
        return KeyBatch.of_integers(np.array(keys, dtype=np.int64))
    except OverflowError:
        outside = max(keys, key=abs)
        raise KeyTypeError(f"the key {outside} does not fit in 64 bits with a sign", "cast it to str") from None


def _from_texts(keys: Sequence[str], joined: str) -> KeyBatch:
    """Strings out of their join with zero bytes between, which tell where each ends: no second look at the objects."""
    try:
        data = np.frombuffer(joined.encode(), dtype=np.uint8)
    except UnicodeEncodeError as problem:
        raise KeyTypeError(
            f"a key holds {joined[problem.start]!r}, half of a surrogate pair, which UTF-8 cannot write",
            "decode the text with errors='replace' first",
        ) from None
    ends = np.flatnonzero(data == 0)
    if ends.size == len(keys) - 1:
        lengths = np.diff(ends, prepend=-1, append=data.size) - 1
        return KeyBatch(TEXT, False, data[data != 0], _offsets(lengths))
    # Some key has a zero byte of its own: rare enough to look at each.
    return _from_blobs(TEXT, [key.encode() for key in keys])


def _from_blobs(kind: int, blobs: Sequence[bytes]) -> KeyBatch:
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    return KeyBatch(kind, False, np.frombuffer(b"".join(blobs), dtype=np.uint8), _offsets(lengths))


def _offsets(lengths: I64) -> I64:
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _misfit(keys: Sequence[Any], kinds: set[type], first: int) -> InputError:
    """Name the first key that spoils the batch; `first` is the position of `keys[0]` in what the user gave."""
    for place, key in enumerate(keys, first):
        if key is None or type(key).__name__ in ("NAType", "NaTType") or (isinstance(key, float) and key != key):
            return NullKeyError(f"the key at position {place} is null", _LEAVE_OUT)
    allowed = (int, str, bytes, np.str_, np.bytes_, *_NUMPY_INTEGERS)
    for place, key in enumerate(keys, first):
        if type(key) not in allowed:
            return KeyTypeError(f"the key {key!r} at position {place} is of type {type(key).__name__}", _CURE)
    names = sorted({kind.__name__ for kind in kinds})
    return KeyTypeError(f"keys of mixed types {', '.join(names)}", "update once for each type")


def _from_arrow(keys: Any) -> KeyBatch:
    """Keys of a pyarrow Array, ChunkedArray or Scalar, read in place from its buffers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(keys, pa.Scalar):
        return as_keys(keys.as_py())
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if not isinstance(keys, pa.Array):
        raise KeyTypeError(f"keys of type pyarrow.{type(keys).__name__}", "give one column of it")
    if pa.types.is_dictionary(keys.type):  # taken apart by hand: nulls may hide among its values, views cannot be taken
        values = keys.dictionary
        if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
            values = values.cast(pa.large_string() if pa.types.is_string_view(values.type) else pa.large_binary())
        keys = values.take(keys.indices)
    if not len(keys):
        return _from_list([])
    if keys.null_count:
        place = pc.index(keys.is_null(), True).as_py()
        raise NullKeyError(
            f"the key at position {place} is null", "leave nulls out (drop_null), or give them a name of their own"
        )
    if pa.types.is_integer(keys.type):
        return _from_numpy(keys.to_numpy(zero_copy_only=False))
    text = pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type) or pa.types.is_string_view(keys.type)
    binary = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type) or pa.types.is_binary_view(keys.type)
    if not (text or binary or pa.types.is_fixed_size_binary(keys.type)):
        raise KeyTypeError(f"keys of the Arrow type {keys.type}", _CURE)
    keys = keys.cast(pa.large_string() if text else pa.large_binary())
    _, offsets, data = keys.buffers()
    places = np.frombuffer(offsets, dtype=np.int64) if offsets is not None and offsets.size else np.zeros(1, np.int64)
    places = places[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return KeyBatch(TEXT if text else BINARY, scalar=False, data=content, offsets=places)


def is_utf8(batch: KeyBatch) -> bool:
    """Whether every key is UTF-8 by itself: all of them together are, and none begins inside a character."""
    if not len(batch):
        return True
    start, stop = int(batch.offsets[0]), int(batch.offsets[-1])
    try:
        batch.data[start:stop].tobytes().decode()
    except UnicodeDecodeError:
        return False
    begins = batch.offsets[:-1][np.diff(batch.offsets) > 0]
    return not np.any((batch.data[begins] & 0xC0) == 0x80)
