"""Rank waves, many at a time: one for each cell of a grid, in flat arrays.

The r-th arrival of a cell is kept at level ctz(r): level l holds the times of the last `cap` ranks that are odd
multiples of 2^l, in slot (r >> l+1) mod cap. Slots imply ranks, so an arrival costs one counter and one store, and
nothing is ever moved: a deterministic wave (Gibbons and Tirthapura, SPAA 2002) without its linked list. Ranks that are
multiples of 2^top, odd or not, lie in one ring of 2 cap slots. When it would lose a time that is still in the window,
the ring is split: its odd ranks become a level, its even ones the next ring. So levels grow with what is in the window,
and a cell that holds little is small and exact.

Times are kept relative to the grid's base, at least 1; 0 is a time that has left the window. What the ring has
dropped had left it, too. Blocks of `cap` times come from one pool; `directory` says where a cell's start: level l in
place l, the ring in places top and top + 1. An update returns where it stopped for want of blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.bits import trailing_zeros
from catchment.kernel.compile import kernel

__all__ = [
    "RINGS",
    "add_ones",
    "add_weights",
    "bracket_cells",
    "decode_times",
    "encode_times",
    "fill_cells",
    "list_steps",
]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
Pool = NDArray[Any]

RINGS = -1
"""Stands for the rings where a level is asked for."""

_0, _1 = np.uint64(0), np.uint64(1)
_2_32 = np.uint64(2**32)


@kernel
def _slot(directory: I32, cap: np.uint64, cell: int, top: np.uint64, rank: np.uint64, level: np.uint64) -> int:
    """Where in the pool the time of a rank lies that has this level, or the ring's if that is higher."""
    if level < top:
        return np.int64(directory[cell, level]) + np.int64((rank >> (level + _1)) % cap)
    at = (rank >> top) % (cap + cap)
    if at < cap:
        return np.int64(directory[cell, top]) + np.int64(at)
    return np.int64(directory[cell, top + _1]) + np.int64(at - cap)


@kernel
def _grow(tops: U8, directory: I32, pool: Pool, used: I64, cap: np.uint64, cell: int, newest: np.uint64) -> None:
    """Split the ring: odd ranks to a level of their own, even ones to a ring of twice the spacing."""
    top = np.uint64(tops[cell])
    ring = np.empty(2 * np.int64(cap), dtype=pool.dtype)
    for at in range(np.int64(cap)):
        first, second = np.int64(directory[cell, top]), np.int64(directory[cell, top + _1])
        ring[at] = pool[first + at]
        ring[np.int64(cap) + at] = pool[second + at]
        pool[first + at] = 0
        pool[second + at] = 0
    directory[cell, top + np.uint64(2)] = used[0]
    used[0] += np.int64(cap)
    tops[cell] = top + _1
    number = newest >> top
    for _ in range(2 * np.int64(cap)):
        if number == _0:
            break
        rank = number << top
        level = top if number & _1 else top + _1
        pool[_slot(directory, cap, cell, top + _1, rank, level)] = ring[np.int64(number % (cap + cap))]
        number -= _1


@kernel
def _odd_up_to(number: np.uint64) -> np.uint64:
    """The largest odd number up to one that is at least 1; a level below the top has one."""
    return (number - _1) | _1


@kernel
def _start(directory: I32, used: I64, cap: np.uint64, cell: int) -> None:
    directory[cell, 0] = used[0]
    directory[cell, 1] = used[0] + np.int64(cap)
    used[0] += 2 * np.int64(cap)


@kernel
def add_ones(
    counts: I64, tops: U8, directory: I32, pool: Pool, used: I64, cap: np.uint64, window: int,
    cells: I32, times: I64, base: int, start: int,
) -> int:  # fmt: skip
    """One arrival for each cell named, at its time; returns how many were taken before room ran out."""
    for i in range(start, cells.size):
        cell = np.uint64(cells[i])
        rank = np.uint64(counts[cell]) + _1
        # The count is stored before all else: the next arrival of a heavy cell waits for it. Last, it cost half again.
        counts[cell] = np.int64(rank)
        level = trailing_zeros(rank)
        if level < np.uint64(tops[cell]):
            pool[np.uint64(directory[cell, level]) + _remainder(rank >> (level + _1), cap)] = times[i] - base
        elif not _add_to_ring(tops, directory, pool, used, cap, window, np.int64(cell), rank, times[i] - base):
            counts[cell] = np.int64(rank - _1)
            return i
    return cells.size


