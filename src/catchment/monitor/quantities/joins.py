"""Sums of products of frequencies: how skewed a stream is, and how alike two streams are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.monitor.regions import ProductBalls, Region, RisesAndFalls, SelfJoinBalls
from catchment.monitor.safe import FullSelfJoin, NearSelfJoin, Product, Zone
from catchment.monitor.shift import row_norms
from catchment.monitor.vectors import SignedVector, Vector
from catchment.monitor.watch import ANY_RULES, Watch, check_positive
from catchment.monitor.window_vectors import WindowStreamsVector, WindowVector
from catchment.monitor.zones.thresholds import Band, absolute_band
from catchment.sketch.fast_ams import FastAMS
from catchment.window.ecm import ECMSketch

__all__ = ["InnerProduct", "SelfJoin"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfJoin(Watch):
    """The sum of the squared frequencies: how skewed is it all?

    In the whole history by Fast-AMS, within epsilon of itself; in a window by an ECM-sketch, whose error epsilon is
    relative to the squared weight in the window: there `theta` is about the estimate, and the answer's low end is weak.
    """

    kind: ClassVar[str] = "SelfJoin"
    rises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        check_positive(self.threshold, "a self-join")

    @property
    def rules(self) -> tuple[str, ...]:
        own = ("relative", "eager", "lazy") if self.window is None else ("two-phase",)
        return (*ANY_RULES, "near", "full", *own)

    @property
    def vector_key(self) -> Any:
        return "signed" if self.window is None else "ecm", self.window, self.epsilon, self.delta, self.seed

    def new_vector(self) -> Vector:
        if self.window is None:
            sizes = FastAMS.suggest(self.epsilon, self.delta)
            return SignedVector(width=sizes["width"], depth=sizes["depth"], seed=self.seed)
        return WindowVector(_joined(self))

    def value(self, total: I64) -> float:
        rows = row_norms(total)
        return float(median(rows.tolist()) if self.window is None else rows.min())

    def sketch_error(self) -> float:
        return self.epsilon if self.window is None else 0.0

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        kind = "median" if self.window is None else "minimum"
        norms = np.sqrt(row_norms(total))
        return {
            "near": NearSelfJoin(band.low, band.high, norms, kind),
            "full": FullSelfJoin(band.low, band.high, total, kind, norms),
        }

    def answer(self, value: float, low: float, high: float) -> Answer:
        if self.threshold is None and low == -math.inf:  # a rising quantity: the least was known when it was claimed
            return Answer(
                value, value / (1 + self.theta), high / (1 - self.epsilon), confidence=1 - 2 * self.delta,
                epsilon=self.theta,
            )  # fmt: skip
        if self.window is None:
            answer = Watch.answer(self, value, low, high)
            return replace(answer, confidence=0.0) if self.rule == "relative" else answer  # nothing proves that rule
        # A counter is within e of itself. Collisions may be most of a row; but a row's norm is at most its weight, and
        # each event is at least a pair with itself.
        error = _counter_error(self)
        least = math.sqrt(max(low, 0.0)) / (1 + error)
        return Answer(value, least, high / (1 - error) ** 2, confidence=1.0, epsilon=self.theta)

    def regions(self, total: I64, band: Band) -> dict[str, Region]:
        norms = np.sqrt(row_norms(total))
        if self.window is not None:
            return {"two-phase": RisesAndFalls(band.low, band.high, norms)}
        balls = SelfJoinBalls(band.low, band.high, norms)
        return {"eager": balls, "lazy": balls}


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerProduct(Watch):
    """The sum over all keys of the product of their frequencies in two streams: how alike are they?

    Within `theta` of the product of the streams' norms, |f| |g|: a product may be zero, and no sketch knows zero well.
    The norms are those of the last flush; streams that grow apart without changing the product make the interval too
    narrow. In a window it is of two ECM-sketches, whose error epsilon is relative to the product of the weights in the
    window: there `theta` is about the estimate, the answer's upper end always holds, and its lower one is 0.
    """

    kind: ClassVar[str] = "InnerProduct"

    @property
    def rules(self) -> tuple[str, ...]:
        return (*ANY_RULES, "full", *(("relative", "eager", "lazy") if self.window is None else ()))

    def new_vector(self) -> Vector:
        if self.window is not None:
            return WindowStreamsVector(*(_joined(self) for _ in range(2)))
        sizes = FastAMS.suggest(self.epsilon, self.delta)
        return SignedVector(width=sizes["width"], depth=sizes["depth"], seed=self.seed, streams=2)

    def _of_rows(self, one: I64, other: I64) -> float:
        """The rows' products as one number: of ECM-sketches the least is nearest to the truth."""
        rows = np.einsum("ij,ij->i", one, other, dtype=np.float64)
        return float(median(rows.tolist()) if self.window is None else rows.min())

    def value(self, total: I64) -> float:
        return self._of_rows(*np.split(total, 2))

    def sketch_error(self) -> float:
        return self.epsilon if self.window is None else 0.0

    def _scale(self, total: I64) -> float:
        first, second = (self._of_rows(part, part) for part in np.split(total, 2))
        return max(math.sqrt(first * second), 1.0)

    def band(self, total: I64, value: float) -> Band:
        scale = self._scale(total)
        if self.threshold is None:
            return absolute_band(value, self.sketch_error() * scale, self.theta * scale)
        room = (self.theta - self.sketch_error()) * scale
        if value >= self.threshold:
            return Band(min(self.threshold, value - room), math.inf)
        return Band(-math.inf, max(self.threshold, value + room))

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        return {"full": Product(band.low, band.high, total, "median" if self.window is None else "minimum")}

    def regions(self, total: I64, band: Band) -> dict[str, Region]:
        if self.window is not None:
            return {}
        first, second = np.split(total, 2)
        products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
        norms = np.sqrt(row_norms(total))
        balls = ProductBalls(band.low, band.high, products, norms)
        return {"eager": balls, "lazy": balls}

    def answer(self, value: float, low: float, high: float) -> Answer:
        """With what the sketch may add, by the norms at the last flush: an estimate, of no stated confidence.

        In a window the upper end needs no norms: collisions only add, and a counter is within e of itself.
        """
        if self.window is not None:
            return Answer(value, 0.0, high / (1 - _counter_error(self)) ** 2, confidence=1.0, epsilon=self.theta)
        room = max(end for end in (value - low, high - value) if end < math.inf)  # (theta - epsilon) |f| |g|, or more
        more = room * self.epsilon / (self.theta - self.epsilon)
        return Answer(value, low - more, high + more, confidence=0.0, epsilon=self.theta)


def _joined(watch: Watch) -> ECMSketch:
    """The sketch of one stream for products of counts in a window."""
    return ECMSketch(
        watch.epsilon, watch.delta, window=watch.window, optimize_for="join", counter="eh", seed=watch.seed
    )


def _counter_error(watch: Watch) -> float:
    """How far a counter of that sketch may be from its count, relatively."""
    return math.sqrt(1 + watch.epsilon) - 1
