"""The loop of Space Saving: slots found by a hash table, the slot to give up by a sweep or a heap.

A slot holds (hash, count, error). `table` is open addressing with linear probing over slot numbers, -1 for empty. The
slot to give up is the one with the smallest count, of several the first. That is a function of the slots alone, so a
sketch read back from its bytes, which keep the slots in order, goes on exactly as the one that was written.

Two ways find it. A *sweep* walks the slots once for each value of the smallest count: none can fall to it again, so
what the sweep has passed stays passed. Where events weigh one, hundreds of slots share the smallest count and a
victim costs a few steps. Where few share it (weights that differ, or a gap below the kept keys) a sweep costs a pass
for each victim, and a *heap* takes over for the rest of the batch. In the heap a hit raises only `counts`; `ranks`,
by which it is ordered, lag behind and are brought up to date when a slot comes to the top. Counts only grow, so a
stale rank is a lower bound, and the top is the smallest once its rank is fresh. The heap alone ran at a third of the
speed on zipf(1.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["build_table", "find_slots", "sum_by_hash", "update_space_saving"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

_FEW = 16
"""A sweep with fewer victims than this has not paid for itself."""
_PATIENCE = 4
"""So many poor sweeps in a batch, and the heap takes over."""


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
def _sift_down(heap: I32, ranks: I64, at: int, size: int) -> None:
    slot = heap[at]
    rank = ranks[slot]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        least = heap[child]
        if child + 1 < size:
            other = heap[child + 1]
            if ranks[other] < ranks[least] or (ranks[other] == ranks[least] and other < least):
                child += 1
                least = other
        if rank < ranks[least] or (rank == ranks[least] and slot < least):
            break
        heap[at] = least
        at = child
    heap[at] = slot


@kernel
def _top_of_heap(heap: I32, ranks: I64, counts: I64, size: int) -> int:
    while ranks[heap[0]] < counts[heap[0]]:
        ranks[heap[0]] = counts[heap[0]]
        _sift_down(heap, ranks, 0, size)
    return np.int64(heap[0])


@kernel
def _build_heap(heap: I32, ranks: I64, counts: I64, size: int) -> None:
    for slot in range(size):
        heap[slot] = slot
        ranks[slot] = counts[slot]
    for at in range(size // 2 - 1, -1, -1):
        _sift_down(heap, ranks, at, size)


@kernel
def _smallest_count(counts: I64, used: int) -> int:
    smallest = counts[0]
    for slot in range(1, used):
        smallest = min(smallest, counts[slot])
    return smallest


@kernel
def build_table(table: I32, hashes: U64, used: int) -> None:
    """Rebuild `table` from the slots."""
    table[:] = -1
    for slot in range(used):
        table[_find(table, hashes, hashes[slot])] = slot


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

    `origin[slot]` becomes the place in the batch of the key that newly claimed it. Returns how many slots are used and
    the floor: no key without a slot has a frequency above it.
    """
    step = 0 if weights.size == 1 else 1
    smallest = np.int64(-1)  # the count that the sweep looks for; none yet
    cursor = np.int64(0)
    victims = 0
    poor_sweeps = 0
    sweeping = True
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
            continue
        if sweeping:
            while cursor < used and counts[cursor] != smallest:
                cursor += 1
            if cursor == used:
                poor_sweeps += victims < _FEW
                victims = 0
                smallest = _smallest_count(counts, used)
                cursor = np.int64(0)
                while counts[cursor] != smallest:
                    cursor += 1
                if poor_sweeps > _PATIENCE:
                    sweeping = False
                    _build_heap(heap, ranks, counts, used)
            slot = cursor
        if not sweeping:
            slot = _top_of_heap(heap, ranks, counts, used)
        if floor + weight <= counts[slot]:
            floor += weight
            continue
        victims += 1
        _remove(table, hashes, hashes[slot])
        hashes[slot] = key
        claimed = floor
        floor = counts[slot]
        counts[slot] = claimed + weight
        errors[slot] = claimed
        origin[slot] = i
        table[_find(table, hashes, key)] = slot
        if not sweeping:
            ranks[slot] = counts[slot]
            _sift_down(heap, ranks, 0, used)
    return used, floor


@kernel
def find_slots(table: I32, hashes: U64, keys: U64, out: I64) -> None:
    for i in range(keys.size):
        out[i] = table[_find(table, hashes, keys[i])]


@kernel
def sum_by_hash(
    table: I32, hashes: U64, kinds: U8, counts: I64, errors: I64, union: U64, sums: I64, wrongs: I64, named: I64
) -> int:
    """Add counts and errors up by hash, into arrays as long as `hashes`; return how many hashes there are.

    `named` is the first of the entries of a hash, of those the first of the lowest kind. `table` is at least twice as
    long as `hashes`, a power of two. A pass over a table is several times as fast as sorting the hashes.
    """
    table[:] = -1
    used = 0
    for i in range(hashes.size):
        at = _find(table, union, hashes[i])
        slot = table[at]
        if slot < 0:
            slot = used
            table[at] = slot
            union[slot], named[slot] = hashes[i], i
            sums[slot] = wrongs[slot] = 0
            used += 1
        elif kinds[i] < kinds[named[slot]]:
            named[slot] = i
        sums[slot] += counts[i]
        wrongs[slot] += errors[i]
    return used
