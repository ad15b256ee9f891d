"""Groups that are dealt out to the clouds: how many there are is asked, and decides what each cloud does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from sqlglot import parse_one

from catchment.federation.dialect import DIALECT
from catchment.federation.plan import Keep, Plan, Run
from catchment.federation.rules.aggregates import of_one_row
from catchment.federation.rules.count_groups import SAMPLE, _estimate
from catchment.federation.rules.deal import DEALT, SCATTERED
from tests.federation.plan_text import plan_of

SUMS = "SELECT ip, sum(n), count(*), count(url), max(day) FROM visits WHERE n > 3 GROUP BY ip HAVING sum(n) > 9"


def planned(text: str, keys: int) -> tuple[Plan, list[tuple[str, str]]]:
    """The plan where a sample shows so many different keys, and what was asked for it."""
    asked: list[tuple[str, str]] = []

    def sample(cloud: str, sql: str) -> Sequence[int]:
        asked.append((cloud, sql))
        return (np.arange(SAMPLE) % keys).tolist()

    return plan_of(text, sample=sample), asked


def reasons(plan: Plan) -> set[str]:
    return {step.why for step in plan if isinstance(step, Run) and step.name in plan.results}


def test_a_cloud_is_asked_for_hashes_of_the_keys_of_some_rows() -> None:
    _, asked = planned(SUMS, 100)
    ((cloud, sql),) = asked
    assert cloud == "paris"
    assert sql.startswith("SELECT XXHASH64(`visits`.`ip`) AS `h` FROM (SELECT ")
    assert "`visits`.`n` > 3" in sql
    assert sql.endswith(f"LIMIT {SAMPLE}")


def test_few_groups_go_home() -> None:
    plan, _ = planned(SUMS, 100)
    assert reasons(plan) == {"final aggregates of the clouds' partial ones"}
    assert any("about 100 groups of" in note for note in plan.notes)
    assert not any(isinstance(step, Keep) for step in plan)


def test_groups_that_repeat_are_kept_and_dealt_out() -> None:
    plan, _ = planned(SUMS, SAMPLE - 250)  # some 140,000 groups
    assert reasons(plan) == {DEALT}
    assert sum(isinstance(step, Keep) for step in plan) == 2


def test_groups_that_hardly_repeat_are_made_of_what_crosses_only() -> None:
    plan, _ = planned(SUMS, SAMPLE)
    assert reasons(plan) == {SCATTERED}
    assert not any(isinstance(step, Keep) for step in plan)
    sent = [step.sql for step in plan if isinstance(step, Run) and step.name not in plan.results]
    final = [step.sql for step in plan if isinstance(step, Run) and step.name in plan.results]
    assert len(sent) == len(final) == 2
    for number, sql in enumerate(sent):
        assert f"PMOD(XXHASH64(`visits`.`ip`), 2) = {number}" in sql
        assert sql.count("DISTRIBUTE BY `visits`.`ip`") == 1
        assert "GROUP BY `visits`.`ip`" in sql
    for sql in final:
        # its own rows go into the final groups as they are
        assert sql.count("GROUP BY") == sql.count("HAVING") == 1
        assert "DISTRIBUTE BY `p`.`_k0`" in sql
        assert "CASE WHEN (`visits`.`url`) IS NULL THEN 0 ELSE 1 END" in sql


@pytest.mark.parametrize("call", ["bit_or(n)", "sum(n) FILTER (WHERE n > 3)", "count(n, url)", "stddev(n)"])
def test_what_a_row_alone_does_not_say_is_made_of_partial_groups(call: str) -> None:
    plan, _ = planned(f"SELECT ip, {call} FROM visits GROUP BY ip", SAMPLE)
    assert reasons(plan) == {SCATTERED}
    final = [step.sql for step in plan if isinstance(step, Run) and step.name in plan.results]
    assert all(sql.count("GROUP BY") == 2 for sql in final)


@pytest.mark.parametrize(
    ("call", "kind", "row"),
    [
        ("count(NOT n > 3)", "bigint", "CAST(CASE WHEN (NOT n > 3) IS NULL THEN 0 ELSE 1 END AS BIGINT)"),
        ("count(n IN (1, 2))", "bigint", "CAST(CASE WHEN (n IN (1, 2)) IS NULL THEN 0 ELSE 1 END AS BIGINT)"),
        ("sum(price)", "decimal(20,2)", "CAST(price AS DECIMAL(20, 2))"),
        ("sum(till - since)", "duration[us]", None),  # a type whose name Spark does not know
        ("max(struct(day, url))", "struct<day: date32[day]>", "STRUCT(day AS day, url AS url)"),
        ("count(v.*)", "bigint", None),
        ("min(DISTINCT n)", "int", None),
    ],
)
def test_what_a_value_is_of_one_row(call: str, kind: str, row: str | None) -> None:
    found = of_one_row(parse_one(call, dialect=DIALECT), kind)
    assert (None if found is None else found.sql(dialect=DIALECT)) == row


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ip, sum(n) FROM visits GROUP BY ip ORDER BY ip LIMIT 3",  # all in one place
        "SELECT ip, count(DISTINCT url) FROM visits GROUP BY ip",
        "SELECT v.ip, sum(p.rank) FROM visits v JOIN pages p ON v.url = p.url GROUP BY v.ip",
        "SELECT count(*) FROM visits",
    ],
)
def test_nobody_is_asked_where_it_would_decide_nothing(text: str) -> None:
    assert planned(text, 100)[1] == []


@pytest.mark.parametrize("groups", [300, 10_000, 100_000, 1_000_000])
def test_the_estimate_is_near_the_truth_for_keys_that_are_equally_frequent(groups: int) -> None:
    found = [
        _estimate(np.random.default_rng(seed).integers(0, groups, SAMPLE), 1e8).groups / groups for seed in range(50)
    ]
    assert 0.9 < np.median(found) < 1.15
    assert min(found) > 0.5
    assert max(found) < 2.5


def test_the_estimate_is_no_more_than_the_rows_and_says_that_skewed_keys_are_fewer() -> None:
    assert _estimate(np.arange(SAMPLE), 20_000.0).groups == 20_000
    skewed = np.random.default_rng(1).zipf(1.3, SAMPLE)
    assert np.unique(skewed).size < _estimate(skewed, 1e9).groups < 1e6
