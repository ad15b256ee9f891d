"""The loop of Space Saving: slots found by a hash table, the smallest slot by a heap.

A slot holds (hash, count, error). `table` is open addressing with linear probing over slot numbers, -1 for empty.
`heap` orders slots by (count, hash), which names one smallest slot whatever the history, so that a sketch read back
from its bytes goes on exactly as the one that was written. A hit raises only `counts`; `ranks`, the counts by which
the heap is ordered, lag behind and are brought up to date when a slot reaches the top. Counts only grow, so a stale
rank is a lower bound, and the top is the smallest once its rank is fresh. Sifting on every hit instead was slower by
half on zipf(1.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["build_index", "find_slots", "update_space_saving"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@kernel
def _home(hash_: np.uint64, mask: int) -> int:
    return np.int64(hash_ >> np.uint64(32)) & mask


@kernel
def _find(table: I32, hashes: U64, hash_: np.uint64) -> int:
    """The place in `table` of the slot with that hash, or of the empty place where it would go."""
    mask = np.int64(table.size - 1)
    at = _home(hash_, mask)
    while table[at] >= 0 and hashes[table[at]] != hash_:
        at = (at + 1) & mask
    return at


@kernel
def _remove(table: I32, hashes: U64, hash_: np.uint64) -> None:
    """Take a hash out and close the gap, so that no probe stops short."""
    mask = np.int64(table.size - 1)
    gap = _find(table, hashes, hash_)
    at = gap
    while True:
        at = (at + 1) & mask
        if table[at] < 0:
            break
        home = _home(hashes[table[at]], mask)
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = table[at]
            gap = at
    table[gap] = -1


@kernel
def _sift_down(heap: I32, ranks: I64, hashes: U64, at: int, size: int) -> None:
    slot = heap[at]
    rank = ranks[slot]
    hash_ = hashes[slot]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        least = heap[child]
        if child + 1 < size:
            other = heap[child + 1]
            if ranks[other] < ranks[least] or (ranks[other] == ranks[least] and hashes[other] < hashes[least]):
                child += 1
                least = other
        if rank < ranks[least] or (rank == ranks[least] and hash_ < hashes[least]):
            break
        heap[at] = least
        at = child
    heap[at] = slot


@kernel
def _smallest(heap: I32, ranks: I64, counts: I64, hashes: U64, size: int) -> int:
    while ranks[heap[0]] < counts[heap[0]]:
        ranks[heap[0]] = counts[heap[0]]
        _sift_down(heap, ranks, hashes, 0, size)
    return np.int64(heap[0])


@kernel
def build_index(table: I32, heap: I32, ranks: I64, hashes: U64, counts: I64, used: int) -> None:
    """Rebuild `table`, `heap` and `ranks` from the slots."""
    table[:] = -1
    for slot in range(used):
        table[_find(table, hashes, hashes[slot])] = slot
        heap[slot] = slot
        ranks[slot] = counts[slot]
    for at in range(used // 2 - 1, -1, -1):
        _sift_down(heap, ranks, hashes, at, used)


@kernel
def update_space_saving(
    hashes: U64,
    counts: I64,
    errors: I64,
    table: I32,
    heap: I32,
    ranks: I64,
    used: int,
    capacity: int,
    floor: int,
    keys: U64,
    weights: I64,
    origin: I64,
) -> tuple[int, int]:
    """Take a batch in; there is room for all the slots that it may claim.

    `origin[slot]` becomes the place in the batch of the key that newly claimed it. Returns how many slots are used
    and the floor: no key without a slot has a frequency above it.
    """
    step = 0 if weights.size == 1 else 1
    for i in range(keys.size):
        weight = weights[i * step]
        if weight == 0:
            continue
        key = keys[i]
        at = _find(table, hashes, key)
        if table[at] >= 0:
            counts[table[at]] += weight
            continue
        if used < capacity:
            slot = used
            used += 1
            hashes[slot] = key
            counts[slot] = floor + weight
            errors[slot] = floor
            origin[slot] = i
            table[at] = slot
            if used == capacity:
                build_index(table, heap, ranks, hashes, counts, used)
            continue
        slot = _smallest(heap, ranks, counts, hashes, capacity)
        if floor + weight <= counts[slot]:
            floor += weight
            continue
        _remove(table, hashes, hashes[slot])
        hashes[slot] = key
        claimed = floor
        floor = counts[slot]
        counts[slot] = claimed + weight
        errors[slot] = claimed
        ranks[slot] = counts[slot]
        origin[slot] = i
        table[_find(table, hashes, key)] = slot
        _sift_down(heap, ranks, hashes, 0, capacity)
    return used, floor


@kernel
def find_slots(table: I32, hashes: U64, keys: U64, out: I64) -> None:
    for i in range(keys.size):
        out[i] = table[_find(table, hashes, keys[i])]
