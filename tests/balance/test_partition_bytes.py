"""Learners, maps and partitioners as bytes: read back equal, and whatever is wrong with them is refused as such."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from catchment.balance import KeyLearner, Partitioner, PartitionMap, build_map
from catchment.errors import BytesError, DamagedBytesError, UnknownFormatError
from catchment.kernel.checksum import crc32c
from catchment.sketch.codec import Writer, seal_envelope
from tests.sketch.test_damage import mutated


def partitioner(split: float | str | None = None) -> Partitioner:
    made = Partitioner(3, theta=0.1, mu=4, split=split, seed=5)
    made.learn(["a"] * 30 + ["b"] * 20 + [f"rare {n}" for n in range(25)])
    made.build()
    made.learn(np.array([1, 1, 1, 2, 3]))
    return made


MADE: dict[str, tuple[type, bytes]] = {
    "learner": (KeyLearner, partitioner().learnt.to_bytes()),
    "map": (PartitionMap, partitioner().map.to_bytes()),
    "split map": (PartitionMap, partitioner(0.5).map.to_bytes()),
    "partitioner": (Partitioner, partitioner("pairs").to_bytes()),
}


GOLDEN = Path(__file__).parent / "golden"
"""Bytes of the first version: they are never changed, and stay readable."""


@pytest.mark.parametrize("name", MADE)
def test_bytes_of_the_first_version_are_read_and_written_still(name: str) -> None:
    kind, blob = MADE[name]
    golden = (GOLDEN / f"{name.replace(' ', '_')}.bin").read_bytes()
    assert kind.from_bytes(golden).to_bytes() == golden  # type: ignore[attr-defined]
    assert blob == golden, "the same events give other bytes"


def outcome(kind: type, blob: bytes) -> object | None:
    try:
        return kind.from_bytes(blob)  # type: ignore[attr-defined, no-any-return]
    except BytesError:
        return None


@pytest.mark.parametrize("name", MADE)
def test_read_back_it_is_the_same_and_goes_on_alike(name: str) -> None:
    kind, blob = MADE[name]
    read = kind.from_bytes(blob)  # type: ignore[attr-defined]
    assert read.to_bytes() == blob
    assert read == kind.from_bytes(bytearray(blob))  # type: ignore[attr-defined]


def test_a_restart_goes_on_as_if_there_had_been_none() -> None:
    one = partitioner()
    other = Partitioner.from_bytes(one.to_bytes())
    for each in (one, other):
        each.learn([f"new {n % 11}" for n in range(3_000)])
        each.adapt(horizon=1_000, key_cost=0.01)
    assert one == other
    assert str(one.report()) == str(other.report())
    assert one.map != partitioner().map


@pytest.mark.parametrize("name", MADE)
def test_damage_is_refused(name: str) -> None:
    kind, blob = MADE[name]
    assert all(outcome(kind, blob[:length]) is None for length in range(len(blob)))
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        assert outcome(kind, bytes(damaged)) is None


@pytest.mark.parametrize("name", MADE)
def test_forgeries_with_a_true_checksum_are_refused_or_whole(name: str) -> None:
    kind, blob = MADE[name]
    rng = random.Random(f"forgeries of {name}")
    header = struct.Struct("<4sBBHIQ")
    magic, version, family, flags, parameters, _ = header.unpack_from(blob)
    taken = 0
    for _ in range(1_500):
        body = mutated(blob[header.size : -4], rng)
        sizes = min(parameters, len(body)), max(len(body) - parameters, 0)
        forged = header.pack(magic, version, family, flags, *sizes) + body
        read = outcome(kind, forged + struct.pack("<I", crc32c(np.frombuffer(forged, dtype=np.uint8))))
        if read is not None:
            taken += 1
            assert kind.from_bytes(read.to_bytes()) == read  # type: ignore[attr-defined]
            if isinstance(read, PartitionMap):
                placed = read.place(np.arange(50), salts=np.arange(50))
                assert 0 <= placed.min() <= placed.max() < read.parts
            elif isinstance(read, KeyLearner):
                build_map(read, 3)
            elif isinstance(read, Partitioner):
                read.build()
                read.report()
    assert taken > 0 or name == "partitioner"


def test_what_no_map_can_be_is_refused() -> None:
    def forged(parts: int, hashes: list[int], pieces: list[int], choices: list[int], buckets: list[int]) -> bytes:
        writer = Writer()
        writer.raw(np.array(hashes, dtype="<u8"))
        for array in (pieces, choices, buckets, [0] * parts):
            writer.integers(np.array(array, dtype=np.int64))
        sizes = struct.pack("<IQIII", parts, 0, len(hashes), len(choices), len(buckets))
        return seal_envelope(41, sizes, writer.getvalue())

    assert PartitionMap.from_bytes(forged(2, [5, 6], [1, 2], [0, 0, 1], [0, 1])).places == 2
    for wrong in (
        forged(2, [5, 5], [1, 2], [0, 0, 1], [0, 1]),
        forged(2, [5, 6], [1, 1], [0, 0, 1], [0, 1]),
        forged(2, [5, 6], [1, 2], [0, 2, 1], [0, 1]),
        forged(2, [5, 6], [1, 2], [0, 0, 1], [0, 2]),
        forged(2, [5, 6], [3, 0], [0, 0, 1], [0, 1]),
        forged(2, [5, 6], [1, 2], [0, 0, 1], []),
        forged(0, [], [], [], [0]),
    ):
        with pytest.raises(DamagedBytesError):
            PartitionMap.from_bytes(wrong)


def test_bytes_of_another_kind_are_refused_by_name() -> None:
    for kind, blob in MADE.values():
        for other in {KeyLearner, PartitionMap, Partitioner} - {kind}:
            with pytest.raises(UnknownFormatError, match=other.__name__):
                other.from_bytes(blob)  # type: ignore[attr-defined]
