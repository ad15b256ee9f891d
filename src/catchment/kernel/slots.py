"""A slot for every key: open addressing over slot numbers, as in `space_saving`, but without an end to the slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.space_saving import _find

__all__ = ["claim_slots"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@kernel
def claim_slots(table: I32, hashes: U64, used: int, keys: U64, slots: I64, origin: I64) -> int:
    """Give each key its slot, a new one where it has none, and return how many slots are used then.

    There is room for as many new slots as there are keys. `origin` gets the place of the key that claimed each new
    slot, from its start on.
    """
    before = used
    for i in range(keys.size):
        at = _find(table, hashes, keys[i])
        if table[at] < 0:
            hashes[used] = keys[i]
            table[at] = used
            origin[used - before] = i
            used += 1
        slots[i] = table[at]
    return used
