from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import ParameterError
from catchment.testing.faults import KINDS, Faults


def kinds_in(faults: Faults) -> set[str]:
    quiet = Faults()
    return {kind for kind, names in KINDS.items() if any(getattr(faults, n) != getattr(quiet, n) for n in names)}


def test_quiet_has_no_kind_of_fault_and_all_of_them_can_be_had() -> None:
    assert kinds_in(Faults.quiet()) == set()
    assert kinds_in(Faults.random(1, chance=0.0)) == set()
    assert kinds_in(Faults.random(1, chance=1.0)) == set(KINDS)


def test_every_kind_is_switched_by_fields_that_exist() -> None:
    assert {name for names in KINDS.values() for name in names} <= {field.name for field in fields(Faults)}


@given(st.integers(0, 10**9), st.sampled_from(sorted(KINDS)))
def test_a_mix_is_its_seeds_and_a_kind_can_be_left_out_of_it(seed: int, kind: str) -> None:
    mix = Faults.random(seed, chance=0.7)
    assert mix == Faults.random(seed, chance=0.7)
    assert kinds_in(mix.without(kind)) == kinds_in(mix) - {kind}
    assert Faults.random(seed, chance=0.7, without=[kind]) == mix.without(kind)
    assert kinds_in(mix.healed()) <= {"delay", "flush"}


def test_mixes_differ_and_have_each_kind_about_half_of_the_time() -> None:
    mixes = [kinds_in(Faults.random(seed)) for seed in range(400)]
    assert len({frozenset(mix) for mix in mixes}) > 300
    assert all(140 < sum(kind in mix for mix in mixes) < 260 for kind in KINDS)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"loss": 1.5}, "loss=1.5"),
        ({"crash": -0.1}, "crash=-0.1"),
        ({"delay_mean": -1.0}, "delay_mean=-1.0"),
        ({"flush_min": 2**50}, "flush_min="),
        ({"delay_mean": float("nan")}, "delay_mean=nan"),
        ({"partition": "sideways"}, "partition='sideways'"),
        ({"skew": 0.95}, "skew=0.95"),
        ({"feed_spread": 0.5}, "feed_spread=0.5"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        Faults(**wrong)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="earthquake"):
        Faults().without("earthquake")
