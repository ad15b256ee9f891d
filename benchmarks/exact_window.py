"""The exact alternative to a window sketch: every event in a ring, every key's count in a hash table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


class HashedWindow:
    """Counts of keys in the last `window` ticks, by linear probing; room for a fixed number of events and keys."""

    def __init__(self, events: int, keys: int, window: int) -> None:
        slots = 1 << (2 * keys - 1).bit_length()
        self.window = window
        self.table, self.counts = np.zeros(slots, dtype=np.uint64), np.zeros(slots, dtype=np.int32)
        self.ring, self.times = np.zeros(events, dtype=np.int32), np.zeros(events, dtype=np.int64)
        self.state = np.zeros(2, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.table, self.counts, self.ring, self.times, self.state))

    def update(self, hashes: U64, times: I64) -> None:
        _update(self.table, self.counts, self.ring, self.times, self.state, self.window, hashes, times)


@kernel
def _update(
    table: U64, counts: NDArray[np.int32], ring: NDArray[np.int32], kept: I64, state: I64, window: int,
    hashes: U64, times: I64,
) -> None:  # fmt: skip
    mask = np.uint64(table.size - 1)
    oldest, newest = state[0], state[1]
    for i in range(hashes.size):
        while oldest < newest and kept[oldest % kept.size] <= times[i] - window:
            counts[ring[oldest % kept.size]] -= 1
            oldest += 1
        slot = hashes[i] & mask
        while table[slot] != 0 and table[slot] != hashes[i]:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = hashes[i]
        counts[slot] += 1
        ring[newest % kept.size] = slot
        kept[newest % kept.size] = times[i]
        newest += 1
    state[0], state[1] = oldest, newest
