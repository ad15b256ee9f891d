"""Intervals against the predicates themselves, value by value."""

from __future__ import annotations

import operator
import random
from typing import Any

import pytest
from sqlglot import exp, parse_one

from catchment.federation.intervals import Domain, Interval, conjuncts, domain_of, intersection, intervals_of

COMPARISONS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
VALUES = [*range(-3, 13), None]


def drawn(draw: random.Random, depth: int) -> tuple[str, Any]:
    """A predicate on c, and what it says of a value; of a null it says what SQL says, with unknown as false."""
    kind = draw.choice(
        ["compare", "not", "mirror", "between", "in", "null", "not null", "same"] + ["and", "or"] * (2 * depth)
    )
    low, high = draw.randint(-2, 12), draw.randint(-2, 12)
    sign = draw.choice(list(COMPARISONS))
    if kind == "compare":
        return f"c {sign} {low}", lambda v: v is not None and COMPARISONS[sign](v, low)
    if kind == "not":
        return (
            f"NOT c {sign} {low}" if sign != "=" else f"c > {low}",
            lambda v: v is not None and not COMPARISONS[sign if sign != "=" else "<="](v, low),
        )
    if kind == "mirror":
        return f"{low} {sign} c", lambda v: v is not None and COMPARISONS[sign](low, v)
    if kind == "between":
        return f"c BETWEEN {low} AND {high}", lambda v: v is not None and low <= v <= high
    if kind == "in":
        return f"c IN ({low}, {high})", lambda v: v in (low, high)
    if kind == "same":
        return f"c <=> {low}", lambda v: v == low
    if kind.endswith("null"):
        return f"c IS {kind.upper()}", lambda v: (v is None) is (kind == "null")
    (left, holds), (right, too) = drawn(draw, depth - 1), drawn(draw, depth - 1)
    if kind == "and":
        return f"({left}) AND ({right})", lambda v: holds(v) and too(v)
    return f"({left}) OR ({right})", lambda v: holds(v) or too(v)


def inside(interval: Interval, value: int | None) -> bool:
    return interval.nulls if value is None else interval.meets(value, value)


def test_intervals_hold_exactly_what_the_predicate_does() -> None:
    draw = random.Random(5)
    for _ in range(2_000):
        text, holds = drawn(draw, 2)
        found = intervals_of(parse_one(text, dialect="spark"), "C", Domain.WHOLE)
        assert found is not None, text
        for value in VALUES:
            assert any(inside(interval, value) for interval in found) == bool(holds(value)), (text, value)


def test_a_file_is_met_exactly_if_a_value_of_its_range_is_inside() -> None:
    draw = random.Random(6)
    for _ in range(2_000):
        first, last = sorted((draw.randint(0, 6), draw.randint(0, 6)))
        interval = Interval(first, last, with_low=draw.random() < 0.5, with_high=draw.random() < 0.5)
        low, high = sorted((draw.randint(0, 6), draw.randint(0, 6)))
        # Halves, because a range of whole numbers may hold others too as far as an interval knows.
        values = [place / 8 for place in range(low * 8, high * 8 + 1)]
        assert interval.meets(low, high) == any(interval.meets(value, value) for value in values)


@pytest.mark.parametrize(
    ("text", "type_", "low", "high"),
    [
        ("c = DATE '1970-01-03'", "date", 2, 2),
        ("c = Date('1970-01-03')", "date", 2, 2),
        ("c = '1970-01-03'", "date", 2, 2),
        ("c = to_date('1970-01-03')", "date", 2, 2),
        ("c = -5", "int", -5, -5),
        ("c = 5L", "bigint", 5, 5),
        ("c = CAST(5 AS BIGINT)", "int", 5, 5),
        ("c = 2.5", "decimal(10,2)", 2.5, 2.5),
        ("c = -1e3D", "double", -1000.0, -1000.0),
        ("c = TRUE", "boolean", 1, 1),
        ("c = TIMESTAMP '1970-01-01 00:00:01'", "timestamp", 1_000_000, 1_000_000),
        ("c = 'é'", "string", b"\xc3\xa9", b"\xc3\xa9"),
        ("c LIKE 'ab%'", "string", b"ab", b"ac"),
        ("c LIKE 'a%b'", "varchar(9)", b"a", b"b"),
        ("c LIKE 'ab'", "string", b"ab", b"ab"),
        ("startswith(c, 'é')", "string", b"\xc3\xa9", b"\xc3\xaa"),
        ("c BETWEEN 'a' AND 'b'", "string", b"a", b"b"),
    ],
)
def test_values_as_spark_writes_them(text: str, type_: str, low: Any, high: Any) -> None:
    domain = domain_of(type_)
    assert domain is not None
    found = intervals_of(parse_one(text, dialect="spark"), "c", domain)
    assert found is not None
    [interval] = found
    assert (interval.low, interval.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("c = 5", "string"),  # Spark casts the column
        ("c = CAST('5' AS INT)", "string"),
        ("c = DATE '1970-01-03'", "timestamp_of_nothing"),
        ("c = TIMESTAMP '1970-01-03 00:00:00'", "date"),
        ("c = '1970-1-3'", "date"),
        ("c = 'x'", "int"),
        ("c = 2.5", "int"),
        ("c <> 5", "int"),
        ("NOT c = 5", "int"),
        ("NOT c BETWEEN 1 AND 2", "int"),
        ("c + 1 = 5", "int"),
        ("c = d", "int"),
        ("d = 5", "int"),
        ("c = 1 OR d = 2", "int"),
        ("c IN (SELECT 1)", "int"),
        ("c IN (1, NULL)", "int"),
        ("c LIKE '%b'", "string"),
        ("c LIKE 'a_b'", "string"),
        ("c LIKE 'a\\\\%'", "string"),
        ("upper(c) = 'A'", "string"),
        ("c = rand()", "double"),
    ],
)
def test_what_says_nothing_that_an_order_could_use(text: str, type_: str) -> None:
    domain = domain_of(type_)
    assert domain is None or intervals_of(parse_one(text, dialect="spark"), "c", domain) is None


def test_conjuncts_and_intersections() -> None:
    tree = parse_one("SELECT 1 FROM t WHERE (a = 1 AND (b = 2)) AND (c = 3 OR d = 4)", dialect="spark")
    assert isinstance(tree, exp.Select)
    assert [part.sql() for part in conjuncts(tree.args["where"].this)] == ["a = 1", "b = 2", "c = 3 OR d = 4"]
    assert list(conjuncts(None)) == []
    assert intersection([Interval(1, 5)], [Interval(6, 9)]) == ()
    assert intersection([Interval(1, 5)], [Interval(5, 9), Interval(low=3)]) == (Interval(5, 5), Interval(3, 5))


def test_types_without_an_order_have_no_domain() -> None:
    assert [domain_of(type_) for type_ in ("array<int>", "map<int,int>", "binary", "string collate UTF8_LCASE")] == [
        None
    ] * 4
