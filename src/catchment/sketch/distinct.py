"""DistinctCounter: what the duplicate-insensitive counters share.

They count distinct keys, F0, or distinct (key, attribute) pairs, F1 without duplicates, and do not notice an event that
arrives twice, or along two paths. That is what lets peers pass sketches on without a tree.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import InputError
from catchment.kernel.hashing import draws
from catchment.sketch.base import Sketch
from catchment.sketch.checks import check_choice, check_fraction, check_whole
from catchment.sketch.keys import as_keys, hash_pairs

__all__ = ["DistinctCounter"]

U64 = NDArray[np.uint64]

BY = ("item", "pair")


class DistinctCounter(Sketch):
    """A counter of distinct items, or with `by="pair"` of distinct (item, attribute) pairs.

    Parameters
    ----------
    epsilon, delta
        The relative error and the probability of failure; they choose the size.
    seed
        Chooses the hash functions.
    by
        "item" or "pair".
    """

    linear = True
    measures = {"estimate": "distinct"}

    delta: float
    seed: int
    by: str

    def __init__(self, epsilon: float = 0.05, delta: float = 0.05, *, seed: int = 0, by: str = "item") -> None:
        self._configure(**self.suggest(epsilon, delta), seed=seed, by=by)
        self._clear()

    def _configure_common(self, *, delta: float, seed: int, by: str, functions: int) -> None:
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self.by = check_choice("by", by, BY)
        self._rows = draws(self.seed, functions)

    def update(self, keys: Any, attributes: Any = None) -> None:
        """Take in keys, or with `by="pair"` keys with one attribute each; those seen before change nothing."""
        if (attributes is None) == (self.by == "pair"):
            given = "no attributes" if attributes is None else "attributes"
            raise InputError(f'{given} for a sketch by="{self.by}"', 'count pairs with by="pair", items with by="item"')
        if attributes is not None:
            self._add(hash_pairs(keys, attributes)[1])
        else:
            for block in as_keys(keys).blocks():
                self._add(block.hashes())

    @abstractmethod
    def _add(self, hashes: U64) -> None:
        """Take in the hashes of items or of pairs."""

    @abstractmethod
    def bounds(self, delta: float) -> tuple[float, float, float]:
        """The estimate, and the interval that holds the truth with probability 1 - delta, for any delta."""

    def estimate(self) -> Answer:
        """How many distinct items, or pairs, were seen."""
        value, low, high = self.bounds(self.delta)
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon)

    @property
    def guarantee(self) -> str:
        return f"distinct {self.by}s within {self.epsilon:.3g} of the truth with probability {1 - self.delta:g}"
