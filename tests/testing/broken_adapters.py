"""Adapters that are wrong on purpose, each in one way, beside the right one that they come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from catchment.errors import MergeError
from catchment.testing.merge_check import Claims

I64 = NDArray[np.int64]
State = list[tuple[int, int]]

WINDOW = 200


class Remembers:
    """Keeps every event, and is always right."""

    name = "remembers"
    claims = Claims(window=WINDOW, lateness=WINDOW, negative_times=True)

    def new(self, seed: int) -> State:
        assert seed >= 0
        return []

    def update(self, state: State, keys: I64, times: I64) -> None:
        state.extend(zip(keys.tolist(), times.tolist(), strict=True))

    def merge(self, states: Sequence[State]) -> State:
        return [event for state in states for event in state]

    def estimate(self, state: State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        count = sum(now - last < at <= now and key in (None, seen) for seen, at in state)
        return count, count, count


class TooNarrow(Remembers):
    """Estimates the count as a tenth too high, and claims to be within a twentieth."""

    name = "too narrow"

    def estimate(self, state: State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        count = super().estimate(state, key, last, now)[0] * 1.1
        return count, count / 1.05, count * 1.05


class HalvesByConcatenation(Remembers):
    """Merges by keeping every second event twice, as who joins lists of buckets and thins them out."""

    name = "concatenates"

    def merge(self, states: Sequence[State]) -> State:
        return [event for event in super().merge(states)[::2] for _ in range(2)]


class IgnoresLateness(Remembers):
    """Counts a late event at the time of its arrival, and does not say so."""

    name = "ignores lateness"

    def update(self, state: State, keys: I64, times: I64) -> None:
        newest = max((at for _, at in state), default=int(times[0]))
        super().update(state, keys, np.maximum(np.maximum.accumulate(times), newest))


class ClosedWindow(Remembers):
    """Takes the events that are exactly as old as the window for its own."""

    name = "closed window"

    def estimate(self, state: State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        return super().estimate(state, key, last + 1, now)


class EitherWindow(ClosedWindow):
    """The same, without a claim about the edge."""

    name = "either window"
    claims = Claims(window=WINDOW, lateness=WINDOW, negative_times=True, either_edge=True)


class Refuses(Remembers):
    """Merges two and no more."""

    name = "refuses"

    def merge(self, states: Sequence[State]) -> State:
        if len(states) > 2:
            raise MergeError(f"{len(states)} parts", "give two")
        return super().merge(states)


class Gambles(Remembers):
    """Fails in a share of the trials, as its seed decides."""

    name = "gambles"
    claims = Claims(window=WINDOW, delta=0.1)
    share = 0.1

    def new(self, seed: int) -> State:
        return [(-1, np.iinfo(np.int64).max)] if seed % 1000 < 1000 * self.share else []

    def estimate(self, state: State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        count, low, high = super().estimate(state, key, last, now)
        return (count, low, high) if not state or state[0][0] >= 0 else (count + 1, low + 1, high + 1)


class GamblesTooOften(Gambles):
    name = "gambles too often"
    share = 0.5


class FailsAbove(Gambles):
    """Fails within its delta, but above, where it claims never to."""

    name = "fails above"
    claims = Claims(window=WINDOW, delta=0.1, high_always=True)

    def estimate(self, state: State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        count = Remembers.estimate(self, state, key, last, now)[0]
        return (count, count, count) if super().estimate(state, key, last, now)[1] == count else (count, 0, count - 1)


class Incomplete:
    """Not an adapter."""

    name = "incomplete"
