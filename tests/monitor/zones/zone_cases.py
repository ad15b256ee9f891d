"""Zones to try, each with the truth that it is to guard, by brute force on whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.zones.inner_product import InnerProductZone
from catchment.monitor.zones.linear import LinearZone
from catchment.monitor.zones.self_join import SelfJoinZone

F64 = NDArray[np.float64]
Rng = np.random.Generator


def of_each(slack: Callable[..., float], measures: tuple[F64, ...], scale: float = 1.0, share: float = 1.0) -> F64:
    """The slacks of many drifts, each given by a row of every array."""
    return np.array([slack(*one, scale, share) for one in zip(*measures, strict=True)])


def self_join_zone(low: float, high: float, rows: NDArray[Any], **settings: Any) -> SelfJoinZone:
    """The zone of a reference given as its rows, an array of shape (depth, width)."""
    return SelfJoinZone(low, high, np.linalg.norm(rows, axis=1), **settings)


def product_zone(
    low: float, high: float, first: NDArray[Any], second: NDArray[Any], **settings: Any
) -> InnerProductZone:
    """The zone of two references given as their rows."""
    norms = (np.linalg.norm(part, axis=1) for part in (first + second, first - second))
    return InnerProductZone(low, high, *norms, **settings)


@dataclass
class Case:
    """A zone about a reference; drifts are arrays of shape (n, *reference.shape)."""

    reference: F64
    slacks: Callable[[F64, float, float], F64]
    """Of drifts, a scale and a share."""
    at_zero: float
    outside: Callable[[F64], F64]
    """By how much the estimates of vectors are out of their thresholds, relatively; at most 0 within."""

    def drifts(self, rng: Rng, count: int) -> F64:
        """Noise, steps along and against the reference, and single rows, of many sizes."""
        shape = (count, *self.reference.shape)
        parts = (count, *self.reference.shape[:-1], 1)
        along = rng.normal(size=parts) * (rng.random(parts) < 0.6) * self.reference
        sizes = rng.exponential(2.0 * (1 + np.abs(self.reference).mean()), (count, *[1] * (len(shape) - 1)))
        noise = rng.normal(size=shape) * (rng.random(parts) < 0.6) * sizes
        return np.asarray(along + noise)


def self_join(
    rng: Rng, depth: int, *, rule: str = "median", near: bool = False, cheap: bool = False, side: str = "both"
) -> Case:
    reference = rng.normal(size=(depth, 5)) * rng.exponential(3.0) * rng.exponential(1.0, (depth, 1))
    rows = (reference**2).sum(axis=1)
    estimate = float(np.median(rows) if rule == "median" else rows.min())
    low = estimate * rng.uniform(0.05, 0.98) if side != "upper" else -np.inf
    high = estimate * rng.uniform(1.02, 3.0) if side != "lower" else np.inf
    zone = self_join_zone(low, high, reference, rule=rule, cheap=cheap)

    def slacks(drifts: F64, scale: float, share: float) -> F64:
        norms2, dots = (drifts**2).sum(axis=-1), (drifts * reference).sum(axis=-1)
        if near:
            return of_each(zone.near_slack, (norms2,), scale, share)
        return of_each(zone.slack, (norms2, dots), scale, share)

    def outside(vectors: F64) -> F64:
        squares = (vectors**2).sum(axis=-1)
        found = np.median(squares, axis=-1) if rule == "median" else squares.min(axis=-1)
        return np.asarray(np.maximum(found - high, low - found) / estimate)

    return Case(reference, slacks, zone.at_zero, outside)


def inner_product(
    rng: Rng, depth: int, *, sign: int = 1, cheap: bool = False, side: str = "both", rule: str = "median"
) -> Case:
    """`sign` is that of both thresholds; 0 has a lower one of 0 or an upper one of 0."""
    first = rng.normal(size=(depth, 4)) * rng.exponential(2.0)
    second = sign * rng.exponential(1.0) * first + rng.normal(size=(depth, 4)) * rng.exponential(1.0)
    if sign == 0:
        second += rng.choice([-1.0, 1.0]) * first
    reference = np.stack([first, second])
    of_rows: Any = np.median if rule == "median" else np.min
    estimate = float(of_rows((first * second).sum(axis=1)))
    size = float(np.median(np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)))
    low, high = estimate - rng.uniform(0.02, 1.0) * size, estimate + rng.uniform(0.02, 1.0) * size
    if sign == 0:
        low, high = (0.0, high) if estimate > 0 else (low, 0.0)
    low, high = (low if side != "upper" else -np.inf), (high if side != "lower" else np.inf)
    zone = product_zone(low, high, first, second, rule=rule, cheap=cheap)
    sums, differences = first + second, first - second

    def slacks(drifts: F64, scale: float, share: float) -> F64:
        x, y = drifts[:, 0] + drifts[:, 1], drifts[:, 0] - drifts[:, 1]
        of_sum = (x**2).sum(axis=-1), (x * sums).sum(axis=-1)
        of_difference = (y**2).sum(axis=-1), (y * differences).sum(axis=-1)
        return of_each(zone.slack, (*of_sum, *of_difference), scale, share)

    def outside(vectors: F64) -> F64:
        found = of_rows((vectors[:, 0] * vectors[:, 1]).sum(axis=-1), axis=-1)
        return np.asarray(np.maximum(found - high, low - found) / size)

    return Case(reference, slacks, zone.at_zero, outside)


def linear(rng: Rng, depth: int) -> Case:
    """`depth` forms of six counts."""
    reference, forms = rng.normal(size=6) * 10, rng.normal(size=(depth, 6))
    values = forms @ reference
    low, high = values - rng.exponential(5.0, depth), values + rng.exponential(5.0, depth)
    zone = LinearZone(low, high, reference, forms)

    def outside(vectors: F64) -> F64:
        found = vectors @ forms.T
        return np.asarray(np.maximum(found - high, low - found).max(axis=1))

    return Case(reference, lambda d, scale, share: of_each(zone.slack, (d,), scale, share), zone.at_zero, outside)


def _self_joins() -> dict[str, tuple[Any, dict[str, Any]]]:
    kinds = {"full": {}, "near": {"near": True}, "cheap": {"cheap": True}}
    return {
        f"self-join {rule} {side} {kind}": (self_join, {"rule": rule, "side": side, **settings})
        for rule in ("median", "minimum")
        for side in ("both", "upper", "lower")
        for kind, settings in kinds.items()
    }


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    **_self_joins(),
    **{
        f"inner product {sign:+d} {side}": (inner_product, {"sign": sign, "side": side})
        for sign, side in (
            (-1, "both"),
            (-1, "upper"),
            (-1, "lower"),
            (0, "both"),
            (1, "both"),
            (1, "upper"),
            (1, "lower"),
        )
    },
    **{
        f"inner product minimum {side}": (inner_product, {"side": side, "rule": "minimum"})
        for side in ("both", "upper", "lower")
    },
    "inner product cheap": (inner_product, {"cheap": True}),
    "linear": (linear, {}),
}

DEPTHS = (1, 3, 5, 7, 9)


def build(name: str, depth: int, rng: Rng) -> Case:
    make, settings = CASES[name]
    return make(rng, depth, **settings)  # type: ignore[no-any-return]


def largest_steps(total: Callable[[F64], F64], count: int, reach: float = 1e3) -> F64:
    """For each of `count` rays nearly the t at which a concave `total(t)`, positive at 0, is 0; at most `reach`.

    Never beyond it: a chord of a concave function crosses 0 before the function does.
    """
    low, high = np.zeros(count), np.full(count, reach)
    at_low, at_high = total(low), total(high)
    for step in range(36):
        chord = low + (high - low) * at_low / np.maximum(at_low - at_high, 1e-300)
        middle = np.where(low > 0, np.sqrt(low * high), 1e-3 * high)
        t = np.where(at_high >= 0, high, middle if step % 2 else np.clip(chord, low, high))
        found = total(t)
        good = found >= 0
        low, at_low = np.where(good, t, low), np.where(good, found, at_low)
        high, at_high = np.where(good, high, t), np.where(good, at_high, found)
    return low
