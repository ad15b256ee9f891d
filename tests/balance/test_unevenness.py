"""The two measures of unevenness: worked out by hand, tied to each other, and each defined once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import catchment.balance
from catchment.balance import imbalance, peak_over_mean
from catchment.balance.scheduler import deal


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_both_are_what_they_say_and_one_follows_from_the_other(loads: list[int]) -> None:
    expected = max(loads) / (sum(loads) / len(loads)) if sum(loads) else 1.0
    assert peak_over_mean(loads) == pytest.approx(expected)
    assert imbalance(loads) == pytest.approx(100 * (expected - 1))


def test_a_deal_is_judged_by_the_same_measure() -> None:
    dealt = deal([9, 1, 1, 1], 2)
    assert dealt.peak_over_mean == peak_over_mean(dealt.loads) == 1.5


def test_no_other_file_defines_them() -> None:
    room = Path(catchment.balance.__file__).parent
    defined = [
        (source.name, node.name)
        for source in sorted(room.rglob("*.py"))
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in ("imbalance", "peak_over_mean")
    ]
    assert defined == [("unevenness.py", "peak_over_mean"), ("unevenness.py", "imbalance")]
