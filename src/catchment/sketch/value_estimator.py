"""VALES: what value goes with this key? For instance, how long does an event of this kind take to process."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError
from catchment.kernel.count_min import add_weights, look_up_cells
from catchment.sketch.base import Sketch
from catchment.sketch.checks import (
    MASS_LIMIT,
    as_integers,
    as_weights,
    check_fraction,
    check_mass,
    check_whole,
    read_mass,
)
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.count_min import CountMin
from catchment.sketch.keys import hash_keys

__all__ = ["ValueEstimator"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


class ValueEstimator(Sketch):
    """The mean value of each key, from two matrices: how often a cell was hit and the sum of the values it saw.

    **Guarantee.** Let w be the mean value of a key that was seen (its value, where that does not change). Then
    `low <= w <= high` with probability at least 1 - delta. The estimate is the ratio of the sums in the row where
    the key shares its cell least, and always lies between the smallest and the largest value seen.

    *Proof.* In a row, C = f + g counts the key's f events and g others, and V = f w + (values of the g others). These
    lie in [g m, g M], with m and M the smallest and largest value seen, so with g = C - f
    `M - (C M - V)/f <= w <= m + (V - C m)/f`. Both ends only widen as f falls, so f may be replaced by the lower bound
    that Count-Min gives, false with probability at most delta. All rows hold on that one event, so their intersection
    does too. (The thesis derives the expected ratio and an (epsilon, delta) claim by Markov's inequality; this
    interval needs no assumption on the values.)

    **Where a simpler one wins.** A cache of the heaviest keys' values is exact for them; this one knows all keys a
    little. A light key in a crowded cell gets the mean of its neighbours, and an interval that says so.

    Values are integers, so that sums are exact and parts merge to the whole: give microseconds, not seconds.

    Parameters
    ----------
    epsilon, delta
        Sizes as in the thesis: ceil(e/epsilon) columns, ceil(log2(1/delta)) rows. epsilon is the fraction of all
        events that may share a key's cell.
    seed
        Chooses the hash functions.

    Examples
    --------
    >>> sketch = ValueEstimator(epsilon=0.05, delta=0.1)
    >>> sketch.update(["login", "search", "search"], values=[20, 900, 1100])
    >>> sketch.estimate("search").value, sketch.estimate("login").value
    (1000.0, 20.0)

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, thesis, 2016, section 3.3
    (Listing 3.10, Theorem 3.14).
    """

    family: ClassVar[int] = 4
    linear = True
    inputs: ClassVar[tuple[str, ...]] = ("keys", "values")
    measures = {"estimate": "mean_value", "frequency": "frequency", "total": "total"}
    _layout = {"width": "I", "depth": "I", "delta": "d", "seed": "Q"}

    width: int
    depth: int
    delta: float
    seed: int

    def __init__(self, epsilon: float = 0.05, delta: float = 0.1, *, seed: int = 0) -> None:
        self._configure(**self.suggest(epsilon, delta), seed=seed)
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """
        >>> ValueEstimator.suggest(0.05, 0.1)
        {'width': 55, 'depth': 4, 'delta': 0.1}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        return {"width": math.ceil(math.e / epsilon), "depth": math.ceil(math.log2(1 / delta)), "delta": delta}

    def _configure(self, *, width: int, depth: int, delta: float = 0.1, seed: int = 0) -> None:
        self.width = check_whole("width", width, 1, 2**31)
        self.depth = check_whole("depth", depth, 1, 64)
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)

    def _clear(self) -> None:
        self._counts = CountMin.sized(**self.parameters)
        self._sums = np.zeros((self.depth, self.width), dtype=np.int64)
        self._mass = 0
        self._least, self._most = MASS_LIMIT, -MASS_LIMIT

    @property
    def epsilon(self) -> float:
        return self._counts.epsilon

    @property
    def guarantee(self) -> str:
        return f"mean value of a key that was seen within [low, high] with probability {1 - self.delta:g}"

    def update(self, keys: Any, values: Any, *, weights: Any = 1) -> None:
        """Take in one value for each key; a weight repeats the event."""
        hashes, _ = hash_keys(keys)
        amounts = as_integers("values", values, hashes.size)
        repeats = as_weights(weights, hashes.size)
        mass = check_mass("values", self._mass, amounts, repeats)
        self._counts._add(hashes, repeats)
        add_weights(self._sums, self._counts._rows, hashes, amounts * repeats)
        seen = amounts[repeats > 0]
        self._mass = mass
        self._least = int(seen.min(initial=self._least))
        self._most = int(seen.max(initial=self._most))

    def estimate(self, keys: Any) -> Answer:
        """The mean value of each key; NaN for a key that was certainly never seen."""
        hashes, scalar = hash_keys(keys)
        counts, sums = np.empty((2, self.depth, hashes.size), dtype=np.int64)
        look_up_cells(self._counts._cells, self._counts._rows, hashes, counts)
        look_up_cells(self._sums, self._counts._rows, hashes, sums)
        fewest = np.expand_dims(counts.argmin(axis=0), 0)
        with np.errstate(invalid="ignore"):
            ratio = np.take_along_axis(sums, fewest, 0)[0] / np.take_along_axis(counts, fewest, 0)[0]
        low, high = self._interval(hashes, counts, sums)
        low, high = np.where(np.isnan(ratio), np.nan, low), np.where(np.isnan(ratio), np.nan, high)
        value = np.clip(ratio, low, high)
        answer = self._answer(value, low, high)
        return answer[0] if scalar else answer

    def _interval(self, hashes: U64, counts: I64, sums: I64) -> tuple[F64, F64]:
        frequency = np.maximum(self._counts._look_up(hashes)[1], 1)
        least, most = float(self._least), float(self._most)
        # What rounding may have cost: products of a count and a value, as exact as floating point has them.
        slack = 2.0**-50 * (counts + 1.0) * max(abs(least), abs(most), 1.0) / frequency
        low = np.max(most - (counts * most - sums) / frequency - slack, axis=0, initial=least)
        high = np.min(least + (sums - counts * least) / frequency + slack, axis=0, initial=most)
        return np.minimum(low, high), np.maximum(low, high)  # the ends may only cross where a bound has failed

    def frequency(self, keys: Any) -> Answer:
        """How often each key was seen, as Count-Min tells it."""
        return self._counts.estimate(keys)

    def total(self) -> Answer:
        """The number of events, exactly."""
        return self._counts.total()

    @property
    def matrices(self) -> tuple[I64, I64]:
        """How often each cell was hit, and the sum of the values it saw: (depth, width) each, to look at only."""
        return self._counts._cells, self._sums

    def _answer(self, value: Any, low: Any, high: Any) -> Answer:
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon)

    def _absorb(self, others: list[ValueEstimator]) -> None:
        mass = check_mass("merging", self._mass, np.array([other._mass for other in others], dtype=np.int64))
        self._counts._absorb([other._counts for other in others])
        for other in others:
            self._sums += other._sums
            self._least, self._most = min(self._least, other._least), max(self._most, other._most)
        self._mass = mass

    def _write(self, writer: Writer) -> None:
        self._counts._write(writer)
        writer.numbers("qqq", self._mass, self._least, self._most)
        writer.integers(self._sums)

    def _read(self, reader: Reader) -> None:
        self._counts = CountMin._from_payload(self.parameters, reader)
        mass, self._least, self._most = reader.numbers("qqq")
        self._mass = read_mass(mass)
        if max(abs(self._least), abs(self._most)) > MASS_LIMIT or (mass and self._least > self._most):
            raise DamagedBytesError(f"values from {self._least} to {self._most}")
        sums = reader.integers(self.depth * self.width, np.int64, low=-mass, high=mass)
        self._sums = sums.reshape(self.depth, self.width)
