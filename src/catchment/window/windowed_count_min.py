"""WindowedCountMin: what the four Count-Min sketches over a sliding window share (Rivetti's thesis, section 3.2)."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import QueryError
from catchment.kernel.hashing import column_draws
from catchment.sketch.bounds import collision_floor
from catchment.sketch.checks import as_weights, check_fraction, check_mass, check_whole
from catchment.sketch.keys import as_keys
from catchment.window.base import CLOCK_LAYOUT, WindowSketch
from catchment.window.clock import TIME_LIMIT, Stamps, clock_parameters

__all__ = ["WindowedCountMin"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class WindowedCountMin(WindowSketch):
    """Frequencies in the last `window` ticks or arrivals, in `depth` rows of `width` counters.

    A subclass gives `_mass`, `_take`, its questions, merging and bytes.
    """

    measures = {"estimate": "frequency", "total": "total"}
    _layout = {"width": "I", "depth": "I", "delta": "d", "seed": "Q", **CLOCK_LAYOUT}

    width: int
    depth: int
    delta: float
    seed: int

    def __init__(
        self,
        epsilon: float = 0.1,
        delta: float = 0.1,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        lateness: int | None = None,
        seed: int = 0,
    ) -> None:
        self._configure(**self.suggest(epsilon, delta), seed=seed, **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """Width ceil(e/epsilon) and depth ceil(log2(1/delta)), as in the thesis: one row for delta 0.5."""
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        return {
            "width": math.ceil(math.e / epsilon),
            "depth": max(1, math.ceil(math.log2(1 / delta) - 1e-9)),
            "delta": delta,
        }

    def _configure(
        self,
        *,
        width: int,
        depth: int,
        window: int,
        delta: float | None = None,
        seed: int = 0,
        clock: str = "time",
        lateness: int = 0,
    ) -> None:
        self.width = check_whole("width", width, 1, 2**31)
        self.depth = check_whole("depth", depth, 1, 64)
        self.delta = check_fraction("delta", 2.0**-depth if delta is None else delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self._set_clock(window, clock, lateness)
        self._rows = column_draws(self.seed, self.depth)

    @property
    def epsilon(self) -> float:
        """The part of the error that colliding keys make, as a fraction of the weight in the window."""
        return self._share(self.delta)

    def _share(self, delta: float) -> float:
        return float(delta ** (-1 / self.depth) / self.width)

    # -- events -----------------------------------------------------------------------------------------------

    def update(self, keys: Any, *, at: Any = None, weights: Any = 1) -> None:
        """Count each key once, or by its weight, at its time; a window of arrivals takes no times."""
        batch = as_keys(keys)
        self._update_hashes(batch.hashes(), at, as_weights(weights, len(batch)))

    def _update_hashes(self, hashes: U64, at: Any, weights: I64) -> None:
        stamps = self._time.read(at, hashes.size)
        check_mass("weights", self._mass, weights)
        if hashes.size:
            self._take(hashes, stamps, weights)
            self._time.commit(stamps)

    @property
    @abstractmethod
    def _mass(self) -> int:
        """The weight that the counters hold."""

    @abstractmethod
    def _take(self, hashes: U64, stamps: Stamps, weights: I64) -> None:
        """Count the events of a batch that is not empty; the clock still stands where it did before it."""

    # -- questions --------------------------------------------------------------------------------------------

    @abstractmethod
    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the window; one key gives numbers, an array of keys gives arrays."""

    def _whole_window(self, last: int | None, now: int | None) -> tuple[int, int]:
        """The question's `(start, end)`, refused when it is not about the whole window at the newest time or later."""
        if last is not None and (isinstance(last, bool) or last != self.window):
            raise QueryError(
                f"last={last!r}",
                f"this sketch knows its whole window of {self.window} only: leave `last` out, or use ECMSketch",
            )
        end = self._time.newest if now is None else check_whole("now", now, -TIME_LIMIT, TIME_LIMIT)
        if self._time.started and end < self._time.newest:
            raise QueryError(
                f"now={end} is before the newest time, {self._time.newest}",
                "this sketch has moved on: leave `now` out or give a later one, or use ECMSketch",
            )
        return end - self.window, end

    def _low(self, cells_low: I64, mass: int, slack: int) -> I64:
        """The least frequency behind the smallest of a key's counters; two bounds share delta (see `CountMin`)."""
        least: I64 = np.maximum(collision_floor(cells_low, mass, self._share(self.delta / 2)), cells_low - slack)
        return least

    def _answer(self, value: NDArray[Any], low: I64, high: I64, span: tuple[int, int], scalar: bool) -> Answer:
        low = np.clip(low, 0, high)
        # Rounded as in the thesis's listings, and moved into the bounds where they know better.
        value = np.clip(np.rint(value), low, high).astype(np.int64)
        answer = Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon, window=span)
        return answer[0] if scalar else answer

    def _total_answer(self, value: float, low: int, high: int, span: tuple[int, int]) -> Answer:
        low = min(max(low, 0), high)
        whole = min(max(round(value), low), high)
        return Answer(whole, low, high, confidence=1.0, epsilon=self.epsilon, window=span)
