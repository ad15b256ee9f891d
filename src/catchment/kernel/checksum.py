"""CRC-32C (Castagnoli), the checksum of every serialised sketch, eight bytes a step (slicing by 8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["crc32c"]

_POLYNOMIAL = np.uint32(0x82F63B78)


def _tables() -> NDArray[np.uint32]:
    tables = np.zeros((8, 256), dtype=np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = (row >> np.uint32(1)) ^ (_POLYNOMIAL * (row & np.uint32(1)))
    tables[0] = row
    for i in range(1, 8):
        row = (row >> np.uint32(8)) ^ tables[0][row & np.uint32(0xFF)]
        tables[i] = row
    return tables


_TABLES = _tables()


@kernel
def crc32c(data: NDArray[np.uint8]) -> int:
    crc = np.uint32(0xFFFFFFFF)
    whole = data.size - data.size % 8
    for at in range(0, whole, 8):
        low = crc ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        crc = (
            _TABLES[7, low & np.uint32(0xFF)]
            ^ _TABLES[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ _TABLES[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, data[at + 4]]
            ^ _TABLES[2, data[at + 5]]
            ^ _TABLES[1, data[at + 6]]
            ^ _TABLES[0, data[at + 7]]
        )
    for at in range(whole, data.size):
        crc = (crc >> np.uint32(8)) ^ _TABLES[0, (crc ^ np.uint32(data[at])) & np.uint32(0xFF)]
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))
