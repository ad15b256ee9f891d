"""The bytes of a sketch: written once, readable for ever, and never trusted when read.

    magic "CTCH" · version u8 · family u8 · flags u16 · parameters' length u32 · payload's length u64
    parameters · payload · CRC-32C of all before it u32

All little-endian. The reader checks every length before it takes memory. Arrays are packed by patched frame of
reference (kernel/packing.py), in which equal cells cost nothing, so that a few bytes could blow up to any size.
Therefore only `FREE_CELLS` cells of a payload may be written in no bits at all, and the rest take at least one each:
what is read needs at most 8 * FREE_CELLS bytes and 64 times the length of the bytes, besides a few kilobytes for
each sketch in a sketch.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.kernel.checksum import crc32c
from catchment.kernel.packing import count_bit_lengths, pack_bits, patch_values, unpack_bits

__all__ = ["FREE_CELLS", "Reader", "Writer", "open_envelope", "seal_envelope"]

MAGIC = b"CTCH"
VERSION = 1
FREE_CELLS = 1 << 21
FREE_CLAIM = 1 << 22
CLAIM_A_BYTE = 256

_HEADER = struct.Struct("<4sBBHIQ")
_CHECKSUM = struct.Struct("<I")
_FRAME = struct.Struct("<qBI")
_PATCH_BYTES = 12


def seal_envelope(family: int, parameters: bytes, payload: bytes) -> bytes:
    """One whole serialised sketch."""
    header = _HEADER.pack(MAGIC, VERSION, family, 0, len(parameters), len(payload))
    body = b"".join((header, parameters, payload))
    return body + _CHECKSUM.pack(crc32c(np.frombuffer(body, dtype=np.uint8)))


def open_envelope(blob: bytes | bytearray | memoryview) -> tuple[int, Reader, Reader]:
    """The family of a serialised sketch, its parameters and its payload; raise a `BytesError` if it is not whole."""
    view = memoryview(bytes(blob) if isinstance(blob, memoryview) and not blob.c_contiguous else blob).cast("B")
    if view[: len(MAGIC)] != MAGIC[: len(view)]:
        raise UnknownFormatError(f"the bytes start with {bytes(view[:4])!r}, not {MAGIC!r}", "give what to_bytes wrote")
    if len(view) < _HEADER.size + _CHECKSUM.size:
        raise DamagedBytesError(f"{len(view)} bytes are too few for a sketch")
    _, version, family, flags, parameters, payload = _HEADER.unpack_from(view)
    if version != VERSION:
        raise UnknownFormatError(f"format version {version}", f"this catchment reads version {VERSION}: upgrade it")
    if flags:
        raise UnknownFormatError(f"unknown flags {flags:#06x}", "upgrade catchment to the version that wrote this")
    stated = _HEADER.size + parameters + payload + _CHECKSUM.size
    if stated != len(view):
        raise DamagedBytesError(f"{len(view)} bytes where the header states {stated}")
    (checksum,) = _CHECKSUM.unpack_from(view, stated - _CHECKSUM.size)
    if checksum != crc32c(np.frombuffer(view[: -_CHECKSUM.size], dtype=np.uint8)):
        raise DamagedBytesError("the checksum does not match: some byte was altered")
    middle = _HEADER.size + parameters
    return family, Reader(view[_HEADER.size : middle]), Reader(view[middle : middle + payload])


class Writer:
    """Collects the parts of a payload."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._free = FREE_CELLS
        self._claim = FREE_CLAIM

    def numbers(self, layout: str, *values: float) -> None:
        self._parts.append(struct.pack("<" + layout, *values))

    def raw(self, data: bytes | memoryview | NDArray[Any]) -> None:
        self._parts.append(bytes(data))

    def integers(self, values: NDArray[Any]) -> None:
        """Integers of any type up to 64 bits, in the fewest bits; the reader must know how many there are."""
        flat = np.ascontiguousarray(values).reshape(-1)
        base = int(flat.min()) if flat.size else 0
        base = min(base, 2**63 - 1)  # the most that its field can hold
        # Distances are taken modulo 2^64, so the widest spread of int64 fits too.
        distances = flat.astype(np.uint64) - np.uint64(base % 2**64)
        width, patches = _cheapest_width(distances, smallest=0 if flat.size <= self._free else 1)
        self._free -= 0 if width else flat.size
        packed = np.zeros((flat.size * width + 7) // 8, dtype=np.uint8)
        pack_bits(distances, width, packed)
        positions, patched = np.empty(patches, dtype=np.uint32), np.empty(patches, dtype=np.uint64)
        patch_values(distances, width, positions, patched)
        self._parts += [_FRAME.pack(base, width, patches), packed.tobytes(), positions.tobytes(), patched.tobytes()]

    def claim(self, cells: int) -> None:
        """Pay for memory that a reader will need and that these bytes do not fill, so that honest bytes stay readable.

        A few cells with one event each may need a thousand times their bytes; the reader must not believe that of
        just any bytes. What goes beyond `FREE_CLAIM` is paid for by zeros, one byte for `CLAIM_A_BYTE` cells.
        """
        free = min(cells, self._claim)
        self._claim -= free
        paid = -(-(cells - free) // CLAIM_A_BYTE)
        self.numbers("I", paid)
        self.raw(bytes(paid))

    def getvalue(self) -> bytes:
        return b"".join(self._parts)


def _cheapest_width(distances: NDArray[np.uint64], *, smallest: int) -> tuple[int, int]:
    """The width with the fewest bytes in all, the smaller of two equal ones, and how many values it leaves out."""
    lengths = np.zeros(65, dtype=np.int64)
    count_bit_lengths(distances, lengths)
    left_out = distances.size - np.cumsum(lengths)
    cost = (distances.size * np.arange(65) + 7) // 8 + left_out * _PATCH_BYTES
    width = smallest + int(np.argmin(cost[smallest:]))
    return width, int(left_out[width])


class Reader:
    """Takes a payload apart; anything that does not add up is a `DamagedBytesError`."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0
        self._free = FREE_CELLS
        self._claim = FREE_CLAIM

    @property
    def left(self) -> int:
        """How many bytes there still are."""
        return len(self._view) - self._at

    def _take(self, size: int) -> memoryview:
        if not 0 <= size <= self.left:
            raise DamagedBytesError(f"{size} bytes are needed where {self.left} are left")
        self._at += size
        return self._view[self._at - size : self._at]

    def numbers(self, layout: str) -> tuple[Any, ...]:
        form = struct.Struct("<" + layout)
        return form.unpack(self._take(form.size))

    def raw(self, size: int) -> memoryview:
        return self._take(size)

    def integers(self, count: int, dtype: type[np.integer[Any]], *, low: int, high: int) -> NDArray[Any]:
        """`count` integers, each within [low, high]."""
        base, width, patches = _FRAME.unpack(self._take(_FRAME.size))
        self._free -= 0 if width else count
        if width > 64 or patches > count or self._free < 0:
            raise DamagedBytesError(f"an array of {count} in {width} bits with {patches} patches")
        packed = np.frombuffer(self._take((count * width + 7) // 8), dtype=np.uint8)
        positions = np.frombuffer(self._take(4 * patches), dtype=np.uint32)
        patched = np.frombuffer(self._take(8 * patches), dtype=np.uint64)
        if patches and (int(positions[-1]) >= count or bool(np.any(positions[1:] <= positions[:-1]))):
            raise DamagedBytesError("patches out of order or out of place")
        values = np.empty(count, dtype=dtype)
        offset = np.uint64(base % 2**64)
        furthest = max(int(unpack_bits(packed, width, offset, values)), int(patched.max(initial=0)))
        if count and not (low <= base and base + furthest <= high):
            raise DamagedBytesError(f"values up to {base + furthest} outside [{low}, {high}]")
        values[positions] = (patched + offset).astype(dtype)
        return values

    def claim(self, cells: int) -> None:
        """Make sure that memory for so many cells of 4 bytes was paid for."""
        (paid,) = self.numbers("I")
        free = min(cells, self._claim)
        self._claim -= free
        if paid != -(-(cells - free) // CLAIM_A_BYTE):
            raise DamagedBytesError(f"{cells} cells are claimed, and {paid} bytes were paid for them")
        self.raw(paid)

    def finish(self) -> None:
        if self.left:
            raise DamagedBytesError(f"{self.left} bytes left over")
