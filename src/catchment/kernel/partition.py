"""Loops of balanced partitioning: where a key goes, what a bucket weighs, and which part takes the next job.

A key's hash is hashed once more with the map's draw: `spread`. Its upper half gives the bucket, and two runs of 16 bits
of its lower half give the two slots in which a heavy key may stand. Shifts and one multiplication below 2^63 are all it
takes, so that Spark's JVM, whose multiplication refuses to wrap around, computes the same (spark/partition.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = [
    "SLOT_BITS",
    "assign_greedily",
    "build_slots",
    "count_buckets",
    "find_buckets",
    "find_heavy",
    "place_spread",
    "route_choices",
    "route_map",
]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

SLOT_BITS = 16

_16, _32 = np.uint64(16), np.uint64(32)
_KICKS = 512
"""A key that has pushed so many others along will not find a place."""


@kernel
def _scaled(x: np.uint64, count: np.uint64) -> int:
    """A number in [0, count) from the upper half of x (Lemire's fastrange on 32 bits)."""
    return np.int64(((x >> _32) * count) >> _32)


@kernel
def find_buckets(spread: U64, buckets: int, out: I32) -> None:
    count = np.uint64(buckets)
    for i in range(spread.size):
        out[i] = _scaled(spread[i], count)


@kernel
def count_buckets(loads: I64, spread: U64, weights: I64) -> None:
    """Add each key's weight to its bucket; one weight stands for all."""
    count = np.uint64(loads.size)
    step = 0 if weights.size == 1 else 1
    for i in range(spread.size):
        loads[_scaled(spread[i], count)] += weights[i * step]


@kernel
def build_slots(spread: U64, slots: I32) -> bool:
    """Give each heavy key one of its two slots, by cuckoo hashing; False when there are too few.

    R. Pagh, F. F. Rodler: Cuckoo hashing, J. Algorithms 51(2), 2004.
    """
    mask = np.uint64(slots.size - 1)
    slots[:] = -1
    for i in range(spread.size):
        key = np.int32(i)
        at = np.int64(spread[key] & mask)
        for _ in range(_KICKS):
            pushed = slots[at]
            slots[at] = key
            key = pushed
            if key < 0:
                break
            first = np.int64(spread[key] & mask)
            at = np.int64((spread[key] >> _16) & mask) if at == first else first
        if key >= 0:
            return False
    return True


@kernel
def _heavy_of(hash_: np.uint64, x: np.uint64, mask: np.uint64, slots: I32, heavy: U64) -> int:
    at = slots[np.int64(x & mask)]
    if at >= 0 and heavy[at] == hash_:
        return np.int64(at)
    at = slots[np.int64((x >> _16) & mask)]
    if at >= 0 and heavy[at] == hash_:
        return np.int64(at)
    return np.int64(-1)


@kernel
def find_heavy(hashes: U64, spread: U64, slots: I32, heavy: U64, out: I64) -> None:
    """The number of each key among the heavy ones, or -1."""
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        out[i] = _heavy_of(hashes[i], spread[i], mask, slots, heavy)


@kernel
def place_spread(
    hashes: U64, spread: U64, salts: U64, slots: I32, heavy: U64, starts: I64, choices: I32, buckets: I32, out: I32
) -> None:
    """The part of each key. A heavy key with several pieces takes the one that the row's salt names."""
    mask = np.uint64(slots.size - 1)
    count = np.uint64(buckets.size)
    salted = salts.size == hashes.size
    for i in range(hashes.size):
        at = _heavy_of(hashes[i], spread[i], mask, slots, heavy)
        if at < 0:
            out[i] = buckets[_scaled(spread[i], count)]
        elif starts[at + 1] - starts[at] == 1 or not salted:
            out[i] = choices[starts[at]]
        else:
            out[i] = choices[starts[at] + _scaled(salts[i], np.uint64(starts[at + 1] - starts[at]))]


@kernel
def _is_less(loads: I64, one: int, other: int) -> bool:
    return loads[one] < loads[other] or (loads[one] == loads[other] and one < other)


@kernel
def _settle(heap: I32, loads: I64) -> None:
    """Let the part at the top, which has become heavier, sink to its place."""
    at = 0
    part = heap[0]
    while True:
        child = 2 * at + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and _is_less(loads, heap[child + 1], heap[child]):
            child += 1
        if not _is_less(loads, heap[child], part):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = part


@kernel
def assign_greedily(weights: I64, loads: I64, out: I32) -> None:
    """Give each job, the heaviest first as they come, to the part with the least load, of equals the first.

    `loads` begins at zero and ends as what each part has.
    """
    heap = np.empty(loads.size, dtype=np.int32)
    for part in range(loads.size):
        heap[part] = part
    for job in range(weights.size):
        part = heap[0]
        out[job] = part
        loads[part] += weights[job]
        _settle(heap, loads)


@kernel
def route_choices(hashes: U64, draws: U64, degrees: I64, loads: I64, out: I32) -> None:
    """Send each key to the least loaded of its first `degrees[i]` choices, counting what was sent.

    As many choices as parts mean every part, without drawing.
    """
    parts = np.uint64(loads.size)
    for i in range(hashes.size):
        best = np.int64(-1)
        if degrees[i] >= loads.size:
            for part in range(loads.size):
                if best < 0 or loads[part] < loads[best]:
                    best = part
        else:
            for choice in range(degrees[i]):
                part = _scaled(mixed(hashes[i], draws[choice]), parts)
                if best < 0 or loads[part] < loads[best]:
                    best = part
        loads[best] += 1
        out[i] = best


@kernel
def route_map(
    hashes: U64, spread: U64, slots: I32, heavy: U64, starts: I64, choices: I32, buckets: I32, loads: I64, out: I32
) -> None:
    """Send each key to its part; a heavy key to the least loaded of the parts that have a piece of it."""
    mask = np.uint64(slots.size - 1)
    count = np.uint64(buckets.size)
    for i in range(hashes.size):
        at = _heavy_of(hashes[i], spread[i], mask, slots, heavy)
        if at < 0:
            best = np.int64(buckets[_scaled(spread[i], count)])
        else:
            best = np.int64(choices[starts[at]])
            for place in range(starts[at] + 1, starts[at + 1]):
                if loads[choices[place]] < loads[best]:
                    best = np.int64(choices[place])
        loads[best] += 1
        out[i] = best
