"""What a coordinator must know of a change before it adds it up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["reach_after"]

I64 = NDArray[np.int64]


@kernel
def reach_after(total: I64, own: I64, change: I64, whole: bool) -> tuple[float, float, float]:
    """The least and the largest of a site's cells, and everyone's furthest from 0, once `change` is added to `own`.

    With `whole` it takes the place of `own`. In floats, as what is impossible may be more than integers can hold; one
    pass without arrays on the way, which is a tenth of the time that NumPy takes for it.
    """
    least = most = furthest = 0.0
    for row in range(total.shape[0]):
        for column in range(total.shape[1]):
            before = np.float64(own[row, column])
            after = np.float64(change[row, column])
            if not whole:
                after += before
            least = min(least, after)
            most = max(most, after)
            furthest = max(furthest, abs(np.float64(total[row, column]) - before + after))
    return least, most, furthest
