"""Bytes of sketches in time: honest ones can always be read again, forged ones cannot break anything."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from catchment import (
    DamagedBytesError,
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    ParameterError,
    RandomizedWave,
    Sketch,
    Wave,
    WindowSketch,
)
from catchment.sketch.codec import FREE_CLAIM, seal_envelope
from catchment.window.counters import TimeCounter


def ecm(epsilon: float, keys: int, **parameters: str) -> ECMSketch:
    sketch = ECMSketch(epsilon, 0.01, window=1000, **parameters)  # type: ignore[arg-type]
    sketch.update(np.arange(keys), at=5)
    return sketch


def counted(sketch: Wave | RandomizedWave) -> WindowSketch:
    sketch.update(at=[5])
    return sketch


@pytest.mark.parametrize(
    "make",
    [
        lambda: ecm(0.001, 20_000),
        lambda: ecm(0.02, 1, counter="randomized"),
        lambda: ecm(0.002, 10, counter="panes"),
        lambda: ecm(0.001, 30, counter="eh"),
        lambda: counted(Wave(epsilon=1e-6, window=1000)),
        lambda: counted(RandomizedWave(epsilon=0.002, window=1000)),
    ],
)
def test_a_large_sketch_of_few_events_can_be_read(make: Callable[[], WindowSketch]) -> None:
    """Its memory is far more than its bytes could fill: it pays for it by zeros."""
    sketch = make()
    blob = sketch.to_bytes()
    assert Sketch.from_bytes(blob) == sketch
    assert sketch.nbytes > 100 * len(blob) or len(blob) > 10_000


def test_a_sketch_must_pay_for_its_memory() -> None:
    """The same parameters, state and checksum, without the zeros."""
    sketch = ECMSketch.sized(width=16, depth=1, size=2**18, window=2**40)
    sketch.update(np.arange(100), at=5)
    blob = sketch.to_bytes()
    assert len(blob) > (16 * 2 * 2**18 * 2 - FREE_CLAIM) // 256
    header, parameters = 20, int.from_bytes(blob[8:12], "little")
    payload = blob[header + parameters : -4].replace(bytes(1000), b"")
    with pytest.raises(DamagedBytesError):
        ECMSketch.from_bytes(seal_envelope(ECMSketch.family, blob[header : header + parameters], payload))


def test_levels_share_one_allowance() -> None:
    """Sixty-three nested sketches may not claim sixty-three times what one may."""
    sketch = DyadicECM.sized(width=2, depth=1, size=2**16, window=1000, bits=63, step=1, counter="panes")
    blob = sketch.to_bytes()
    assert len(blob) > 63 * 2 * 2 * 2**16 // 256 - FREE_CLAIM // 256
    tracemalloc.start()
    try:
        damaged = blob[: len(blob) // 2] + blob[-4:]
        with pytest.raises(DamagedBytesError):
            Sketch.from_bytes(damaged)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def forged(sketch: WindowSketch, **state: int) -> bytes:
    for name, value in state.items():
        setattr(sketch._time if hasattr(sketch._time, name) else sketch, name, value)
    return sketch.to_bytes()


def test_counters_that_hold_more_than_all_events_are_refused() -> None:
    wave = Wave.sized(size=2, window=1000)
    wave.update(at=[5], weights=[2**62 - 1])
    histogram = ExponentialHistogram.sized(size=2, window=1000)
    histogram.update(at=[5], weights=[1000])
    panes = ECMSketch.sized(width=3, depth=2, size=4, window=1000, counter="panes")
    panes.update([1, 2], at=[5, 6])
    waves = ECMSketch.sized(width=3, depth=2, size=4, window=1000)
    waves.update([1, 2], at=[5, 6])
    for sketch in (wave, histogram, panes, waves):
        assert Sketch.from_bytes(sketch.to_bytes()) == sketch
        with pytest.raises(DamagedBytesError, match="in all"):
            Sketch.from_bytes(forged(sketch, _mass=1))


def test_clocks_that_cannot_be_are_refused() -> None:
    for state in ({"late": -1}, {"late": 2**62}, {"delay": 5}, {"first": 7}, {"too_late": 2**63 - 1}):
        wave = Wave.sized(size=2, window=1000)
        wave.update(at=[5, 6])
        with pytest.raises(DamagedBytesError, match="clock"):
            Sketch.from_bytes(forged(wave, **state))
    wave = Wave.sized(size=2, window=1000)
    wave.update(at=[5, 6])
    with pytest.raises(DamagedBytesError, match="since 9"):
        Sketch.from_bytes(forged(wave, _since=9))


def test_asking_for_bytes_changes_nothing_that_follows() -> None:
    """Histograms put off forgetting; whether bytes were asked for in between must not be seen afterwards."""

    def part(touch: bool) -> ECMSketch:
        sketch = ECMSketch.sized(width=64, depth=1, size=4, window=100, counter="eh")
        sketch.update(np.zeros(50, dtype=int), at=np.arange(50))
        sketch.update([1], at=[1000])
        if touch:
            sketch.to_bytes()
        return sketch

    other = ECMSketch.sized(width=64, depth=1, size=4, window=100, counter="eh")
    other.update([2], at=[1000])
    merged = [ECMSketch.merge([part(touch), other]) for touch in (False, True)]
    assert merged[0].to_bytes() == merged[1].to_bytes()
    assert merged[0].epsilon == other.epsilon, "what has left the window is not inherited"


def test_sizes_have_limits() -> None:
    with pytest.raises(ParameterError, match="size=71429"):
        ExponentialHistogram(epsilon=7e-6, window=10**6)
    largest = ExponentialHistogram.sized(size=2**15, window=10**6)
    largest.update(at=np.arange(1, 200_001))
    assert largest.estimate(last=150_000).holds(150_000)
    with pytest.raises(ParameterError):
        ECMSketch.sized(width=2, depth=1, size=2**16, window=10, counter="eh")


def test_leaves_of_plain_counters_for_a_tree() -> None:
    kinds: list[type[TimeCounter]] = [Wave, ExponentialHistogram]
    for kind in kinds:
        parts: list[TimeCounter] = []
        for site in range(16):
            parts.append(kind.for_tree(0.1, window=4000, height=4))
            parts[-1].update(at=np.arange(site, 10_000, 3))
        while len(parts) > 1:
            parts = [kind.merge(parts[place : place + 2]) for place in range(0, len(parts), 2)]
        assert parts[0].epsilon <= 0.1 + 1e-9
        for last in (100, 1000, 4000):
            truth = sum(int(np.count_nonzero(np.arange(site, 10_000, 3) > 9999 - last)) for site in range(16))
            assert parts[0].estimate(last=last).holds(truth)
