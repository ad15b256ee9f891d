"""The records of the WorldCup98 web log: 20 bytes each, big-endian, in the order in which the servers wrote them.

M. Arlitt and T. Jin, 1998 World Cup Web Site Access Logs, The Internet Traffic Archive, 1998.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel

__all__ = ["LOGGED", "NO_SIZE", "RECORD", "write_columns"]

U8 = NDArray[np.uint8]
I16 = NDArray[np.int16]
I64 = NDArray[np.int64]

RECORD = np.dtype(
    [("at", ">u4"), ("client", ">u4"), ("object", ">u4"), ("size", ">u4")]
    + [(name, "u1") for name in ("method", "status", "type", "server")]
)

LOGGED = 893_900_000, 901_600_000
"""The log runs from 30 April to 26 July 1998: records from elsewhere have times outside it."""

NO_SIZE = 0xFFFF_FFFF
"""The size of an answer without a body."""

_WIDTH = 20
_SECOND = 1_000_000


@kernel
def _word(data: U8, at: int) -> int:
    return (
        (np.int64(data[at]) << 24)
        | (np.int64(data[at + 1]) << 16)
        | (np.int64(data[at + 2]) << 8)
        | np.int64(data[at + 3])
    )


@kernel
def write_columns(data: U8, words: I64, codes: I16, there: U8, sized: U8) -> int:
    """Whole records out of `data` into columns; gives back how many are outside the time of the log.

    `words` gets time (microseconds), client, object and size as its rows, `codes` method, status, type, server and the
    server's region. The bitmaps, all ones before the call, lose a bit for each record outside the time of the log
    (both) and for each answer without a body (`sized`).
    """
    strange = 0
    for i in range(words.shape[1]):
        begin = i * _WIDTH
        seconds = _word(data, begin)
        size = _word(data, begin + 12)
        words[0, i] = seconds * _SECOND
        words[1, i] = _word(data, begin + 4)
        words[2, i] = _word(data, begin + 8)
        words[3, i] = size
        for code in range(4):
            codes[code, i] = data[begin + 16 + code]
        codes[4, i] = data[begin + 19] >> 5
        clear = np.uint8(255 ^ (1 << (i & 7)))
        if seconds < LOGGED[0] or seconds > LOGGED[1]:
            strange += 1
            there[i >> 3] &= clear
            sized[i >> 3] &= clear
        elif size == NO_SIZE:
            sized[i >> 3] &= clear
    return strange
