"""BottomK, the BY sketch: distinct counts by the smallest hash values."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from catchment.errors import DamagedBytesError
from catchment.kernel.distinct import collect_below
from catchment.sketch.bounds import bisect, distinct_interval
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.distinct import U64, DistinctCounter

__all__ = ["BottomK"]

_RANGE = 2.0**64
_FIRST_ROOM = 1024


class BottomK(DistinctCounter):
    """The `size` smallest distinct hash values. Below that many items the count is exact.

    **Guarantee.** The truth lies in `[low, high]` with probability at least 1 - delta, within about epsilon = sqrt(2
    ln(2/delta) / size) of the estimate; below `size` distinct items it is the estimate (two items share a 64-bit hash
    with probability 2^-64).

    *Proof.* The hashes of n items are n uniform numbers, and the `size`-th smallest is at most v exactly when at
    least `size` of them are: a binomial tail, bounded by Chernoff and solved for n (`bounds.distinct_interval`). The
    estimate (size - 1)/v is unbiased (Beyer et al., 2007); Bar-Yossef et al. use size/v and prove `size = 96/epsilon^2`
    by Chebyshev, nine times what the Chernoff bound needs at delta = 0.01.

    **Where another one wins.** UltraLogLog needs far fewer bytes. This one is exact for small sets, and its
    hashes are a uniform sample of the distinct items.

    Examples
    --------
    >>> sketch = BottomK(epsilon=0.1)
    >>> sketch.update(list(range(500)))
    >>> print(sketch.estimate())
    500 in [500, 500] with confidence 0.95

    References
    ----------
    Z. Bar-Yossef, T. Jayram, R. Kumar, D. Sivakumar, L. Trevisan: Counting distinct elements in a data stream, RANDOM
    2002. K. Beyer, P. Haas, B. Reinwald, Y. Sismanis, R. Gemulla: On synopses for distinct-value estimation, SIGMOD
    2007.
    """

    family: ClassVar[int] = 7
    _layout = {"size": "I", "delta": "d", "seed": "Q", "by": ("item", "pair")}

    size: int

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """
        >>> BottomK.suggest(0.05, 0.01)
        {'size': 4219, 'delta': 0.01}
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        return {"size": math.ceil(bisect(lambda size: _error(size, delta) > epsilon, 2.0, 1e9)), "delta": delta}

    def _configure(self, *, size: int, delta: float = 0.05, seed: int = 0, by: str = "item") -> None:
        self.size = check_whole("size", size, 2, 2**26)
        self._configure_common(delta=delta, seed=seed, by=by, functions=1)

    def _clear(self) -> None:
        self._keep(np.zeros(0, dtype=np.uint64))

    def _keep(self, values: U64) -> None:
        """Take these as the smallest so far."""
        self._values = values
        self._pending = np.zeros(0, dtype=np.uint64)
        self._waiting = 0

    @property
    def epsilon(self) -> float:
        return _error(self.size, self.delta)

    def _add(self, hashes: U64) -> None:
        at = 0
        while at < hashes.size:
            if not self._pending.size:
                # As many may wait as there are, so that sorting costs little; an unused sketch takes no room at all.
                self._pending = np.zeros(min(max(self._values.size, _FIRST_ROOM), self.size), dtype=np.uint64)
            limit = self._values[-1] if self._values.size == self.size else np.uint64(2**64 - 1)
            at, self._waiting = collect_below(hashes, at, self._rows[0], limit, self._pending, self._waiting)
            if self._waiting == self._pending.size:
                self._settle()

    def _settle(self) -> U64:
        """Sort the values that wait in with the rest, and return them all."""
        if self._waiting:
            known = np.concatenate([self._values, self._pending[: self._waiting]])
            self._keep(np.unique(known)[: self.size].copy())
        return self._values

    def bounds(self, delta: float) -> tuple[float, float, float]:
        values = self._settle()
        if values.size < self.size:
            return values.size, values.size, values.size
        largest = (float(values[-1]) + 1) / _RANGE
        low, high = distinct_interval(self.size, largest, delta)
        return max((self.size - 1) / largest, math.floor(low)), math.floor(low), math.ceil(high)

    def _absorb(self, others: list[BottomK]) -> None:
        known = np.concatenate([self._settle(), *(other._settle() for other in others)])
        self._keep(np.unique(known)[: self.size].copy())

    def _write(self, writer: Writer) -> None:
        values = self._settle()
        writer.numbers("I", values.size)
        writer.integers(np.diff(values, prepend=np.uint64(0)))

    def _read(self, reader: Reader) -> None:
        (count,) = reader.numbers("I")
        if count > self.size:
            raise DamagedBytesError(f"{count} values in a sketch of {self.size}")
        steps = reader.integers(count, np.uint64, low=0, high=2**64 - 1)
        values = np.cumsum(steps, dtype=np.uint64)
        if np.any(values[1:] <= values[:-1]):
            raise DamagedBytesError("hash values out of order")
        self._keep(values)


def _error(size: float, delta: float) -> float:
    """Half the relative width of the interval for a large n."""
    low, high = distinct_interval(int(size), size * 1e-9, delta)
    return (high - low) / (2 * 1e9)
