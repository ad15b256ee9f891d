"""Estimates against exact counts, with the bounds that the sketches give."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

import pytest
from sqlglot import parse_one

from catchment.federation.cloud import Index, Table
from catchment.federation.column_statistics import ColumnStatistics, matching
from catchment.federation.intervals import Domain, Interval
from catchment.federation.selectivity import estimate_rows, fraction

CUTS = 64


def stated(values: list[int], nulls: int = 0, domain: Domain = Domain.WHOLE) -> ColumnStatistics:
    """Of exact quantiles."""
    ordered = sorted(values)
    cuts = [ordered[round(place * (len(ordered) - 1) / CUTS)] for place in range(CUTS + 1)]
    return ColumnStatistics(domain, len(values) + nulls, nulls, len(set(values)), cuts=tuple(cuts))


def test_ranges_are_off_by_two_cuts_at_most() -> None:
    draw = random.Random(1)
    for spread in (10, 1_000, 10**6):
        values = [int(draw.random() ** 3 * spread) for _ in range(5_000)]
        known, ordered = stated(values, nulls=200), sorted(values)
        for _ in range(200):
            low, high = sorted((draw.randint(-5, spread), draw.randint(-5, spread)))
            truth = bisect_right(ordered, high) - bisect_left(ordered, low)
            most = max(values.count(low), values.count(high))  # a frequent value is inside a cut or not
            guess = known.between(Interval(low, high))
            assert abs(guess - truth) <= 2 * (len(values) / CUTS + 1) + (most if low == high else 0)


def test_what_is_certain() -> None:
    known = stated([1, 2, 2, 3], nulls=6)
    assert known.between(Interval(nulls=True)) == 6
    assert known.between(Interval(5, 9)) == known.between(Interval(9, 9)) == known.between(Interval(3, 1)) == 0
    assert known.between(Interval()) == 4
    assert ColumnStatistics(Domain.WHOLE, rows=5, nulls=5).between(Interval(1, 2)) == 0
    assert matching([], [Interval()]) == 0
    assert matching([known, known], [Interval(), Interval(nulls=True)]) == 1


def test_segments_add_up() -> None:
    old, new = stated(list(range(1000))), stated([5000] * 100)
    assert matching([old, new], [Interval(low=2000)]) == pytest.approx(100 / 1100)


@pytest.fixture
def table() -> Table:
    numbers = stated(list(range(1000)))
    index = Index("i", "t", "c", "int", statistics=(numbers,))
    return Table("t", (), rows=10_000, indexes=(index,))


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        ("c < 500", 5000),
        ("c >= 250 AND c < 500", 2500),  # not the product of the two
        ("NOT c < 500", 5000),
        ("c < 100 OR c >= 900", 2000),
        ("c <> 5", 9990),
        ("c IS NULL", 1),
        ("c IS NOT NULL", 10_000),
        ("c < 500 AND unknown = 3", 250),
        ("c > 2000", 1),
        ("TRUE", 10_000),
        ("FALSE", 1),
        ("c < 500 AND (c < 250 OR unknown = 3)", 1437),  # as if they were independent
    ],
)
def test_predicates(table: Table, predicate: str, rows: float) -> None:
    assert estimate_rows(table, parse_one(predicate, dialect="spark")) == pytest.approx(rows, rel=0.1, abs=30)


def test_a_table_of_which_nothing_is_known() -> None:
    assert estimate_rows(Table("t", ()), None) > 0
    assert estimate_rows(Table("t", (), bytes=3200), None) == 100
    assert estimate_rows(Table("t", (), rows=0), None) == 0
    assert fraction(Table("t", ()), parse_one("a > b")) == pytest.approx(1 / 3)
