"""How much of a random test runs each time, and how much in the long tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from catchment.testing import chance_to_notice

__all__ = ["fewer", "one_in", "trials_at"]


def fewer(name: str, few: int, many: int, part: str = "trials") -> pytest.MarkDecorator:
    """The parameter `name`, which is `few` each time and `many` in the long tests."""
    return pytest.mark.parametrize(name, [few, pytest.param(many, marks=pytest.mark.long(part))])


def one_in(number: int, cases: Iterable[Any], part: str) -> list[Any]:
    """Cases of a parameter, or tuples of several: one in so many each time, the others in the long tests."""
    later = pytest.mark.long(part)
    return [
        case if place % number == 0 else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=later)
        for place, case in enumerate(cases)
    ]


def trials_at(*each_time: tuple[int, float], long: tuple[int, float]) -> pytest.MarkDecorator:
    """The parameters `trials` and `delta`: each time, and in the long tests.

    Either way a bound that fails twice as often as it may must be noticed 95 times in 100. That takes the fewer trials
    the larger delta is, so a short test asks for a large one.
    """
    for trials, delta in (*each_time, long):
        assert chance_to_notice(trials, delta) >= 0.95, f"{trials} trials are too few for delta={delta}"
    return pytest.mark.parametrize(
        ("trials", "delta"), [*each_time, pytest.param(*long, marks=pytest.mark.long("trials"))]
    )
