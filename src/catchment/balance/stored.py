"""Stored: what all that learns and decides here has in common: bytes of a family of its own, and equality by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, UnknownFormatError
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["Stored", "read_costs", "read_floats", "write_costs"]


class Stored(ABC):
    """Something with `to_bytes` and `from_bytes`; two are equal when their bytes are."""

    family: ClassVar[int]
    """What its bytes are known by: 40 to 51 in this room."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """All that it knows, for a checkpoint."""

    def _seal(self, parameters: bytes, payload: bytes) -> bytes:
        return seal_envelope(self.family, parameters, payload)

    @classmethod
    def _open(cls, blob: bytes | bytearray | memoryview) -> tuple[Reader, Reader]:
        """Parameters and payload of bytes that are of this family."""
        family, parameters, payload = open_envelope(blob)
        if family != cls.family:
            raise UnknownFormatError(f"bytes of family {family}", f"give what {cls.__name__}.to_bytes wrote")
        return parameters, payload

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Stored) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes


def write_costs(writer: Writer, costs: ValueEstimator) -> None:
    """Matrices inside other bytes."""
    blob = costs.to_bytes()
    writer.numbers("I", len(blob))
    writer.raw(blob)


def read_costs(reader: Reader) -> ValueEstimator:
    (size,) = reader.numbers("I")
    return ValueEstimator.from_bytes(reader.raw(size))


def read_floats(reader: Reader, count: int) -> NDArray[np.float64]:
    """So many finite numbers."""
    values = np.frombuffer(reader.raw(8 * count), dtype="<f8").astype(np.float64)
    if not np.isfinite(values).all():
        raise DamagedBytesError("a number that is not finite")
    return values
