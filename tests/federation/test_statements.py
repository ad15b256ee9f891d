"""What a text asks for, and where it is wrong."""

from __future__ import annotations

import pytest

from catchment.errors import QueryError, StatementError
from catchment.federation.catalog import Catalog, tables_table
from catchment.federation.cloud import Column, Table
from catchment.federation.statements import (
    CreateIndex,
    Describe,
    DropIndex,
    Explain,
    Query,
    ShowIndexes,
    ShowTables,
    Statement,
    parse_statement,
)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("create index i on T(C)", CreateIndex("i", "t", "c")),
        ("CREATE INDEX IF NOT EXISTS i ON t (c) INCLUDE (a, `b b`);", CreateIndex("i", "t", "c", ("a", "b b"), True)),
        ("DROP INDEX i", DropIndex("i")),
        ("drop index if exists i on t", DropIndex("i", "t", True)),
        ("SHOW INDEXES", ShowIndexes()),
        ("show indexes on t;", ShowIndexes("t")),
        (" SHOW TABLES ", ShowTables()),
        ("DESCRIBE TABLE t", Describe("t")),
        ("desc t", Describe("t")),
    ],
)
def test_statements_of_our_own(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


def test_explain_holds_a_query() -> None:
    plain, run = parse_statement("EXPLAIN SELECT 1"), parse_statement("explain analyze select 1;")
    assert isinstance(plain, Explain)
    assert isinstance(run, Explain)
    assert (plain.run, run.run) == (False, True)
    assert plain.query.text.strip() == "SELECT 1"


@pytest.mark.parametrize("text", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1) UNION SELECT 2"])
def test_queries(text: str) -> None:
    assert isinstance(parse_statement(text), Query)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("SELECT a FROM t;\nSELECT 2", "line 1, column 16: a second statement"),
        ("SELECT a\nFROM t WHERE", "line 2"),
        ("SELECT a\n  FROM t JOIN parquet.`/x`", "line 2"),
        ("UPDATE t SET a = 1", "line 1, column 1: UPDATE is not granted"),
        ("SELECT 'open", "cannot be read"),
        ("EXPLAIN DELETE FROM t", "line 1, column 9: DELETE is not granted"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(StatementError) as problem:
        parse_statement(text)
    assert said in problem.value.problem


def _catalog(*types: str) -> Catalog:
    return Catalog({f"c{n}": {"t": Table("t", (Column("a", kind),), rows=1)} for n, kind in enumerate(types)})


def test_parts_of_a_table_must_fit() -> None:
    assert _catalog("int", "bigint").table("T").columns["a"].type == "bigint"
    assert _catalog("decimal(5,2)", "int").table("t").columns["a"].type == "decimal(12,2)"
    broken = _catalog("int", "string")
    assert "column a is int in 'c0' and string in 'c1'" in str(broken.tables["t"].problem)
    with pytest.raises(QueryError, match="column a is int"):
        broken.table("t")
    assert tables_table(broken).to_pylist()[0]["clouds"] == "c0, c1"


def test_parts_without_a_column_do_not_fit() -> None:
    catalog = Catalog({"x": {"t": Table("t", (Column("a", "int"),))}, "y": {"t": Table("t", (Column("b", "int"),))}})
    with pytest.raises(QueryError, match="has a, b"):
        catalog.table("t")
    with pytest.raises(QueryError, match="name one of these: t"):
        catalog.table("nope")
