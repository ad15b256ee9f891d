"""A join's table that is read by an index once its keys are known: what is planned, and what is asked then."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from catchment.federation.catalog import Catalog
from catchment.federation.cloud import Column, Index, Part, Segment, Table
from catchment.federation.column_statistics import ColumnStatistics
from catchment.federation.index_text import LONGEST_LIST
from catchment.federation.intervals import Domain
from catchment.federation.plan import Plan, Run
from catchment.federation.probe import MOST_KEYS, probed_text
from catchment.federation.relation import Unplanned
from tests.federation.plan_text import plan_of

ROWS = 3_000_000
VISITS = Table("visits", (Column("url", "string"), Column("n", "int"), Column("day", "date")), ROWS)
KINDS: dict[str, tuple[Domain, str, Any, Any]] = {
    "url": (Domain.TEXT, "string", b"", b"z"),
    "n": (Domain.WHOLE, "int", -(2**31), 2**31),
    "day": (Domain.DATE, "date", -(10**5), 10**5),
}
"""By column: its domain, its type, and the smallest and largest value."""


def pages(key: str) -> Table:
    """With an index on one of its columns."""
    domain, kind, low, high = KINDS[key]
    known = ColumnStatistics(domain, ROWS, cuts=(low, high), distinct=ROWS)
    segment = Segment("`h`.`rows_1`", (Part("a", ROWS, low, high),), known)
    index = Index("i", "pages", key, kind, (key, "rank"), (segment,), statistics=(known,), covered_bytes=100)
    return Table("pages", (Column(key, kind), Column("rank", "int")), ROWS, indexes=(index,))


def planned(query: str, key: str) -> Plan:
    tables = {"pages": pages(key), "visits": replace(VISITS, rows=10_000)}
    return plan_of(query, Catalog({"paris": tables, "rome": tables}))


def probing(plan: Plan) -> list[Run]:
    return [step for step in plan if isinstance(step, Run) and step.probes]


def asked(key: str, keys: list[Any], kind: pa.DataType) -> tuple[str, str]:
    """What the first cloud is asked, and what it says of its choice, if these are the keys of the visits."""
    plan = planned(f"SELECT p.rank FROM pages AS p JOIN visits AS v ON p.{key} = v.{key} WHERE v.n < 5", key)
    step = probing(plan)[0]
    (probe,) = step.probes
    half = len(keys) // 2
    parts = [pa.table({key: pa.array(part, kind)}) for part in (keys[:half], keys[half:])]
    text, (said,) = probed_text(step, dict(zip(probe.runs, parts, strict=True)))
    assert "probe" not in text
    return text, said


@pytest.mark.parametrize(
    "join",
    [
        "JOIN visits AS v ON p.url = v.url",
        "LEFT SEMI JOIN visits AS v ON p.url = v.url",
        "CROSS JOIN visits AS v WHERE v.url = p.url",
        ", visits AS v WHERE p.url = v.url",
    ],
)
def test_rows_without_a_partner_are_not_read(join: str) -> None:
    plan = planned(f"SELECT p.rank FROM pages AS p {join}", "url")
    steps = probing(plan)
    assert [step.cloud for step in steps] == ["paris", "rome"]
    for step in steps:
        (probe,) = step.probes
        assert set(probe.runs) <= set(step.needs)
        assert probe.mark in step.template
        assert probe.mark not in step.sql
    assert any("may be read by an index on url" in note for note in plan.notes)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT p.rank FROM pages AS p LEFT JOIN visits AS v ON p.url = v.url",  # they are in the answer
        "SELECT p.rank FROM pages AS p LEFT ANTI JOIN visits AS v ON p.url = v.url",
        "SELECT p.rank FROM visits AS v RIGHT JOIN pages AS p ON p.url = v.url",
        "SELECT p.rank FROM pages AS p JOIN visits AS v ON p.url = v.url OR p.rank = 1",
        "SELECT p.rank FROM pages AS p JOIN visits AS v ON upper(p.url) = v.url",
        "SELECT p.rank FROM pages AS p JOIN visits AS v ON p.url < v.url",
        "SELECT p.rank FROM pages AS p JOIN (SELECT concat(url, '') AS url FROM visits) AS v ON p.url = v.url",
        "SELECT p.rank FROM pages AS p JOIN visits AS v ON p.rank = v.n",  # no index
    ],
)
def test_rows_that_may_be_in_the_answer_are_all_read(query: str) -> None:
    assert not probing(planned(query, "url"))


def test_few_keys_are_looked_up() -> None:
    text, said = asked("url", ["b", "a", None, "b", "it's \\ 'n \n"], pa.string())
    assert "FROM `h`.`rows_1` AS `p` WHERE" in text
    assert "`p`.`url` IN ('a', 'b', 'it\\'s \\\\ \\'n \\n')" in text
    assert said == "pages by 3 keys, index i on url"
    text, _ = asked("n", [7, -7, 0, -(2**31)], pa.int32())
    assert "`p`.`n` IN (-2147483648, -7, 0, 7)" in text
    text, _ = asked("day", [datetime.date(2020, 2, 29), datetime.date(1969, 1, 1)], pa.date32())
    assert "`p`.`day` IN (CAST('1969-01-01' AS DATE), CAST('2020-02-29' AS DATE))" in text


def test_more_keys_are_looked_up_list_by_list() -> None:
    text, said = asked("n", list(range(0, 4 * LONGEST_LIST + 2, 2)), pa.int32())
    assert text.count("FROM `h`.`rows_1`") == 3
    assert text.count("UNION ALL") >= 2
    assert said == "pages by 1,001 keys, index i on n"


def test_no_key_is_nothing_to_read_and_too_many_are_a_scan() -> None:
    text, said = asked("n", [None, None], pa.int32())
    assert "WHERE FALSE" in text
    assert said == "nothing of pages: there is no key"
    for count in (MOST_KEYS, MOST_KEYS + 1):  # that many pages are most of the table
        text, said = asked("n", list(range(0, 3 * count, 3)), pa.int32())
        assert "rows_1" not in text
        assert said.startswith("pages by scan")


@pytest.mark.parametrize(
    ("key", "keys", "kind", "said"),
    [
        ("url", ["x" * 1000] * 9 + [f"{n:01000}" for n in range(1200)], pa.string(), "the keys take"),
        ("day", [10**7], pa.int32(), "a day that has no name"),
        ("url", [b"\xff"], pa.binary(), "a key is no text"),
    ],
)
def test_keys_that_cannot_be_written_are_a_scan(key: str, keys: list[Any], kind: pa.DataType, said: str) -> None:
    column = pa.array(keys, kind)
    if kind == pa.int32():
        column = column.view(pa.date32())
    elif kind == pa.binary():
        column = column.view(pa.string())
    plan = planned(f"SELECT p.rank FROM pages AS p JOIN visits AS v ON p.{key} = v.{key} WHERE v.n < 5", key)
    step = probing(plan)[0]
    text, (reason,) = probed_text(step, dict.fromkeys(step.probes[0].runs, pa.table({key: column})))
    assert text == step.sql
    assert said in reason


def test_a_zero_byte_is_written_so_that_no_digit_is_taken_for_its_own() -> None:
    text, _ = asked("url", ["\x0012", "\n"], pa.string())
    assert "IN ('\\00012', '\\n')" in text


def test_relations_of_one_name_are_told_apart_by_nobody() -> None:
    query = (
        "SELECT p.rank FROM pages AS p LEFT SEMI JOIN visits AS v ON p.rank = v.n "
        "JOIN visits AS v ON v.n = p.rank WHERE p.url = v.url"
    )
    with pytest.raises(Unplanned, match="two relations of one name"):
        planned(query, "url")


def test_the_keys_cross_no_border_for_it() -> None:
    """A probe takes what goes by; where nothing does, none is planned."""
    query = "SELECT p.rank FROM pages AS p JOIN visits AS v ON p.url = v.url WHERE v.n < 5"
    tables = {"pages": pages("url"), "visits": replace(VISITS, rows=10_000)}
    plan = plan_of(query, Catalog({"paris": tables}))
    assert not probing(plan)
    steps = [step.name for step in planned(query, "url")]
    assert steps == ["run1", "put1", "run2", "put2", "run3", "run4"]
