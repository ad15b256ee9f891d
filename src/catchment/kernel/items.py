"""Loops over items of varying length in one byte arena."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["copy_spans"]

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]


@kernel
def copy_spans(source: U8, starts: I64, lengths: I64, target: U8, at: int, placed: I64) -> int:
    """Copy spans of `source` one after the other into `target` from `at`; `placed` gets where each begins."""
    for i in range(starts.size):
        placed[i] = at
        for byte in range(lengths[i]):
            target[at + byte] = source[starts[i] + byte]
        at += lengths[i]
    return at
