"""The harness lets what is right pass, and catches what is wrong, in ours and in others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tests.testing.broken_adapters as adapters
from catchment.errors import NameNotFoundError, PackageMissingError, ParameterError
from catchment.testing.merge_check import (
    OURS,
    SCENARIOS,
    TREES,
    Claims,
    Outcome,
    WindowCounterAdapter,
    is_ours,
    load_adapter,
    merge_check,
    pooled,
)
from catchment.testing.merge_check.peer_sketch_oxide import SketchOxideHistogram

KNOWS_ALL = Claims(window=100, lateness=60, negative_times=True)


def violations(adapter: WindowCounterAdapter, scenario: str, sites: int = 3, trials: int = 4) -> int:
    (outcome,) = merge_check(adapter, sites=[sites], scenarios=[scenario], trials=trials)
    return outcome.violations


# -- scenes and trees -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("sites", [1, 5, 256])
def test_a_scene_has_all_sites_and_events_no_later_than_claimed(name: str, sites: int) -> None:
    scene = SCENARIOS[name].make(np.random.default_rng(3), sites, KNOWS_ALL)
    assert len(scene.sites) == sites
    assert len(scene.events()) > 100
    delays = [np.maximum.accumulate(stream.times) - stream.times for stream in scene.sites if len(stream)]
    longest = max(int(delay.max()) for delay in delays)
    assert longest <= (KNOWS_ALL.lateness if name == "late" else 0)
    assert (name == "before-zero") == bool(scene.events().times.min() < 0)


def test_scenes_are_as_mean_as_they_say() -> None:
    rng = np.random.default_rng(5)
    made = {name: scenario.make(rng, 12, KNOWS_ALL) for name, scenario in SCENARIOS.items()}
    sizes = {name: [len(stream) for stream in scene.sites] for name, scene in made.items()}
    assert max(sizes["skewed"]) > 0.9 * sum(sizes["skewed"])
    assert 0 in sizes["silent"]
    assert np.unique(made["ties"].events().times).size < 40
    assert np.ptp(made["long-silence"].events().times) > 2**32
    assert len(made["continued"].after) > 0
    starts = [int(stream.times[0]) for stream in made["clock-skew"].sites]
    assert max(starts) - min(starts) > KNOWS_ALL.window // 4
    gaps = np.bincount(np.sort(made["bursty"].events().times) // 2)
    assert gaps.max() > 5 * np.bincount(np.sort(made["steady"].events().times) // 2).max()
    late = np.concatenate([np.diff(stream.times) for stream in made["late"].sites])
    assert (late < 0).any()


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("sites", [1, 2, 9, 256])
def test_a_tree_takes_every_site_once_and_is_as_high_as_it_should_be(shape: str, sites: int) -> None:
    leaves = [(0, (site,)) for site in range(sites)]

    def merge(parts: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[int, tuple[int, ...]]:
        assert len(parts) > 1
        return 1 + max(height for height, _ in parts), sum((sites for _, sites in parts), ())

    height, taken = TREES[shape](leaves, merge, np.random.default_rng(1))
    assert sorted(taken) == list(range(sites))
    high = {"flat": min(1, sites - 1), "binary": (sites - 1).bit_length(), "chain": min(8, sites - 1)}
    assert height == high.get(shape, height)


# -- right and wrong adapters ---------------------------------------------------------------------------------


def test_a_right_adapter_passes_every_scenario_without_a_violation() -> None:
    outcomes = merge_check(adapters.Remembers(), sites=[1, 4], trials=2)
    assert {outcome.scenario for outcome in outcomes} == set(SCENARIOS)
    assert all(outcome.holds and outcome.questions >= 50 for outcome in outcomes)
    whole = pooled(outcomes)
    assert (whole.violations, whole.largest_error, whole.width_over_error) == (0, 0, None)


def test_a_bound_that_is_too_narrow_is_caught_and_its_error_measured() -> None:
    (outcome,) = merge_check(adapters.TooNarrow(), sites=[1], scenarios=["steady"], trials=2)
    assert outcome.surely == outcome.violations > outcome.questions // 3
    assert not outcome.holds
    assert outcome.largest_error == pytest.approx(0.1)
    assert outcome.first is not None
    assert "not in [" in str(outcome.first)


def test_a_merge_that_loses_is_caught_and_only_when_there_is_one() -> None:
    assert violations(adapters.HalvesByConcatenation(), "steady", sites=1) == 0
    assert violations(adapters.HalvesByConcatenation(), "steady", sites=4) > 10


def test_ignoring_lateness_is_caught_by_late_events_alone() -> None:
    assert violations(adapters.IgnoresLateness(), "steady", sites=1) == 0
    assert violations(adapters.IgnoresLateness(), "late", sites=1) > 10


def test_an_edge_off_by_one_is_caught_by_ties_unless_either_is_accepted() -> None:
    assert violations(adapters.ClosedWindow(), "ties") > 10
    assert violations(adapters.EitherWindow(), "ties") == 0


def test_a_refusal_is_counted_and_is_no_violation() -> None:
    (outcome,) = merge_check(adapters.Refuses(), sites=[5], scenarios=["steady"], trials=8)
    assert 0 < outcome.refused < outcome.trials == 8
    assert outcome.violations == 0
    assert outcome.holds


def test_a_claimed_delta_is_allowed_its_failures_and_no_more() -> None:
    kept, broken = (
        pooled(merge_check(adapter, sites=[1], trials=20))
        for adapter in (adapters.Gambles(), adapters.GamblesTooOften())
    )
    assert 0 < kept.violations <= kept.allowed < broken.violations
    assert kept.holds
    assert not broken.holds
    above = pooled(merge_check(adapters.FailsAbove(), sites=[1], trials=10))
    assert above.violations <= above.allowed
    assert above.surely > 0
    assert not above.holds


def test_what_is_not_claimed_is_not_asked() -> None:
    class WholeWindow(adapters.Remembers):
        claims = Claims(window=100, keys=False, ranges=False, past=False)

        def estimate(self, state: adapters.State, key: int | None, last: int, now: int) -> tuple[float, float, float]:
            assert key is None
            assert last == 100
            assert now >= max(at for _, at in state)
            return super().estimate(state, key, last, now)

    outcomes = merge_check(WholeWindow(), sites=[2], trials=2)
    assert {outcome.scenario for outcome in outcomes} == set(SCENARIOS) - {"late", "before-zero"}
    assert pooled(outcomes).violations == 0


def test_a_seed_gives_one_result_and_another_gives_another() -> None:
    one, again, other = (merge_check(load_adapter("wave"), sites=[3], trials=2, seed=seed) for seed in (4, 4, 5))
    assert one == again
    assert one != other


def test_parameters_that_make_no_sense_are_refused() -> None:
    wrongs: list[dict[str, Any]] = [{"trials": 0}, {"sites": []}, {"sites": [0]}]
    for wrong in wrongs:
        with pytest.raises(ParameterError):
            merge_check(adapters.Remembers(), **wrong)
    with pytest.raises(NameNotFoundError, match="steady"):
        merge_check(adapters.Remembers(), scenarios=["stormy"])
    claimed: list[dict[str, Any]] = [{"window": 0}, {"window": 5, "delta": 1.0}, {"window": 5, "lateness": 6}]
    for claims in claimed:
        with pytest.raises(ParameterError, match="claims"):
            Claims(**claims)
    with pytest.raises(ParameterError, match="neither"):
        Claims(window=5, keys=False, totals=False)


def test_an_outcome_without_an_answer_allows_nothing_and_holds() -> None:
    outcome = Outcome("x", "steady", 4, 0.1, trials=3, refused=3)
    assert (outcome.allowed, outcome.rate, outcome.mean_error, outcome.holds) == (0, 0, 0, True)


# -- ours -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_our_claims_hold_after_merging(name: str) -> None:
    adapter = load_adapter(name)
    assert is_ours(adapter)
    outcomes = merge_check(adapter, sites=[1, 5], trials=1, seed=11)
    assert {outcome.scenario for outcome in outcomes} == set(SCENARIOS)
    assert all(outcome.holds for outcome in outcomes), [outcome.first for outcome in outcomes]
    whole = pooled(outcomes)
    assert whole.holds
    assert whole.refused <= whole.trials // 4


def test_deep_trees_are_refused_by_a_small_wave_and_stood_by_one_made_for_them() -> None:
    small, made_for_it = (
        pooled(merge_check(load_adapter(name), sites=[24], scenarios=["steady"], trials=4))
        for name in ("ecm-eh", "ecm-wave-for-tree")
    )
    assert 0 < small.refused < small.trials
    assert made_for_it.refused == 0
    assert small.holds
    assert made_for_it.holds


# -- others ---------------------------------------------------------------------------------------------------


def test_the_merge_of_sketch_oxide_leaves_its_interval() -> None:
    """One question in three is about a window that all events have left, which any sketch gets right."""
    one, four = (
        merge_check(SketchOxideHistogram(), sites=[sites], scenarios=["steady"], trials=30)[0] for sites in (1, 4)
    )
    assert (one.violations, one.questions) == (0, 90)
    assert four.rate > 0.3
    assert not four.holds
    assert four.largest_error > 0.1


def test_a_peer_that_is_not_installed_is_named_with_the_cure() -> None:
    code = (
        "import sys; sys.modules['sketch_oxide'] = None\n"
        "from catchment.testing.merge_check import load_adapter\n"
        "load_adapter('wave')\n"
        "try:\n    load_adapter('sketch-oxide-eh')\n"
        "except ImportError as problem:\n    print(type(problem).__name__, problem)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith(PackageMissingError.__name__)
    assert "pip install 'catchment[peers]'" in shown


def test_an_adapter_of_ones_own_is_loaded_by_its_name() -> None:
    own = load_adapter("tests.testing.broken_adapters:Remembers")
    assert own.name == "remembers"
    assert not is_ours(own)
    for name, problem in (
        ("no.such:Class", "cannot be loaded"),
        ("tests.testing.broken_adapters:Gone", "cannot be loaded"),
        ("tests.testing.broken_adapters:Incomplete", "has no claims, new"),
        ("nothing", "there are ecm-wave"),
    ):
        with pytest.raises(NameNotFoundError, match=problem):
            load_adapter(name)
