"""Streams of section 7.1.2 of the thesis: Zipf over 10,000 keys of random names, to learn from and to judge by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

UNIVERSE = 10_000
TRAINING, VALIDATION = 80_000, 20_000


@dataclass(frozen=True, slots=True, eq=False)
class KeyStream:
    """Keys to learn from, in their order, and keys to judge by."""

    names: I64
    """Each key once."""
    training: I64
    counts: I64
    """How often each name comes in the part to judge by."""
    seed: int

    def validation(self) -> I64:
        """The part to judge by, in an order."""
        ranks = np.repeat(np.arange(self.counts.size), self.counts)
        np.random.default_rng([self.seed, 3]).shuffle(ranks)
        return self.names[ranks]


def key_stream(skew: float, seed: int, *, training: int = TRAINING, validation: int = VALIDATION) -> KeyStream:
    """One stream: counts first, then an order; the same as drawing one key after the other, and quicker."""
    rng = np.random.default_rng([int(1000 * skew), seed, 71])
    odds = np.arange(1, UNIVERSE + 1) ** -float(skew)
    odds /= odds.sum()
    names = rng.integers(0, 2**62, UNIVERSE)
    ranks = np.repeat(np.arange(UNIVERSE), rng.multinomial(training, odds))
    rng.shuffle(ranks)
    return KeyStream(names, names[ranks], rng.multinomial(validation, odds), seed)


def trace_stream(keys: I64) -> KeyStream:
    """A trace: its first half to learn from, its second to judge by."""
    names, ranks = np.unique(keys, return_inverse=True)
    half = keys.size // 2
    return KeyStream(names, keys[:half], np.bincount(ranks[half:], minlength=names.size).astype(np.int64), 0)