@kernel
def _remainder(number: np.uint64, cap: np.uint64) -> np.uint64:
    """Number mod cap; half of all arrivals need one, and 32 bits divide a fifth faster than 64."""
    if number < _2_32:
        return np.uint64(np.uint32(number) % np.uint32(cap))
    return number % cap


@kernel
def _add_to_ring(
    tops: U8, directory: I32, pool: Pool, used: I64, cap: np.uint64, window: int,
    cell: int, rank: np.uint64, time: int,
) -> bool:  # fmt: skip
    """The rare arrival that goes to the ring, which may have to be split first; False when there is no room to."""
    top = np.uint64(tops[cell])
    if used[0] + 2 * np.int64(cap) > pool.size or np.int64(top) + 3 > directory.shape[1]:
        return False
    if rank == _1:
        _start(directory, used, cap, cell)
    level = trailing_zeros(rank)
    at = _slot(directory, cap, cell, top, rank, level)
    # The ring's first 2 cap numbers displace nothing.
    if (rank >> top) > cap + cap and np.int64(pool[at]) > time - window:
        _grow(tops, directory, pool, used, cap, cell, rank - _1)
        at = _slot(directory, cap, cell, top + _1, rank, level)
    pool[at] = time
    return True


@kernel
def add_weights(
    counts: I64, tops: U8, directory: I32, pool: Pool, used: I64, cap: np.uint64, window: int,
    cells: I32, times: I64, weights: I64, base: int, start: int,
) -> int:  # fmt: skip
    """`weights` arrivals at one time each, in O(log weight) and the same state as that many single ones."""
    for i in range(start, cells.size):
        if weights[i] == 0:
            continue
        cell = np.int64(cells[i])
        time = times[i] - base
        before = np.uint64(counts[cell])
        after = before + np.uint64(weights[i])
        if before == _0 and used[0] + 2 * np.int64(cap) > pool.size:
            return i
        if before == _0 and directory[cell, 0] < 0:
            _start(directory, used, cap, cell)
        while True:
            # Would the last of these ranks in the ring displace a time that is still in the window?
            top = np.uint64(tops[cell])
            number = after >> top
            if (number << top) <= before or number <= cap + cap:
                break
            displaced = (number - cap - cap) << top
            if (
                displaced <= before
                and np.int64(pool[_slot(directory, cap, cell, top, displaced, top)]) <= time - window
            ):
                break
            if used[0] + np.int64(cap) > pool.size or np.int64(top) + 3 > directory.shape[1]:
                return i
            _grow(tops, directory, pool, used, cap, cell, before)
        top = np.uint64(tops[cell])
        for level in range(top):
            odd = _odd_up_to(after >> np.uint64(level))
            for _ in range(np.int64(cap)):
                if odd > after or (odd << np.uint64(level)) <= before:
                    break
                pool[_slot(directory, cap, cell, top, odd << np.uint64(level), np.uint64(level))] = time
                odd -= np.uint64(2)  # past 1 it wraps to a number that is too large
        number = after >> top
        for _ in range(2 * np.int64(cap)):
            if number == _0 or (number << top) <= before:
                break
            pool[_slot(directory, cap, cell, top, number << top, top)] = time
            number -= _1
        counts[cell] = np.int64(after)
    return cells.size


@kernel
def _is_kept(cap: np.uint64, newest: np.uint64, top: np.uint64, rank: np.uint64, level: np.uint64) -> bool:
    """Whether the time of a rank up to `newest` is still stored."""
    if level >= top:
        return (newest >> top) - (rank >> top) < cap + cap
    return ((_odd_up_to(newest >> level) - (rank >> level)) >> _1) < cap


