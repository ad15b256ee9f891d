"""TimeCounter: how many in the last hour? One counter of a grid by itself."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from catchment.answer import Answer
from catchment.sketch.checks import are_ones, as_weights, check_fraction, check_whole
from catchment.window.base import CLOCK_LAYOUT
from catchment.window.clock import ARRIVALS, clock_parameters
from catchment.window.grid_sketch import COUNTERS, GridSketch

__all__ = ["TimeCounter"]


class TimeCounter(GridSketch):
    """Counts events, or sums their weights, in a window of time or of arrivals; the classes below say how."""

    inputs: ClassVar[tuple[str, ...]] = ("at",)
    measures = {"estimate": "total", "total": "total"}
    _layout = {"size": "I", **CLOCK_LAYOUT}
    seed = 0
    delta = 0.0

    def __init__(
        self,
        epsilon: float = 0.01,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        lateness: int | None = None,
    ) -> None:
        self._configure(**self.suggest(epsilon), **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float = 0.01) -> dict[str, Any]:
        """The size for an error of epsilon; delta is accepted for uniformity and changes nothing."""
        return {"size": COUNTERS[cls.counter].size_for(check_fraction("epsilon", epsilon))}

    @classmethod
    def for_tree(cls, epsilon: float = 0.01, *, window: int, height: int, lateness: int | None = None) -> Self:
        """A leaf for a tree of merges `height` levels high, so that its root has error `epsilon`."""
        check_whole("height", height, 0, 64)
        size = COUNTERS[cls.counter].size_for(check_fraction("epsilon", epsilon), height)
        return cls.sized(size=size, **clock_parameters(window, None, lateness))

    def _configure(self, *, size: int, window: int, clock: str = "time", lateness: int = 0) -> None:
        self.size = check_whole("size", size, 2, COUNTERS[self.counter].largest_size)
        self._set_clock(window, clock, lateness)

    def _cells(self) -> int:
        return 1

    @property
    def epsilon(self) -> float:
        return self.counter_error

    @property
    def guarantee(self) -> str:
        return (
            "the truth lies in [low, high], always; for events in order and a range up to now, the value misses it by "
            f"at most {self.epsilon:.3g} of it, rounded"
        )

    def update(self, at: Any = None, *, weights: Any = 1) -> None:
        """Count events at these times, once each or by weight: integers, not negative.

        In a window of arrivals there are no times, and the weights say how many events there are: one where nothing
        is given. An event of weight 0 is an arrival too.
        """
        count = None
        if self.clock == ARRIVALS:
            count = 1 if np.ndim(weights) == 0 else len(weights)
        stamps = self._time.read(at, count)
        shares = weights if are_ones(weights) else as_weights(weights, stamps.times.size)
        self._arrive(stamps, shares, lambda _: lambda part: np.zeros((1, part.stop - part.start), dtype=np.int32))

    def estimate(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight of the events in the last ticks, the whole window by default."""
        start, end = self._time.span(last, now)
        counts = self._between(start, end, delta=self.delta)
        value, low, high = (int(part[0]) for part in counts)
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon, window=(start, end))

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The same as `estimate`: what other sketches in time call the weight of all events."""
        return self.estimate(last=last, now=now)
