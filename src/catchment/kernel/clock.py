"""Times of arrival put in order: the one loop that every window shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["IN_ORDER", "LATE", "TOO_LATE", "out_of_order", "register_times"]

I64 = NDArray[np.int64]

IN_ORDER, LATE, TOO_LATE = 0, 1, 2


@kernel
def out_of_order(at: I64, newest: int) -> int:
    """The place of the first time that is before its predecessor, or the length if there is none."""
    before = newest
    for i in range(at.size):
        if at[i] < before:
            return i
        before = at[i]
    return at.size


@kernel
def register_times(at: I64, newest: int, lateness: int, out: I64, fates: NDArray[np.uint8]) -> int:
    """Give each event the newest time so far, say whether it is late, and return the longest delay of those taken."""
    delay = np.int64(0)
    for i in range(at.size):
        if at[i] >= newest:
            newest = at[i]
            fates[i] = IN_ORDER
        elif newest - at[i] <= lateness:
            delay = max(delay, newest - at[i])
            fates[i] = LATE
        else:
            fates[i] = TOO_LATE
        out[i] = newest
    return delay