@kernel
def bracket_cells(
    counts: I64, tops: U8, directory: I32, pool: Pool, cap: np.uint64, cells: I64, start: int, low: I64, high: I64
) -> None:
    """The fewest and the most arrivals after `start` (relative to the base) in each cell named."""
    for i in range(cells.size):
        cell = cells[i]
        newest = np.uint64(counts[cell])
        if newest == _0:
            low[i] = 0
            high[i] = 0
            continue
        top = np.uint64(tops[cell])
        # In the ring: the newest number whose time is not after start, by bisection; older ones have left the window.
        number = newest >> top
        oldest = number - (cap + cap) if number > cap + cap else _0
        below, above = oldest, number + _1
        while above - below > _1:
            middle = below + ((above - below) >> _1)
            if np.int64(pool[_slot(directory, cap, cell, top, middle << top, top)]) <= start:
                below = middle
            else:
                above = middle
        lower, upper = below << top, min(above << top, newest + _1)
        # Then halve the gap, level by level, as long as the rank in its middle is kept.
        level = top
        while level > _0:
            level -= _1
            middle = lower + (_1 << level)
            if middle > newest:
                continue
            if not _is_kept(cap, newest, top, middle, level):
                break
            if np.int64(pool[_slot(directory, cap, cell, top, middle, level)]) <= start:
                lower = middle
            else:
                upper = middle
        low[i] = np.int64(newest - upper + _1)
        high[i] = np.int64(newest - lower)


@kernel
def _next_lower(cap: np.uint64, newest: np.uint64, top: np.uint64, rank: np.uint64) -> np.uint64:
    """The largest kept rank below `rank`; 0 before the first; the ring's next number below all that are kept."""
    level = _0
    while True:
        lower = ((rank - _1) >> level) << level
        if lower == _0:
            return _0
        own = trailing_zeros(lower)
        if own >= top or _is_kept(cap, newest, top, lower, own):
            return lower
        level = own + _1


@kernel
def list_steps(
    counts: I64, tops: U8, directory: I32, pool: Pool, cap: np.uint64, base: int, first: int, edge: int,
    cells: I64, room: I64, times: I64, weights: I64, lengths: I64,
) -> None:  # fmt: skip
    """Each cell as arrivals to replay, newest first: half of every gap at its start and half at its end.

    What a gap holds before `edge` has left the window and is left out. Before the first arrival of all there is
    nothing, so the start of the oldest gap is `first`. Steps of cells[i] go to places room[i] and on.
    """
    for i in range(cells.size):
        cell = cells[i]
        newest = np.uint64(counts[cell])
        top = np.uint64(tops[cell])
        at = room[i]
        carried = np.int64(0)
        rank = newest
        while rank > _0:
            level = trailing_zeros(rank)
            if not _is_kept(cap, newest, top, rank, level):
                break
            time = np.int64(pool[_slot(directory, cap, cell, top, rank, level)])
            if time == 0 or time + base <= edge:
                break
            lower = _next_lower(cap, newest, top, rank)
            gap = np.int64(rank - lower)
            times[at] = time + base
            weights[at] = carried + gap - gap // 2
            at += 1
            carried = gap // 2
            rank = lower
        if rank == _0 and carried > 0 and first > edge:
            times[at] = first
            weights[at] = carried
            at += 1
        lengths[i] = at - room[i]


@kernel
def fill_cells(
    counts: I64, tops: U8, directory: I32, pool: Pool, used: I64, cap: np.uint64, base: int,
    cells: I64, room: I64, lengths: I64, times: I64, weights: I64, start: int,
) -> int:  # fmt: skip
    """Build empty cells from their steps, newest first, without inserting one by one."""
    for i in range(start, cells.size):
        cell = cells[i]
        newest = _0
        for at in range(room[i], room[i] + lengths[i]):
            newest += np.uint64(weights[at])
        if newest == _0:
            continue
        top = _0
        while ((cap + cap) << top) < newest:
            top += _1
        if used[0] + (np.int64(top) + 2) * np.int64(cap) > pool.size:
            return i
        for place in range(np.int64(top) + 2):
            directory[cell, place] = used[0]
            used[0] += np.int64(cap)
        tops[cell] = top
        counts[cell] = np.int64(newest)
        at = room[i]
        reached = newest - np.uint64(weights[at])  # ranks above this have the time of the current step
        rank = newest
        while rank > _0:
            while rank <= reached:
                at += 1
                reached -= np.uint64(weights[at])
            pool[_slot(directory, cap, cell, top, rank, trailing_zeros(rank))] = times[at] - base
            lower = _next_lower(cap, newest, top, rank)
            if lower > _0 and not _is_kept(cap, newest, top, lower, trailing_zeros(lower)):
                break
            rank = lower
    return cells.size


