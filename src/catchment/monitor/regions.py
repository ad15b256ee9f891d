"""Regions as they cross the wire: where the mean of the sites' small points may be, for the rules that balance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError, UnknownFormatError
from catchment.monitor.vectors import Drift
from catchment.monitor.zones.geometric import BallZone
from catchment.monitor.zones.minimum import MinimumZone, rises_and_falls
from catchment.sketch.codec import Reader, Writer

__all__ = ["ProductBalls", "Region", "RisesAndFalls", "SelfJoinBalls", "read_region"]

F64 = NDArray[np.float64]


class Region(ABC):
    """If every site's point is inside, the mean of the points is admissible."""

    kind: ClassVar[int]
    size: int

    @abstractmethod
    def point(self, drift: Drift, sites: int) -> F64:
        """The small point of a site's drift."""

    @abstractmethod
    def inside(self, point: F64) -> bool: ...

    @abstractmethod
    def _write(self, writer: Writer) -> None: ...

    @classmethod
    @abstractmethod
    def _read(cls, reader: Reader, rows: int) -> Region: ...

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.numbers("B", self.kind)
        self._write(writer)
        return writer.getvalue()


def read_region(data: bytes, rows: int) -> Region:
    """The region that gave these bytes, for a vector of so many rows; raise a `BytesError` if there is none."""
    reader = Reader(memoryview(data))
    (kind,) = reader.numbers("B")
    for known in (SelfJoinBalls, ProductBalls, RisesAndFalls):
        if known.kind == kind:
            try:
                region = known._read(reader, rows)
            except ParameterError as problem:
                raise DamagedBytesError(f"an impossible region: {problem.problem}") from None
            reader.finish()
            return region
    raise UnknownFormatError(f"a region of kind {kind}", "upgrade catchment to what wrote this")


def _numbers(reader: Reader, count: int) -> F64:
    return np.frombuffer(reader.raw(8 * count), dtype="<f8")


class _Balls(Region):
    """Error vectors: the norms of the drift's rows. Inside is where the ball of one has no bad point."""

    _zone: BallZone

    def point(self, drift: Drift, sites: int) -> F64:
        point: F64 = sites * np.sqrt(np.maximum(drift.norms, 0.0))
        return point

    def inside(self, point: F64) -> bool:
        return self._zone.inside(point)


class SelfJoinBalls(_Balls):
    """The balls of error vectors of a self-join: 004 §3.3."""

    kind = 1

    def __init__(self, low: float, high: float, norms: F64) -> None:
        self._numbers, self._norms = (low, high), norms
        self._zone = BallZone.self_join(low, high, norms)
        self.size = norms.size

    def _write(self, writer: Writer) -> None:
        writer.numbers("dd", *self._numbers)
        writer.raw(self._norms.astype("<f8"))

    @classmethod
    def _read(cls, reader: Reader, rows: int) -> SelfJoinBalls:
        low, high = reader.numbers("dd")
        return cls(low, high, _numbers(reader, rows))


class ProductBalls(_Balls):
    """The balls of error vectors of an inner product, the first stream's rows and then the second's: 004 §3.5."""

    kind = 2

    def __init__(self, low: float, high: float, products: F64, norms: F64) -> None:
        self._numbers, self._products, self._norms = (low, high), products, norms
        first, second = np.split(norms, 2)
        self._zone = BallZone.inner_product(low, high, products, first, second)
        self.size = norms.size

    def _write(self, writer: Writer) -> None:
        writer.numbers("dd", *self._numbers)
        writer.raw(self._products.astype("<f8"))
        writer.raw(self._norms.astype("<f8"))

    @classmethod
    def _read(cls, reader: Reader, rows: int) -> ProductBalls:
        if rows % 2:
            raise DamagedBytesError(f"a product of {rows} rows")
        low, high = reader.numbers("dd")
        return cls(low, high, _numbers(reader, rows // 2), _numbers(reader, rows))


class RisesAndFalls(Region):
    """The safe zone of a Count-Min self-join in the norms of what rose and of what fell: 000 §6.4–6.5."""

    kind = 3

    def __init__(self, low: float, high: float, norms: F64) -> None:
        self._numbers, self._norms = (low, high), norms
        self._zone = MinimumZone(low, high, norms)
        self.size = 2 * norms.size

    def point(self, drift: Drift, sites: int) -> F64:
        rises, falls = rises_and_falls(drift.cells, np.zeros_like(drift.cells))
        return sites * np.concatenate([rises, falls])

    def inside(self, point: F64) -> bool:
        rises, falls = np.split(point, 2)
        return self._zone.slack(rises, falls) >= 0

    def _write(self, writer: Writer) -> None:
        writer.numbers("dd", *self._numbers)
        writer.raw(self._norms.astype("<f8"))

    @classmethod
    def _read(cls, reader: Reader, rows: int) -> RisesAndFalls:
        low, high = reader.numbers("dd")
        return cls(low, high, _numbers(reader, rows))
