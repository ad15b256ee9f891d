"""Bloom filter: was this key ever seen? No is certain."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError
from catchment.kernel.bloom import look_up_bits, set_bits
from catchment.kernel.hashing import column_draws
from catchment.sketch.base import Sketch
from catchment.sketch.bounds import bisect
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import as_keys, hash_keys

__all__ = ["BloomFilter"]

_REACH = 64
"""A filter with this many keys for each bit is full beyond telling."""


class BloomFilter(Sketch):
    """A set of keys in `bits` bits, each key at `probes` of them.

    **Guarantee.** A key that was added is always found. A key that was not is found with probability
    (share of bits set)^probes, which `false_positive_rate` returns, exact for what the filter now holds, since
    the places of such a key are independent of the bits. With at most `capacity` distinct keys it is at most about
    epsilon (Bloom 1970).

    `estimate` counts the distinct keys. *Proof of its bounds.* n keys throw n * probes balls into `bits` bins; the
    number X of bins hit changes by at most one when one ball moves, so by McDiarmid's inequality P(|X - E X| > t) <=
    2 exp(-2 t^2 / (n * probes)) = delta. E X = bits (1 - (1 - 1/bits)^(n * probes)) grows with n, and the interval
    holds every n for which the X that was found is within t.

    **Where a simpler one wins.** Below about 100 keys, send the keys. Inside one Spark cluster, Spark's own runtime
    filter does this for joins.

    Parameters
    ----------
    capacity
        The number of distinct keys to be ready for.
    epsilon
        The rate of false positives at that number.
    delta
        The probability that the count of distinct keys leaves its bounds.
    seed
        Chooses the hash functions.

    Examples
    --------
    >>> seen = BloomFilter(capacity=1000, epsilon=0.01)
    >>> seen.update(["a", "b"])
    >>> seen.contains("a"), seen.contains(["b", "c"]).tolist()
    (True, [True, False])
    >>> 2 in seen.estimate()
    True

    References
    ----------
    B. Bloom: Space/time trade-offs in hash coding with allowable errors, CACM 13(7), 1970. S. Swamidass, P. Baldi:
    Mathematical correction for fingerprint similarity measures, J. Chem. Inf. Model. 47(3), 2007 (the number of keys
    from the number of bits).
    """

    family: ClassVar[int] = 5
    linear = True
    measures = {"estimate": "distinct"}
    _layout = {"bits": "Q", "probes": "I", "delta": "d", "seed": "Q"}

    bits: int
    probes: int
    delta: float
    seed: int

    def __init__(self, epsilon: float = 0.01, delta: float = 0.01, *, capacity: int = 10_000, seed: int = 0) -> None:
        self._configure(**self.suggest(epsilon, delta, capacity=capacity), seed=seed)
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float = 0.01, *, capacity: int = 10_000) -> dict[str, Any]:
        """The fewest bits for that rate of false positives at `capacity` keys.

        >>> BloomFilter.suggest(0.01, capacity=1000)
        {'bits': 9586, 'probes': 7, 'delta': 0.01}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        check_whole("capacity", capacity, 1, 2**40)
        return {
            "bits": max(2, math.ceil(-capacity * math.log(epsilon) / math.log(2) ** 2)),
            "probes": max(1, round(-math.log2(epsilon))),
            "delta": delta,
        }

    def _configure(self, *, bits: int, probes: int, delta: float = 0.01, seed: int = 0) -> None:
        self.bits = check_whole("bits", bits, 2, 2**32 - 1)
        self.probes = check_whole("probes", probes, 1, 64)
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self._rows = column_draws(self.seed, self.probes)

    def _clear(self) -> None:
        self._words = np.zeros((self.bits + 63) // 64, dtype=np.uint64)

    @property
    def epsilon(self) -> float:
        """The rate of false positives of a filter whose bits are half set, about where it is at its capacity."""
        return float(0.5**self.probes)

    @property
    def guarantee(self) -> str:
        rate = self.false_positive_rate().value
        return f"no false negatives; a key that was not added is found with probability {rate:.3g}"

    def update(self, keys: Any) -> None:
        """Add the keys to the set."""
        for block in as_keys(keys).blocks():
            set_bits(self._words, np.uint64(self.bits), self._rows, block.hashes())

    def contains(self, keys: Any) -> bool | NDArray[np.bool_]:
        """Whether each key may have been added: a bool for one key, an array for many; False is certain."""
        hashes, scalar = hash_keys(keys)
        found = np.empty(hashes.size, dtype=np.bool_)
        look_up_bits(self._words, np.uint64(self.bits), self._rows, hashes, found)
        return bool(found[0]) if scalar else found

    def _bits_set(self) -> int:
        return int(np.bitwise_count(self._words).sum())

    def false_positive_rate(self) -> Answer:
        """The probability that a key which was never added is found, exact for what the filter holds now."""
        rate = (self._bits_set() / self.bits) ** self.probes
        return Answer(rate, rate, rate, confidence=1.0, epsilon=0.0)

    def estimate(self) -> Answer:
        """The number of distinct keys added."""
        found = self._bits_set()
        low, high = self._interval(found)
        value = min(max(self._keys_for(found), low), high)
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon)

    def _keys_for(self, bits_set: float) -> float:
        """The number of keys that would set that many bits in expectation; infinite when all are set."""
        if bits_set >= self.bits:
            return math.inf
        return math.log1p(-bits_set / self.bits) / (self.probes * math.log1p(-1 / self.bits))

    def _expected_bits(self, keys: float) -> float:
        return -self.bits * math.expm1(keys * self.probes * math.log1p(-1 / self.bits))

    def _interval(self, found: int) -> tuple[float, float]:
        if found == 0:
            return 0, 0
        spread = self.probes * math.log(2 / self.delta) / 2
        centre = min(self._keys_for(found), _REACH * self.bits)
        too_few = bisect(lambda n: self._expected_bits(n) + math.sqrt(n * spread) < found, 0.0, centre)
        # X grows with n, so the first n that is ruled out from above rules out all beyond it.
        n = centre
        while self._expected_bits(n) - math.sqrt(n * spread) <= found:
            n = n * 1.01 + 1
            if n > _REACH * self.bits:
                return math.ceil(too_few), math.inf
        return math.ceil(max(too_few, found / self.probes)), math.floor(n)

    def _absorb(self, others: list[BloomFilter]) -> None:
        for other in others:
            self._words |= other._words

    def _write(self, writer: Writer) -> None:
        writer.integers(self._words)

    def _read(self, reader: Reader) -> None:
        self._words = reader.integers((self.bits + 63) // 64, np.uint64, low=0, high=2**64 - 1)
        if int(self._words[-1]) >> ((self.bits - 1) % 64 + 1):
            raise DamagedBytesError(f"bits set beyond the {self.bits} there are")
