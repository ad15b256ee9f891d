"""What scheduler, instances and cost model keep: they go on from their bytes as if nothing had been, and trust none."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.balance.scheduler import CostModel, OperatorInstance, Scheduler, SchedulerSettings
from catchment.errors import BytesError, UnknownFormatError
from catchment.kernel.checksum import crc32c
from catchment.sketch.value_estimator import ValueEstimator

USING = SchedulerSettings(window=16, tolerance=0.3, epsilon=0.4, delta=0.25, windows="sliding", span=3, resync=20)
GOLDEN = Path(__file__).parent / "golden"
LIMIT_BYTES = 64 * 2**20
LIMIT_SECONDS = 1.0


def instance() -> OperatorInstance:
    made = OperatorInstance(1, USING, life=3)
    made.executed(np.arange(60) % 7, np.arange(60) % 7 * 100)
    assert made.sent > 0
    return made


def scheduler() -> Scheduler:
    made = Scheduler(2, USING)
    for number in range(2):
        learner = OperatorInstance(number, USING)
        for message in learner.executed(np.arange(40) % 7, np.arange(40) % 7 * 100 + number):
            made.hear(message, at=0)
    made.assign(np.arange(10), at=np.arange(10))
    assert made.state == "WAIT ALL"
    return made


def model() -> CostModel:
    made = CostModel(0.3, 0.25, pane=30, panes=2)
    for start in range(0, 100, 20):
        part = made.blank()
        part.update(np.arange(start, start + 20), values=np.arange(start, start + 20) * 50)
        made.learn(part)
    return made


MAKERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "instance": (instance, OperatorInstance),
    "scheduler": (scheduler, Scheduler),
    "model": (model, CostModel),
}


def test_an_instance_goes_on_where_it_was() -> None:
    one = instance()
    two = OperatorInstance.from_bytes(one.to_bytes())
    for keys in (np.arange(5), np.arange(50) % 3):
        told, again = (machine.executed(keys, keys * 10) for machine in (one, two))
        assert [type(message) for message in told] == [type(message) for message in again]
        assert one.to_bytes() == two.to_bytes()
    assert (two.number, two.life) == (1, 3)


def test_a_scheduler_goes_on_where_it_was() -> None:
    one = scheduler()
    two = Scheduler.from_bytes(one.to_bytes())
    for _ in range(3):
        assert (
            one.assign(np.arange(30), at=50).instances.tolist() == two.assign(np.arange(30), at=50).instances.tolist()
        )
        assert one.to_bytes() == two.to_bytes()
    assert Scheduler.from_bytes(Scheduler(3).to_bytes()).assign(["a"] * 4, at=0).instances.tolist() == [0, 1, 2, 0]


def test_a_model_goes_on_where_it_was() -> None:
    one = model()
    two = CostModel.from_bytes(one.to_bytes())
    assert (two.pane, two.panes, two.rows) == (30, 2, one.rows)
    assert one.estimate(np.arange(120)).tolist() == two.estimate(np.arange(120)).tolist()
    part = one.blank()
    part.update([1, 2, 3], values=[4, 5, 6])
    one.learn(part)
    two.learn(part)
    assert one.to_bytes() == two.to_bytes()


def outcome(kind: Any, blob: bytes) -> Any:
    """What was read, or None for the promised error; anything else, or too much of anything, fails."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    start = time.process_time()
    try:
        read = kind.from_bytes(blob)
    except BytesError:
        read = None
    assert time.process_time() - start < LIMIT_SECONDS
    assert tracemalloc.get_traced_memory()[1] - before < LIMIT_BYTES
    return read


@pytest.mark.parametrize("name", MAKERS)
def test_cut_or_flipped_bytes_are_refused(name: str) -> None:
    make, kind = MAKERS[name]
    blob = make().to_bytes()
    tracemalloc.start()
    try:
        assert all(outcome(kind, blob[:length]) is None for length in range(len(blob)))
        assert outcome(kind, blob + b"\0") is None
        for bit in range(0, 8 * len(blob), 5):
            damaged = bytearray(blob)
            damaged[bit // 8] ^= 1 << bit % 8
            assert outcome(kind, bytes(damaged)) is None, f"bit {bit}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", MAKERS)
def test_forgeries_with_a_true_checksum_give_the_error_or_something_that_works(name: str) -> None:
    make, kind = MAKERS[name]
    blob = make().to_bytes()
    rng = random.Random(f"forgeries of {name}")
    header = struct.Struct("<4sBBHIQ")
    magic, version, family, flags, parameters, _ = header.unpack_from(blob)
    taken = 0
    tracemalloc.start()
    try:
        for _ in range(1_000):
            body = bytearray(blob[header.size : -4])
            for _ in range(rng.randint(1, 3)):
                place = rng.randrange(len(body))
                match rng.randrange(4):
                    case 0:
                        body[place] = rng.randrange(256)
                    case 1:
                        del body[place : place + rng.randint(1, 8)]
                    case 2:
                        body[place : place + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"])
                    case _:
                        body[place:place] = rng.randbytes(rng.randint(1, 8))
            fixed = min(parameters, len(body))
            forged = header.pack(magic, version, family, flags, fixed, len(body) - fixed) + body
            read = outcome(kind, forged + struct.pack("<I", crc32c(np.frombuffer(forged, dtype=np.uint8))))
            if read is not None:
                taken += 1
                assert kind.from_bytes(read.to_bytes()).to_bytes() == read.to_bytes()
    finally:
        tracemalloc.stop()
    assert taken > 0  # a load or a sum may be another: nobody can tell


def test_few_bytes_do_not_ask_for_much_memory() -> None:
    wide = Scheduler(64, SchedulerSettings(epsilon=1e-5, delta=0.25))
    tracemalloc.start()
    try:
        assert outcome(Scheduler, wide.to_bytes()) is not None
    finally:
        tracemalloc.stop()


def test_bytes_of_another_kind_are_named() -> None:
    for make, kind in MAKERS.values():
        for other in (ValueEstimator().to_bytes(), *(m().to_bytes() for m, k in MAKERS.values() if k is not kind)):
            with pytest.raises(UnknownFormatError, match="bytes of family"):
                kind.from_bytes(other)
        with pytest.raises(UnknownFormatError, match="unknown family"):
            ValueEstimator.from_bytes(make().to_bytes())


@pytest.mark.parametrize("name", MAKERS)
def test_bytes_are_for_ever(name: str) -> None:
    """Added once, never changed: a new layout is a new format version."""
    make, kind = MAKERS[name]
    golden = (GOLDEN / f"{name}.state").read_bytes()
    assert make().to_bytes() == golden
    assert kind.from_bytes(golden).to_bytes() == golden
