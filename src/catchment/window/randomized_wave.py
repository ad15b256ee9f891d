"""RandomizedWave: a counter of a sliding window that merges without loss."""

from __future__ import annotations

from typing import Any, ClassVar

from catchment.sketch.checks import check_fraction, check_whole
from catchment.window.base import CLOCK_LAYOUT
from catchment.window.clock import clock_parameters
from catchment.window.counters import TimeCounter
from catchment.window.randomized_grid import RandomizedGrid

__all__ = ["RandomizedWave"]


class RandomizedWave(TimeCounter):
    """Events in a sliding window, by samples of halving density.

    **Guarantee.** For any range in the window that ends now, the truth lies in [low, high] with probability at least
    1 - `delta`, however many were merged and through whatever tree: merging adds samples, and no error of its own. The
    interval is computed from the level that answered and the number K of merged streams; its half-width is about
    sqrt(4/3 K ln(2/delta)) times the spacing of the samples (proof: `window.randomized_grid`).

    The size is `constant`/epsilon^2. With 36, the constant that Gibbons and Tirthapura prove for independent samples,
    every range keeps to epsilon for thousands of merged streams; with 6, the default and what the literature uses in
    practice, for about (1 / (4 epsilon))^2 of them and more. `epsilon` says what this one has now.

    **Where a simpler one wins.** Nearly everywhere: `Wave` needs 1/epsilon times, not 1/epsilon^2, and is much faster.
    This one is for trees of merges so deep that the error of waves, which grows with the height, would be too much.

    Parameters
    ----------
    epsilon, delta
        The error as a fraction of the truth, and the probability of failure.
    window, arrivals
        The window: ticks of time, in any integer unit, or a number of events.
    lateness
        How late an event may be and still be taken, in ticks; the whole window by default.
    constant
        The size times epsilon^2.
    seed
        Chooses the coins. Sketches must share it to be merged; their coins differ by their first events.

    Examples
    --------
    >>> import numpy as np
    >>> requests = RandomizedWave(epsilon=0.1, delta=0.05, window=3600)
    >>> requests.update(at=np.arange(10_000))
    >>> 3600 in requests.estimate(), 600 in requests.estimate(last=600)
    (True, True)

    References
    ----------
    P. Gibbons, S. Tirthapura: Distributed streams algorithms for sliding windows, SPAA 2002.
    """

    family: ClassVar[int] = 12
    counter = "randomized"
    _layout = {"size": "I", "delta": "d", "seed": "Q", **CLOCK_LAYOUT}

    def __init__(
        self,
        epsilon: float = 0.05,
        delta: float = 0.01,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        lateness: int | None = None,
        constant: float = 6.0,
        seed: int = 0,
    ) -> None:
        sizes = self.suggest(epsilon, delta, constant=constant)
        self._configure(**sizes, seed=seed, **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float = 0.01, *, constant: float = 6.0) -> dict[str, Any]:
        """The entries of a level.

        >>> RandomizedWave.suggest(0.1, 0.05), RandomizedWave.suggest(0.1, 0.05, constant=36)
        ({'size': 600, 'delta': 0.05}, {'size': 3600, 'delta': 0.05})
        """
        check_fraction("epsilon", epsilon)
        size = RandomizedGrid.size_for(epsilon, constant=constant)
        return {"size": size, "delta": check_fraction("delta", delta)}

    def _configure(
        self, *, size: int, window: int, delta: float = 0.01, seed: int = 0, clock: str = "time", lateness: int = 0
    ) -> None:
        super()._configure(size=size, window=window, clock=clock, lateness=lateness)
        self.delta = check_fraction("delta", delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)

    @property
    def guarantee(self) -> str:
        return (
            f"the truth lies in [low, high] with probability {1 - self.delta:g}, and the value misses it by about "
            f"{self.epsilon:.3g} of it; {self.size} entries a level"
        )
