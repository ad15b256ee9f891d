"""Queries that were once planned wrongly, each with what is asked of its plan now."""

from __future__ import annotations

import pytest

from catchment.federation.catalog import Catalog
from catchment.federation.cloud import Column, Table
from catchment.federation.plan import Plan, Run
from catchment.federation.planner import Planner
from catchment.federation.relation import Unplanned
from catchment.federation.rules.qualify import qualify
from catchment.federation.statements import Query, parse_statement

COLUMNS = (Column("k", "bigint"), Column("s", "string"))
CATALOG = Catalog({cloud: {name: Table(name, COLUMNS, 100, 10_000) for name in "vo"} for cloud in ("a", "b", "c")})


def plan_of(text: str) -> Plan:
    asked = parse_statement(text)
    assert isinstance(asked, Query)
    planner = Planner(CATALOG, dict.fromkeys(CATALOG.clouds, (0.0, 1.0)), "q", lambda _: ["bigint"] * 50)
    return planner.plan(qualify(asked.tree, CATALOG))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, (SELECT count(*) FROM o WHERE o.k = v.k) AS c FROM v GROUP BY k",
        "SELECT k FROM v GROUP BY k HAVING EXISTS (SELECT 1 FROM o WHERE o.k = v.k)",
        "SELECT k FROM v GROUP BY k ORDER BY (SELECT max(o.k) FROM o WHERE o.k = v.k)",
    ],
)
def test_a_subquery_of_groups_that_names_a_column_of_theirs_sees_the_rows(text: str) -> None:
    plan = plan_of(text)
    last = plan.steps[-1]
    assert isinstance(last, Run)
    assert "_k0" not in last.sql
    assert any("subquery" in note for note in plan.notes)


def test_a_subquery_of_groups_without_such_columns_is_no_reason_to_ship() -> None:
    plan = plan_of("SELECT k, (SELECT max(k) FROM o) AS m FROM v WHERE k IN (SELECT k FROM o) GROUP BY k")
    assert not plan.notes


def test_order_by_all_is_left_to_spark() -> None:
    last = plan_of("SELECT k FROM v ORDER BY ALL").steps[-1]
    assert isinstance(last, Run)
    assert last.sql.endswith("ORDER BY ALL")


@pytest.mark.parametrize(
    "text", ["SELECT * FROM range(5) AS r LEFT JOIN v ON r.id = v.k", "SELECT r.* FROM range(5) AS r"]
)
def test_a_star_over_columns_that_only_spark_knows_is_not_planned(text: str) -> None:
    with pytest.raises(Unplanned, match="star"):
        plan_of(text)


@pytest.mark.parametrize(
    "text", ["SELECT count(DISTINCT -2) AS n FROM v", "SELECT k, count(DISTINCT 7) FROM v GROUP BY k"]
)
def test_a_number_whose_distinct_values_are_counted_is_no_place_to_group_by(text: str) -> None:
    first = plan_of(text).steps[0]
    assert isinstance(first, Run)
    assert "COALESCE(" in first.sql.split("GROUP BY")[1]
