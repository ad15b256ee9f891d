"""Counts: of everything, of a named key, of some keys with factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import ParameterError
from catchment.monitor.safe import Linear, Zone
from catchment.monitor.vectors import CountVector, Vector
from catchment.monitor.watch import ANY_RULES, Watch
from catchment.monitor.window_vectors import WindowCountVector
from catchment.monitor.zones.thresholds import Band
from catchment.sketch.checks import as_weights
from catchment.sketch.keys import hash_keys
from catchment.window.ecm import ECMSketch

__all__ = ["Frequency", "RangeSum", "Total"]

I64 = NDArray[np.int64]

LARGEST_FACTOR = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted(Watch):
    """One count: exact over the whole history, within epsilon of itself in a window."""

    @property
    def rules(self) -> tuple[str, ...]:
        return (*ANY_RULES, "near")

    def value(self, total: I64) -> float:
        return float(total[0, 0])

    def sketch_error(self) -> float:
        return 0.0 if self.window is None else self.epsilon

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        return {"near": Linear(value, band.low, band.high, np.ones(1))}

    def answer(self, value: float, low: float, high: float) -> Answer:
        """Over the whole history there is no sketch that could fail."""
        answer = Watch.answer(self, value, low, high)
        return replace(answer, confidence=1.0) if self.window is None else answer

    def _counter(self) -> ECMSketch:
        return ECMSketch(self.epsilon, self.delta, window=self.window, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSum(_Counted):
    """The weight of some keys, each times a factor: the inner product with a known vector, counted exactly.

    In a window within epsilon of itself, which takes factors above 0: watch what is to be taken away by itself.
    """

    kind: ClassVar[str] = "RangeSum"

    keys: tuple[Any, ...] = ()
    factors: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        if not self.keys or (self.factors and len(self.factors) != len(self.keys)):
            raise ParameterError(f"{len(self.factors)} factors for {len(self.keys)} keys", "give one for each key")
        least = -LARGEST_FACTOR if self.window is None else 1
        for factor in self.factors:
            if (
                isinstance(factor, bool)
                or not isinstance(factor, int | np.integer)
                or not least <= factor <= LARGEST_FACTOR
            ):
                raise ParameterError(f"factor={factor!r}", f"give integers from {least} to {LARGEST_FACTOR}")
        if set(self.factors) == {1}:
            object.__setattr__(self, "factors", ())  # the same quantity has one fingerprint

    def new_vector(self) -> Vector:
        hashes, _ = hash_keys(list(self.keys))
        factors = as_weights(list(self.factors) or 1, hashes.size, signed=True)
        order = np.argsort(hashes)
        twice = np.flatnonzero(np.diff(hashes[order]) == 0)
        if twice.size:
            raise ParameterError(f"keys with {self.keys[int(order[twice[0]])]!r} twice", "give each key once")
        if self.window is not None:
            return WindowCountVector(self._counter(), hashes[order], factors[order])
        return CountVector(hashes[order], factors[order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency(_Counted):
    """How often a named key was seen."""

    kind: ClassVar[str] = "Frequency"

    key: Any = None

    @property
    def vector_key(self) -> Any:
        return self.kind, self.key, self.window, self.epsilon, self.delta, self.seed

    def new_vector(self) -> Vector:
        hashes, _ = hash_keys([self.key])
        if self.window is None:
            return CountVector(hashes, np.ones(1, dtype=np.int64))
        return WindowCountVector(self._counter(), hashes, np.ones(1, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(_Counted):
    """How much there was."""

    kind: ClassVar[str] = "Total"

    def new_vector(self) -> Vector:
        return CountVector() if self.window is None else WindowCountVector(self._counter())
