"""Wave: the fast counter of a sliding window."""

from __future__ import annotations

from typing import ClassVar

from catchment.window.counters import TimeCounter

__all__ = ["Wave"]


class Wave(TimeCounter):
    """Events in a sliding window, by the times of ever fewer of the older ones.

    **Guarantee.** For any range in the window, the truth lies in [low, high], always. For a range that ends now and
    events in order, the value misses it by at most `epsilon` times the truth, and by half an event more since it is
    whole (proof: `window.wave_grid`). A range that ends earlier is the difference of two such counts, and so are
    its bounds. Late events lower `low` by no more than the late events there were near the start of the range, and the
    value by half of that (`window.clock`).

    It is a deterministic wave in rank form: the time of the r-th event is kept at level ctz(r), in a slot that r
    implies, so an event costs one counter and one store. Levels appear as the window fills, and an event of weight w
    costs O(log w) and leaves the state that w events would.

    Merging n of them is order-preserving and symmetric; the result knows what it lost: error e of the parts becomes
    (1 + e)(1 + epsilon) - 1. Windows of arrivals are refused.

    **Where a simpler one wins.** A ring of all times is exact, and smaller up to about 2/epsilon events in the window.

    Parameters
    ----------
    epsilon
        The largest error, as a fraction of the truth. `delta` does not appear: nothing is random.
    window, arrivals
        The window: ticks of time, in any integer unit, or a number of events.
    lateness
        How late an event may be and still be taken, in ticks; the whole window by default.

    Examples
    --------
    >>> import numpy as np
    >>> requests = Wave(epsilon=0.05, window=3600)
    >>> requests.update(at=np.arange(10_000))
    >>> print(requests.estimate(last=600))
    608 in [593, 624] with confidence 1
    >>> requests.nbytes
    818

    References
    ----------
    P. Gibbons, S. Tirthapura: Distributed streams algorithms for sliding windows, SPAA 2002.
    O. Papapetrou, M. Garofalakis, A. Deligiannakis: Sketching distributed sliding-window data streams, VLDB Journal
    24(3), 2015, section 5.1 (merging).
    """

    family: ClassVar[int] = 11
    counter = "wave"
