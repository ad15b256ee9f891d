"""SimpleCountMin: a Count-Min that starts afresh with every window, and admits what that leaves unknown."""

from __future__ import annotations

from typing import Any, ClassVar

from catchment.answer import Answer
from catchment.sketch.keys import hash_keys
from catchment.window.jumping_count_min import JumpingCountMin

__all__ = ["SimpleCountMin"]


class SimpleCountMin(JumpingCountMin):
    """The Count-Min sketch of the current jump window: the least memory, and the loosest bounds.

    **Guarantee.** With f a key's true frequency in the window, c its frequency in the current jump window, N the
    weight there and P the weight of the previous jump window: `c <= estimate`, `estimate <= c + epsilon * N` with
    probability 1 - `delta`, and `c <= f <= c + P`, for any part of the previous jump window may be in the window, and
    nothing but its weight is known. `low` and `high` are made of these; `high` always holds. While events come late,
    `low` is less by the weight of those that were late in the current jump window, if one of them may belong before
    the window. Merged sketches have the same bytes as one sketch of all events, if these were in order.

    Jump windows start at multiples of the window (`jumping_count_min` says why): just after one starts, the estimate
    is near zero; just before it ends, it is that of a Count-Min.

    **Where a simpler one wins.** Where answers are wanted at the ends of fixed windows only, a `CountMin` each is all
    that is needed. Everywhere else `ProportionalCountMin` is far closer, for twice the memory.

    Parameters
    ----------
    epsilon, delta
        The error by colliding keys as a fraction of the weight, and the probability of failure; they choose the size.
    window, arrivals
        The length of the window: in ticks of time, or in a number of events. Give one.
    lateness
        How late an event may be and still be taken, in ticks; the window by default.
    seed
        Chooses the hash functions.

    Examples
    --------
    >>> sketch = SimpleCountMin(epsilon=0.01, delta=0.01, window=100)
    >>> sketch.update(["a", "b", "a", "a"], at=[10, 20, 60, 130])
    >>> print(sketch.estimate("a"))
    1 in [1, 4] with confidence 0.99

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.2.
    """

    family: ClassVar[int] = 21
    linear = True

    _kept = 1

    @property
    def guarantee(self) -> str:
        return (
            f"estimate <= truth + {self.epsilon:.3g} * weight in the window with probability {1 - self.delta:g}; "
            "below the truth by at most the weight of the jump window before"
        )

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the window; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        span = self._whole_window(last, now)
        value, low = self._current(hashes, span[1])
        previous = int(self._phase(span[1]).seen(self._totals)[1])
        return self._answer(value, low, value + previous, span, scalar)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight in the current jump window, with bounds on that in the window."""
        span = self._whole_window(last, now)
        current, previous = (int(total) for total in self._phase(span[1]).seen(self._totals))
        return self._total_answer(current, current - self._misplaced(span[1])[0], current + previous, span)
