"""Watch: what is monitored, and how well; the same words at the sites and at the coordinator.

A watch either follows a value (within `theta` of the truth) or waits for a line to be crossed (`threshold`; `theta`
then says how near to the line the answer may be undecided). What it watches: `SelfJoin`, `InnerProduct`, `RangeSum`,
`Frequency`, `Total`, `Distinct`; over the whole history, or with `window=` in a sliding window.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import ParameterError
from catchment.monitor.fingerprint import fingerprint_of
from catchment.monitor.planner import Past
from catchment.monitor.presence import (
    PresenceVector,
    WindowPresenceVector,
    cells_of,
    keys_at_least,
    keys_at_most,
    keys_of,
    width_for,
)
from catchment.monitor.regions import ProductBalls, Region, RisesAndFalls, SelfJoinBalls
from catchment.monitor.rules.base import Guard, Steersman
from catchment.monitor.rules.registry import guard_of, steersman_of
from catchment.monitor.safe import FullSelfJoin, Linear, NearSelfJoin, Presence, Product, Zone
from catchment.monitor.shift import row_norms
from catchment.monitor.vectors import CountVector, Drift, SignedVector, Vector
from catchment.monitor.window_vectors import WindowCountVector, WindowStreamsVector, WindowVector
from catchment.monitor.zones.thresholds import Band, absolute_band, crossing, relative_band, rising_band
from catchment.sketch.checks import as_weights, check_choice, check_fraction, check_whole
from catchment.sketch.fast_ams import FastAMS
from catchment.sketch.keys import hash_keys
from catchment.window.ecm import ECMSketch

__all__ = ["Distinct", "Frequency", "InnerProduct", "RangeSum", "SelfJoin", "Total", "Watch"]

I64 = NDArray[np.int64]

LARGEST_FACTOR = 1 << 30
_ANY_RULES = ("auto", "push", "centralise")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(ABC):
    """What all watches have.

    Parameters
    ----------
    number
        The query's number, the same everywhere; from 1 to 65,535.
    theta
        How far from the truth the answer may be, relatively; or by 1, near zero.
    epsilon, delta
        The sketch's part of that error, and the probability that the sketch fails to keep it.
    threshold
        A line; with it the watch tells on which side the value is, and follows it only near the line.
    window
        Ticks; None is the whole history. Times must come in order: a late event counts as of the newest time.
    seed
        Chooses the hash functions.
    rule
        `"auto"`, or the name of a rule that this quantity has (`rules`), to stay with it.
    """

    number: int = 1
    theta: float = 0.1
    epsilon: float = 0.02
    delta: float = 0.01
    threshold: float | None = None
    window: int | None = None
    seed: int = 0
    rule: str = "auto"

    def __post_init__(self) -> None:
        check_whole("number", self.number, 1, 65_535)
        check_fraction("theta", self.theta)
        check_fraction("delta", self.delta)
        check_choice("rule", self.rule, self.rules)
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ParameterError(f"threshold={self.threshold}", "give a number, or none")
        if self.sketch_error() >= self.theta:
            raise ParameterError(
                f"theta={self.theta} with a sketch whose own error is {self.sketch_error():.3g}",
                "allow more than the sketch's own error, or make epsilon smaller",
            )

    @property
    def rules(self) -> tuple[str, ...]:
        """The names that `rule` may have for this quantity: those that need no zone, and those of its zones."""
        return _ANY_RULES

    @property
    def fingerprint(self) -> int:
        """A number, never 0, that two different watches hardly share."""
        return fingerprint_of(self)

    @property
    def vector_key(self) -> Any:
        """Watches with equal keys share one vector at a site."""
        return type(self).__name__, self.number

    @abstractmethod
    def new_vector(self) -> Vector:
        """An empty vector of the shape that this watch needs."""

    @abstractmethod
    def value(self, total: I64) -> float:
        """The estimate from everyone's vector."""

    @abstractmethod
    def sketch_error(self) -> float:
        """How far the estimate may be from the truth, relatively, by the sketch alone."""

    @abstractmethod
    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        """The zones that rules may use, by their names, the cheapest to send first."""

    def regions(self, total: I64, band: Band) -> dict[str, Region]:
        """The regions for rules that balance, by the rules' names."""
        return {}

    def band(self, total: I64, value: float) -> Band:
        """Between what the estimate may move before anyone must be told."""
        if self.threshold is None:
            return relative_band(value, self.sketch_error(), self.theta)
        return crossing(value, self.threshold, self.sketch_error(), self.theta).band

    def rising(self, value: float) -> tuple[float, Band] | None:
        """What to claim, and between what the estimate may move, if no event can lower the quantity; None: no gain."""
        return None

    def steer(self, total: I64, sites: int, past: Past | None = None, *, grows: bool = False) -> Steersman:
        """A rule for a round that begins with this vector at so many sites, after the one that has just ended.

        With `grows` no site has had an event of negative weight so far.
        """
        return steersman_of(self.rule, self, total, sites, past, grows=grows)

    def guard(self, rule: int, zone: bytes, drift: Drift) -> Guard:
        return guard_of(rule, zone, drift)

    def answer(self, value: float, low: float, high: float) -> Answer:
        """The truth, for an estimate between `low` and `high`: with what the sketch may add."""
        error = self.sketch_error()
        ends = [end / (1 + sign * error) if end > -math.inf else end for end in (low, high) for sign in (1, -1)]
        return Answer(value, min(ends), max(ends), confidence=1 - self.delta, epsilon=self.theta)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfJoin(Watch):
    """The sum of the squared frequencies: how skewed is it all?

    In the whole history by Fast-AMS, within epsilon of itself; in a window by an ECM-sketch, whose error epsilon is
    relative to the squared weight in the window: there `theta` is about the estimate, and the answer's low end is weak.
    """

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        _check_positive(self.threshold, "a self-join")

    @property
    def rules(self) -> tuple[str, ...]:
        own = ("relative", "eager", "lazy") if self.window is None else ("two-phase",)
        return (*_ANY_RULES, "near", "full", *own)

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

    def rising(self, value: float) -> tuple[float, Band] | None:
        if self.window is not None or self.threshold is not None:
            return None
        return rising_band(value, self.sketch_error(), self.theta)

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

    @property
    def rules(self) -> tuple[str, ...]:
        return (*_ANY_RULES, "full", *(("relative", "eager", "lazy") if self.window is None else ()))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted(Watch):
    """One count: exact over the whole history, within epsilon of itself in a window."""

    @property
    def rules(self) -> tuple[str, ...]:
        return (*_ANY_RULES, "near")

    def value(self, total: I64) -> float:
        return float(total[0, 0])

    def sketch_error(self) -> float:
        return 0.0 if self.window is None else self.epsilon

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        return {"near": Linear(value, band.low, band.high, np.ones(1))}

    def _counter(self) -> ECMSketch:
        return ECMSketch(self.epsilon, self.delta, window=self.window, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSum(_Counted):
    """The weight of some keys, each times a factor: the inner product with a known vector, counted exactly.

    In a window within epsilon of itself, which takes factors above 0: watch what is to be taken away by itself.
    """

    keys: tuple[Any, ...] = ()
    factors: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        if not self.keys or (self.factors and len(self.factors) != len(self.keys)):
            raise ParameterError(f"{len(self.factors)} factors for {len(self.keys)} keys", "give one for each key")
        for factor in self.factors:
            check_whole("factor", factor, -LARGEST_FACTOR if self.window is None else 1, LARGEST_FACTOR)

    def new_vector(self) -> Vector:
        hashes, _ = hash_keys(list(self.keys))
        factors = as_weights(list(self.factors) or 1, hashes.size, signed=True)
        order = np.argsort(hashes)
        if bool(np.any(np.diff(hashes[order]) == 0)):
            raise ParameterError("a key that is given twice", "give each key once")
        if self.window is not None:
            return WindowCountVector(self._counter(), hashes[order], factors[order])
        return CountVector(hashes[order], factors[order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency(_Counted):
    """How often a named key was seen."""

    key: Any = None

    @property
    def vector_key(self) -> Any:
        return type(self).__name__, self.key, self.window, self.epsilon, self.delta, self.seed

    def new_vector(self) -> Vector:
        hashes, _ = hash_keys([self.key])
        if self.window is None:
            return CountVector(hashes, np.ones(1, dtype=np.int64))
        return WindowCountVector(self._counter(), hashes, np.ones(1, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(_Counted):
    """How much there was."""

    def new_vector(self) -> Vector:
        return CountVector() if self.window is None else WindowCountVector(self._counter())


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Watch):
    """How many different keys there were, whichever sites saw them and how often; weights do not matter.

    By a table of presence: 32 cells for each of some 6/epsilon² columns (delta = 0.01). That is 150 kilobytes a copy
    for epsilon = 0.1 and 4 megabytes for 0.02, and a site has three copies, the coordinator two for each site; but only
    the cells that have changed cross the network.
    """

    epsilon: float = 0.05

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        _check_positive(self.threshold, "a distinct count")

    @property
    def rules(self) -> tuple[str, ...]:
        return (*_ANY_RULES, "near", "full")

    @property
    def vector_key(self) -> Any:
        return type(self).__name__, self.window, self.epsilon, self.delta, self.seed

    @property
    def width(self) -> int:
        """The columns of the table."""
        return width_for(self.epsilon, self.delta)

    def new_vector(self) -> Vector:
        if self.window is None:
            return PresenceVector(width=self.width, seed=self.seed)
        return WindowPresenceVector(width=self.width, seed=self.seed, window=self.window)

    def value(self, total: I64) -> float:
        return keys_of(float(np.count_nonzero(total > 0)), self.width)

    def sketch_error(self) -> float:
        return self.epsilon

    def zones(self, total: I64, value: float, band: Band) -> dict[str, Zone]:
        cells = int(np.count_nonzero(total > 0))
        # What rounding in the curve and back may take away is given back.
        up = max(math.floor(self._cells(band.high) * (1 + 1e-10)) - cells, 0) if band.high < math.inf else math.inf
        down = max(cells - math.ceil(self._cells(band.low) * (1 - 1e-10)), 0) if band.low > 0 else math.inf
        return {"near": Presence(up, down), "full": Presence(up, down, total)}

    def _cells(self, keys: float) -> float:
        return cells_of(keys, self.width)

    def rising(self, value: float) -> tuple[float, Band] | None:
        if self.window is not None or self.threshold is not None:
            return None
        return rising_band(value, self.sketch_error(), self.theta)

    def answer(self, value: float, low: float, high: float) -> Answer:
        """By how far the number of cells may stray; see `presence`."""
        if self.threshold is None and low == -math.inf:  # a rising quantity: the least was known when it was claimed
            low = value * (1 + self.epsilon) / (1 + self.theta)
        least = keys_at_least(self._cells(low), self.width, self.delta / 2) if low > 0 else 0.0
        most = keys_at_most(self._cells(high), self.width, self.delta / 2) if high < math.inf else math.inf
        return Answer(value, math.floor(least), most, confidence=1 - self.delta, epsilon=self.theta)


def _joined(watch: Watch) -> ECMSketch:
    """The sketch of one stream for products of counts in a window."""
    return ECMSketch(
        watch.epsilon, watch.delta, window=watch.window, optimize_for="join", counter="eh", seed=watch.seed
    )


def _counter_error(watch: Watch) -> float:
    """How far a counter of that sketch may be from its count, relatively."""
    return math.sqrt(1 + watch.epsilon) - 1


def _check_positive(threshold: float | None, what: str) -> None:
    if threshold is not None and threshold <= 0:
        raise ParameterError(f"threshold={threshold} for {what}", "it is never negative: give more than 0")
