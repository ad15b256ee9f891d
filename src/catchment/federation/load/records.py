"""A text file in blocks that end where a record ends, so that each block can be read by itself, in bounded memory.

A record is a line; with `multiline` it ends at the first line break before which quotes are even in number, as RFC 4180
has it. That reading costs something: one quote too many in the file, and all that follows is read inside out. So it is
asked for, and without it a line with an open quote is one bad row and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from catchment.errors import InputError

__all__ = ["BLOCK_BYTES", "Block", "blocks", "cut"]

BLOCK_BYTES = 16 << 20
_NEWLINE = 10
_LONGEST = 8
"""A record may be as long as so many blocks, and 64 kB at least."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records: their bytes, the last line break included, and the number of the first line in the file."""

    data: bytes
    line: int


def blocks(
    read: Callable[[int], bytes], *, quote: str = '"', multiline: bool = False, size: int = BLOCK_BYTES, line: int = 1
) -> Iterator[Block]:
    """All that `read` gives, cut into blocks of about `size` bytes; a last line without its break gets one.

    >>> import io
    >>> [(b.data, b.line) for b in blocks(io.BytesIO(b"1,a\\n2,b\\n3,c").read, size=6)]
    [(b'1,a\\n', 1), (b'2,b\\n', 2), (b'3,c\\n', 3)]
    """
    kept = b""
    while piece := read(size):
        kept += piece
        ends = cut(kept, quote=quote, multiline=multiline)
        if len(ends):
            data, kept = kept[: ends[-1]], kept[ends[-1] :]
            yield Block(data, line)
            line += data.count(b"\n")
        elif len(kept) > max(_LONGEST * size, 1 << 16):
            raise InputError(
                f"the record that begins in line {line:,} is longer than {len(kept):,} bytes",
                "look for a quote that is not closed" if multiline else "this is no text file of rows",
            )
    if kept:
        yield Block(kept if kept.endswith(b"\n") else kept + b"\n", line)


def cut(data: bytes, *, quote: str = '"', multiline: bool = False) -> npt.NDArray[np.int64]:
    """Where the records of the data end, each after its line break.

    >>> cut(b'1,"a\\nb"\\n2,c\\n', multiline=True)
    array([ 8, 12])
    """
    there = np.frombuffer(data, np.uint8)
    ends: npt.NDArray[np.int64] = np.flatnonzero(there == _NEWLINE)
    if multiline and quote.encode() in data:
        quotes = np.flatnonzero(there == ord(quote))
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + 1
