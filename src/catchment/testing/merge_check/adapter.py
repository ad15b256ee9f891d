"""WindowCounterAdapter: what to write so that a sketch can be checked, and Claims: what the sketch says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from catchment.errors import ParameterError

__all__ = ["Claims", "WindowCounterAdapter"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a sketch promises; it is held to this and asked for no more.

    >>> Claims(window=1000, keys=False).total_delta
    0.0
    >>> Claims(window=1000, delta=0.01, totals_always=True).total_delta
    0.0
    """

    window: int
    """The ticks of time that a question can reach back over."""
    delta: float = 0.0
    """The probability that the truth leaves the interval; 0 for never."""
    keys: bool = True
    """Whether it counts each key, or only all events."""
    totals: bool = True
    """Whether it can be asked for all events."""
    totals_always: bool = False
    """The interval of a total never fails, whatever delta is."""
    high_always: bool = False
    """The truth is never above the interval, whatever delta is."""
    lateness: int = 0
    """How many ticks late an event may come to its site; 0 for events in order alone."""
    ranges: bool = True
    """Whether a question may be about less than the whole window."""
    past: bool = True
    """Whether a question may end before the newest event."""
    negative_times: bool = False
    """Whether times may be below zero."""
    either_edge: bool = False
    """Accept an interval that holds the count with or without the events exactly `last` ticks old.

    For libraries that do not say which they mean: theirs is the benefit of the doubt.
    """

    def __post_init__(self) -> None:
        if not (0 <= self.delta < 1 and self.window >= 1 and 0 <= self.lateness <= self.window):
            raise ParameterError(
                f"claims of window={self.window}, delta={self.delta}, lateness={self.lateness}",
                "give a window of 1 and more, a delta from 0 to below 1, a lateness up to the window",
            )
        if not (self.keys or self.totals):
            raise ParameterError("claims of neither keys nor totals", "claim what can be asked for")

    @property
    def total_delta(self) -> float:
        return 0.0 if self.totals_always else self.delta


class WindowCounterAdapter(Protocol):
    """A sketch of the events in a sliding window, ours or anybody's, behind four functions.

    `update` changes the state, with integer keys at times in order of arrival, not always in order of time. `merge`
    may use up its parts; it raises `catchment.MergeError` where it refuses rather than answer wrongly. `estimate`
    answers how many events came after `now - last`, up to and including `now`: with that key, or all where it is None.

    >>> class Remembers:
    ...     name = "a list of everything"
    ...     claims = Claims(window=1000)
    ...     def new(self, seed): return []
    ...     def update(self, state, keys, times): state.extend(zip(keys.tolist(), times.tolist()))
    ...     def merge(self, states): return [event for state in states for event in state]
    ...     def estimate(self, state, key, last, now):
    ...         count = sum(now - last < at <= now and key in (None, seen) for seen, at in state)
    ...         return count, count, count
    >>> from catchment.testing.merge_check import merge_check
    >>> outcomes = merge_check(Remembers(), sites=[3], trials=2)
    >>> sum(outcome.questions for outcome in outcomes) > 100, sum(outcome.violations for outcome in outcomes)
    (True, 0)
    """

    @property
    def name(self) -> str: ...

    @property
    def claims(self) -> Claims: ...

    def new(self, seed: int) -> Any:
        """An empty state; those that are to be merged get the same seed."""

    def update(self, state: Any, keys: I64, times: I64) -> None: ...

    def merge(self, states: Sequence[Any]) -> Any: ...

    def estimate(self, state: Any, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        """The value, and the interval that is claimed to hold the truth: `(value, low, high)`."""
