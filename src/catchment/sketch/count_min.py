"""Count-Min: how often was this key seen? Never too few, rarely many too many."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import QueryError
from catchment.kernel.count_min import add_conservative, add_ones, add_weights, look_up_smallest
from catchment.kernel.hashing import column_draws
from catchment.sketch.base import Sketch
from catchment.sketch.bounds import collision_floor, empirical_slack, widened
from catchment.sketch.checks import (
    MASS_LIMIT,
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

__all__ = ["CountMin"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class CountMin(Sketch):
    """Frequencies of keys in `depth` rows of `width` counters.

    **Guarantee.** Let N be the total weight, f a key's true frequency, fixed before the seed was drawn. The estimate
    is never below f, and exceeds it by more than `epsilon * N` with probability at most `delta`.

    *Proof.* A row's counter holds f and the weight of the keys that share it, in expectation (N - f)/width, since
    columns are pairwise independent (`kernel.hashing.column_of`). By Markov it holds more than k(N - f)/width above f
    with probability at most 1/k; all `depth` independent rows do with probability k^-depth = delta for k =
    delta^(-1/depth). So f lies above `estimate - k(N - f)/width`, which is solved for f.

    A second bound uses what the rows hold (Ting, KDD 2018): with the key's place in a row independent of the others',
    as of a random function, a row errs by more than t with probability (counters above t)/width, and all rows with
    the product of these. The smallest t for which the product is at most delta bounds the error; the key's own weight
    in the counters only raises t. On skewed streams this is several times tighter; `low` takes the better of the two,
    each at delta/2.

    Inner products and self-joins: never below the truth, and above it by more than `epsilon * N * N'` with
    probability at most delta, by the same Markov argument over pairs of colliding keys.

    **Where a simpler one wins.** A dictionary is exact, and smaller, up to about `depth * width / 12` distinct keys.

    Parameters
    ----------
    epsilon, delta
        The error as a fraction of the total weight, and the probability of failure; they choose the size.
    conservative
        Raise a key's counters only as far as its new estimate needs. Estimates are closer, updates slower, and the
        self-join and inner product are refused, since they could fall below the truth. Conservative sketches merge
        by addition, with the guarantee of the plain sketch: a counter is at least f in each part, and at most what the
        plain sketch would hold; what is lost is part of the gain. A conservative and a plain one are never merged.
    seed
        Chooses the hash functions. Whoever knows it can build keys that collide: draw it at random for hostile input.

    Examples
    --------
    >>> sketch = CountMin(epsilon=0.01, delta=0.01)
    >>> sketch.update(["/", "/", "/index.html"])
    >>> print(sketch.estimate("/"))
    2 in [2, 2] with confidence 0.99
    >>> sketch.parameters["width"], sketch.parameters["depth"]
    (272, 5)

    References
    ----------
    G. Cormode, S. Muthukrishnan: An improved data stream summary, J. Algorithms 55(1), 2005.
    D. Ting: Count-Min: optimal estimation and tight error bounds using empirical error distributions, KDD 2018.
    C. Estan, G. Varghese: New directions in traffic measurement and accounting, TOCS 21(3), 2003 (conservative update).
    """

    family: ClassVar[int] = 1
    linear = True
    measures = {"estimate": "frequency", "self_join": "self_join", "total": "total"}
    _layout = {"width": "I", "depth": "I", "delta": "d", "seed": "Q", "conservative": "?"}

    width: int
    depth: int
    delta: float
    seed: int
    conservative: bool

    def __init__(
        self, epsilon: float = 0.01, delta: float = 0.01, *, seed: int = 0, conservative: bool = False
    ) -> None:
        self._configure(**self.suggest(epsilon, delta), seed=seed, conservative=conservative)
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """Width ceil(e/epsilon) and depth ceil(ln(1/delta)), as in the paper.

        >>> CountMin.suggest(0.01, 0.05)
        {'width': 272, 'depth': 3, 'delta': 0.05}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        return {"width": math.ceil(math.e / epsilon), "depth": math.ceil(math.log(1 / delta)), "delta": delta}

    def _configure(
        self, *, width: int, depth: int, delta: float | None = None, seed: int = 0, conservative: bool = False
    ) -> None:
        self.width = check_whole("width", width, 1, 2**31)
        self.depth = check_whole("depth", depth, 1, 64)
        self.delta = check_fraction("delta", math.exp(-depth) if delta is None else delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self.conservative = bool(conservative)
        if self.conservative:
            self.linear, self.measures = False, {"estimate": "frequency", "total": "total"}
        self._rows = column_draws(self.seed, self.depth)

    def _clear(self) -> None:
        self._cells = np.zeros((self.depth, self.width), dtype=np.int64)
        self._total = 0
        self._slack: int | None = None

    @property
    def epsilon(self) -> float:
        return float(self.delta ** (-1 / self.depth) / self.width)

    @property
    def guarantee(self) -> str:
        return (
            f"truth <= estimate always; estimate <= truth + {self.epsilon:.3g} * total "
            f"with probability {1 - self.delta:g}"
        )

    def update(self, keys: Any, *, weights: Any = 1) -> None:
        """Count each key once, or by its weight: integers, not negative."""
        batch = as_keys(keys)
        if are_ones(weights) and not self.conservative:
            total = check_total("events", self._total + len(batch))
            for block in batch.blocks():
                add_ones(self._cells, self._rows, block.hashes())
            self._total, self._slack = total, None
        else:
            self._add(batch.hashes(), as_weights(weights, len(batch)))

    def _add(self, hashes: U64, weights: I64) -> None:
        total = check_mass("weights", self._total, weights)
        add = add_conservative if self.conservative else add_weights
        add(self._cells, self._rows, hashes, weights)
        self._total, self._slack = total, None

    def estimate(self, keys: Any) -> Answer:
        """How often each key was seen; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        value, low = self._look_up(hashes)
        answer = self._answer(value, low, value.copy())
        return answer[0] if scalar else answer

    def _look_up(self, hashes: U64) -> tuple[I64, I64]:
        """Each key's estimate, which is an upper bound, and its lower bound."""
        value = np.empty(hashes.size, dtype=np.int64)
        look_up_smallest(self._cells, self._rows, hashes, value)
        # Two bounds share delta; a conservative sketch has only the first.
        share = self.delta if self.conservative else self.delta / 2
        low = np.maximum(self._markov_low(value, self._total, share), value - self._empirical_slack(share))
        return value, np.clip(low, 0, value)

    def inner_product(self, other: CountMin) -> Answer:
        """The sum over all keys of the product of their frequencies here and there."""
        self._check_fit(self, other)
        self._refuse_conservative("an inner product")
        rows = np.einsum("ij,ij->i", self._cells, other._cells, dtype=np.float64)
        value = float(rows.min())
        low = max(0.0, value - self.epsilon * self._total * other._total)
        return self._answer(value, *widened(low, value))

    def self_join(self) -> Answer:
        """The sum over all keys of their squared frequencies."""
        self._refuse_conservative("a self-join")
        value = float(np.einsum("ij,ij->i", self._cells, self._cells, dtype=np.float64).min())
        low = max(self._markov_low(np.array([value]), float(self._total) ** 2, self.delta).item(), float(self._total))
        return self._answer(value, *widened(min(low, value), value))

    def total(self) -> Answer:
        """The sum of all weights, exactly."""
        return Answer(self._total, self._total, self._total, confidence=1.0, epsilon=0.0)

    def _markov_low(self, value: NDArray[Any], mass: float, delta: float) -> NDArray[Any]:
        return collision_floor(value, mass, delta ** (-1 / self.depth) / self.width)

    def _empirical_slack(self, delta: float) -> int:
        if self.conservative:  # the argument needs counters that hold the sum of their keys
            return MASS_LIMIT
        if self._slack is None:
            self._slack = empirical_slack(self._cells, delta)
        return self._slack

    def _refuse_conservative(self, question: str) -> None:
        if self.conservative:
            raise QueryError(
                f"{question} of conservative sketches could fall below the truth", "build with conservative=False"
            )

    def _answer(self, value: Any, low: Any, high: Any) -> Answer:
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon)

    def _absorb(self, others: list[CountMin]) -> None:
        total = check_mass("merging", self._total, np.array([other._total for other in others], dtype=np.int64))
        for other in others:
            self._cells += other._cells
        self._total, self._slack = total, None

    def _write(self, writer: Writer) -> None:
        writer.numbers("q", self._total)
        writer.integers(self._cells)

    def _read(self, reader: Reader) -> None:
        self._total = read_mass(*reader.numbers("q"))
        cells = reader.integers(self.depth * self.width, np.int64, low=0, high=self._total)
        self._cells = cells.reshape(self.depth, self.width)
        self._slack = None
