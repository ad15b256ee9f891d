"""Bounds for `hll_sketch_agg` and `hll_union_agg`: how many distinct values?

The estimate and its bounds come from the DataSketches library. Its reader ends the process on some damaged bytes, and a
Spark task with it, so that every length, count and register is checked here first.
"""

from __future__ import annotations

import struct

import numpy as np
from datasketches import hll_sketch

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.spark.builtin.confidence import plausible, standard_deviations

__all__ = ["hll_answer"]

_FAMILY, _SERIAL = 7, 1
_COMPACT = 8
_LIST, _SET, _DENSE = 0, 1, 2
_EIGHT_BITS = 2
_PREAMBLE = {_LIST: (2, 8), _SET: (3, 12), _DENSE: (10, 40)}
"""How many words of 4 bytes the header says that it has, and its bytes."""
_LIST_SLOTS = 8
_RELATIVE_ERROR = 1.03896
"""Of a sketch with one register, after a union; that of K registers is this by sqrt(K)."""
_CURE = "give the column that hll_sketch_agg or hll_union_agg made"


def hll_answer(blob: bytes, *, delta: float = 0.05) -> Answer:
    """How many distinct values an HLL sketch of Spark has seen.

    **Guarantee.** That of the DataSketches library, for the number of standard deviations that delta asks for
    (`standard_deviations`): measured, not proved, also for unions, whose wider error the bytes carry. `epsilon` is the
    relative error at that confidence once the sketch is full. Java's sketch does not count the empty string.

    Parameters
    ----------
    blob
        The bytes of the column.
    delta
        The probability of failure, 0.0027 or more.

    Raises
    ------
    BytesError
        The bytes are not an HLL sketch as Spark writes it.
    """
    deviations = standard_deviations(delta)
    _check(blob)
    try:
        sketch = hll_sketch.deserialize(bytes(blob))
    except (ValueError, IndexError, RuntimeError) as problem:
        raise DamagedBytesError(f"an HLL sketch that cannot be read ({problem})") from None
    return plausible(
        Answer(
            value=sketch.get_estimate(),
            low=sketch.get_lower_bound(deviations),
            high=sketch.get_upper_bound(deviations),
            confidence=1 - delta,
            epsilon=deviations * _RELATIVE_ERROR / 2 ** (sketch.lg_config_k / 2),
        )
    )


def _check(blob: bytes) -> None:
    if len(blob) < 8:
        raise DamagedBytesError(f"{len(blob)} bytes, and the header alone of an HLL sketch has 8")
    words, serial, family, registers, slots, flags, count, mode = blob[:8]
    if family != _FAMILY or serial != _SERIAL:
        raise UnknownFormatError(f"family {family}, version {serial} where an HLL sketch has 7 and 1", _CURE)
    kind, target = mode & 3, mode >> 2 & 3
    if target != _EIGHT_BITS or kind not in _PREAMBLE:
        raise UnknownFormatError(f"an HLL sketch of mode {mode}, where Spark writes 8 bits a register", _CURE)
    expected, header = _PREAMBLE[kind]
    if words != expected or not 4 <= registers <= 21 or len(blob) < header:
        raise DamagedBytesError(f"an HLL header of {words} words for 2^{registers} registers")
    if kind == _DENSE:
        _check_registers(blob, registers)
        return
    if kind == _SET:
        (count,) = struct.unpack_from("<I", blob, 8)
        if not 5 <= slots <= registers - 3 or count > 2**slots:
            raise DamagedBytesError(f"an HLL sketch with {count} values in 2^{slots} slots")
    elif count > _LIST_SLOTS:
        raise DamagedBytesError(f"an HLL sketch with a list of {count} values")
    room = count if flags & _COMPACT else (_LIST_SLOTS if kind == _LIST else 2**slots)
    if len(blob) != header + 4 * room:
        raise DamagedBytesError(f"{len(blob)} bytes for an HLL sketch of {room} values")
    if np.count_nonzero(np.frombuffer(blob, dtype="<u4", offset=header)) != count:
        raise DamagedBytesError(f"an HLL sketch that does not hold its {count} values")


def _check_registers(blob: bytes, registers: int) -> None:
    smallest = blob[6]
    (*sums, at_smallest, exceptions) = struct.unpack_from("<dddII", blob, 8)
    if len(blob) != 40 + 2**registers or exceptions:
        raise DamagedBytesError(f"{len(blob)} bytes for an HLL sketch of 2^{registers} registers")
    values = np.frombuffer(blob, dtype=np.uint8, offset=40)
    if int(values.max()) > 63 or int(values.min()) < smallest or np.count_nonzero(values == smallest) != at_smallest:
        raise DamagedBytesError("HLL registers that contradict their count")
    if not np.isfinite(sums).all() or not np.isclose(sums[1] + sums[2], np.ldexp(1.0, -values.astype(np.int32)).sum()):
        raise DamagedBytesError("HLL registers that contradict their sum")
