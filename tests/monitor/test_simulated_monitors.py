"""Monitors on a bad network: every claim is true at its cut, and after the faults all is claimed of now again."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import product

import pytest

from catchment.errors import SimulationError
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.quantities import InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.query import Query
from catchment.monitor.rules.balance import BalanceGuard
from catchment.monitor.rules.base import Steersman
from catchment.monitor.rules.countdown import CountdownGuard
from catchment.monitor.rules.push import PushGuard, PushSteersman
from catchment.monitor.vectors import Drift
from catchment.monitor.watch import Watch
from catchment.testing.heavy_world import build_heavy_world
from catchment.testing.items_world import build_items_world
from catchment.testing.monitor_world import MonitorWorld, build_monitor_world
from catchment.testing.simulation import BuildWorld, replay, simulate
from tests.amounts import one_in

SEEDS = 500
PARTS = 10


@pytest.mark.parametrize("part", one_in(10, range(PARTS), "worlds"))
def test_no_claim_is_false_and_all_come_back(part: int) -> None:
    seeds = range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    outcome = simulate(build_monitor_world, seeds, jobs=1)
    outcome.raise_failure()
    assert outcome.claims > 20 * len(seeds)
    for fault in ("loss", "duplicate", "reorder", "clog", "cut", "crash", "skew", "jump", "join"):
        assert outcome.struck[fault], f"no {fault} in these seeds"


@pytest.mark.parametrize("part", one_in(3, range(3), "worlds"))
@pytest.mark.parametrize("rule", ["auto", "push", "full"])
def test_products_and_ranges_in_windows_hold_too(rule: str, part: int) -> None:
    product = InnerProduct(theta=0.6, epsilon=0.4, delta=0.4, window=2000, rule=rule)
    ranged = RangeSum(keys=(1, 2, 3), factors=(1, 2, 5), theta=0.3, epsilon=0.05, window=2000)
    for watch in (product, ranged):
        outcome = simulate(partial(build_monitor_world, watch=watch), range(10 * part, 10 * part + 10), jobs=1)
        outcome.raise_failure()
        assert outcome.claims > 100


@pytest.mark.parametrize(("quantity", "part"), one_in(4, product([SelfJoin, InnerProduct], range(2)), "worlds"))
def test_the_baseline_of_the_paper_holds_too(quantity: type[Watch], part: int) -> None:
    """CG, which no random watch of the seeds above has."""
    watch = quantity(theta=0.3, epsilon=0.1, delta=0.4, rule="relative")
    outcome = simulate(partial(build_monitor_world, watch=watch), range(100 * part, 100 * part + 100), jobs=1)
    outcome.raise_failure()
    assert outcome.claims > 2000
    for fault in ("loss", "partition", "crash", "rollback", "skew", "join"):
        assert outcome.struck[fault], f"no {fault} in these seeds"


def test_all_that_a_coordinator_may_decide_happens_in_these_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules are chosen anew when a push has settled, change, and come back; and zones are kept for another round."""
    made: Counter[str] = Counter()
    settled, zone, kept = PushSteersman._has_settled, Query._new_zone, Query._kept_zone

    def count_settled(self: PushSteersman) -> bool:
        made["settled"] += settled(self)
        return settled(self)

    def count_changes(self: Query) -> Steersman:
        before, chosen = self.rule_name, zone(self)
        made["other rule" if before == "push" else "push again"] += before not in ("", chosen.name)
        return chosen

    def count_kept(self: Query) -> Steersman | None:
        found = kept(self)
        made["kept"] += found is not None
        return found

    monkeypatch.setattr(PushSteersman, "_has_settled", count_settled)
    monkeypatch.setattr(Query, "_new_zone", count_changes)
    monkeypatch.setattr(Query, "_kept_zone", count_kept)
    for seed in range(120):
        if MonitorWorld(seed).watch.rule in ("auto", "full"):
            simulate(build_monitor_world, range(seed, seed + 1), jobs=1).raise_failure()
    assert min(made[name] for name in ("settled", "other rule", "push again", "kept")) >= 2, made


@pytest.mark.parametrize("build", [build_monitor_world, build_items_world, build_heavy_world])
def test_lives_that_do_not_rise_learn_of_later_ones(build: BuildWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rise, risen = Coordinator._rise_above, []

    def counted(self: Coordinator, epoch: int, now: int) -> None:
        risen.append(epoch)
        rise(self, epoch, now)

    monkeypatch.setattr(Coordinator, "_rise_above", counted)
    monkeypatch.setattr("catchment.testing.lives._SHARE", 1.0)
    outcome = simulate(build, range(16), jobs=1)
    outcome.raise_failure()
    assert risen
    assert outcome.struck["rollback"]


def test_a_number_that_two_lives_have_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.testing.lives._SHARE", 1.0)
    monkeypatch.setattr("catchment.monitor.coordinator._epoch_of", lambda life, kept: max(life, kept + 1))
    build = partial(build_monitor_world, watch=Total(theta=0.1, rule="near"))
    simulate(build, range(40), jobs=1).raise_failure()
    monkeypatch.setattr(Query, "was_told_more", lambda *_: False)
    with pytest.raises(SimulationError, match="not settled"):
        simulate(build, range(40), jobs=1).raise_failure()


def test_a_seed_replays_exactly() -> None:
    one, other = replay(build_monitor_world, 7), replay(build_monitor_world, 7)
    assert one.trace_hash == other.trace_hash
    assert one.trace_hash != replay(build_monitor_world, 8).trace_hash


def _caught(watch: Watch, seeds: int = 40) -> None:
    outcome = simulate(partial(build_monitor_world, watch=watch), range(seeds), jobs=1)
    with pytest.raises(SimulationError, match="is claimed"):
        outcome.raise_failure()


def test_a_site_that_counts_down_too_little_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    look = CountdownGuard.look
    monkeypatch.setattr(CountdownGuard, "look", lambda self: look(self) // 3)
    _caught(Total(theta=0.1, rule="near"))


def test_a_site_that_does_not_push_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PushGuard, "must_flush", lambda _: False)
    _caught(Total(theta=0.1, rule="push"))


def test_a_budget_that_is_forgotten_while_a_site_may_use_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    watches: dict[int, Watch] = {
        12: Total(theta=0.6, epsilon=0.1, window=500, rule="push"),
        16: SelfJoin(theta=0.6, epsilon=0.3, delta=0.4, window=500, rule="push"),
    }
    for seed, watch in watches.items():  # worlds in which a budget that is in use forbids a claim
        simulate(partial(build_monitor_world, watch=watch), range(seed, seed + 1), jobs=1).raise_failure()
    monkeypatch.setattr(PushSteersman, "_largest_out", lambda self, _: self._now)
    for watch in watches.values():
        _caught(watch)


def test_a_site_that_does_not_see_that_it_is_outside_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BalanceGuard, "look", lambda _: 0)
    _caught(SelfJoin(theta=0.6, epsilon=0.4, delta=0.4, rule="eager"))


def test_falls_that_are_not_seen_where_all_is_claimed_to_rise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drift, "fell", False)
    for rule in ("push", "near"):
        _caught(SelfJoin(theta=0.6, epsilon=0.4, delta=0.4, rule=rule))


def test_a_claim_that_is_moved_without_proof_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def move(self: Query) -> None:
        rule = self._rule
        assert rule is not None
        monkeypatch.setattr(type(rule), "proven", lambda *_: True)
        original(self)

    original = Query._move
    monkeypatch.setattr(Query, "_move", move)
    _caught(Total(theta=0.1, rule="near"))
