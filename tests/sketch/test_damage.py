"""Decoders are never trusted with anything: any bytes give a `BytesError` or a sketch, quickly and in little memory."""

from __future__ import annotations

import contextlib
import random
import struct
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from catchment import (
    BytesError,
    CountMin,
    DamagedBytesError,
    MergeError,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    UnknownFormatError,
    WeightError,
)
from catchment.kernel.checksum import crc32c
from catchment.sketch.base import KEYED_TRUTHS
from catchment.sketch.codec import FREE_CELLS, Writer, seal_envelope
from tests.amounts import fewer
from tests.golden.cases import FOLDER

GOLDEN = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.sketch"))}
LIMIT_BYTES = 64 * 2**20
LIMIT_SECONDS = 1.0


def outcome(blob: bytes) -> Sketch | None:
    """The sketch, or None for the promised error; anything else, or too much of anything, fails."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    start = time.process_time()
    try:
        sketch = Sketch.from_bytes(blob)
    except BytesError:
        sketch = None
    assert time.process_time() - start < LIMIT_SECONDS
    assert tracemalloc.get_traced_memory()[1] - before < LIMIT_BYTES
    return sketch


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    for blob in GOLDEN.values():
        Sketch.from_bytes(blob)  # compiled before it is timed
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("name", GOLDEN)
def test_every_truncation_is_refused(name: str) -> None:
    blob = GOLDEN[name]
    assert all(outcome(blob[:length]) is None for length in range(len(blob)))
    assert outcome(blob + b"\0") is None


@pytest.mark.parametrize("name", GOLDEN)
def test_every_flipped_bit_is_refused(name: str) -> None:
    blob = GOLDEN[name]
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        assert outcome(bytes(damaged)) is None, f"bit {bit}"


def mutated(blob: bytes, rng: random.Random) -> bytes:
    """A few random edits: bytes changed, cut out, doubled, or lengths and counts made extreme."""
    data = bytearray(blob)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[place : place + rng.randint(1, 8)]
            case 2:
                data[place:place] = data[place : place + rng.randint(1, 16)]
            case 3:
                data[place : place + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"])
            case _:
                data[place:place] = rng.randbytes(rng.randint(1, 8))
    return bytes(data)


@fewer("edits", 1_000, 10_000, part="fuzz")
@pytest.mark.parametrize("name", GOLDEN)
def test_random_mutations_give_the_error_or_an_equal_sketch(name: str, edits: int) -> None:
    rng = random.Random(f"mutations of {name}")
    blob = GOLDEN[name]
    for _ in range(edits):
        sketch = outcome(mutated(blob, rng))
        assert sketch is None or sketch.to_bytes() == blob


@fewer("edits", 300, 3_000, part="fuzz")
@pytest.mark.parametrize("name", GOLDEN)
def test_mutations_with_a_true_checksum_give_the_error_or_a_whole_sketch(name: str, edits: int) -> None:
    """The checksum stops accidents; a writer gone wrong gets past it, and must find the checks behind it."""
    rng = random.Random(f"forgeries of {name}")
    blob = GOLDEN[name]
    header = struct.Struct("<4sBBHIQ")
    magic, version, family, flags, parameters, _ = header.unpack_from(blob)
    taken = 0
    for _ in range(edits):
        body = mutated(blob[header.size : -4], rng)
        forged = (
            header.pack(magic, version, family, flags, min(parameters, len(body)), max(len(body) - parameters, 0))
            + body
        )
        sketch = outcome(forged + struct.pack("<I", crc32c(np.frombuffer(forged, dtype=np.uint8))))
        if sketch is not None:
            taken += 1
            assert Sketch.from_bytes(sketch.to_bytes()) == sketch
            assert sketch.guarantee
            for question, measure in sketch.measures.items():
                answer = getattr(sketch, question)(*([1],) if measure in KEYED_TRUTHS else ())
                assert not np.any(np.asarray(answer.low) > answer.high), f"{question}: {answer}"
            # A total that is possible, and twice it that is not; windows of arrivals, and errors that may not grow.
            with contextlib.suppress(WeightError, MergeError):
                assert type(sketch).merge([sketch, sketch]).parameters == sketch.parameters
    assert taken > 0, "nothing got past the checks: the forgeries are no test of them"


def packed(*values: int, dtype: str = "int64") -> bytes:
    writer = Writer()
    writer.integers(np.array(values, dtype=dtype))
    return writer.getvalue()


def space_saving(counts: list[int], errors: list[int], items: list[bytes], *, total: int = 20, floor: int = 1) -> bytes:
    head = struct.pack("<qqI", total, floor, len(counts))
    texts = packed(*[1] * len(items)) + packed(*map(len, items)) + b"".join(items)
    return seal_envelope(3, struct.pack("<I", 4), head + packed(*counts) + packed(*errors) + texts)


COUNT_MIN = struct.pack("<IIdQ?", 2, 1, 0.1, 0, False)
FAST_AMS = struct.pack("<IIdQ", 2, 1, 0.1, 0)
BLOOM = struct.pack("<QIdQ", 70, 2, 0.1, 0)
BOTTOM_K = struct.pack("<IdQB", 4, 0.1, 0, 0)
ULTRALOGLOG = struct.pack("<BdQB", 3, 0.1, 0, 0)

POSSIBLE = {
    "space saving": space_saving([9, 4], [0, 1], [b"a", b"b"]),
    "count-min": seal_envelope(1, COUNT_MIN, struct.pack("<q", 5) + packed(5, 0)),
    "fast-ams": seal_envelope(2, FAST_AMS, struct.pack("<qq", 5, 5) + packed(5, 0)),
    "value estimator": seal_envelope(
        4, FAST_AMS, struct.pack("<q", 5) + packed(5, 0) + struct.pack("<qqq", 50, 10, 10) + packed(50, 0)
    ),
    "bloom": seal_envelope(5, BLOOM, packed(3, 1, dtype="uint64")),
    "bottom-k": seal_envelope(7, BOTTOM_K, struct.pack("<I", 2) + packed(5, 5, dtype="uint64")),
    "ultraloglog": seal_envelope(8, ULTRALOGLOG, packed(8, 0, 0, 0, 0, 0, 0, 0, dtype="uint8")),
}

IMPOSSIBLE = {
    "an item twice": space_saving([9, 4], [0, 1], [b"a", b"a"]),
    "a count below the floor": space_saving([9, 1], [0, 0], [b"a", b"b"], floor=2),
    "an error as large as its count": space_saving([9, 4], [0, 4], [b"a", b"b"]),
    "a floor above the total": space_saving([9, 4], [0, 1], [b"a", b"b"], floor=21),
    "a count above the total": space_saving([29, 4], [0, 1], [b"a", b"b"]),
    "more items than slots": space_saving([9, 8, 7, 6, 5], [0] * 5, [b"a", b"b", b"c", b"d", b"e"], total=40),
    "a text that is no UTF-8": space_saving([9, 4], [0, 1], [b"a", b"\xff"]),
    "a text that starts inside a character": space_saving([9, 4], [0, 1], ["é".encode()[:1], "é".encode()[1:]]),
    "a negative total": seal_envelope(1, COUNT_MIN, struct.pack("<q", -5) + packed(0, 0)),
    "a counter above the total": seal_envelope(1, COUNT_MIN, struct.pack("<q", 5) + packed(6, 0)),
    "a net total above the weights": seal_envelope(2, FAST_AMS, struct.pack("<qq", 9, 5) + packed(5, 0)),
    "a signed counter above the weights": seal_envelope(2, FAST_AMS, struct.pack("<qq", 5, 5) + packed(-6, 0)),
    "a smallest value above the largest": seal_envelope(
        4, FAST_AMS, struct.pack("<q", 5) + packed(5, 0) + struct.pack("<qqq", 50, 11, 10) + packed(50, 0)
    ),
    "bits beyond the last": seal_envelope(5, BLOOM, packed(3, 64, dtype="uint64")),
    "values out of order": seal_envelope(7, BOTTOM_K, struct.pack("<I", 2) + packed(5, 0, dtype="uint64")),
    "more values than asked for": seal_envelope(
        7, BOTTOM_K, struct.pack("<I", 5) + packed(1, 1, 1, 1, 1, dtype="uint64")
    ),
    "a register with no top": seal_envelope(8, ULTRALOGLOG, packed(4, 0, 0, 0, 0, 0, 0, 0, dtype="uint8")),
    "a register with a value below the first": seal_envelope(
        8, ULTRALOGLOG, packed(9, 0, 0, 0, 0, 0, 0, 0, dtype="uint8")
    ),
    "a delta of zero": seal_envelope(2, struct.pack("<IIdQ", 2, 1, 0.0, 0), struct.pack("<qq", 5, 5) + packed(5, 0)),
    "a choice that is none": seal_envelope(
        8, struct.pack("<BdQB", 3, 0.1, 0, 7), packed(8, 0, 0, 0, 0, 0, 0, 0, dtype="uint8")
    ),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_the_impossible_ones_differ_from_is_taken(name: str) -> None:
    assert outcome(POSSIBLE[name]) is not None


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_state_that_no_events_give_is_refused(name: str) -> None:
    with pytest.raises(DamagedBytesError):
        Sketch.from_bytes(IMPOSSIBLE[name])


def test_a_tiny_claim_of_a_huge_sketch_takes_no_memory() -> None:
    parameters = struct.pack("<IIdQ?", 2**31, 64, 0.01, 0, False)
    payload = struct.pack("<q", 0) + struct.pack("<qBI", 0, 0, 0)
    assert outcome(seal_envelope(CountMin.family, parameters, payload)) is None
    parameters = struct.pack("<BdQB", 26, 0.01, 0, 0)
    assert outcome(seal_envelope(UltraLogLog.family, parameters, struct.pack("<qBI", 0, 0, 0))) is None


def frame(base: int, width: int) -> bytes:
    return struct.pack("<qBI", base, width, 0)


def test_lengths_that_wrap_around_are_refused() -> None:
    """2^24 items of 2^40 bytes add up to 2^64: nothing, in int64, and a write beyond the end of everything."""
    for items in (2**23, 2**24):
        bits = bytes(items // 8)
        payload = struct.pack("<qqI", 10, 0, items) + frame(1, 1) + bits + frame(0, 1) + bits + frame(2, 1) + bits
        forged = seal_envelope(SpaceSaving.family, struct.pack("<I", 2**26), payload + frame(2**40, 1) + bits)
        with pytest.raises(BytesError):
            Sketch.from_bytes(forged)


def test_many_items_in_few_bytes_are_refused_in_no_time() -> None:
    items = 2**19
    payload = struct.pack("<qqI", 10, 0, items) + frame(1, 0) + frame(0, 0) + frame(1, 0) + frame(0, 0)
    assert outcome(seal_envelope(SpaceSaving.family, struct.pack("<I", 2**26), payload)) is None


def test_many_counters_in_few_bytes_stay_few_bytes() -> None:
    for dimensions, accepted in ((1000, True), (2**16, False)):
        parameters = struct.pack("<IBIdQ", dimensions, 2, 2000, 0.1, 0)
        payload = (struct.pack("<I", 0) + frame(0, 0)) * (2 * dimensions)
        sketch = outcome(seal_envelope(TugOfWar.family, parameters, payload))
        assert (sketch is not None) is accepted


def test_a_full_register_is_taken_and_can_be_asked() -> None:
    top = struct.pack("<BdQB", 3, 0.01, 0, 0)
    sketch = outcome(seal_envelope(UltraLogLog.family, top, frame((63 << 2) | 3, 0)))
    assert sketch is not None
    assert UltraLogLog.from_bytes(sketch.to_bytes()).estimate().high == np.inf


def test_any_buffer_will_do() -> None:
    blob = GOLDEN["count_min"]
    doubled = bytearray(2 * len(blob))
    doubled[::2] = blob
    for view in (bytearray(blob), memoryview(blob), memoryview(doubled)[::2]):
        assert Sketch.from_bytes(view).to_bytes() == blob


def test_a_large_empty_sketch_of_ours_is_read_back() -> None:
    tracemalloc.stop()
    sketch = CountMin.sized(width=FREE_CELLS + 1, depth=1)
    assert CountMin.from_bytes(sketch.to_bytes()) == sketch


@pytest.mark.parametrize(
    ("place", "value", "error", "named"),
    [
        (0, 0x58, UnknownFormatError, "not b'CTCH'"),
        (4, 9, UnknownFormatError, "version 9"),
        (5, 99, UnknownFormatError, "family 99"),
        (6, 1, UnknownFormatError, "flags 0x0001"),
        (12, 0xEE, DamagedBytesError, "header states"),
        (30, 0xEE, DamagedBytesError, "checksum"),
    ],
)
def test_what_is_wrong_is_named(place: int, value: int, error: type[BytesError], named: str) -> None:
    damaged = bytearray(GOLDEN["count_min"])
    damaged[place] = value
    if place in (5,):
        damaged[-4:] = struct.pack("<I", crc32c(np.frombuffer(bytes(damaged[:-4]), dtype=np.uint8)))
    with pytest.raises(error, match=named):
        Sketch.from_bytes(bytes(damaged))


def test_bytes_of_another_kind_are_refused_by_name() -> None:
    with pytest.raises(UnknownFormatError, match="bytes of a CountMin"):
        UltraLogLog.from_bytes(GOLDEN["count_min"])
