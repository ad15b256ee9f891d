"""ExponentialHistogram: the textbook's counter of a sliding window."""

from __future__ import annotations

from typing import ClassVar

from catchment.window.counters import TimeCounter

__all__ = ["ExponentialHistogram"]


class ExponentialHistogram(TimeCounter):
    """Events in a sliding window, in buckets whose sizes grow with their age.

    **Guarantee.** For any range in the window, the truth lies in [low, high], always. For a range that ends now and
    events in order, the value misses it by at most `epsilon` times the truth, and by half an event more since it is
    whole (proof: `window.histogram_grid`). A range that ends earlier is the difference of two such counts, and so are
    its bounds. Late events lower `low` by no more than the late events there were near the start of the range, and the
    value by half of that (`window.clock`).

    Merging n of them is order-preserving and symmetric; the result knows what it lost: error e of the parts becomes
    (1 + e)(1 + epsilon) - 1. Windows of arrivals are refused.

    **Where a simpler one wins.** `Wave` answers the same with the same bound and is several times faster; this one is
    the reference that it is tested against. Counts by minute are exact to merge, and smaller when the ranges that
    people ask for are many minutes long: `Panes`.

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
    >>> requests = ExponentialHistogram(epsilon=0.1, window=60)
    >>> requests.update(at=[1, 5, 5, 30, 61])
    >>> print(requests.estimate())
    4 in [4, 4] with confidence 1
    >>> print(requests.estimate(last=40))
    2 in [2, 2] with confidence 1

    References
    ----------
    M. Datar, A. Gionis, P. Indyk, R. Motwani: Maintaining stream statistics over sliding windows, SIAM J. Comput.
    31(6), 2002. O. Papapetrou, M. Garofalakis, A. Deligiannakis: Sketching distributed sliding-window data streams,
    VLDB Journal 24(3), 2015, section 5.1 (merging).
    """

    family: ClassVar[int] = 10
    counter = "eh"
