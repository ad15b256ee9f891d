"""Merging lists of (time, weight) that are ordered by time, newest first: the common ground of replaying merges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["merge_steps"]

I64 = NDArray[np.int64]


@kernel
def merge_steps(rooms: I64, lengths: I64, times: I64, weights: I64, out_times: I64, out_weights: I64, out: I64) -> int:
    """For each cell, the runs of all parts as one, equal times added up.

    `rooms` and `lengths` have shape (parts, cells): where in `times` and `weights` a run starts and how long it is.
    All runs of a cell lie one after the other; the result starts where the first does, and `out` gets its length.
    Returns the largest total weight of a cell. Runs are merged two by two: n parts cost log2 n passes.
    """
    largest = np.int64(0)
    parts, cells = lengths.shape
    starts, ends = np.empty(parts, dtype=np.int64), np.empty(parts, dtype=np.int64)
    for cell in range(cells):
        first = rooms[0, cell]
        # Close the gaps between the runs.
        at = first
        for part in range(parts):
            start = rooms[part, cell]
            starts[part] = at
            for i in range(lengths[part, cell]):
                times[at] = times[start + i]
                weights[at] = weights[start + i]
                at += 1
            ends[part] = at
        runs = parts
        while runs > 1:
            written = first
            made = 0
            for run in range(0, runs, 2):
                one, stop_one = starts[run], ends[run]
                two, stop_two = (starts[run + 1], ends[run + 1]) if run + 1 < runs else (stop_one, stop_one)
                begin = written
                while one < stop_one or two < stop_two:
                    take_one = two >= stop_two or (one < stop_one and times[one] >= times[two])
                    time = times[one] if take_one else times[two]
                    weight = weights[one] if take_one else weights[two]
                    if take_one:
                        one += 1
                    else:
                        two += 1
                    if written > begin and out_times[written - 1] == time:
                        out_weights[written - 1] += weight
                    else:
                        out_times[written] = time
                        out_weights[written] = weight
                        written += 1
                starts[made], ends[made] = begin, written
                made += 1
            for i in range(first, written):
                times[i] = out_times[i]
                weights[i] = out_weights[i]
            runs = made
        out[cell] = ends[0] - first
        total = np.int64(0)
        for i in range(first, ends[0]):
            total += weights[i]
        largest = max(largest, total)
    return largest
