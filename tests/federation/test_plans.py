"""Plans without an engine: what each cloud is asked, what is put where, and why."""

from __future__ import annotations

import pytest

from catchment.federation.catalog import Catalog
from catchment.federation.cloud import Column, Purpose, Table
from catchment.federation.explain import explain
from catchment.federation.plan import Put, Run
from catchment.federation.relation import Unplanned
from catchment.federation.rules.faithful import check_faithful
from catchment.federation.statements import Query, parse_statement
from tests.federation.plan_text import catalog, pairs, plan_of, plan_text

BLOOM = "SELECT v.ip, p.rank FROM visits v JOIN pages p ON v.url = p.url WHERE v.day = DATE '2020-01-01' AND v.n = 7"


@pytest.mark.parametrize(("query", "expected"), pairs(), ids=lambda text: text[:60])
def test_a_query_has_the_plan_that_is_written_down(query: str, expected: str) -> None:
    assert plan_text(plan_of(query)) == expected


def test_a_step_stands_after_those_that_it_needs() -> None:
    for query, _ in pairs():
        seen: set[str] = set()
        plan = plan_of(query)
        for step in plan:
            assert seen.issuperset(step.needs), query
            seen.add(step.name)
        assert seen.issuperset(plan.results), query


def test_a_selective_side_sends_its_bloom_filter() -> None:
    plan = plan_of(BLOOM)
    filters = [step for step in plan if step.purpose is Purpose.FILTER]
    assert {step.cloud for step in filters if isinstance(step, Put)} == {"paris", "rome"}
    assert all(step.merge.startswith("bits ") for step in filters if isinstance(step, Put))
    assert any("Bloom filter" in note for note in plan.notes)
    shipped = [step for step in plan if isinstance(step, Run) and step.purpose is Purpose.ROWS]
    assert all("XXHASH64" in step.sql for step in shipped)


def test_no_bloom_filter_without_conditions() -> None:
    plan = plan_of("SELECT v.ip, p.rank FROM visits v JOIN pages p ON v.url = p.url")
    assert not [step for step in plan if step.purpose is Purpose.FILTER]


def test_the_preserved_side_is_never_reduced() -> None:
    query = "SELECT p.rank FROM pages p LEFT JOIN visits v ON v.url = p.url AND v.n = 7 AND v.day = DATE '2020-01-01'"
    for step in plan_of(query):
        if isinstance(step, Run) and " FROM pages " in step.sql and " JOIN " not in step.sql:
            assert "XXHASH64" not in step.sql


def test_explain_says_fragments_estimates_and_reasons() -> None:
    said = explain(plan_of("SELECT ip, sum(n) FROM visits GROUP BY ip"))
    assert "home: paris" in said
    assert "partial aggregates of each cloud" in said
    assert "estimated: " in said
    assert "keep1: keep in paris as catchment_q_1 (partial aggregates of each cloud" in said
    assert "answer: run3, run4 one after the other" in said


@pytest.mark.parametrize("text", ["SELECT listagg(url) FROM pages", "SELECT space(3) FROM pages"])
def test_what_changes_when_it_is_written_is_not_planned(text: str) -> None:
    query = parse_statement(text)
    assert isinstance(query, Query)
    with pytest.raises(Unplanned):
        check_faithful(query.tree)


def test_a_cheap_cloud_is_the_home() -> None:
    tables = catalog()
    plan = plan_of("SELECT count(*) FROM visits", tables)
    assert plan.home == "paris"


def test_narrower_parts_are_cast() -> None:
    tables = Catalog(
        {
            "paris": {"t": Table("t", (Column("a", "int"),), rows=10)},
            "rome": {"t": Table("t", (Column("A", "bigint"),), rows=10)},
        }
    )
    runs = {step.cloud: step.sql for step in plan_of("SELECT a FROM t", tables) if isinstance(step, Run)}
    assert "CAST(`t`.`a` AS BIGINT)" in runs["paris"]
    assert "CAST" not in runs["rome"]
