"""UltraLogLog: distinct counts in the fewest bytes, a register an item."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from catchment.errors import DamagedBytesError
from catchment.kernel.distinct import merge_ultraloglog, update_ultraloglog
from catchment.sketch.bounds import bisect, chernoff_radius
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.distinct import U64, DistinctCounter

__all__ = ["UltraLogLog"]

_DEVIATION = 0.7608
"""sqrt(m) times the relative deviation of the maximum-likelihood estimate (Ertl 2024, section 3)."""

_BIAS = 0.4815
"""First-order bias of the estimate, over m (the same)."""


class UltraLogLog(DistinctCounter):
    """2^`precision` registers of a byte: the largest update value seen, and whether the two below it were.

    An item goes to one register with an update value u that has probability 2^-u, as in HyperLogLog; remembering
    two more values in the same byte removes a quarter of the space for equal error.

    **Guarantee.** The estimate is within `epsilon` of the truth with probability at least 1 - delta, with epsilon about
    0.761 * sqrt(2 ln(2/delta)) / sqrt(registers). The same after any merge.

    *Why.* With n items the values u arrive at a register as Poisson events of rate n 2^-u / m, so the log-likelihood
    of the registers is -n a/m + sum over u of b_u ln(1 - exp(-n 2^-u/m)), where b_u counts registers known to have
    seen u and a adds 2^-u for those known not to. It is concave in n; its maximum, with first-order bias removed, is
    the estimate, asymptotically normal with relative deviation 0.7608/sqrt(m) (Ertl), less when items are fewer than
    registers. The interval takes the sub-Gaussian radius (`bounds.chernoff_radius`) instead of the normal quantile, on
    the logarithm, since the estimate itself is skewed to the right where registers are few.

    **Where a simpler one wins.** Up to some hundred items a set is smaller and exact. In a stream that is never merged,
    HyperLogLog with a martingale estimator (`datasketches` HLL) is nearly as good a register.

    Examples
    --------
    >>> sketch = UltraLogLog(epsilon=0.05)
    >>> sketch.update(list(range(10_000)))
    >>> 10_000 in sketch.estimate()
    True
    >>> sketch.nbytes
    2056

    References
    ----------
    O. Ertl: UltraLogLog: a practical and more space-efficient alternative to HyperLogLog for approximate distinct
    counting, VLDB 17(7), 2024.
    """

    family: ClassVar[int] = 8
    _layout = {"precision": "B", "delta": "d", "seed": "Q", "by": ("item", "pair")}

    precision: int

    @classmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """
        >>> UltraLogLog.suggest(0.05, 0.01)
        {'precision': 12, 'delta': 0.01}
        """
        radius = chernoff_radius(check_fraction("delta", delta)) * _DEVIATION
        registers = (radius / math.log1p(check_fraction("epsilon", epsilon))) ** 2
        return {"precision": max(3, math.ceil(math.log2(registers))), "delta": delta}

    def _configure(self, *, precision: int, delta: float = 0.05, seed: int = 0, by: str = "item") -> None:
        self.precision = check_whole("precision", precision, 3, 24)
        self._configure_common(delta=delta, seed=seed, by=by, functions=1)

    def _clear(self) -> None:
        self._registers = np.zeros(1 << self.precision, dtype=np.uint8)

    @property
    def epsilon(self) -> float:
        return math.expm1(self._radius(self.delta))

    def _radius(self, delta: float) -> float:
        """How far the logarithm of the estimate strays from that of the truth."""
        return chernoff_radius(delta) * _DEVIATION / math.sqrt(1 << self.precision)

    def _add(self, hashes: U64) -> None:
        update_ultraloglog(self._registers, self.precision, self._rows[0], hashes)

    def bounds(self, delta: float) -> tuple[float, float, float]:
        occupied = int(np.count_nonzero(self._registers))
        if occupied == 0:
            return 0.0, 0, 0
        value = self._most_likely()
        radius = self._radius(delta)
        if math.isinf(value):
            return value, occupied, value
        low = max(value * math.exp(-radius), occupied)
        return max(value, occupied), math.floor(low), math.ceil(max(value * math.exp(radius), low))

    def _most_likely(self) -> float:
        """The n that maximises the likelihood of the registers."""
        unseen, seen = self._evidence()
        registers = 1 << self.precision
        if unseen == 0:
            return math.inf
        rates = [(2.0**-u, count) for u, count in enumerate(seen, start=1) if count]

        def still_rising(log_density: float) -> bool:
            density = 2.0**log_density
            return sum(c * r / math.expm1(min(density * r, 700)) for r, c in rates) > unseen

        density = math.exp2(bisect(still_rising, -60.0, 64.0, steps=42))
        return registers * density / (1 + _BIAS / registers)

    def _evidence(self) -> tuple[float, list[int]]:
        """The summed probability of values known not to have come, and how many registers have seen each value."""
        counts = np.bincount(self._registers, minlength=256)
        largest = 64 - self.precision + 1
        unseen, seen = float(counts[0]), [0] * largest
        for register in np.flatnonzero(counts[1:]) + 1:
            times, top = int(counts[register]), (int(register) >> 2) - 1
            # Values above the top did not come; all of them together have the probability of the top one.
            unseen += times * 2.0**-top if top < largest else 0.0
            seen[top - 1] += times
            for below, bit in ((top - 1, 2), (top - 2, 1)):
                if below >= 1:
                    seen[below - 1] += times if register & bit else 0
                    unseen += 0.0 if register & bit else times * 2.0**-below
        return unseen, seen

    def _absorb(self, others: list[UltraLogLog]) -> None:
        for other in others:
            merge_ultraloglog(self._registers, other._registers)

    def _write(self, writer: Writer) -> None:
        writer.integers(self._registers)

    def _read(self, reader: Reader) -> None:
        self._registers = reader.integers(1 << self.precision, np.uint8, low=0, high=255)
        for register in np.flatnonzero(np.bincount(self._registers)):
            top, flags = int(register) >> 2, int(register) & 3
            # The smallest values have none, or only one, below them that could have been seen.
            if register and (not 2 <= top <= 66 - self.precision or (top == 2 and flags) or (top == 3 and flags & 1)):
                raise DamagedBytesError(f"a register of {register}")
