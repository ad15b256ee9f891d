"""Linear forms: exact on both sides, one or many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from catchment.errors import ParameterError
from catchment.monitor.zones.linear import LinearZone
from tests.monitor.zones.zone_cases import of_each


def test_the_slack_is_negative_exactly_outside_and_its_size_is_the_distance() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        e, a = rng.normal(size=(2, 4))
        value = float(a @ e)
        zone = LinearZone(value - 1, value + 2, e, a)
        drifts = rng.normal(size=(200, 4)) * 2
        slacks = of_each(zone.slack, (drifts,))
        values = (e + drifts) @ a
        assert np.array_equal(slacks >= 0, (values >= value - 1) & (values <= value + 2))
        np.testing.assert_allclose(slacks * np.linalg.norm(a), np.minimum(value + 2 - values, values - value + 1))


def test_each_count_by_itself_with_its_own_thresholds() -> None:
    zone = LinearZone([0.0, -math.inf], [math.inf, 9.0], [1.0, 5.0])
    assert zone.at_zero == 1.0
    assert zone.slack(np.array([100.0, -100.0])) == 101.0
    assert zone.slack(np.array([0.5, 4.0]), scale=2.0) == -4.0
    assert zone.slack(np.array([0.5, 4.0]), scale=1.0, share=0.5) == 0.5 * -4.0


def test_on_a_threshold_there_is_no_room_but_no_harm() -> None:
    assert LinearZone(0.0, 5.0, [0.0]).at_zero == 0.0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0.0, 1.0, [5.0]), "outside"),
        ((-math.inf, math.inf, [5.0]), "no threshold"),
        ((0.0, 9.0, []), "shape"),
        ((0.0, 9.0, [[1.0]]), "shape"),
        ((0.0, 9.0, [1.0, 2.0], [1.0]), "for 2 counts"),
        ((0.0, 9.0, [1.0, 2.0], [0.0, 0.0]), "not zero"),
        ((0.0, 9.0, [math.nan]), "outside"),
    ],
)
def test_what_makes_no_zone_is_refused(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        LinearZone(*arguments)
