"""Many seeds: the right protocol never claims what is false, and each broken one is caught."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys

import pytest

from catchment.errors import ParameterError, SimulationError
from catchment.testing.faults import STRIKES, Faults
from catchment.testing.simulation import Outcome, replay, simulate
from tests.testing.toy_protocol import VARIANTS, world, world_with_everything


def test_the_right_protocol_makes_no_false_claim_and_settles_under_every_mix_of_faults() -> None:
    outcome = simulate(world, range(300), jobs=1)
    assert outcome.holds, outcome
    assert (outcome.seeds, outcome.failures, outcome.never_struck) == (300, [], [])
    assert outcome.claims > 20_000


def test_nor_under_all_faults_at_once() -> None:
    outcome = simulate(world_with_everything, range(150), jobs=1)
    assert outcome.holds, outcome
    assert outcome.never_struck == []


@pytest.mark.parametrize(
    ("variant", "complaint"),
    [("increments", "claimed"), ("no-resend", "not settled"), ("ack-before-persist", "is durable")],
)
def test_a_protocol_that_breaks_one_rule_is_caught(variant: str, complaint: str) -> None:
    outcome = simulate(functools.partial(world, variant=variant), range(50), jobs=1, stop_at_first=False)
    assert len(outcome.failures) > 5
    assert not outcome.holds
    assert all(complaint in failure.problem for failure in outcome.failures)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_faults_nothing_strikes_and_even_broken_protocols_hold(variant: str) -> None:
    outcome = simulate(functools.partial(world, variant=variant, faults=Faults.quiet()), range(5), jobs=1)
    assert outcome.holds, outcome
    assert outcome.never_struck == list(STRIKES)
    assert f"never struck: {', '.join(STRIKES)}" in str(outcome)


def test_processes_change_nothing_but_the_time() -> None:
    seen: list[int] = []
    one = simulate(world, range(3, 73), jobs=1, progress=lambda outcome: seen.append(outcome.seeds))
    two = simulate(world, range(3, 73), jobs=2)
    assert seen == list(range(10, 71, 10))
    one.seconds = two.seconds
    assert one == two
    assert simulate(world, range(4, 74), jobs=1).trace_hash != one.trace_hash


def test_the_first_failure_is_that_of_the_first_seed_over_processes_too() -> None:
    broken = functools.partial(world, variant="no-resend")
    here = simulate(broken, range(200), jobs=1)
    there = simulate(broken, range(200), jobs=2)
    assert len(here.failures) == 1
    assert [str(failure) for failure in here.failures] == [str(failure) for failure in there.failures]
    assert here.seeds == there.seeds == here.failures[0].seed + 1
    assert not there.holds
    with pytest.raises(SimulationError, match="not settled"):
        there.raise_failure()


def test_a_failure_is_seen_again_and_the_state_just_before_it_too() -> None:
    broken = functools.partial(world, variant="increments")
    failure = simulate(broken, range(50), jobs=1).failures[0]
    assert f"seed {failure.seed}, step {failure.step}, {failure.time} ms" in failure.problem
    assert f"replay(build_world, {failure.seed})" in failure.cure
    assert failure.trace
    assert all(line in str(failure) for line in failure.trace)
    with pytest.raises(SimulationError) as again:
        replay(broken, failure.seed)
    assert str(again.value) == str(failure)
    assert again.value.trace == failure.trace
    before = replay(broken, failure.seed, steps=failure.step - 1)
    assert before.steps == failure.step - 1
    assert before.time <= failure.time
    with pytest.raises(SimulationError) as resumed:
        before.run()
    assert str(resumed.value) == str(failure)
    travelled = pickle.loads(pickle.dumps(failure))
    assert (travelled.seed, travelled.step, travelled.trace) == (failure.seed, failure.step, failure.trace)


def test_a_replay_keeps_the_whole_trace() -> None:
    short = world(6)
    short.play()
    whole = replay(world, 6)
    assert whole.trace_hash == short.trace_hash
    assert whole.trace(50) == short.trace(50)
    assert "start" in whole.trace()[0]


def test_the_trace_does_not_depend_on_the_process_or_on_how_it_hashes_names() -> None:
    code = "from tests.testing.toy_protocol import world\nn = world(11)\nn.play()\nprint(n.trace_hash)"
    hashes = set()
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        hashes.add(done.stdout.strip())
    here = world(11)
    here.play()
    assert hashes == {here.trace_hash}


def test_runs_that_claimed_nothing_do_not_hold() -> None:
    assert not Outcome(seeds=10).holds
    assert "loss 0" in str(Outcome(seeds=10))
    assert not simulate(world, range(0)).holds


def test_no_process_at_all_is_refused() -> None:
    with pytest.raises(ParameterError, match="jobs=0"):
        simulate(world, range(3), jobs=0)
