"""ProportionalCountMin: what left the window is taken to have come evenly over the jump window before."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from catchment.answer import Answer
from catchment.kernel.count_min import look_up_cells
from catchment.sketch.keys import hash_keys
from catchment.window.jumping_count_min import JumpingCountMin

__all__ = ["ProportionalCountMin"]


class ProportionalCountMin(JumpingCountMin):
    """The Count-Min sketches of two jump windows, of which the previous one fades in proportion to time.

    **Guarantee.** With f a key's true frequency in the window, c and p its frequencies in the current and in the
    previous jump window, and N the weight of the current one: `c <= f <= c + p`, for any part of the previous jump
    window may be in the window. `high` is the Count-Min estimate of c plus that of p, and always holds; `low` is the
    lower bound of `CountMin` on c, and holds with probability 1 - `delta`. While events come late, `low` is less by the
    weight of those that were late in the current jump window, if one of them may belong before the window. Merged
    sketches have the same bytes as one sketch of all events, if these were in order.

    The estimate is the smallest over rows of C + S (1 - elapsed/window), C and S a row's counters of the key in the
    current and in the previous jump window: the thesis takes S/window off every counter with every tick (Listing 3.5),
    which comes to the same and here costs nothing. For keys that come evenly it errs as a Count-Min does; for a key
    that came only early or only late in the previous jump window, it errs by up to p.

    **Where a simpler one wins.** Where answers are wanted at the ends of fixed windows only, a `CountMin` each. Where
    the frequencies change within a window, `SplitterCountMin` follows them, and `ECMSketch` promises to.

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
    >>> sketch = ProportionalCountMin(epsilon=0.01, delta=0.01, window=100)
    >>> sketch.update(["a"] * 100, at=range(100))
    >>> sketch.update(["b"] * 30, at=range(100, 130))
    >>> print(sketch.estimate("a"))
    70 in [0, 100] with confidence 0.99

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.3.
    """

    family: ClassVar[int] = 22
    linear = True

    @property
    def guarantee(self) -> str:
        return (
            f"estimate within {self.epsilon:.3g} * weight in the window of the truth for keys that come evenly; "
            f"the bounds, which do not assume it, hold with probability {1 - self.delta:g}"
        )

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the window; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        span = self._whole_window(last, now)
        phase = self._phase(span[1])
        looked_up = np.empty((2, self.depth, hashes.size), dtype=np.int64)
        for cells, out in zip(phase.seen(self._cells), looked_up, strict=True):
            look_up_cells(cells, self._rows, hashes, out)
        current, previous = looked_up
        value = (current + previous * phase.left).min(axis=0)
        _, low = self._current(hashes, span[1])
        return self._answer(value, low, current.min(axis=0) + previous.min(axis=0), span, scalar)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight in the window, if that of the previous jump window came evenly; the bounds do not assume it."""
        span = self._whole_window(last, now)
        phase = self._phase(span[1])
        current, previous = (int(total) for total in phase.seen(self._totals))
        low = current - self._misplaced(span[1])[0]
        return self._total_answer(current + previous * phase.left, low, current + previous, span)
