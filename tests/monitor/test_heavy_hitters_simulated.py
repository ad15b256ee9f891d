"""Heavy hitters on a bad network: no claim is false at its cut, all come back, and planted faults are caught."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from catchment.errors import SimulationError
from catchment.monitor.heavy_hitters import HeavyHitters
from catchment.monitor.heavy_hitters.history import History
from catchment.monitor.heavy_hitters.messages import HeavyReport
from catchment.monitor.heavy_hitters.post import HeavyPost
from catchment.monitor.heavy_hitters.query import HeavyQuery, _List
from catchment.monitor.heavy_hitters.recent import Recent
from catchment.testing.heavy_world import build_heavy_world
from catchment.testing.simulation import replay, simulate
from catchment.testing.worlds import build_world
from tests.amounts import one_in

SEEDS = 100
PARTS = 5


@pytest.mark.parametrize("part", one_in(5, range(PARTS), "worlds"))
def test_no_claim_is_false_and_all_come_back(part: int) -> None:
    seeds = range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    outcome = simulate(build_heavy_world, seeds, jobs=1)
    outcome.raise_failure()
    assert outcome.claims > 40 * len(seeds)
    for fault in ("loss", "duplicate", "reorder", "clog", "cut", "crash", "skew", "jump", "join"):
        assert outcome.struck[fault], f"no {fault} in these seeds"


def test_a_seed_replays_exactly_and_one_in_ten_is_of_heavy_hitters() -> None:
    one, other = replay(build_heavy_world, 7), replay(build_world, 7)
    assert one.trace_hash == other.trace_hash
    assert one.trace_hash != replay(build_world, 17).trace_hash


def _caught(words: str, *, window: int | None = None, phi: float = 0.07, seeds: int = 40) -> None:
    watch = HeavyHitters(phi=phi, epsilon=0.5, window=window, panes=4)
    outcome = simulate(partial(build_heavy_world, watch=watch), range(seeds), jobs=1)
    with pytest.raises(SimulationError, match=words):
        outcome.raise_failure()


def test_candidates_that_are_not_told_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "candidates", {})
    _caught("is not claimed")


def test_counts_that_are_too_low_where_nobody_told_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeavyHitters, "most_unnoticed", lambda _self, _total: 0)
    _caught("claimed", phi=0.2)


def test_panes_that_never_leave_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(self: Recent, newest: int) -> None:
        if self._newest is None or newest > self._newest:
            self._newest, self.time = newest, (newest + 1) * self._watch.pane
            self._older = self._names = None

    monkeypatch.setattr(Recent, "_move", grow)
    _caught("events", window=500)


def test_answers_to_lists_of_another_life_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_list(self: HeavyQuery, report: HeavyReport) -> _List:
        found = self._lists.get(report.asked)
        return _List((), np.zeros(0, dtype=np.uint64), frozenset()) if found is None else found

    def careless(self: HeavyQuery, report: HeavyReport, listed: _List) -> object:
        size = listed.hashes.size + len(report.named())
        counts = (*report.counts, *[0] * size)[:size]
        onsets = (0,) * sum(hash_ in (listed.heavy or ()) for hash_ in listed.hashes.tolist())
        return opened(self, replace(report, counts=counts, onsets=onsets), listed)

    opened = HeavyQuery._opened
    monkeypatch.setattr(HeavyQuery, "_list_of", any_list)
    monkeypatch.setattr(HeavyQuery, "_opened", careless)
    _caught("claimed")


def test_a_position_that_is_ahead_of_the_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    report = HeavyPost._report

    def hasty(self: HeavyPost) -> HeavyReport:
        said = report(self)
        return replace(said, position=said.position + 1)

    monkeypatch.setattr(HeavyPost, "_report", hasty)
    _caught("events")
