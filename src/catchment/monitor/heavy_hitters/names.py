"""Names: keys in a message, and their hashes. Few of them, so plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.wire import BYTES, SINTS, UINTS, Message, wire
from catchment.sketch.items import ItemStore
from catchment.sketch.keys import KeyBatch, hash_keys

__all__ = ["Key", "Names", "hashes_of", "in_order", "keys_of", "plain_key"]

Key = int | str | bytes
U64 = NDArray[np.uint64]

_KINDS = (int, str, bytes)


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Integers, then texts, then bytes, each from small to large: the order that both ends agree on.

    >>> in_order(["b", 3, b"x", "a", -1])
    (-1, 3, 'a', 'b', b'x')
    """
    return tuple(sorted(keys, key=lambda key: (_KINDS.index(type(key)), key.encode() if type(key) is str else key)))


def hashes_of(keys: tuple[Key, ...]) -> U64:
    """The hash of each key, of keys in order."""
    parts = [[key for key in keys if type(key) is kind] for kind in _KINDS]
    return np.concatenate([hash_keys(part)[0] for part in parts]) if keys else np.zeros(0, dtype=np.uint64)


def keys_of(batch: KeyBatch) -> tuple[Key, ...]:
    """The keys of a small batch as Python values; text that is no UTF-8 as bytes."""
    places = np.arange(len(batch))
    store = ItemStore(len(batch))
    store.put(places, batch, places)
    return store.get(places)


def plain_key(key: Key) -> int | str:
    """As JSON has it; bytes that are no text as their hex digits."""
    return key.hex() if isinstance(key, bytes) else key


@dataclass(frozen=True, slots=True)
class Names(Message):
    """Keys in order: integers as steps from one to the next, texts and bytes as lengths and what they are together."""

    steps: tuple[int, ...] = wire(1, SINTS)
    text_lengths: tuple[int, ...] = wire(2, UINTS)
    texts: bytes = wire(3, BYTES)
    blob_lengths: tuple[int, ...] = wire(4, UINTS)
    blobs: bytes = wire(5, BYTES)

    @classmethod
    def of(cls, keys: tuple[Key, ...]) -> Names | None:
        """Keys in order; None for none."""
        if not keys:
            return None
        integers = [key for key in keys if isinstance(key, int)]
        texts = [key.encode() for key in keys if isinstance(key, str)]
        blobs = [key for key in keys if isinstance(key, bytes)]
        # The first from zero, and each later step wrapped into 64 bits: the widest spread still fits.
        steps = [_wrapped(key - before) for before, key in zip([0, *integers], integers, strict=False)]
        return cls(tuple(steps), tuple(map(len, texts)), b"".join(texts), tuple(map(len, blobs)), b"".join(blobs))

    def keys(self) -> tuple[Key, ...]:
        """What `of` was given; raise `DamagedBytesError` for anything that it would not have written."""
        found: list[Key] = []
        last = 0
        for step in self.steps:
            last = _wrapped(last + step)
            found.append(last)
        try:
            found += [text.decode() for text in _cut(self.texts, self.text_lengths)]
        except UnicodeDecodeError:
            raise DamagedBytesError("a name that is not UTF-8") from None
        found += _cut(self.blobs, self.blob_lengths)
        if in_order(set(found)) != tuple(found):
            raise DamagedBytesError("names out of order, or one twice")
        return tuple(found)


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _cut(joined: bytes, lengths: tuple[int, ...]) -> list[bytes]:
    if sum(lengths) != len(joined):
        raise DamagedBytesError(f"names of {sum(lengths)} bytes in {len(joined)}")
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [joined[end - length : end] for end, length in zip(ends, lengths, strict=True)]