@kernel
def _expected(
    counts: I64, tops: U8, directory: I32, pool: Pool, cap: np.uint64, cell: int, rank: np.uint64,
    level: np.uint64, edge: int, first: int, newest: int,
) -> tuple[int, int]:  # fmt: skip
    """Between which times, relative to the base, the time of a rank must lie, by its neighbours of higher levels."""
    last, top = np.uint64(counts[cell]), np.uint64(tops[cell])
    below, above = rank - (_1 << level), rank + (_1 << level)
    low, high = edge, newest
    if below == _0:
        low = max(edge, first)
    else:
        own = trailing_zeros(below)
        if _is_kept(cap, last, top, below, own):
            low = max(edge, np.int64(pool[_slot(directory, cap, cell, top, below, own)]))
    if above <= last:
        high = max(edge, np.int64(pool[_slot(directory, cap, cell, top, above, trailing_zeros(above))]))
    return low, high


@kernel
def encode_times(
    level: int, out: U64,
    counts: I64, tops: U8, directory: I32, pool: Pool, cap: np.uint64, edge: int, first: int, newest: int,
) -> int:  # fmt: skip
    """The times of one level, or for RINGS of all rings, as small numbers; returns how many.

    A ring's times are written as the distances from one to the next older. A time of a level lies between those of
    the two ranks beside it, which are on higher levels: it is written as its distance from their middle, signs
    folded. Arrivals that come evenly make it near the square root of the distance between the two. All times are
    relative to the base; those at or before `edge` have left the window and count as `edge`.
    """
    found = 0
    for cell in range(counts.size):
        last, top = np.uint64(counts[cell]), np.uint64(tops[cell])
        if last == _0:
            continue
        if level == RINGS:
            before = newest
            number = last >> top
            for _ in range(2 * np.int64(cap)):
                if number == _0:
                    break
                time = max(edge, np.int64(pool[_slot(directory, cap, cell, top, number << top, top)]))
                out[found] = np.uint64(before - time)
                before = time
                found += 1
                number -= _1
        elif np.uint64(level) < top:
            floor = np.uint64(level)
            odd = _odd_up_to(last >> floor)
            for _ in range(np.int64(cap)):
                if odd > last:
                    break
                rank = odd << floor
                low, high = _expected(counts, tops, directory, pool, cap, cell, rank, floor, edge, first, newest)
                time = max(edge, np.int64(pool[_slot(directory, cap, cell, top, rank, floor)]))
                off = time - (low + (high - low) // 2)
                out[found] = np.uint64(2 * off if off >= 0 else -2 * off - 1)
                found += 1
                odd -= np.uint64(2)
    return found


@kernel
def decode_times(
    level: int, written: U64,
    counts: I64, tops: U8, directory: I32, pool: Pool, cap: np.uint64, edge: int, first: int, newest: int,
) -> bool:  # fmt: skip
    """Undo `encode_times`, highest level first; False for numbers that no wave could have written."""
    found = 0
    for cell in range(counts.size):
        last, top = np.uint64(counts[cell]), np.uint64(tops[cell])
        if last == _0:
            continue
        if level == RINGS:
            before = newest
            number = last >> top
            for _ in range(2 * np.int64(cap)):
                if number == _0:
                    break
                if written[found] > np.uint64(before - edge):
                    return False
                before -= np.int64(written[found])
                pool[_slot(directory, cap, cell, top, number << top, top)] = before if before > edge else 0
                found += 1
                number -= _1
        elif np.uint64(level) < top:
            floor = np.uint64(level)
            odd = _odd_up_to(last >> floor)
            for _ in range(np.int64(cap)):
                if odd > last:
                    break
                rank = odd << floor
                low, high = _expected(counts, tops, directory, pool, cap, cell, rank, floor, edge, first, newest)
                half = np.int64(written[found] >> _1)
                time = low + (high - low) // 2 + (half if written[found] & _1 == _0 else -half - 1)
                if time < low or time > high:
                    return False
                pool[_slot(directory, cap, cell, top, rank, floor)] = time if time > edge else 0
                found += 1
                odd -= np.uint64(2)
    return True
