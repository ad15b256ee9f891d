"""Exponential histograms as in the textbook, many at a time: one for each cell of a grid, in flat arrays.

Level l of a cell is a queue of at most `most` buckets of 2^l arrivals each; a bucket is the time of its newest
arrival. When a queue is full, its two oldest buckets become one of the next level (Datar, Gionis, Indyk, Motwani,
SIAM J. Comput. 31(6), 2002). Queues are rings of `most` slots in blocks out of one pool: `heads` says where the oldest
bucket lies, `fills` how many there are, and `tops` how many levels are in use. Times are relative to the grid's base; a
time at or before the window's edge has left it. An update returns the place i where it stopped for want of blocks, or
-1 - i for want of levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["add_ones", "add_weights", "bracket_cells", "decode_level", "encode_level", "expire_cells", "list_steps"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]
Pool = NDArray[Any]


@kernel
def _bucket(heads: U16, directory: I32, most: int, cell: int, level: int, age: int) -> int:
    """Where in the pool the bucket lies that is `age` places after the oldest of its queue."""
    at = np.int64(heads[cell, level]) + age
    if at >= most:
        at -= most
    return np.int64(directory[cell, level]) + at


@kernel
def _expire(
    tops: U8, heads: U16, fills: U16, directory: I32, pool: Pool, most: int, cell: int, edge: int
) -> None:  # fmt: skip
    """Drop the buckets that have left the window, oldest first, which is highest level first."""
    while tops[cell] > 0:
        level = np.int64(tops[cell]) - 1
        while fills[cell, level] > 0:
            if np.int64(pool[_bucket(heads, directory, most, cell, level, 0)]) > edge:
                return
            heads[cell, level] = heads[cell, level] + 1 if heads[cell, level] + 1 < most else 0
            fills[cell, level] -= 1
        tops[cell] -= 1


@kernel
def expire_cells(
    tops: U8, heads: U16, fills: U16, directory: I32, pool: Pool, most: int, edge: int
) -> None:  # fmt: skip
    for cell in range(fills.shape[0]):
        _expire(tops, heads, fills, directory, pool, most, cell, edge)


@kernel
def add_ones(
    tops: U8, heads: U16, fills: U16, directory: I32, pool: Pool, used: I64, most: int, window: int,
    cells: I32, times: I64, base: int, start: int,
) -> int:  # fmt: skip
    """One arrival for each cell named, at its time; returns how many were taken before room ran out."""
    levels = fills.shape[1]
    for i in range(start, cells.size):
        cell = np.int64(cells[i])
        # At most one level is new: the one after the last that is in use.
        if np.int64(tops[cell]) >= levels:
            return -1 - i
        if used[0] + most > pool.size:
            return i
        time = times[i] - base
        _expire(tops, heads, fills, directory, pool, most, cell, time - window)
        level = 0
        while True:
            if directory[cell, level] < 0:
                directory[cell, level] = used[0]
                used[0] += most
            if level == np.int64(tops[cell]):
                tops[cell] += 1
            if fills[cell, level] < most:
                pool[_bucket(heads, directory, most, cell, level, np.int64(fills[cell, level]))] = time
                fills[cell, level] += 1
                break
            merged = np.int64(pool[_bucket(heads, directory, most, cell, level, 1)])
            second = np.int64(heads[cell, level]) + 2
            heads[cell, level] = second if second < most else second - most
            pool[_bucket(heads, directory, most, cell, level, most - 2)] = time
            fills[cell, level] = most - 1
            time = merged
            level += 1
    return cells.size


@kernel
def add_weights(
    tops: U8, heads: U16, fills: U16, directory: I32, pool: Pool, used: I64, most: int, window: int,
    cells: I32, times: I64, weights: I64, base: int, start: int,
) -> int:  # fmt: skip
    """`weights` arrivals at one time each, in O(log weight) and the same state as that many single ones.

    A queue's end state depends on what enters it, in order, and not on when: of c + a entries in all, the oldest pairs
    leave until at most `most` are left, and the newer time of each pair enters the next queue.
    """
    levels = fills.shape[1]
    queue, passed = np.empty(2 * most + 2, dtype=np.int64), np.empty(2 * most + 2, dtype=np.int64)
    for i in range(start, cells.size):
        if weights[i] == 0:
            continue
        cell = np.int64(cells[i])
        time = times[i] - base
        # Room for every level that this weight can reach, before anything is changed.
        needed, reach = 0, 0
        arriving = weights[i]
        while arriving > 0 and reach < levels:
            if directory[cell, reach] < 0:
                needed += 1
            arriving = (arriving + np.int64(fills[cell, reach]) - most + 1) // 2
            reach += 1
        if arriving > 0:
            return -1 - i
        if used[0] + needed * most > pool.size:
            return i
        _expire(tops, heads, fills, directory, pool, most, cell, time - window)
        level = 0
        explicit = np.int64(0)  # of those arriving, so many have the times in `passed`; the rest have this time
        arriving = weights[i]
        while arriving > 0:
            if directory[cell, level] < 0:
                directory[cell, level] = used[0]
                used[0] += most
            before = np.int64(fills[cell, level])
            for age in range(before):
                queue[age] = np.int64(pool[_bucket(heads, directory, most, cell, level, age)])
            for place in range(explicit):
                queue[before + place] = passed[place]
            known = before + explicit
            total = before + arriving
            pairs = max(np.int64(0), (total - most + 1) // 2)
            explicit = np.int64(0)
            while explicit < pairs and 2 * explicit + 1 < known:
                passed[explicit] = queue[2 * explicit + 1]
                explicit += 1
            heads[cell, level] = 0
            fills[cell, level] = total - 2 * pairs
            for age in range(total - 2 * pairs):
                place = 2 * pairs + age
                entry = queue[place] if place < known else time
                pool[np.int64(directory[cell, level]) + age] = entry
            arriving = pairs
            level += 1
            tops[cell] = max(np.int64(tops[cell]), level)
    return cells.size


@kernel
def bracket_cells(
    heads: U16, fills: U16, directory: I32, pool: Pool, most: int, cells: I64, start: int, low: I64, high: I64
) -> None:
    """The fewest and the most arrivals after `start` in each cell named: of the oldest bucket, one or all."""
    for i in range(cells.size):
        cell = cells[i]
        total, oldest = np.int64(0), np.int64(1)
        for level in range(fills.shape[1]):
            found = np.int64(0)
            for age in range(np.int64(fills[cell, level]) - 1, -1, -1):
                if np.int64(pool[_bucket(heads, directory, most, cell, level, age)]) <= start:
                    break
                found += 1
            total += found << level
            if found > 0:
                oldest = np.int64(1) << level
            if found < np.int64(fills[cell, level]):
                break
        low[i] = total - oldest + 1 if total > 0 else 0
        high[i] = total


@kernel
def list_steps(
    heads: U16, fills: U16, directory: I32, pool: Pool, most: int, base: int, first: int, edge: int,
    cells: I64, room: I64, times: I64, weights: I64, lengths: I64,
) -> None:  # fmt: skip
    """Each cell as arrivals to replay, newest first: half of every bucket at its start and half at its end.

    A bucket starts where the next older one ends; the oldest in the window at `first`, if nothing has left it, and
    otherwise before the edge, where its half is left out. A bucket of one is replayed at its end.
    """
    for i in range(cells.size):
        cell = cells[i]
        at = room[i]
        carried = np.int64(0)
        gone = False
        for level in range(fills.shape[1]):
            size = np.int64(1) << level
            for age in range(np.int64(fills[cell, level]) - 1, -1, -1):
                time = np.int64(pool[_bucket(heads, directory, most, cell, level, age)]) + base
                if time <= edge:
                    gone = True
                    break
                times[at] = time
                weights[at] = carried + size - size // 2
                at += 1
                carried = size // 2
            if gone:
                break
        if carried > 0 and not gone and first > edge:
            times[at] = first
            weights[at] = carried
            at += 1
        lengths[i] = at - room[i]


@kernel
def encode_level(
    heads: U16, fills: U16, directory: I32, pool: Pool, most: int, level: int, before: I64, out: U64
) -> int:
    """The times of one level, newest first, each as its distance from the one before in its cell; lowest level first.

    `before` holds the last time written of each cell, relative to the base, and at first the newest of all.
    """
    found = 0
    for cell in range(fills.shape[0]):
        for age in range(np.int64(fills[cell, level]) - 1, -1, -1):
            time = np.int64(pool[_bucket(heads, directory, most, cell, level, age)])
            out[found] = np.uint64(before[cell] - time)
            before[cell] = time
            found += 1
    return found


@kernel
def decode_level(
    heads: U16, fills: U16, directory: I32, pool: Pool, most: int, level: int, before: I64, edge: int,
    written: U64,
) -> bool:  # fmt: skip
    """Undo `encode_level`; False for a time that has left the window."""
    found = 0
    for cell in range(fills.shape[0]):
        for age in range(np.int64(fills[cell, level]) - 1, -1, -1):
            if written[found] >= np.uint64(before[cell] - edge):
                return False
            before[cell] -= np.int64(written[found])
            pool[_bucket(heads, directory, most, cell, level, age)] = before[cell]
            found += 1
    return True
