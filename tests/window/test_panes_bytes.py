"""The bytes of panes are trusted no more than any others."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from catchment import BytesError, QueryError, Sketch
from catchment.kernel.checksum import crc32c
from catchment.sketch.base import KEYED_TRUTHS
from catchment.sketch.codec import Writer, seal_envelope
from catchment.testing import STREAMS
from catchment.window.panes import Panes
from tests.amounts import fewer
from tests.sketch.test_damage import mutated, outcome
from tests.window.pane_cases import PROTOTYPES, delayed, fed


@pytest.fixture
def _traced() -> Iterator[None]:
    for prototype in PROTOTYPES.values():
        outcome_of(prototype)  # compiled before it is timed
    tracemalloc.start()
    yield
    tracemalloc.stop()


def outcome_of(prototype: Sketch) -> bytes:
    events = STREAMS["zipf-1.5"](60, seed=2)
    blob = fed(Panes(prototype, 40, panes=3), delayed(events, np.random.default_rng(1), 10)).to_bytes()
    Panes.from_bytes(blob)
    return blob


def resealed(blob: bytes, body: bytes) -> bytes:
    header = struct.Struct("<4sBBHIQ")
    magic, version, family, flags, parameters, _ = header.unpack_from(blob)
    head = header.pack(magic, version, family, flags, min(parameters, len(body)), max(len(body) - parameters, 0))
    return head + body + struct.pack("<I", crc32c(np.frombuffer(head + body, dtype=np.uint8)))


@fewer("edits", 100, 1000, part="fuzz")
@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("name", PROTOTYPES)
def test_damaged_bytes_give_the_error_or_a_whole_sketch(name: str, edits: int) -> None:
    rng = random.Random(f"panes of {name}")
    blob = outcome_of(PROTOTYPES[name])
    for length in range(0, len(blob), 7):
        assert outcome(blob[:length]) is None
    for _ in range(edits * 3 // 10):
        damaged = outcome(mutated(blob, rng))
        assert damaged is None or damaged.to_bytes() == blob
    taken = 0
    for _ in range(edits * 7 // 10):
        sketch = outcome(resealed(blob, mutated(blob[20:-4], rng)))
        if isinstance(sketch, Panes):
            taken += 1
            assert Sketch.from_bytes(sketch.to_bytes()) == sketch
            for question, measure in sketch.measures.items():
                try:
                    answer = sketch.ask(question, *([1],) if measure in KEYED_TRUTHS else ())
                except QueryError:  # weights that add up to too much, or a sum that says some were negative
                    continue
                assert not np.any(np.asarray(answer.low) > answer.high), f"{question}: {answer}"
    assert taken > 0, "nothing got past the checks: the forgeries are no test of them"


def parameters(family: int, nested: bytes, *, clock: int = 0, panes: int = 2) -> bytes:
    return struct.pack("<QBQI", 20, clock, 20, panes) + bytes([family]) + nested


def packed(*values: int) -> bytes:
    writer = Writer()
    writer.integers(np.array(values, dtype=np.int64))
    return writer.getvalue()


def payload(
    numbers: list[int], firsts: list[int], lasts: list[int], *, started: bool = True, newest: int = 25
) -> bytes:
    clock = struct.pack("<?qqqqq", started, newest and 5, newest, 0, 0, 0)
    sketch = struct.pack("<q", 1) + packed(1, 0)
    return (
        clock + struct.pack("<I", len(numbers)) + packed(*numbers) + packed(*firsts) + packed(*lasts)
        + sketch * len(numbers)
    )  # fmt: skip


COUNT_MIN = struct.pack("<IIdQ?", 2, 1, 0.1, 0, False)
GOOD = seal_envelope(13, parameters(1, COUNT_MIN), payload([0, 1, 2], [4, 0, 1], [6, 9, 4]))
IMPOSSIBLE = {
    "a pane that has left": payload([-1, 1, 2], [4, 0, 1], [6, 9, 4]),
    "a pane that has not come": payload([0, 2, 3], [4, 0, 1], [6, 9, 4]),
    "panes out of order": payload([1, 0, 2], [4, 0, 1], [6, 9, 4]),
    "a pane twice": payload([0, 2, 2], [4, 0, 1], [6, 9, 4]),
    "a first time after the last": payload([0, 1, 2], [7, 0, 1], [6, 9, 4]),
    "a time beyond its pane": payload([0, 1, 2], [4, 0, 1], [6, 10, 4]),
    "a newest event that is nowhere": payload([0, 1, 2], [4, 0, 1], [6, 9, 3]),
    "no panes": payload([], [], []),
    "panes before the first event": payload([0], [0], [0], started=False, newest=0),
}


def test_what_the_impossible_ones_differ_from_is_taken() -> None:
    assert Panes.from_bytes(GOOD).total().high == 3


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_state_that_no_events_give_is_refused(name: str) -> None:
    with pytest.raises(BytesError):
        Sketch.from_bytes(seal_envelope(13, parameters(1, COUNT_MIN), IMPOSSIBLE[name]))


@pytest.mark.parametrize(
    ("forged", "named"),
    [
        (parameters(99, COUNT_MIN), "unknown family 99"),
        (parameters(13, parameters(13, COUNT_MIN)), "a Panes as prototype"),
        (parameters(1, struct.pack("<IIdQ?", 0, 1, 0.1, 0, False)), "prototype with impossible parameter width=0"),
        (parameters(1, COUNT_MIN[:-1]), "are left"),
        (parameters(1, COUNT_MIN + b"\0"), "left over"),
        (parameters(1, COUNT_MIN, clock=2), "clock number 2"),
        (parameters(1, COUNT_MIN, panes=0), "panes=0"),
    ],
)
def test_impossible_parameters_are_refused_by_name(forged: bytes, named: str) -> None:
    with pytest.raises(BytesError, match=named):
        Sketch.from_bytes(seal_envelope(13, forged, payload([0, 1, 2], [4, 0, 1], [6, 9, 4])))


@pytest.mark.usefixtures("_traced")
def test_a_tiny_claim_of_huge_panes_takes_no_memory() -> None:
    huge = struct.pack("<IIdQ?", 2**31, 64, 0.01, 0, False)
    assert outcome(seal_envelope(13, parameters(1, huge), payload([0, 1, 2], [4, 0, 1], [6, 9, 4]))) is None
    # Three panes of a million cells each, in no bits: together more than any payload has for free.
    million = struct.pack("<IIdQ?", 2**20, 1, 0.01, 0, False)
    clock = struct.pack("<?qqqqqI", True, 5, 25, 0, 0, 0, 3)
    times = packed(0, 1, 2) + packed(4, 0, 1) + packed(6, 9, 4)
    free = struct.pack("<q", 1) + struct.pack("<qBI", 0, 0, 0)
    assert outcome(seal_envelope(13, parameters(1, million), clock + times + free * 3)) is None
