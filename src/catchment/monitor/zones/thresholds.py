"""Between which two values the estimate may move before anyone must be told (004 §3.1, Eqn (1)).

The coordinator holds Q = f(E). A sketch's estimate f(S) is within ε of the truth F, relatively: f(S) in (1 ± ε) F. Then

    (1+ε)/(1+θ) Q  <=  f(S)  <=  (1-ε)/(1-θ) Q     implies     Q in (1 ± θ) F,

for Q > 0 and ε < θ < 1: f(S) <= Thi gives F <= f(S)/(1-ε) <= Q/(1-θ), and f(S) >= Tlo gives F >= Q/(1+θ). For Q < 0 the
same with the two ends exchanged.

**Q = 0** leaves no room in a relative promise: any event breaks it. So each band reaches at least `floor` to either
side, and the promise is: within θ of the truth, or within `floor` of it by the sketch's estimate, whichever is wider.
The default of 1 lets a count or a self-join of integers take its first step and is nothing beside any later value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catchment.errors import ParameterError

__all__ = [
    "Band", "Crossing", "absolute_band", "checked_ends", "crossing", "drift_share", "must_flush", "relative_band",
    "rising_band",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """low <= estimate <= high; an end may be infinite."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def checked_ends(low: float, high: float) -> tuple[float, float]:
    """Two thresholds as floats, refused where no value could be between them; what is not a number is refused too.

    >>> checked_ends(-math.inf, 3)
    (-inf, 3.0)
    """
    if not low <= high:
        raise ParameterError(f"thresholds {low!r} and {high!r}", "give a low that is at most the high")
    return float(low), float(high)


def relative_band(value: float, epsilon: float, theta: float, floor: float = 1.0) -> Band:
    """Eqn (1): while f(S) is in the band, `value` is within θ of the truth, for a sketch whose own error is ε.

    >>> relative_band(100.0, 0.05, 0.25)
    Band(low=84.0, high=126.66666666666667)
    >>> relative_band(0.0, 0.05, 0.25)
    Band(low=-1.0, high=1.0)
    """
    _check_finite(value)
    _check_errors(epsilon, theta, strict=True)
    if not floor >= 0:
        raise ParameterError(f"floor={floor!r}", "give a distance of at least 0, such as 1.0")
    low, high = _relative(value, epsilon, theta)
    return Band(min(low, value - floor), max(high, value + floor))


def rising_band(value: float, epsilon: float, theta: float, floor: float = 1.0) -> tuple[float, Band]:
    """For a quantity that cannot fall: a claim above the estimate, and how far the estimate may rise.

    F(now) >= F(then) >= f(E)/(1+ε) holds without any watching. So the claim may be Q = f(E) (1+θ)/(1+ε), and all the
    room is above: f(S) <= (1-ε)/(1-θ) Q gives F <= Q/(1-θ) as before. That is about twice the room of Eqn (1).

    >>> rising_band(100.0, 0.05, 0.25)
    (119.04761904761904, Band(low=-inf, high=150.79365079365078))
    """
    _check_finite(value)
    _check_errors(epsilon, theta, strict=True)
    claim = max(value, 0.0) * (1 + theta) / (1 + epsilon)
    return claim, Band(-math.inf, max((1 - epsilon) / (1 - theta) * claim, claim + floor))


def absolute_band(value: float, sketch_error: float, error: float) -> Band:
    """While f(S) is in the band, `value` is within `error` of a truth that the sketch knows to `sketch_error`.

    For inner products, whose sketch error is relative to |f| |g| and not to the product: ε |f| |g| is `sketch_error`.

    >>> absolute_band(100.0, 5.0, 20.0)
    Band(low=85.0, high=115.0)
    """
    _check_finite(value)
    if not 0 <= sketch_error < error < math.inf:
        raise ParameterError(
            f"error={error!r} with a sketch error of {sketch_error!r}",
            "allow more than the sketch's own error, or take a wider sketch",
        )
    room = error - sketch_error
    return Band(value - room, value + room)


@dataclass(frozen=True, slots=True)
class Crossing:
    """On which side of a fixed threshold the estimate is, how far it may go before that is in doubt, and from where."""

    above: bool
    band: Band
    margin: float
    """The distance of the estimate from the end of its band; 0 leaves no room at all."""


def crossing(value: float, threshold: float, epsilon: float = 0.0, theta: float = 0.0) -> Crossing:
    """The side of `threshold` that `value` is on, and the band in which a claim about the truth stays.

    While f(S) is in the band, the truth is at least threshold/(1+θ) (above), or at most threshold/(1-θ) (below). With
    θ = ε the band ends at the threshold itself: exact for the estimate. A larger θ keeps a value that sways about the
    threshold from calling each time. An estimate that is on the threshold counts as above.

    >>> crossing(120.0, 100.0, epsilon=0.05, theta=0.25)
    Crossing(above=True, band=Band(low=84.0, high=inf), margin=36.0)
    >>> crossing(90.0, 100.0)
    Crossing(above=False, band=Band(low=-inf, high=100.0), margin=10.0)
    """
    _check_finite(value)
    _check_finite(threshold)
    _check_errors(epsilon, theta, strict=False)
    low, high = _relative(threshold, epsilon, theta)
    if value >= threshold:
        return Crossing(True, Band(low, math.inf), value - low)
    return Crossing(False, Band(-math.inf, high), high - value)


def drift_share(epsilon: float, theta: float) -> float:
    """The θ_s of the static baseline (CG), from (1+ε)(1+θ_s)² - 1 = θ.

    >>> round(drift_share(0.05, 0.25), 6)
    0.091089
    """
    _check_errors(epsilon, theta, strict=True)
    return math.sqrt((1 + theta) / (1 + epsilon)) - 1


def must_flush(moved: float, own: float, share: float, sites: int) -> bool:
    """Whether a site of the static baseline must send its drift: |Δ_j| > θ_s/sqrt(k) |v_j|, by norms of its sketches.

    >>> must_flush(moved=3.0, own=100.0, share=0.09, sites=16)
    True
    """
    return moved > share / math.sqrt(sites) * own


def _relative(value: float, epsilon: float, theta: float) -> tuple[float, float]:
    shrunk, grown = (1 + epsilon) * value / (1 + theta), (1 - epsilon) * value / (1 - theta)
    return (shrunk, grown) if value >= 0 else (grown, shrunk)


def _check_errors(epsilon: float, theta: float, *, strict: bool) -> None:
    if not (0 <= epsilon < 1 and 0 <= theta < 1):
        raise ParameterError(f"epsilon={epsilon!r}, theta={theta!r}", "give numbers from 0 to below 1")
    if theta < epsilon or (strict and theta == epsilon):
        raise ParameterError(
            f"theta={theta!r} with a sketch of epsilon={epsilon!r}",
            "the whole error must be larger than the sketch's: raise theta, or take a wider sketch",
        )


def _check_finite(value: float) -> None:
    if not math.isfinite(value):
        raise ParameterError(f"the value {value!r}", "give a finite number")
