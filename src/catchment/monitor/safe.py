"""Zones as they cross the wire: safe functions of a site's drift, with the few numbers that a site needs to evaluate
them.

A zone is a concave function ζ of everyone's drift, positive at zero, and never positive where the quantity is out of
its band. A site evaluates it at its own drift times the number of sites. The mathematics is in `zones`; here it meets
drifts and bytes. A zone of a Fast-AMS self-join costs a few numbers (near) or a whole vector (full) for each site and
round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError, UnknownFormatError
from catchment.monitor.packing import LARGEST
from catchment.monitor.shift import Shift, row_norms
from catchment.monitor.zones.inner_product import InnerProductZone
from catchment.monitor.zones.linear import LinearZone
from catchment.monitor.zones.quorum import RULES
from catchment.monitor.zones.self_join import SelfJoinZone
from catchment.sketch.codec import Reader, Writer

__all__ = ["FullSelfJoin", "Linear", "NearSelfJoin", "Presence", "Product", "Zone", "read_zone"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
N = TypeVar("N", np.int64, np.float64)


class Zone(ABC):
    """A safe function; `at_zero` is its value where nothing has drifted."""

    kind: ClassVar[int]
    at_zero: float
    counted: int
    """ζ(X) >= ζ(0) - |X|, where of X only so many rows count, those with the longest drifts (`Shift.reach`)."""

    @abstractmethod
    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        """Share ζ(X/share), X being the drift times the number of sites."""

    @abstractmethod
    def _write(self, writer: Writer) -> None: ...

    @classmethod
    @abstractmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> Zone: ...

    def follow(self, drift: Shift) -> None:
        """Tell a drift what products it must keep for this zone; none, for most."""
        drift.follow(None)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.numbers("B", self.kind)
        self._write(writer)
        return writer.getvalue()


def read_zone(data: bytes, rows: int, width: int) -> Zone:
    """The zone that gave these bytes, for a vector of that shape; raise a `BytesError` if there is none."""
    reader = Reader(memoryview(data))
    (kind,) = reader.numbers("B")
    for known in (Linear, NearSelfJoin, FullSelfJoin, Product, Presence):
        if known.kind == kind:
            try:
                zone = known._read(reader, rows, width)
            except ParameterError as problem:
                raise DamagedBytesError(f"an impossible zone: {problem.problem}") from None
            reader.finish()
            if not np.isfinite(zone.at_zero):
                raise DamagedBytesError("a zone without a finite slack")
            return zone
    raise UnknownFormatError(f"a zone of kind {kind}", "upgrade catchment to what wrote this")


class Linear(Zone):
    """The cells of the first row, each counted with a weight: their sum stays between two ends."""

    kind = 1

    def __init__(self, value: float, low: float, high: float, weights: F64) -> None:
        self._numbers, self._weights = (value, low, high), weights
        # The form a·x / |a|² has the value at this point, whatever the cells are.
        start = weights * (value / float(weights @ weights))
        self._zone = LinearZone(low, high, start, weights)
        self.at_zero, self.counted = self._zone.at_zero, 1

    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        return self._zone.slack(drift.cells[0], float(sites), share)

    def _write(self, writer: Writer) -> None:
        writer.numbers("ddd", *self._numbers)
        writer.raw(self._weights.astype("<f8"))

    @classmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> Linear:
        value, low, high = reader.numbers("ddd")
        weights = np.frombuffer(reader.raw(8 * width), dtype="<f8")
        if not (np.isfinite(weights).all() and weights.any() and low <= value <= high):
            raise DamagedBytesError("a linear zone of impossible numbers")
        return cls(value, low, high, weights)


class NearSelfJoin(Zone):
    """A self-join around a reference of which only the rows' norms are known: 004 §3.3."""

    kind = 2

    def __init__(self, low: float, high: float, norms: F64, rule: str) -> None:
        self._zone = SelfJoinZone(low, high, norms, rule=rule)
        self.at_zero, self.counted = self._zone.at_zero, self._zone.counted

    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        return self._zone.near_slack(drift.norms, float(sites), share)

    def _write(self, writer: Writer) -> None:
        writer.numbers("Bdd", RULES.index(self._zone.rule), self._zone.low, self._zone.high)
        writer.raw(self._zone.norms.astype("<f8"))

    @classmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> NearSelfJoin:
        rule, low, high = _ends(reader)
        return cls(low, high, np.frombuffer(reader.raw(8 * rows), dtype="<f8"), rule)


