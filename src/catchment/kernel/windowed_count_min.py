"""Loops of the Splitter windowed Count-Min: queues of sub-cells, one for each counter, in a pool that all share.

A sub-cell stands for events that came at one rate in [init, last]: `counts` of them by that rate are still in the
window, at least `sure` and at most `most` for certain. A cell's queue is ordered by init; `following` links it, and the
free places of the pool too. `heads`, `bottoms` and `seconds` are each cell's first, last and last but one, or -1.

Listing 3.7 of the thesis takes every cell one tick on with every tick. Here a cell is taken on only when an event
falls on it. A sub-cell loses the same count with each tick (c/L of its count c over L ticks leaves (c - c/L)/(L - 1)
for each of the others), so k ticks at once leave c (L - k)/L; questions work out what is left and leave the cell alone.
The state is thereby a function of the events alone, to the last bit, whatever was asked in between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import column_of

__all__ = ["FREE", "SPARE", "list_sub_cells", "read_all_cells", "read_smallest_cells", "split_cells"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

FREE, SPARE, END = 0, 1, 2
"""In `state`: the first free place of the pool, how many there are, and where the current jump window ends."""

_LIMIT = (1 << 62) - 1
"""No window holds more (`checks.MASS_LIMIT`), so this is a true upper bound where sums would pass it."""


@kernel
def _retire(
    cell: int, start: int, ceiling: int, state: I64, heads: I32, bottoms: I32, seconds: I32,
    counts: F64, sure: I64, most: I64, init: I64, last: I64, following: I32,
) -> None:  # fmt: skip
    """Take from a cell what was before `start`; the window holds at most `ceiling` of its events."""
    before, node, removed = -1, heads[cell], False
    while node >= 0 and init[node] < start:
        after = following[node]
        if last[node] < start:
            if before < 0:
                heads[cell] = after
            else:
                following[before] = after
            following[node] = state[FREE]
            state[FREE] = node
            state[SPARE] += 1
            removed = True
        else:
            counts[node] *= (last[node] - start + 1) / (last[node] - init[node] + 1)
            sure[node] = 0
            most[node] = max(min(most[node], ceiling), 1)  # the event at `last` is in the window
            init[node] = start
            before = node
        node = after
    if removed:
        # In a queue of several sketches merged, any sub-cell may have been the bottom: find it again.
        bottoms[cell], seconds[cell] = heads[cell], -1
        while bottoms[cell] >= 0 and following[bottoms[cell]] >= 0:
            seconds[cell] = bottoms[cell]
            bottoms[cell] = following[bottoms[cell]]


@kernel
def _differ(pred: int, bottom: int, counts: F64, init: I64, last: I64) -> float:
    """Function ERROR of Listing 3.8: how many times the one's rate is the other's.

    The listing prints bottom's length as init - init + 1; last - init + 1 is meant. Two sub-cells may begin at one
    tick of time, unlike arrivals: then the predecessor lasted for one.
    """
    earlier = counts[pred] / max(init[bottom] - init[pred], 1)
    later = counts[bottom] / (last[bottom] - init[bottom] + 1)
    return later / earlier if later > earlier else earlier / later


@kernel
def split_cells(
    first: int, times: I64, hashes: U64, weights: I64, rows: U64, width: int, window: int,
    origin: int, usual: int, gamma: float, beta: float, state: I64, totals: I64, cells: I64,
    heads: I32, bottoms: I32, seconds: I32,
    counts: F64, sure: I64, most: I64, init: I64, last: I64, following: I32,
) -> int:  # fmt: skip
    """Take in events from the `first` on; return the place of the first for which the pool may be too small.

    `cells` are the counters of the current and of the previous jump window, flat, and `totals` their weights. A
    sub-cell is filled up to gamma/width of the larger of these, and of `usual`, before it is judged.
    """
    current, previous = cells[0], cells[1]
    depth = rows.shape[0]
    for i in range(first, times.size):
        if state[SPARE] < depth:
            return i
        time, weight = times[i], weights[i]
        if time >= state[END]:
            gone = time >= state[END] + window
            for cell in range(current.size):
                previous[cell] = 0 if gone else current[cell]
                current[cell] = 0
            totals[1] = 0 if gone else totals[0]
            totals[0] = 0
            state[END] = origin + ((time - origin) // window + 1) * window
        if weight == 0:
            continue
        totals[0] += weight
        full = gamma / width * max(usual, totals[0], totals[1])
        for row in range(depth):
            column = column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], np.uint64(width))
            cell = row * width + np.int64(column)
            _retire(
                cell, time - window + 1, current[cell] + previous[cell], state, heads, bottoms, seconds,
                counts, sure, most, init, last, following,
            )  # fmt: skip
            current[cell] += weight
            bottom, pred = bottoms[cell], seconds[cell]
            if bottom >= 0 and counts[bottom] < full:
                counts[bottom] += weight
                most[bottom] = min(most[bottom] + weight, _LIMIT)
                sure[bottom] = min(sure[bottom] + weight, most[bottom])
                last[bottom] = time
                continue
            if bottom >= 0 and pred >= 0 and _differ(pred, bottom, counts, init, last) <= beta:
                counts[pred] += counts[bottom]
                most[pred] = min(most[pred] + most[bottom], _LIMIT)
                sure[pred] = min(sure[pred] + sure[bottom], most[pred])
                last[pred] = max(last[pred], last[bottom])
                node = bottom
            else:
                node = state[FREE]
                state[FREE] = following[node]
                state[SPARE] -= 1
                following[node] = -1
                if bottom >= 0:
                    following[bottom] = node
                else:
                    heads[cell] = node
                bottoms[cell], seconds[cell] = node, bottom
            counts[node] = weight
            sure[node] = most[node] = weight
            init[node] = last[node] = time
    return times.size


@kernel
def _read(
    cell: int, start: int, floor: int, ceiling: int, heads: I32,
    counts: F64, sure: I64, most: I64, init: I64, last: I64, following: I32,
) -> tuple[float, int, int]:  # fmt: skip
    """A cell's estimate of the events from `start` on, and its bounds: the better of the queue's and those given."""
    value, low, high = 0.0, np.int64(0), np.int64(0)
    node = heads[cell]
    while node >= 0:
        if last[node] >= start:
            high = min(high + most[node], _LIMIT)
            if init[node] >= start:
                value += counts[node]
                low = min(low + sure[node], _LIMIT)
            else:
                value += counts[node] * ((last[node] - start + 1) / (last[node] - init[node] + 1))
        node = following[node]
    return value, max(low, floor), min(high, ceiling)


@kernel
def read_all_cells(
    start: int, floors: I64, ceilings: I64, heads: I32, counts: F64, sure: I64, most: I64, init: I64, last: I64,
    following: I32, values: F64, lows: I64, highs: I64,
) -> None:  # fmt: skip
    for cell in range(heads.size):
        values[cell], lows[cell], highs[cell] = _read(
            cell, start, floors[cell], ceilings[cell], heads, counts, sure, most, init, last, following
        )


@kernel
def read_smallest_cells(
    hashes: U64, rows: U64, width: int, start: int, floors: I64, ceilings: I64, heads: I32,
    counts: F64, sure: I64, most: I64, init: I64, last: I64, following: I32, values: F64, lows: I64, highs: I64,
) -> None:  # fmt: skip
    """Each key's smallest estimate, lower and upper bound over its rows."""
    for i in range(hashes.size):
        values[i], lows[i], highs[i] = np.inf, _LIMIT, _LIMIT
        for row in range(rows.shape[0]):
            column = column_of(hashes[i], rows[row, 0], rows[row, 1], rows[row, 2], np.uint64(width))
            cell = row * width + np.int64(column)
            value, low, high = _read(
                cell, start, floors[cell], ceilings[cell], heads, counts, sure, most, init, last, following
            )
            values[i], lows[i], highs[i] = min(values[i], value), min(lows[i], low), min(highs[i], high)


@kernel
def list_sub_cells(start: int, heads: I32, last: I64, following: I32, cells: I64, places: I64) -> int:
    """The cell and the place of every sub-cell that reaches `start`, cell by cell, each in its queue's order."""
    used = 0
    for cell in range(heads.size):
        node = heads[cell]
        while node >= 0:
            if last[node] >= start:
                cells[used], places[used] = cell, node
                used += 1
            node = following[node]
    return used
