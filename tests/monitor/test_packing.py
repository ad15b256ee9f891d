"""Lists of keys and weights: what was packed comes back, in few bytes, and damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.errors import BytesError, DamagedBytesError
from catchment.monitor.packing import KEY_BITS, LARGEST_LISTED, pack_updates, unpack_updates


@pytest.mark.parametrize("keys", [1, 2, 3, 10, 100, 3000])
@pytest.mark.parametrize("kind", ["ones", "skewed", "large", "signed"])
def test_what_was_packed_comes_back(keys: int, kind: str) -> None:
    rng = np.random.default_rng(keys)
    hashes = np.unique(rng.integers(0, 2**KEY_BITS, keys, dtype=np.uint64))
    weights = {
        "ones": np.ones(hashes.size, dtype=np.int64),
        "skewed": rng.zipf(1.5, hashes.size).clip(1, 10**6),
        "large": rng.integers(1, LARGEST_LISTED, hashes.size),
        "signed": rng.choice([-1, 1], hashes.size) * rng.integers(1, 50, hashes.size),
    }[kind]
    found, back = unpack_updates(pack_updates(hashes, weights))
    assert found.tolist() == hashes.tolist()
    assert back.tolist() == weights.tolist()


@pytest.mark.parametrize(
    "weight", [1, 2**53 - 1, 2**53, 2**53 + 1, 2**59 - 1, LARGEST_LISTED, -1, 1 - 2**58, -LARGEST_LISTED]
)
@pytest.mark.parametrize("key", [0, 1, 2**KEY_BITS - 1])
def test_the_ends_of_the_ranges(key: int, weight: int) -> None:
    found, back = unpack_updates(pack_updates(np.array([key], dtype=np.uint64), np.array([weight])))
    assert (found.tolist(), back.tolist()) == ([key], [weight])


def test_a_key_costs_what_is_said() -> None:
    hashes = np.unique(np.random.default_rng(1).integers(0, 2**KEY_BITS, 10_000, dtype=np.uint64))
    size = len(pack_updates(hashes, np.ones(hashes.size, dtype=np.int64)))
    assert 8 * size / hashes.size < 42 - np.log2(hashes.size) + 1
    assert len(pack_updates(hashes[:1], np.ones(1, dtype=np.int64))) <= 8


def test_nothing_is_nothing() -> None:
    assert pack_updates(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)) == b""
    assert unpack_updates(b"")[0].size == 0


def test_damage_is_refused_or_harmless() -> None:
    rng = np.random.default_rng(2)
    hashes = np.unique(rng.integers(0, 2**KEY_BITS, 60, dtype=np.uint64))
    packed = pack_updates(hashes, rng.integers(1, 9, hashes.size))
    for size in range(1, len(packed)):
        with pytest.raises(DamagedBytesError):
            unpack_updates(packed[:size])
    with pytest.raises(DamagedBytesError):
        unpack_updates(packed + b"\0")
    for _ in range(3000):
        noise = rng.integers(0, 256, rng.integers(0, 40), dtype=np.uint8).tobytes()
        flipped = bytearray(packed)
        flipped[rng.integers(0, len(packed))] ^= 1 << int(rng.integers(0, 8))
        for damaged in (noise, bytes(flipped)):
            try:
                keys, weights = unpack_updates(damaged)
            except BytesError:
                continue
            assert (np.diff(keys.astype(np.int64)) > 0).all()
            assert keys.max(initial=0) < 2**KEY_BITS
            assert (np.abs(weights) <= LARGEST_LISTED).all()
