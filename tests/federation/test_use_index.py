"""The rule that reads an index instead of a table: its text, and when it is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import exp, parse_one

from catchment.federation.cloud import Column, Index, Part, Segment, Table
from catchment.federation.column_statistics import ColumnStatistics
from catchment.federation.intervals import Domain
from catchment.federation.rules.use_index import Replacement, use_index

ROWS = 1_000_000
NUMBERS = ColumnStatistics(Domain.WHOLE, ROWS, cuts=tuple(range(1001)), distinct=1000)
SEGMENT = Segment("`h`.`rows_1`", (Part("low", ROWS // 2, 0, 499), Part("high", ROWS // 2, 500, 1000)), NUMBERS)
INDEX = Index("i", "t", "c", "int", ("c", "d"), (SEGMENT,), statistics=(NUMBERS,), covered_bytes=100)
TABLE = Table("t", (Column("c", "int"), Column("d", "int"), Column("e", "int")), ROWS, indexes=(INDEX,))


def replaced(text: str, table: Table = TABLE) -> Replacement | None:
    leaf = parse_one(text, dialect="spark")
    assert isinstance(leaf, exp.Select)
    before = leaf.sql("spark")
    found = use_index(leaf, table)
    assert leaf.sql("spark") == before
    return found


def text_of(text: str, table: Table = TABLE) -> str | None:
    found = replaced(text, table)
    return None if found is None else found.relation.sql("spark")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "SELECT a.d FROM t AS a WHERE a.c = 7 AND a.d > 3",
            "SELECT a.d FROM `h`.`rows_1` AS `a` WHERE (a.c = 7 AND a.d > 3) AND a._metadata.file_name IN ('low')",
        ),
        ("SELECT d FROM t WHERE c = 2000", "SELECT d FROM `h`.`rows_1` AS `t` WHERE c = 2000 AND FALSE"),
        (
            "SELECT d FROM t WHERE c BETWEEN 490 AND 510",
            "SELECT d FROM `h`.`rows_1` AS `t` WHERE c BETWEEN 490 AND 510",
        ),
        ("SELECT d FROM t WHERE c IS NULL", "SELECT d FROM `h`.`rows_1` AS `t` WHERE c IS NULL"),
        (
            "SELECT 1 AS one FROM t WHERE c = 7 OR c = 9",
            "SELECT 1 AS one FROM `h`.`rows_1` AS `t` WHERE (c = 7 OR c = 9) AND t._metadata.file_name IN ('low')",
        ),
    ],
)
def test_texts(before: str, after: str) -> None:
    assert text_of(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "SELECT d FROM t WHERE c >= 0",  # everything: the scan is as good
        "SELECT d FROM t",
        "SELECT d FROM t WHERE d = 7",
        "SELECT e FROM t WHERE c = 7",  # e is not covered
        "SELECT d FROM t WHERE c = 7 AND e = 1",
        "SELECT * FROM t WHERE c = 7",
        "SELECT d FROM t WHERE c = 7 LIMIT 3",
        "SELECT DISTINCT d FROM t WHERE c = 7",
        "SELECT count(d) FROM t WHERE c = 7 GROUP BY d",
        "SELECT t.d FROM t, u WHERE t.c = 7",
        "SELECT d FROM other.t WHERE c = 7",
        "SELECT d FROM (SELECT * FROM t) WHERE c = 7",
        "SELECT d FROM t WHERE c + 0 = 7",
    ],
)
def test_what_stays_a_scan(text: str) -> None:
    assert replaced(text) is None


def test_fresh_files_are_read_beside() -> None:
    index = replace(INDEX, fresh=("file:/t/it's",), fresh_bytes=1)
    sql = text_of("SELECT d FROM t AS a WHERE c = 7", replace(TABLE, indexes=(index,)))
    assert sql == (
        "SELECT d FROM `h`.`rows_1` AS `a` WHERE c = 7 AND a._metadata.file_name IN ('low') UNION ALL "
        "SELECT d FROM t AS a WHERE c = 7 AND a._metadata.file_path IN ('file:/t/it\\'s')"
    )
    outside = text_of("SELECT d FROM t AS a WHERE c = 7777", replace(TABLE, indexes=(index,)))
    assert outside == "SELECT d FROM t AS a WHERE c = 7777 AND a._metadata.file_path IN ('file:/t/it\\'s')"


def test_too_many_fresh_files_make_a_scan_as_good() -> None:
    index = replace(INDEX, fresh=("a",), fresh_bytes=10_000)
    assert replaced("SELECT d FROM t WHERE c < 490", replace(TABLE, indexes=(INDEX,))) is None
    assert replaced("SELECT d FROM t WHERE c < 470", replace(TABLE, indexes=(INDEX,))) is not None
    assert replaced("SELECT d FROM t WHERE c < 470", replace(TABLE, indexes=(index,))) is None


def test_what_is_slow_to_parse_is_read_from_any_index_that_covers_it() -> None:
    csv = replace(TABLE, indexes=(replace(INDEX, format="csv"),))
    for predicate in ("c >= 0", "d = 7", "TRUE"):
        assert (
            text_of(f"SELECT d FROM t WHERE {predicate}", csv) == f"SELECT d FROM `h`.`rows_1` AS `t` WHERE {predicate}"
        )
    assert replaced("SELECT e FROM t", csv) is None


def test_the_index_that_reads_fewest_rows_is_chosen() -> None:
    other = replace(INDEX, name="j", column="d")
    table = replace(TABLE, indexes=(INDEX, other))
    wide, narrow = "c < 700", "d = 7"
    found = replaced(f"SELECT d FROM t WHERE {wide} AND {narrow}", table)
    assert found is not None
    assert found.reason.startswith("index j on d")
    assert found.rows == pytest.approx(ROWS * 0.7 / 1000, rel=0.1)


def test_without_a_segment_that_stands_the_table_is_scanned() -> None:
    assert replaced("SELECT d FROM t WHERE c = 7", replace(TABLE, indexes=(replace(INDEX, segments=()),))) is None
