"""Watch: what is monitored, and how well; the same words at the sites and at the coordinator.

A watch either follows a value (within `theta` of the truth) or waits for a line to be crossed (`threshold`; `theta`
then says how near to the line the answer may be undecided). What it watches is in `quantities`: over the whole history,
or with `window=` in a sliding window.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import ParameterError
from catchment.monitor.fingerprint import fingerprint_of
from catchment.monitor.planner import Past
from catchment.monitor.regions import Region
from catchment.monitor.rules.base import Guard, Steersman
from catchment.monitor.rules.registry import guard_of, steersman_of
from catchment.monitor.safe import Zone
from catchment.monitor.vectors import Drift, Vector
from catchment.monitor.zones.thresholds import Band, crossing, relative_band, rising_band
from catchment.sketch.checks import check_choice, check_fraction, check_whole

__all__ = ["ANY_RULES", "Watch", "check_positive"]

I64 = NDArray[np.int64]

ANY_RULES = ("auto", "push", "centralise")
"""Those that every quantity has."""


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

    kind: ClassVar[str]
    """What it is called in fingerprints and durable state, for ever: whatever becomes of the class's own name."""
    rises: ClassVar[bool] = False
    """Whether events of positive weight never lower it, over the whole history, and it is worth claiming ahead."""

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
        return ANY_RULES

    @property
    def fingerprint(self) -> int:
        """A number, never 0, that two different watches hardly share."""
        return fingerprint_of(self)

    @property
    def vector_key(self) -> Any:
        """Watches with equal keys share one vector at a site."""
        return self.kind, self.number

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
        if not self.rises or self.window is not None or self.threshold is not None:
            return None
        return rising_band(value, self.sketch_error(), self.theta)

    def steer(
        self, total: I64, sites: int, past: Past | None = None, *, grows: bool = False, settling: float = 1.0
    ) -> Steersman:
        """A rule for a round that begins with this vector at so many sites, after the one that has just ended.

        With `grows` no site has had an event of negative weight so far; `settling` is the coordinator's.
        """
        return steersman_of(self.rule, self, total, sites, past, grows=grows, settling=settling)

    def guard(self, rule: int, zone: bytes, drift: Drift) -> Guard:
        return guard_of(rule, zone, drift)

    def answer(self, value: float, low: float, high: float) -> Answer:
        """The truth, for an estimate between `low` and `high`: with what the sketch may add."""
        error = self.sketch_error()
        ends = [end / (1 + sign * error) if end > -math.inf else end for end in (low, high) for sign in (1, -1)]
        return Answer(value, min(ends), max(ends), confidence=1 - self.delta, epsilon=self.theta)


def check_positive(threshold: float | None, what: str) -> None:
    """Refuse a line that a quantity is always above."""
    if threshold is not None and threshold <= 0:
        raise ParameterError(f"threshold={threshold} for {what}", "it is never negative: give more than 0")
