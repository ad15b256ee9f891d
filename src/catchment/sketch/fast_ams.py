"""Fast-AMS: how large is the self-join, how alike are two streams? With deletions, and linear."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError
from catchment.kernel.fast_ams import add_signed, look_up_signed
from catchment.kernel.hashing import draws
from catchment.sketch.base import Sketch
from catchment.sketch.bounds import median_row_failure, widened
from catchment.sketch.checks import (
    are_ones,
    as_weights,
    check_fraction,
    check_mass,
    check_total,
    check_whole,
    read_mass,
)
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import as_keys, hash_keys

__all__ = ["FastAMS"]

F64 = NDArray[np.float64]


class FastAMS(Sketch):
    """Signed counters in `depth` rows of `width`: self-joins, inner products and points of any linear stream.

    **Guarantee.** With F2 the sum of squared frequencies, |f| = sqrt(F2): the self-join is within `epsilon * F2`, an
    inner product within `epsilon * |f| |g|`, with probability at least 1 - delta each; a point within
    `epsilon * |f|` (a third of the width would do for it).

    *Proof.* A row's estimate is the product of its two rows of counters. It is unbiased, with variance at most (F2(f)
    F2(g) + (f.g)^2)/width <= 2 F2(f) F2(g)/width (Cormode and Garofalakis, VLDB 2005, on Fast-AMS; Charikar et al.
    give F2/width for a point), so by Chebyshev it errs by more than epsilon |f| |g| with probability at most p =
    2/(width epsilon^2). The median of rows errs only when half of them do: `bounds.median_row_failure` turns delta
    into p exactly, and p into epsilon. Where |f| is not known, an upper bound of it comes from the self-join of the
    same sketch and delta is shared among the events (two for a point or a constant, three for a product). Signs and
    columns are taken to be four-wise independent, as xxh64 and a mixing step make them in every trial.

    **Where a simpler one wins.** For keys counted upwards only and point questions, Count-Min needs 1/epsilon columns
    instead of 1/epsilon^2; for skewed streams this one's error, against |f| instead of N, is still often smaller.

    Parameters
    ----------
    epsilon, delta
        The relative error of the self-join and the probability of failure.
    seed
        Chooses the hash functions; two sketches that are to be compared need the same.

    Examples
    --------
    >>> here, there = FastAMS(epsilon=0.1, seed=3), FastAMS(epsilon=0.1, seed=3)
    >>> here.update([1, 1, 2], weights=[5, -1, 3])
    >>> there.update([1], weights=2)
    >>> here.inner_product(there).value, here.self_join().value
    (8.0, 25.0)

    References
    ----------
    N. Alon, Y. Matias, M. Szegedy: The space complexity of approximating the frequency moments, JCSS 58(1), 1999.
    G. Cormode, M. Garofalakis: Sketching streams through the net, VLDB 2005.
    M. Charikar, K. Chen, M. Farach-Colton: Finding frequent items in data streams, ICALP 2002.
    """

    family: ClassVar[int] = 2
    linear = True
    measures = {"estimate": "frequency", "self_join": "self_join", "total": "total"}
    _layout = {"width": "I", "depth": "I", "delta": "d", "seed": "Q"}

    width: int
    depth: int
    delta: float
    seed: int

    def __init__(self, epsilon: float = 0.1, delta: float = 0.01, *, seed: int = 0) -> None:
        self._configure(**self.suggest(epsilon, delta), seed=seed)
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """The odd depth with the fewest counters in all.

        >>> FastAMS.suggest(0.1, 0.01)
        {'width': 1894, 'depth': 5, 'delta': 0.01}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        sizes = ((math.ceil(2 / (median_row_failure(d, delta) * epsilon**2)), d) for d in range(1, 64, 2))
        width, depth = min(sizes, key=lambda size: size[0] * size[1])
        return {"width": width, "depth": depth, "delta": delta}

    def _configure(self, *, width: int, depth: int, delta: float = 0.01, seed: int = 0) -> None:
        self.width = check_whole("width", width, 1, 2**31)
        self.depth = check_whole("depth", depth, 1, 63)
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self._rows = draws(self.seed, self.depth)

    def _clear(self) -> None:
        self._cells = np.zeros((self.depth, self.width), dtype=np.int64)
        self._total = 0
        self._mass = 0

    @property
    def epsilon(self) -> float:
        return self._error(2.0, events=1)

    def _error(self, variance: float, *, events: int) -> float:
        """The relative error of a median of rows of that variance (over width), at delta/events."""
        return math.sqrt(variance / (self.width * median_row_failure(self.depth, self.delta / events)))

    @property
    def guarantee(self) -> str:
        return f"self-join within {self.epsilon:.3g} of itself with probability {1 - self.delta:g}"

    @property
    def only_grows(self) -> bool:
        return self._total == self._mass

    def update(self, keys: Any, *, weights: Any = 1) -> None:
        """Add each key's weight to its frequency; weights are integers of either sign."""
        batch = as_keys(keys)
        if are_ones(weights):
            mass, net = check_total("events", self._mass + len(batch)), len(batch)
            for block in batch.blocks():
                add_signed(self._cells, self._rows, block.hashes(), np.ones(1, dtype=np.int64))
        else:
            shares = as_weights(weights, len(batch), signed=True)
            mass, net = check_mass("weights", self._mass, shares), int(shares.sum())
            add_signed(self._cells, self._rows, batch.hashes(), shares)
        self._mass, self._total = mass, self._total + net

    def estimate(self, keys: Any) -> Answer:
        """Each key's frequency; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        rows = np.empty((self.depth, hashes.size), dtype=np.int64)
        look_up_signed(self._cells, self._rows, hashes, rows)
        value = np.median(rows, axis=0)
        radius = self._error(1.0, events=2) * self._norm(events=2)
        value = np.clip(value, -self._mass, self._mass)
        low, high = np.maximum(value - radius, -self._mass), np.minimum(value + radius, self._mass)
        answer = self._answer(value, low, high)
        return answer[0] if scalar else answer

    def self_join(self) -> Answer:
        """The sum over all keys of their squared frequencies."""
        value = _median_product(self._cells, self._cells)
        low, high = self._self_join_bounds(value, events=1)
        return self._answer(min(value, high), *widened(low, high))

    def inner_product(self, other: FastAMS) -> Answer:
        """The sum over all keys of the product of their frequencies here and there."""
        self._check_fit(self, other)
        reach = self._norm(events=3) * other._norm(events=3)
        return self._within(_median_product(self._cells, other._cells), reach, self._error(2.0, events=3))

    def inner_product_with(self, keys: Any, weights: Any = 1) -> Answer:
        """The inner product with a known vector: `weights` at `keys`, zero elsewhere.

        With ones it is the number of events among the keys, a range count; the known vector adds no doubt of its own.

        >>> sketch = FastAMS(epsilon=0.1)
        >>> sketch.update([1, 2, 2, 9])
        >>> sketch.inner_product_with([1, 2]).value
        3.0
        """
        known = self.sized(**self.parameters)
        known.update(keys, weights=weights)
        unique, place = np.unique(hash_keys(keys)[0], return_inverse=True)
        sums = np.zeros(unique.size)
        np.add.at(sums, place, as_weights(weights, place.size, signed=True))
        reach = self._norm(events=2) * math.sqrt(float(sums @ sums))
        return self._within(_median_product(self._cells, known._cells), reach, self._error(2.0, events=2))

    def total(self) -> Answer:
        """The sum of all weights, exactly."""
        return Answer(self._total, self._total, self._total, confidence=1.0, epsilon=0.0)

    def _norm(self, *, events: int) -> float:
        """An upper bound of sqrt(F2), false with probability at most delta/events."""
        return math.sqrt(self._self_join_bounds(_median_product(self._cells, self._cells), events=events)[1])

    def _self_join_bounds(self, value: float, *, events: int) -> tuple[float, float]:
        error = self._error(2.0, events=events)
        high = value / (1 - error) if error < 1 else math.inf
        high = min(high, float(self._mass) ** 2)
        return min(value / (1 + error), high), high

    def _within(self, value: float, reach: float, error: float) -> Answer:
        """`reach` bounds the truth by itself too (Cauchy and Schwarz)."""
        low, high = max(value - error * reach, -reach), min(value + error * reach, reach)
        return self._answer(min(max(value, low), high), *widened(low, high))

    def _answer(self, value: Any, low: Any, high: Any) -> Answer:
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon)

    def _absorb(self, others: list[FastAMS]) -> None:
        mass = check_mass("merging", self._mass, np.array([other._mass for other in others], dtype=np.int64))
        for other in others:
            self._cells += other._cells
            self._total += other._total
        self._mass = mass

    def _write(self, writer: Writer) -> None:
        writer.numbers("qq", self._total, self._mass)
        writer.integers(self._cells)

    def _read(self, reader: Reader) -> None:
        self._total, mass = reader.numbers("qq")
        self._mass = read_mass(mass)
        if abs(self._total) > mass:
            raise DamagedBytesError(f"a total of {self._total} from weights of {mass}")
        cells = reader.integers(self.depth * self.width, np.int64, low=-mass, high=mass)
        self._cells = cells.reshape(self.depth, self.width)


def _median_product(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    return float(np.median(np.einsum("ij,ij->i", left, right, dtype=np.float64)))
