"""Bounds for `theta_sketch_agg` and `tuple_sketch_agg_…`: how many distinct values?

A Tuple sketch is a Theta sketch with a number beside each hash. Its hashes and its theta are all that the count of
distinct keys needs, so that they are put into the bytes of a Theta sketch and asked there.
"""

from __future__ import annotations

import math
import struct

import numpy as np
from datasketches import compact_theta_sketch

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.sketch.checks import check_choice
from catchment.spark.builtin.confidence import plausible, standard_deviations

__all__ = ["theta_answer", "tuple_answer"]

_THETA, _TUPLE = 3, 9
_PLAIN, _COMPRESSED = 3, 4
_EMPTY = 4
_SUMMARY_BYTES = {"double": 9, "integer": 5}
"""The number, and a byte for the mode (sum, min, max, alwaysone)."""
_LARGEST_THETA = 2**63 - 1


def theta_answer(blob: bytes, *, delta: float = 0.05) -> Answer:
    """How many distinct values a Theta sketch of Spark stands for, also after a union, intersection or difference.

    **Guarantee.** Exact while the sketch has not thrown anything away. Then that of the DataSketches library for the
    number of standard deviations that delta asks for (`standard_deviations`). `epsilon` is the relative error at that
    confidence from the number of hashes that it holds; an intersection may hold few. Java's sketch does not count the
    empty string.

    Parameters
    ----------
    blob
        The bytes of the column.
    delta
        The probability of failure, 0.0027 or more.

    Raises
    ------
    BytesError
        The bytes are not a compact Theta sketch with the default seed, as Spark writes it.
    """
    deviations = standard_deviations(delta)
    _check(blob)
    try:
        sketch = compact_theta_sketch.deserialize(bytes(blob))
    except (ValueError, IndexError, RuntimeError) as problem:
        raise DamagedBytesError(f"a Theta sketch that cannot be read ({problem})") from None
    held = max(sketch.num_retained - 1, 1)
    return plausible(
        Answer(
            value=sketch.get_estimate(),
            low=sketch.get_lower_bound(deviations),
            high=sketch.get_upper_bound(deviations),
            confidence=1 - delta,
            epsilon=deviations / math.sqrt(held) if sketch.is_estimation_mode() else 0.0,
        )
    )


def tuple_answer(blob: bytes, *, kind: str = "double", delta: float = 0.05) -> Answer:
    """How many distinct keys a Tuple sketch of Spark stands for; `kind` is "double" or "integer", as in its SQL name.

    The guarantee is that of `theta_answer`.
    """
    standard_deviations(delta)
    width = 8 + _SUMMARY_BYTES[check_choice("kind", kind, tuple(_SUMMARY_BYTES))]
    words, _, flags = _header(blob, _TUPLE, (_PLAIN,), f"tuple_sketch_agg_{kind}")
    seed_hash = blob[6:8]
    if flags & _EMPTY and len(blob) == 8:
        return theta_answer(bytes([1, _PLAIN, _THETA, 0, 0, 0x1E]) + seed_hash, delta=delta)
    count = 1 if words == 1 else struct.unpack_from("<I", blob, 8)[0]
    theta = struct.unpack_from("<q", blob, 16)[0] if words > 2 else _LARGEST_THETA
    if len(blob) != 8 * words + width * count or not 0 < theta <= _LARGEST_THETA:
        raise DamagedBytesError(f"{len(blob)} bytes for a Tuple sketch of {count} keys with {kind} summaries")
    rows = np.frombuffer(blob, dtype=np.uint8, offset=8 * words).reshape(count, width)
    hashes = np.ascontiguousarray(rows[:, :8]).view("<i8").ravel()
    if hashes.size and (int(hashes.min()) <= 0 or int(hashes.max()) >= theta or np.unique(hashes).size != count):
        raise DamagedBytesError("hashes in a Tuple sketch that are not its own")
    # Read-only, compact, ordered: the flags of a Theta sketch that is at rest.
    header = bytes([3, _PLAIN, _THETA, 0, 0, 0x1A]) + seed_hash + struct.pack("<IIq", count, 0, theta)
    return theta_answer(header + np.sort(hashes).tobytes(), delta=delta)


def _header(blob: bytes, wanted: int, versions: tuple[int, ...], maker: str) -> tuple[int, int, int]:
    """Words of 8 bytes in the header, version, flags."""
    if len(blob) < 8:
        raise DamagedBytesError(f"{len(blob)} bytes, and the header alone of what {maker} makes has 8")
    words, serial, family, flags = blob[0] & 0x3F, blob[1], blob[2], blob[5]
    if family != wanted or serial not in versions:
        raise UnknownFormatError(
            f"family {family}, version {serial}, where {maker} writes {wanted} and {versions[-1]}",
            f"give the column that {maker}, or a union, intersection or difference of such sketches, made",
        )
    if not 1 <= words <= 3 or len(blob) < 8 * words:
        raise DamagedBytesError(f"{len(blob)} bytes with a header of {words} words")
    return words, serial, flags


def _check(blob: bytes) -> None:
    words, serial, flags = _header(blob, _THETA, (_PLAIN, _COMPRESSED), "theta_sketch_agg")
    size = _compressed_size(blob, words) if serial == _COMPRESSED else _plain_size(blob, words, flags)
    if len(blob) != size:
        raise DamagedBytesError(f"{len(blob)} bytes for a Theta sketch that takes {size}")


def _plain_size(blob: bytes, words: int, flags: int) -> int:
    if words == 1:
        return 8 if flags & _EMPTY else 16
    return 8 * words + 8 * int(struct.unpack_from("<I", blob, 8)[0])


def _compressed_size(blob: bytes, words: int) -> int:
    """Version 4: hashes as differences of `blob[3]` bits each; their number takes `blob[4]` bytes."""
    bits, digits, start = blob[3], blob[4], 8 * words
    if not (1 <= bits <= 63 and 1 <= digits <= 4 and words <= 2) or len(blob) < start + digits:
        raise DamagedBytesError(f"a compressed Theta sketch with hashes of {bits} bits and a count of {digits} bytes")
    count = int.from_bytes(blob[start : start + digits], "little")
    return start + digits + (count * bits + 7) // 8
