"""FM: distinct counts by the first bit that nothing has set, as in the decentralised scheme of Becchetti et al."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from catchment.kernel.distinct import set_bitmap_bits
from catchment.sketch.bounds import bisect, chernoff_radius
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.distinct import U64, DistinctCounter

__all__ = ["FMSketch"]

_DEVIATION = 1.12127
"""The standard deviation of r in one bitmap (Flajolet and Martin, Theorem 3.A)."""

_BITS = 64


class FMSketch(DistinctCounter):
    """`bitmaps` bitmaps of 64 bits; an item sets bit h of each with probability 2^-(h+1), by its own hash function.

    **Guarantee.** The estimate is within `epsilon` of the truth with probability at least 1 - delta, with epsilon about
    0.78 * sqrt(2 ln(2/delta)) / sqrt(bitmaps).

    *Why.* Let r be the place of the lowest bit that is not set. With n distinct items bit h is set with probability
    1 - (1 - 2^-(h+1))^n, close to 1 - exp(-n/2^(h+1)), so E r = sum over k of the product over h < k of these: a curve
    that grows by one each time n doubles, log2(0.77351 n) from about ten items on. The estimate is the n at which the
    curve meets the mean of r over the bitmaps. r has deviation at most 1.12127 (Theorem 3.A of Flajolet and Martin) and
    exponential tails, so the mean of many is nearly normal; the interval takes the wider sub-Gaussian radius
    (`bounds.chernoff_radius`) instead of the normal quantile, and reads both ends off the curve.

    **Where another one wins.** UltraLogLog needs far fewer bytes for the same error and touches one register an
    item instead of every bitmap. FM is here because it is what the decentralised method was proven with.

    Examples
    --------
    >>> sketch = FMSketch(epsilon=0.3, delta=0.05)
    >>> sketch.update(["a", "b", "a"])
    >>> 2 in sketch.estimate()
    True

    References
    ----------
    P. Flajolet, N. Martin: Probabilistic counting algorithms for data base applications, JCSS 31(2), 1985.
    L. Becchetti, I. Bordino, S. Leonardi, A. Rosen: Fully decentralized computation of aggregates over data streams,
    StreamKDD 2010, section 4.1.
    """

    family: ClassVar[int] = 6
    _layout = {"bitmaps": "I", "delta": "d", "seed": "Q", "by": ("item", "pair")}

    bitmaps: int

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """
        >>> FMSketch.suggest(0.1, 0.05)
        {'bitmaps': 491, 'delta': 0.05}
        """
        radius = chernoff_radius(check_fraction("delta", delta)) * _DEVIATION
        bitmaps = math.ceil((radius / math.log2(1 + check_fraction("epsilon", epsilon))) ** 2)
        return {"bitmaps": bitmaps, "delta": delta}

    def _configure(self, *, bitmaps: int, delta: float = 0.05, seed: int = 0, by: str = "item") -> None:
        self.bitmaps = check_whole("bitmaps", bitmaps, 1, 2**20)
        self._configure_common(delta=delta, seed=seed, by=by, functions=self.bitmaps)

    def _clear(self) -> None:
        self._bits = np.zeros(self.bitmaps, dtype=np.uint64)

    @property
    def epsilon(self) -> float:
        return float(2 ** self._radius(self.delta) - 1)

    def _radius(self, delta: float) -> float:
        """How far the mean of r strays from its expectation."""
        return chernoff_radius(delta) * _DEVIATION / math.sqrt(self.bitmaps)

    def _add(self, hashes: U64) -> None:
        set_bitmap_bits(self._bits, self._rows, hashes)

    def _mean_place(self) -> float:
        lowest_zero = ~self._bits & (self._bits + np.uint64(1))
        return float(np.bitwise_count(lowest_zero - np.uint64(1)).mean())

    def bounds(self, delta: float) -> tuple[float, float, float]:
        if not self._bits.any():
            return 0.0, 0, 0
        mean, radius = self._mean_place(), self._radius(delta)
        low, high = _items_for(mean - radius), _items_for(mean + radius)
        return max(_items_for(mean), 1.0), max(math.floor(low), 1), math.ceil(high)

    def _absorb(self, others: list[FMSketch]) -> None:
        for other in others:
            self._bits |= other._bits

    def _write(self, writer: Writer) -> None:
        writer.integers(self._bits)

    def _read(self, reader: Reader) -> None:
        self._bits = reader.integers(self.bitmaps, np.uint64, low=0, high=2**64 - 1)


def _expected_place(items: float) -> float:
    set_so_far, total = 1.0, 0.0
    for h in range(_BITS):
        set_so_far *= -math.expm1(-items * 2.0 ** -(h + 1))
        total += set_so_far
        if set_so_far < 1e-12:
            break
    return total


def _items_for(mean_place: float) -> float:
    """The number of items whose expected place is that.

    >>> round(_items_for(10.0) / (2**10 / 0.77351), 3)
    1.0
    """
    if mean_place <= 0:
        return 0.0
    return math.exp2(bisect(lambda e: _expected_place(math.exp2(e)) <= mean_place, -40.0, 64.0, steps=42))
