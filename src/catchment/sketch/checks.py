"""What every sketch asks of its parameters, weights and values, with one wording of the refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, ParameterError, WeightError

__all__ = [
    "MASS_LIMIT",
    "SMALLEST_FRACTION",
    "are_ones",
    "as_integers",
    "as_weights",
    "check_choice",
    "check_fraction",
    "check_mass",
    "check_total",
    "check_whole",
    "read_mass",
]

I64 = NDArray[np.int64]

SMALLEST_FRACTION = 1e-12

MASS_LIMIT = 2**62
"""No total of weights may pass this, so that no counter of int64 can overflow, even doubled."""


def check_fraction(name: str, value: float) -> float:
    """A number between 0 and 1, both left out, and not so small that floating point loses 1 - value."""
    if not (isinstance(value, (int, float, np.floating)) and SMALLEST_FRACTION <= value < 1):
        raise ParameterError(f"{name}={value!r}", f"give a number from {SMALLEST_FRACTION} to below 1, such as 0.01")
    return float(value)


def check_whole(name: str, value: int, low: int, high: int) -> int:
    """An integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise ParameterError(
            f"{name}={value!r}",
            f"give an integer from {low} to {high}, or a larger epsilon or delta where they chose it",
        )
    return int(value)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ParameterError(f"{name}={value!r}", f"give one of {', '.join(map(repr, choices))}")
    return value


def as_integers(name: str, values: Any, count: int) -> I64:
    """One int64 for each of `count` keys; a single one is repeated."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise WeightError(f"{name} of uneven shape", "give one for each key, or a single one") from None
    if np.ma.is_masked(values):
        raise WeightError(f"{name} that are masked", "leave them out with their keys, or fill them")
    if array.dtype.kind not in "iu" and array.size:
        raise WeightError(
            f"{name} of type {array.dtype}", "give integers; scale fractions, for instance to microseconds"
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) >= MASS_LIMIT:
        raise WeightError(f"{name} up to {array.max()}", f"keep each below 2^62 = {MASS_LIMIT}")
    if array.ndim == 0:
        return np.full(count, array, dtype=np.int64)
    if array.shape != (count,):
        raise WeightError(f"{name} of shape {array.shape} for {count} keys", "give one for each key, or a single one")
    return np.ascontiguousarray(array, dtype=np.int64)


def are_ones(weights: Any) -> bool:
    """Whether every event counts once, the default and the fast path."""
    return type(weights) is int and weights == 1


def as_weights(weights: Any, count: int, *, signed: bool = False) -> I64:
    """One weight for each key; negative ones only where the sketch can take things back."""
    array = as_integers("weights", weights, count)
    if not signed and array.size and int(array.min()) < 0:
        raise WeightError(f"the weight {array.min()} is negative", "this sketch cannot take events back; FastAMS can")
    return array


def read_mass(mass: int) -> int:
    """A total out of bytes, refused where no sketch could have written it."""
    if not 0 <= mass < MASS_LIMIT:
        raise DamagedBytesError(f"a total of {mass}")
    return mass


def check_total(name: str, total: int) -> int:
    """A total of weights, refused when it reaches the limit."""
    if total >= MASS_LIMIT:
        raise WeightError(
            f"{name} would bring the total to {total:.4g}",
            f"keep it below 2^62 = {MASS_LIMIT}, for instance by a coarser unit",
        )
    return total


def check_mass(name: str, before: int, added: I64, repeats: I64 | None = None) -> int:
    """`before` plus the sum of |added|, each as often as `repeats` says, or `WeightError` when that is too much."""
    times = np.ones(1, dtype=np.int64) if repeats is None else repeats
    roughly = before + float((np.abs(added.astype(np.float64)) * times).sum())
    if roughly > 1.5 * MASS_LIMIT:  # too much for the exact sum below, which could wrap around
        return check_total(name, int(roughly))
    return check_total(name, before + int((np.abs(added) * times).sum()))
