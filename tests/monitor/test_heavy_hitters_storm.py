"""Heavy hitters under faults: no claim is ever false at its cut, and in calm weather they catch up with the streams."""

from __future__ import annotations

import pytest

from catchment.monitor.heavy_hitters import Mark
from tests.monitor.heavy_hitter_storm import Storm


@pytest.mark.parametrize("window", [None, 200])
@pytest.mark.parametrize("first", [0, 50])
def test_claims_are_true_at_their_cut_after_every_step(first: int, window: int | None) -> None:
    completed = 0
    for seed in range(first, first + 50):
        storm = Storm(seed, window=window)
        for _ in range(120):
            storm.step()
        completed += storm.completed
        storm.calm()
        last = storm.coordinator.complete
        assert last is not None
        assert {name: mark.position for name, mark in last.cut.items()} == {
            name: len(keys) for name, keys in storm.keys.items()
        }
        assert storm.coordinator.claim.complete
        assert all(isinstance(mark, Mark) for mark in last.cut.values())
    assert completed > 100