class FullSelfJoin(Zone):
    """A self-join around a reference that every site has: drift across it costs nearly nothing."""

    kind = 3

    def __init__(self, low: float, high: float, reference: I64, rule: str, norms: F64 | None = None) -> None:
        self._reference = reference
        if norms is None:
            norms = np.sqrt(row_norms(reference))
        self._zone = SelfJoinZone(low, high, norms, rule=rule)
        self.at_zero, self.counted = self._zone.at_zero, self._zone.counted

    def follow(self, drift: Shift) -> None:
        drift.follow(self._reference)

    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        return self._zone.slack(drift.norms, drift.dots, float(sites), share)

    def _write(self, writer: Writer) -> None:
        writer.numbers("Bdd", RULES.index(self._zone.rule), self._zone.low, self._zone.high)
        writer.integers(self._reference)

    @classmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> FullSelfJoin:
        rule, low, high = _ends(reader)
        reference = reader.integers(rows * width, np.int64, low=-LARGEST, high=LARGEST).reshape(rows, width)
        return cls(low, high, reference, rule)


class Product(Zone):
    """An inner product of two streams, whose rows stand one below the other, around a reference."""

    kind = 4

    def __init__(self, low: float, high: float, reference: I64, rule: str = "median") -> None:
        self._numbers, self._reference = (RULES.index(rule), low, high), reference
        norms = [np.sqrt(row_norms(part)) for part in _sum_and_difference(reference)]
        self._zone = InnerProductZone(low, high, *norms, rule=rule)
        self.at_zero, self.counted = self._zone.at_zero, len(reference)

    @cached_property
    def _around(self) -> tuple[F64, F64]:
        """What drifts are measured against; a push, which asks for `at_zero` alone, does without."""
        return _sum_and_difference(self._reference.astype(np.float64))

    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        x, y = _sum_and_difference(drift.cells.astype(np.float64))
        sums, differences = self._around
        return self._zone.slack(
            _products(x, x), _products(x, sums), _products(y, y), _products(y, differences), float(sites), share
        )

    def _write(self, writer: Writer) -> None:
        writer.numbers("Bdd", *self._numbers)
        writer.integers(self._reference)

    @classmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> Product:
        if rows % 2:
            raise DamagedBytesError(f"a product of {rows} rows")
        rule, low, high = _ends(reader)
        reference = reader.integers(rows * width, np.int64, low=-LARGEST, high=LARGEST).reshape(rows, width)
        return cls(low, high, reference, rule)


class Presence(Zone):
    """How many cells of everyone's table are not zero, at most `up` more and `down` fewer than in the reference.

    A cell that was zero everywhere is new when some site has it: the sum of the sites' new cells is at least as many. A
    cell that N sites had is lost when all N have lost it: the sum of what they lost, over N, is at least as many. Both
    are linear in the sites' drifts. Without the reference every cell may be one that was zero, or that one site had.
    """

    kind = 5
    counted = 0

    def __init__(self, up: float, down: float, reference: I64 | None = None) -> None:
        self._up, self._down, self._reference = up, down, reference
        self.at_zero = min(up, down)

    @cached_property
    def _counts(self) -> tuple[F64, F64]:
        """What each cell counts as new, and as lost; a push, which asks for `at_zero` alone, does without."""
        assert self._reference is not None
        return (self._reference <= 0).astype(np.float64), 1.0 / np.maximum(self._reference, 1)

    def slack(self, drift: Shift, sites: int, share: float = 1.0) -> float:
        rises, falls = np.maximum(drift.cells, 0), np.maximum(-drift.cells, 0)
        if self._reference is None:
            new, lost = float(rises.sum()), float(falls.sum())
        else:
            as_new, as_lost = self._counts
            new, lost = float((rises * as_new).sum()), float((falls * as_lost).sum())
        grown = sites / share
        return share * min(self._up - grown * new, self._down - grown * lost)

    def _write(self, writer: Writer) -> None:
        writer.numbers("Bdd", self._reference is not None, self._up, self._down)
        if self._reference is not None:
            writer.integers(self._reference)

    @classmethod
    def _read(cls, reader: Reader, rows: int, width: int) -> Presence:
        full, up, down = reader.numbers("Bdd")
        if full > 1 or not (up >= 0 and down >= 0):
            raise DamagedBytesError(f"a zone of {up} cells more and {down} fewer")
        if not full:
            return cls(up, down)
        reference = reader.integers(rows * width, np.int64, low=-LARGEST, high=LARGEST).reshape(rows, width)
        return cls(up, down, reference)


def _ends(reader: Reader) -> tuple[str, float, float]:
    rule, low, high = reader.numbers("Bdd")
    if rule >= len(RULES) or not low <= high:
        raise DamagedBytesError(f"a zone between {low} and {high} by rule {rule}")
    return RULES[rule], low, high


def _sum_and_difference(rows: NDArray[N]) -> tuple[NDArray[N], NDArray[N]]:
    """Of the rows of the first stream and those of the second, which stand below."""
    first, second = np.split(rows, 2)
    return first + second, first - second


def _products(one: F64, other: F64) -> F64:
    products: F64 = np.einsum("ij,ij->i", one, other)
    return products
