"""Items on a bad network: every set is true at its cut, comes back after the faults, and planted faults are caught."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import SimulationError
from catchment.monitor.items import Items
from catchment.monitor.items.bands import Bands
from catchment.monitor.items.held import Held
from catchment.monitor.items.post import ItemsPost
from catchment.monitor.items.table import ItemTable
from catchment.testing.items_world import build_items_world
from catchment.testing.simulation import replay, simulate
from catchment.testing.worlds import build_world
from tests.amounts import one_in

SEEDS = 300
PARTS = 10


@pytest.mark.parametrize("part", one_in(10, range(PARTS), "worlds"))
def test_no_set_is_false_and_all_come_back(part: int) -> None:
    seeds = range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    outcome = simulate(build_items_world, seeds, jobs=1)
    outcome.raise_failure()
    assert outcome.claims > 20 * len(seeds)
    for fault in ("loss", "duplicate", "reorder", "clog", "cut", "crash", "skew", "jump", "join"):
        assert outcome.struck[fault], f"no {fault} in these seeds"


def test_a_seed_replays_exactly_and_one_in_five_is_of_items() -> None:
    one, other = replay(build_items_world, 4), replay(build_world, 4)
    assert one.trace_hash == other.trace_hash
    assert one.trace_hash != replay(build_world, 3).trace_hash


def _caught(words: str, window: int | None = None, *, threshold: int = 60, seeds: int = 40) -> None:
    watch = Items(threshold=threshold, theta=0.3, window=window)
    outcome = simulate(partial(build_items_world, watch=watch), range(seeds), jobs=1)
    with pytest.raises(SimulationError, match=words):
        outcome.raise_failure()


def test_bands_that_are_too_wide_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = Items.widths

    def wider(self: Items, lows: NDArray[np.int64], sites: int) -> NDArray[np.int64]:
        return 2 * widths(self, lows, sites)

    monkeypatch.setattr("catchment.monitor.items.bands.Items.widths", wider)
    _caught("is claimed", threshold=200)


def test_expiries_that_are_not_noticed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ItemTable, "_expire", lambda self, edge: super(ItemTable, self)._expire(edge))
    _caught("is claimed", window=1000)


def test_a_position_that_moves_before_the_list_is_told_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    look = ItemsPost.look

    def hasty(self: ItemsPost, now: int) -> None:
        look(self, now)
        self._cut = self._site.position, self._site.time

    monkeypatch.setattr(ItemsPost, "look", hasty)
    _caught("claimed")


def test_a_site_that_tells_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bands, "fit", True)
    _caught("is not claimed")


def test_a_list_that_is_added_to_another_life_of_its_site_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Held, "_clear", lambda self: None if hasattr(self, "lows") else _cleared(self))
    _caught("claimed", window=1000)


def _cleared(held: Held) -> None:
    held.hashes, held.lows, held.names = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), []
