"""Batches that cannot be taken: whatever is wrong with one, the site is afterwards, byte for byte, what it was before.

Two sites with the same watches get the same good batches; one of them gets bad ones in between. Every message and every
blob of the two must be the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment.errors import InputError
from catchment.monitor import Arrived, Coordinator, Items, Site, Total
from catchment.monitor.machine import COORDINATOR, Persist, Received, Send, Tick
from catchment.monitor.quantities import Distinct, Frequency, RangeSum, SelfJoin
from catchment.monitor.vectors import WEIGHT_LIMIT
from catchment.monitor.watch import Watch
from catchment.sketch.keys import KeyBatch

SMALL: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.4}
HISTORY: tuple[Watch | Items, ...] = (
    Total(number=1),
    SelfJoin(number=2, **SMALL),
    RangeSum(number=3, keys=("a", "b"), factors=(1, -5)),
    Distinct(number=4, **SMALL),
    Items(number=5, threshold=3),
)
WINDOWS: tuple[Watch | Items, ...] = (
    Total(number=11, window=50, epsilon=0.05),
    SelfJoin(number=12, window=50, **SMALL),
    Frequency(number=13, key="a", window=50, epsilon=0.05),
    Distinct(number=14, window=50, **SMALL),
    Items(number=15, threshold=3, window=50),
)
MIXES = {"history": HISTORY, "windows": WINDOWS, "both": HISTORY + WINDOWS, "turned": WINDOWS[::-1] + HISTORY[::-1]}

BAD: dict[str, Arrived] = {
    "time beyond 2^60": Arrived(time=2**61),
    "time far below": Arrived(time=-(2**61)),
    "numpy time beyond": Arrived(time=np.int64(2**61)),  # type: ignore[arg-type]
    "fractional time": Arrived(time=1.5),  # type: ignore[arg-type]
    "true as a time": Arrived(time=True),
    "good keys, bad time": Arrived(["a"], times=[20], time=2**61),
    "times beyond 2^60": Arrived(["a", "b"], times=[20, 2**61]),
    "nanoseconds": Arrived(["a"], times=[1_700_000_000_000_000_000]),
    "fractional times": Arrived(["a"], times=[20.5]),
    "too few times": Arrived(["a", "b"], times=[20]),
    "too many times": Arrived(["a", "b"], times=[20, 21, 22]),
    "times without keys": Arrived(times=[20]),
    "datetimes": Arrived(["a"], times=np.array(["2024-01-01"], dtype="datetime64[s]")),
    "too few weights": Arrived(["a", "b"], times=[20, 20], weights=[1]),
    "fractional weights": Arrived(["a"], times=[20], weights=[0.5]),
    "a huge weight": Arrived(["a"], times=[20], weights=[2**62]),
    "the smallest weight": Arrived(["a"], times=[20], weights=[-(2**63)]),
    "weights that sum up": Arrived(["a"] * 5, times=[20] * 5, weights=[WEIGHT_LIMIT // 4] * 5),
    "another stream": Arrived(["a"], times=[20], stream=1),
    "a stream below": Arrived(["a"], times=[20], stream=-1),
    "keys of another kind": Arrived([7], times=[20]),
    "hashes only": Arrived(KeyBatch.of_hashes(np.ones(1, dtype=np.uint64)), times=[20]),
    "a key that is null": Arrived(["a", None], times=[20, 20]),
    "no times": Arrived(["a"]),
    "negative": Arrived(["a"], times=[20], weights=[-1]),
}
FINE_FOR_HISTORY = {"no times"}
GOOD = (
    Arrived(["a", "b", "a"], times=[10, 11, 12]),
    Arrived(["c", "a"], times=[15, 14], weights=[2, 3]),
    Arrived(time=40),
    Arrived(["b"] * 20, times=np.arange(41, 61)),
    Arrived(time=100),
)


class _Run:
    """A site, its coordinator, and all that the site says and keeps."""

    def __init__(self, watches: tuple[Watch | Items, ...]) -> None:
        self.site, self._coordinator = Site("a", watches, keep=1), Coordinator(watches, ("a",))
        self.said: list[Any] = []
        self._waiting = [action for action in self._coordinator.handle(Tick(), 0) if isinstance(action, Send)]

    def give(self, event: Any, now: int) -> None:
        self._take(self.site.handle(event, now), now)
        while self._waiting:
            self._take(self.site.handle(Received(COORDINATOR, self._waiting.pop(0).frame), now), now)

    def _take(self, actions: list[Any], now: int) -> None:
        self.said += actions
        for action in actions:
            if isinstance(action, Send):
                answers = self._coordinator.handle(Received("a", action.frame), now)
                self._waiting += [answer for answer in answers if isinstance(answer, Send)]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("kind", BAD)
def test_a_batch_that_is_refused_changes_nothing(mix: str, kind: str) -> None:
    if mix == "history" and kind in FINE_FOR_HISTORY:
        Site("a", MIXES[mix]).handle(BAD[kind], 0)
        return
    hurt, well = _Run(MIXES[mix]), _Run(MIXES[mix])
    for step, good in enumerate(GOOD):
        for _ in range(2 if step else 1):
            if step == 0 and kind == "keys of another kind":
                continue  # what the first keys are decides
            with pytest.raises((InputError, TypeError)):
                hurt.site.handle(BAD[kind], step)
        for run in (hurt, well):
            run.give(good, step)
        assert hurt.said == well.said
    assert (hurt.site.position, hurt.site.time) == (25, 100)
    assert any(isinstance(action, Persist) and action.name == "life" for action in hurt.said)


def test_a_first_batch_that_is_refused_leaves_the_life_to_be_kept() -> None:
    site = Site("a", (Total(),))
    with pytest.raises(InputError):
        site.handle(Arrived(["a"], weights=[0.5]), 0)
    (life, *_) = site.handle(Tick(), 0)
    assert life == Persist("life", (1).to_bytes(8, "little"))


def test_a_time_of_numpy_is_a_time() -> None:
    watch = Items(threshold=2, window=5)
    run = _Run((watch,))
    run.give(Arrived(["a"] * 3, times=np.array([1, 2, 3])), 0)
    run.give(Arrived(time=np.int64(4)), 0)  # type: ignore[arg-type]
    run.give(Tick(), 20_000)
    assert (run.site.position, run.site.time) == (3, 4)


def test_weights_may_come_back_below_the_limit() -> None:
    site = Site("a", (Total(),))
    part = WEIGHT_LIMIT // 5 * 2
    for _ in range(10):
        site.handle(Arrived([1], weights=[part]), 0)
        with pytest.raises(InputError, match="2\\^54"):
            site.handle(Arrived([1], weights=[2 * part]), 0)
        site.handle(Arrived([1], weights=[-part]), 0)
    assert int(site.vectors[0].values()[0, 0]) == 0


def test_times_that_empty_the_windows_and_events_that_are_too_old_for_them_are_counted() -> None:
    site = Site("a", (Items(number=1, threshold=3, window=50), Total(number=2, window=10, epsilon=0.05)))
    site.handle(Arrived(["a"] * 300, times=np.arange(300)), 0)  # a batch may be longer than a window
    assert (site.jumps, site.too_late) == (0, 0)
    site.handle(Arrived(["a"] * 3, times=[349, 299, 350]), 0)
    assert (site.jumps, site.too_late) == (0, 1)  # 299 is not in (299, 349]
    site.handle(Arrived(["a", "a", "a"], times=[351, 2**59, 352]), 0)
    assert (site.jumps, site.too_late, site.time) == (1, 2, 2**59)
    site.handle(Arrived(["a"] * 7, times=[353] * 7), 0)
    assert (site.jumps, site.too_late) == (1, 9)
    plain = Site("a", (Total(),))
    plain.handle(Arrived(["a", "a"], times=[1, 2**59]), 0)
    assert (plain.jumps, plain.too_late) == (0, 0)
