"""Tug of war: the self-join size of distinct pairs, when events may be seen twice or arrive by two paths."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.kernel.distinct import split_by_sign
from catchment.kernel.hashing import draws
from catchment.sketch.base import Sketch
from catchment.sketch.bottom_k import BottomK
from catchment.sketch.bounds import bisect
from catchment.sketch.checks import check_choice, check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.distinct import DistinctCounter
from catchment.sketch.fm import FMSketch
from catchment.sketch.keys import hash_pairs
from catchment.sketch.ultraloglog import UltraLogLog

__all__ = ["TugOfWar"]

F64 = NDArray[np.float64]

_COUNTERS: dict[str, type[DistinctCounter]] = {"ultraloglog": UltraLogLog, "fm": FMSketch, "bottom_k": BottomK}
_SIZE_NAME = {"ultraloglog": "precision", "fm": "bitmaps", "bottom_k": "size"}


class TugOfWar(Sketch):
    """F2 over distinct (item, attribute) pairs: the sum over items of (number of distinct attributes)^2.

    For each of `dimensions` random sign vectors, one duplicate-insensitive counter counts the distinct pairs whose
    item has sign +, another those with sign -; the mean squared difference is the estimate. Any of the three counters
    serves.

    **Guarantee.** F2 lies in `[low, high]` with probability at least 1 - delta.

    *Proof.* With probability 1 - delta/2 all 2 * dimensions counters hold their own bounds at delta/(4 * dimensions);
    then each difference, and its square, lies in a known interval, and so does their mean S (interval arithmetic;
    Lemma 2 of Becchetti et al. bounds the same error by its largest term). With probability 1 - delta/2, S is within
    a factor 1 +- e of F2, where 2 exp(-(dimensions/2)(e^2/2 - e^3/3)) = delta/2 (Achlioptas, Lemma 5.1; Lemma 3 of
    Becchetti et al. has half that exponent). Besides, always F1 <= F2 <= F1^2, with F1 the distinct pairs.

    **What it costs.** A difference of two large counts is known only as well as the counts, so the bound is good
    where F2 is not small against F1^2: skewed streams (Theorem 2 of Becchetti et al.: zipf above 1). On flat streams
    it is honest and wide. An event costs `dimensions` counter updates. Without duplicates, FastAMS does this far
    better.

    Parameters
    ----------
    epsilon, delta
        The error that the sign vectors add, and the probability of failure; the counters are built for epsilon/16.
    counter
        "ultraloglog", "fm" or "bottom_k".
    seed
        Chooses signs and hash functions.

    Examples
    --------
    >>> sketch = TugOfWar.sized(dimensions=64, counter="bottom_k", counter_size=32)
    >>> sketch.update(["a", "a", "a", "b"], attributes=[1, 2, 2, 1])
    >>> 5 in sketch.self_join()
    True
    >>> print(sketch.distinct())
    3 in [3, 3] with confidence 0.9

    References
    ----------
    L. Becchetti, I. Bordino, S. Leonardi, A. Rosen: Fully decentralized computation of aggregates over data streams,
    StreamKDD 2010, section 4.3.
    D. Achlioptas: Database-friendly random projections, JCSS 66(4), 2003.
    """

    family: ClassVar[int] = 9
    linear = True
    inputs: ClassVar[tuple[str, ...]] = ("keys", "attributes")
    measures = {"self_join": "distinct_self_join", "distinct": "distinct"}
    _layout = {"dimensions": "I", "counter": tuple(_COUNTERS), "counter_size": "I", "delta": "d", "seed": "Q"}

    dimensions: int
    counter: str
    counter_size: int
    delta: float
    seed: int

    def __init__(
        self, epsilon: float = 0.5, delta: float = 0.1, *, counter: str = "ultraloglog", seed: int = 0
    ) -> None:
        self._configure(**self.suggest(epsilon, delta, counter=counter), seed=seed)
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float, *, counter: str = "ultraloglog") -> dict[str, Any]:
        """
        >>> TugOfWar.suggest(0.5, 0.1)
        {'dimensions': 89, 'counter': 'ultraloglog', 'counter_size': 14, 'delta': 0.1}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        check_choice("counter", counter, tuple(_COUNTERS))
        dimensions = math.ceil(2 * math.log(4 / delta) / (epsilon**2 / 2 - epsilon**3 / 3))
        size = _COUNTERS[counter].suggest(epsilon / 16, delta / (4 * dimensions))[_SIZE_NAME[counter]]
        return {"dimensions": dimensions, "counter": counter, "counter_size": size, "delta": delta}

    def _configure(
        self, *, dimensions: int, counter_size: int, counter: str = "ultraloglog", delta: float = 0.1, seed: int = 0
    ) -> None:
        self.dimensions = check_whole("dimensions", dimensions, 1, 4096)
        self.counter = check_choice("counter", counter, tuple(_COUNTERS))
        self.counter_size = check_whole("counter_size", counter_size, 2, 2**26)
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        # Another seed than the counters', lest a sign and a place share their function.
        self._signs = draws(self.seed ^ 0x5167_4E5D, self.dimensions)

    def _clear(self) -> None:
        self._plus = [self._new_counter() for _ in range(self.dimensions)]
        self._minus = [self._new_counter() for _ in range(self.dimensions)]

    def _counter_parameters(self) -> dict[str, Any]:
        size = {_SIZE_NAME[self.counter]: self.counter_size}
        return size | {"delta": self.delta / (4 * self.dimensions), "seed": self.seed, "by": "pair"}

    def _new_counter(self) -> DistinctCounter:
        return _COUNTERS[self.counter].sized(**self._counter_parameters())

    @property
    def epsilon(self) -> float:
        """The e of the proof, or infinity when there are too few dimensions for any below 1."""
        need = 2 * math.log(4 / self.delta) / self.dimensions
        if need > 1 / 6:
            return math.inf
        return bisect(lambda e: e * e / 2 - e**3 / 3 <= need, 0.0, 1.0)

    @property
    def guarantee(self) -> str:
        return f"F2 of distinct pairs within [low, high] with probability {1 - self.delta:g}"

    @property
    def nbytes(self) -> int:
        return self._signs.nbytes + sum(counter.nbytes for counter in self._plus + self._minus)

    def update(self, keys: Any, attributes: Any) -> None:
        """Take in pairs; those seen before change nothing."""
        items, pairs = hash_pairs(keys, attributes)
        positive, negative = np.empty_like(pairs), np.empty_like(pairs)
        for sign, plus, minus in zip(self._signs, self._plus, self._minus, strict=True):
            p, n = split_by_sign(items, pairs, sign, positive, negative)
            plus._add(positive[:p])
            minus._add(negative[:n])

    def self_join(self) -> Answer:
        """The sum over items of the squared number of distinct attributes."""
        share = self.delta / (4 * self.dimensions)
        plus, minus = (np.array([c.bounds(share) for c in side]) for side in (self._plus, self._minus))
        value = float(np.mean((plus[:, 0] - minus[:, 0]) ** 2))
        low, high = _mean_square(plus[:, 1] - minus[:, 2], plus[:, 2] - minus[:, 1])
        error = self.epsilon
        pairs_low, pairs_high = (plus[:, 1] + minus[:, 1]).max(), (plus[:, 2] + minus[:, 2]).min()
        high = min(high / (1 - error) if error < 1 else math.inf, pairs_high**2)
        low = min(max(low / (1 + error), pairs_low), high)
        return Answer(min(max(value, low), high), low, high, confidence=1 - self.delta, epsilon=error)

    def distinct(self) -> Answer:
        """The number of distinct pairs."""
        plus, minus = (side[0].bounds(self.delta / 2) for side in (self._plus, self._minus))
        value, low, high = map(sum, zip(plus, minus, strict=True))
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self._plus[0].epsilon)

    def _absorb(self, others: list[TugOfWar]) -> None:
        for place in range(self.dimensions):
            self._plus[place]._absorb([other._plus[place] for other in others])
            self._minus[place]._absorb([other._minus[place] for other in others])

    def _write(self, writer: Writer) -> None:
        for counter in self._plus + self._minus:
            counter._write(writer)

    def _read(self, reader: Reader) -> None:
        kind, parameters = _COUNTERS[self.counter], self._counter_parameters()
        self._plus = [kind._from_payload(parameters, reader) for _ in range(self.dimensions)]
        self._minus = [kind._from_payload(parameters, reader) for _ in range(self.dimensions)]


def _mean_square(low: F64, high: F64) -> tuple[float, float]:
    """Bounds on the mean of squares of numbers that lie in [low, high], each in its own."""
    largest = np.maximum(np.abs(low), np.abs(high))
    smallest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return float(np.mean(smallest**2)), float(np.mean(largest**2))
