"""Randomised waves, many at a time: one for each cell of a grid, in flat arrays.

Level 0 keeps the times of the last `cap` arrivals, and every further level those of a random half of the level below
(Gibbons and Tirthapura, SPAA 2002). Of each two entries in a row that a level takes, one goes on to the next level, by
a fair coin, instead of each by a coin of its own: a count of the next level, doubled, then misses the count of this one
only by the pair that is cut at either end, and an arrival of weight w costs O(log w). A level exists only once the one
below it would lose a time that is still in the window.

`pushes` counts what each level has taken; entry number m lies in slot m mod cap. Times are relative to the grid's base,
at least 1; 0 is a time that has left the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["add_ones", "add_weights", "code_level", "count_cells", "fill_cells", "list_levels"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
Pool = NDArray[Any]

_1 = np.uint64(1)
_CELL = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _goes_on(salt: np.uint64, cell: int, level: int, entry: int) -> bool:
    """Whether that entry of its pair is the one that the next level takes."""
    pair = np.uint64(entry) >> _1
    coin = mixed(pair + (np.uint64(level) << np.uint64(56)), salt + np.uint64(cell) * _CELL) & _1
    return (np.uint64(entry) & _1) == coin


@kernel
def _going_on_before(salt: np.uint64, cell: int, level: int, entry: int) -> int:
    """How many entries with smaller numbers go on."""
    half = entry // 2
    return half + (1 if entry % 2 == 1 and _goes_on(salt, cell, level, entry - 1) else 0)


@kernel
def _open_level(
    tops: U8, directory: I32, pool: Pool, pushes: I64, used: I64, cap: int, salt: np.uint64, cell: int
) -> None:
    """A level above the top one, with those of its entries that go on."""
    level = np.int64(tops[cell])
    directory[cell, level + 1] = used[0]
    used[0] += cap
    below, above = np.int64(directory[cell, level]), np.int64(directory[cell, level + 1])
    for entry in range(max(np.int64(0), pushes[cell, level] - cap), pushes[cell, level]):
        if _goes_on(salt, cell, level, entry):
            pool[above + pushes[cell, level + 1] % cap] = pool[below + entry % cap]
            pushes[cell, level + 1] += 1
    tops[cell] = level + 1


@kernel
def add_ones(
    tops: U8, directory: I32, pool: Pool, pushes: I64, used: I64, cap: int, window: int,
    salt: np.uint64, cells: I32, times: I64, base: int, start: int,
) -> int:  # fmt: skip
    """One arrival for each cell named, at its time; returns how many were taken before room ran out."""
    for i in range(start, cells.size):
        cell = np.int64(cells[i])
        time = times[i] - base
        if used[0] + cap > pool.size or np.int64(tops[cell]) + 2 > directory.shape[1]:
            return i
        if directory[cell, 0] < 0:
            directory[cell, 0] = used[0]
            used[0] += cap
        level = np.int64(0)
        while True:
            entry = pushes[cell, level]
            at = np.int64(directory[cell, level]) + entry % cap
            if level == tops[cell] and entry >= cap and np.int64(pool[at]) > time - window:
                _open_level(tops, directory, pool, pushes, used, cap, salt, cell)
            pool[at] = time
            pushes[cell, level] = entry + 1
            if level == tops[cell] or not _goes_on(salt, cell, level, entry):
                break
            level += 1
    return cells.size


@kernel
def add_weights(
    tops: U8, directory: I32, pool: Pool, pushes: I64, used: I64, cap: int, window: int,
    salt: np.uint64, cells: I32, times: I64, weights: I64, base: int, start: int,
) -> int:  # fmt: skip
    """`weights` arrivals at one time each, in O(log weight) and the same state as that many single ones."""
    for i in range(start, cells.size):
        if weights[i] == 0:
            continue
        cell = np.int64(cells[i])
        time = times[i] - base
        # Room for every level that this weight can open, before anything is changed.
        opened = np.int64(2)
        reached = (weights[i] >> np.int64(tops[cell])) + 2
        while reached > cap:
            reached >>= 1
            opened += 1
        if used[0] + opened * cap > pool.size or np.int64(tops[cell]) + opened + 1 > directory.shape[1]:
            return i
        if directory[cell, 0] < 0:
            directory[cell, 0] = used[0]
            used[0] += cap
        level = np.int64(0)
        arriving = weights[i]
        while arriving > 0:
            before = pushes[cell, level]
            block = np.int64(directory[cell, level])
            if level == tops[cell]:
                # The first of these entries that displaces a time in the window makes the next level necessary.
                entry = max(before, cap)
                while entry < min(before + arriving, before + cap):
                    if np.int64(pool[block + entry % cap]) > time - window:
                        break
                    entry += 1
                if entry < before + arriving:
                    _open_level(tops, directory, pool, pushes, used, cap, salt, cell)
                    # Single arrivals would have displaced some entries before that level was opened.
                    stale = _going_on_before(salt, cell, level, entry - cap)
                    stale -= _going_on_before(salt, cell, level, max(np.int64(0), before - cap))
                    _drop_oldest(directory, pool, pushes, cell, level + 1, stale)
            going_on = np.int64(0)
            if level < np.int64(tops[cell]):
                going_on = _going_on_before(salt, cell, level, before + arriving)
                going_on -= _going_on_before(salt, cell, level, before)
            for entry in range(max(before, before + arriving - cap), before + arriving):
                pool[block + entry % cap] = time
            pushes[cell, level] = before + arriving
            arriving = going_on
            level += 1
    return cells.size


@kernel
def _drop_oldest(directory: I32, pool: Pool, pushes: I64, cell: int, level: int, count: int) -> None:
    """Take the oldest entries out of a level that was just opened, and number the others from 0."""
    block = np.int64(directory[cell, level])
    for entry in range(count, pushes[cell, level]):
        pool[block + entry - count] = pool[block + entry]
    for entry in range(pushes[cell, level] - count, pushes[cell, level]):
        pool[block + entry] = 0
    pushes[cell, level] -= count


@kernel
def count_cells(
    tops: U8,
    directory: I32,
    pool: Pool,
    pushes: I64,
    cap: int,
    cells: I64,
    start: int,
    levels: I64,
    found: I64,
) -> None:
    """For each cell named, the lowest level that reaches back to `start`, and how many of its entries came after."""
    for i in range(cells.size):
        cell = cells[i]
        levels[i] = 0
        found[i] = 0
        if directory[cell, 0] < 0:
            continue
        for level in range(np.int64(tops[cell]) + 1):
            block = np.int64(directory[cell, level])
            taken = pushes[cell, level]
            if taken > cap and np.int64(pool[block + taken % cap]) > start and level < np.int64(tops[cell]):
                continue
            # Entries from `below` on, of those that are kept, came after start.
            below, above = max(np.int64(0), taken - cap), taken
            while below < above:
                middle = (below + above) // 2
                if np.int64(pool[block + middle % cap]) <= start:
                    below = middle + 1
                else:
                    above = middle
            levels[i] = level
            found[i] = taken - below
            break


@kernel
def list_levels(
    tops: U8, directory: I32, pool: Pool, pushes: I64, cap: int, salt: np.uint64, base: int, edge: int,
    cells: I64, levels: int, rooms: I64, times: I64, weights: I64, lengths: I64, lost: U8,
) -> None:  # fmt: skip
    """The times in the window on each level, newest first, at places rooms[level, i] and on.

    Levels above a cell's top one are made as it would make them. `lost` marks levels that do not reach the edge.
    """
    for i in range(cells.size):
        cell = cells[i]
        for level in range(levels):
            at = rooms[level, i]
            if directory[cell, 0] < 0:
                continue
            if level <= np.int64(tops[cell]):
                block = np.int64(directory[cell, level])
                taken = pushes[cell, level]
                oldest = max(np.int64(0), taken - cap)
                entry = taken - 1
                while entry >= oldest:
                    time = np.int64(pool[block + entry % cap])
                    if time == 0 or time + base <= edge:
                        break
                    times[at] = time + base
                    at += 1
                    entry -= 1
                if entry < oldest and oldest > 0 and level < np.int64(tops[cell]):
                    lost[level, i] = 1
            else:
                below = rooms[level - 1, i]
                number = (
                    pushes[cell, tops[cell]] - 1 if level == np.int64(tops[cell]) + 1 else lengths[level - 1, i] - 1
                )
                for age in range(lengths[level - 1, i]):
                    if _goes_on(salt, cell, level - 1, number - age):
                        times[at] = times[below + age]
                        at += 1
            lengths[level, i] = at - rooms[level, i]
            for place in range(rooms[level, i], at):
                weights[place] = 1


@kernel
def fill_cells(
    tops: U8, directory: I32, pool: Pool, pushes: I64, used: I64, cap: int, salt: np.uint64,
    base: int, cells: I64, levels: int, rooms: I64, lengths: I64, times: I64, weights: I64, lost: U8, start: int,
) -> int:  # fmt: skip
    """Build empty cells from the entries of all parts on each level, newest first, equal times as weights."""
    for i in range(start, cells.size):
        cell = cells[i]
        top = np.int64(0)
        for level in range(levels):
            if lengths[level, i] > 0:
                top = level
        if lengths[0, i] == 0:
            continue
        given = np.int64(0)
        for place in range(rooms[top, i], rooms[top, i] + lengths[top, i]):
            given += weights[place]
        opened, halved = top + 1, given
        while halved > cap:
            halved = halved // 2 + 1
            opened += 1
        if used[0] + (opened + 1) * cap > pool.size or opened + 1 > directory.shape[1]:
            return i
        for level in range(top + 1):
            directory[cell, level] = used[0]
            used[0] += cap
            block = np.int64(directory[cell, level])
            total = np.int64(lost[level, i])
            for place in range(rooms[level, i], rooms[level, i] + lengths[level, i]):
                total += weights[place]
            pushes[cell, level] = total
            entry = total - 1
            for place in range(rooms[level, i], rooms[level, i] + lengths[level, i]):
                for _ in range(weights[place]):
                    if entry < 0 or total - entry > cap:
                        break
                    pool[block + entry % cap] = times[place] - base
                    entry -= 1
        tops[cell] = top
        # The top level must hold all that is in the window: halve what it was given until it does.
        entries = np.empty(given, dtype=np.int64)
        at = 0
        for place in range(rooms[top, i], rooms[top, i] + lengths[top, i]):
            for _ in range(weights[place]):
                entries[at] = times[place]
                at += 1
        while given > cap:
            kept = 0
            for age in range(given):
                if _goes_on(salt, cell, top, given - 1 - age):
                    entries[kept] = entries[age]
                    kept += 1
            top += 1
            directory[cell, top] = used[0]
            used[0] += cap
            block = np.int64(directory[cell, top])
            pushes[cell, top] = kept
            for age in range(min(np.int64(kept), cap)):
                pool[block + (kept - 1 - age) % cap] = entries[age] - base
            given = kept
            tops[cell] = top
    return cells.size


@kernel
def code_level(
    values: U64, reading: bool,
    directory: I32, pool: Pool, pushes: I64, cap: int, level: int, newest: int, edge: int,
) -> int:  # fmt: skip
    """The times of one level as distances, newest first, written to `values` or read from them.

    All are relative to the base; what is at or before the edge counts as the edge. Returns how many there are, or -1
    for values that no level could have.
    """
    found = 0
    for cell in range(pushes.shape[0]):
        if directory[cell, level] < 0:
            continue
        block = np.int64(directory[cell, level])
        before = newest
        for entry in range(pushes[cell, level] - 1, max(np.int64(0), pushes[cell, level] - cap) - 1, -1):
            at = block + entry % cap
            if reading:
                if values[found] > np.uint64(before - edge):
                    return -1
                before -= np.int64(values[found])
                pool[at] = before if before > edge else 0
            else:
                time = max(edge, np.int64(pool[at]))
                values[found] = np.uint64(before - time)
                before = time
            found += 1
    return found
