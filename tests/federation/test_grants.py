"""What a statement may not do: read files, run code, change tables, learn what a server keeps to itself."""

from __future__ import annotations

import pytest

from catchment.errors import StatementError
from catchment.federation.dialect import write
from catchment.federation.grants import check_names
from catchment.federation.statements import Explain, Query, parse_statement

CODE = [
    "SELECT reflect('java.lang.System', 'exit', 0)",
    "SELECT `reflect`('a', 'b')",
    "SELECT REFLECT /* here */ ('a', 'b')",
    "SELECT system.builtin.reflect('a', 'b')",
    "SELECT x.java_method('a', 'b') FROM t AS x",
    "SELECT try_reflect('a', 'b')",
    "SELECT IDENTIFIER('reflect')('a', 'b')",
    "SELECT java.lang.System.exit(0)",
    "SELECT transform(array(1), x -> reflect('a', 'b'))",
    "SELECT aggregate(array(1), 0, (a, x) -> java_method('a', 'b'))",
    "SELECT * FROM t LATERAL VIEW reflect('a', 'b') v AS z",
    "SELECT * FROM t, LATERAL (SELECT reflect('a', 'b'))",
    "SELECT count(*) FILTER (WHERE reflect('a', 'b') = 'x') FROM t",
    "SELECT sum(1) OVER (ORDER BY reflect('a', 'b')) FROM t",
    "SELECT 1 FROM t GROUP BY reflect('a', 'b')",
    "SELECT * FROM t ORDER BY reflect('a', 'b')",
    "SELECT (SELECT reflect('a', 'b'))",
    "WITH c AS (SELECT reflect('a', 'b')) SELECT 1",
    "SELECT mine(1)",
    "SELECT database.mine(1)",
    "SELECT r'\\', reflect('a', 'b'), ''",
    "SELECT TRANSFORM(k) USING 'cat' FROM t",
    'SELECT TRANSFORM (k) USING "cat" AS (a) FROM t',
    "SELECT * FROM (SELECT TRANSFORM(k) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' USING 'cat' FROM t)",
    "SELECT * FROM (MAP k USING 'cat' FROM t)",
    "FROM t MAP k USING 'cat' AS b",
    "FROM (FROM t REDUCE k USING 'cat' AS b) SELECT b",
]
FILES = [
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM `text`.`/etc/passwd`",
    "SELECT * FROM text./etc/passwd",
    "SELECT * FROM csv.`file:///etc/passwd` AS t",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM text.`/etc/passwd`)",
    "WITH parquet AS (SELECT 1) SELECT * FROM parquet.`/etc`",
    "SELECT * FROM IDENTIFIER('parquet.`/etc/passwd`')",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT input_file_name() FROM t",
    "SELECT input_file_block_start() FROM t",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT from_protobuf(x, 'm', '/etc/passwd') FROM t",
    "FROM t INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT *",
    "LOAD DATA INPATH '/x' INTO TABLE t",
    "DESCRIBE parquet.`/etc/passwd`",
]
SECRETS = [
    "SELECT '${env:PATH}'",
    "SELECT ${spark.authenticate.secret}",
    "SELECT '\\${system:user.home}'",
    "SELECT 1 AS `${env:PATH}`",
    "CREATE INDEX `${env:PATH}` ON t(k)",
    "DESCRIBE `${env:PATH}`",
    "SELECT current_user()",
    "SELECT version()",
    "SELECT current_database()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM spark_catalog.default.t",
    "SELECT * FROM global_temp.other",
    "SHOW CREATE TABLE t",
    "SHOW TBLPROPERTIES t",
    "DESCRIBE EXTENDED t",
    "DESCRIBE FUNCTION sum",
    "SET",
    "SET -v",
]
CHANGES = [
    "SELECT 1; DROP TABLE t",
    "DESCRIBE t; DROP TABLE t",
    "SHOW TABLES; SHOW TABLES",
    "INSERT INTO t SELECT 1",
    "FROM t INSERT INTO u SELECT *",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "WITH x AS (DELETE FROM t) SELECT 1",
    "EXPLAIN INSERT INTO t SELECT 1",
    "EXPLAIN ANALYZE DROP TABLE t",
    "EXPLAIN EXPLAIN SELECT 1",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMPORARY VIEW x AS SELECT 1",
    "CREATE FUNCTION f AS 'x'",
    "DELETE FROM t",
    "UPDATE t SET k = 1",
    "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE t",
    "ALTER TABLE t ADD COLUMN x INT",
    "ADD JAR '/x.jar'",
    "SET spark.sql.ansi.enabled = false",
    "USE other",
    "CACHE TABLE t",
    "REFRESH TABLE t",
    "EXECUTE IMMEDIATE 'DROP TABLE t'",
    "BEGIN SELECT 1; END",
    "DECLARE x INT",
    "CALL mine()",
    "SELECT * INTO u FROM t",
]
UNSTABLE = [
    "SELECT rand()",
    "SELECT uuid()",
    "SELECT monotonically_increasing_id() FROM t",
    "SELECT * FROM t TABLESAMPLE (10 PERCENT)",
    "SELECT * FROM t VERSION AS OF 1",
    "SELECT /*+ BROADCAST(t) */ * FROM t",
    "SELECT * FROM t WHERE k = :x",
    "SELECT ?",
]


@pytest.mark.parametrize("text", CODE + FILES + SECRETS + CHANGES + UNSTABLE)
def test_what_is_not_granted_is_refused_by_the_one_error(text: str) -> None:
    for written in (text, text.lower() if "'" not in text and "`" not in text else text, f"/* a */ {text} -- b"):
        with pytest.raises(StatementError) as refusal:
            parse_statement(written)
        assert str(refusal.value)


@pytest.mark.parametrize(
    "hidden",
    [
        "/* /*+ */ , reflect('a', 'b') -- */",
        "-- \\\n /* \n , reflect('a', 'b') -- */",
        "{# , reflect('a', 'b') #}",
        "/* /* */ , reflect('a', 'b') */",
        "-- reflect('a', 'b')",
    ],
)
def test_no_comment_reaches_spark(hidden: str) -> None:
    """Parsers differ in where some comments end: what we take for one may be code there, so it is not sent."""
    for text in (f"SELECT 1 {hidden}", f"EXPLAIN SELECT 1 {hidden}", f"SELECT 1 {hidden}\n FROM t"):
        asked = parse_statement(text)
        query = asked.query if isinstance(asked, Explain) else asked
        assert isinstance(query, Query)
        assert "reflect" not in query.text
        assert "reflect" not in write(query.tree)


def test_what_stays_of_a_text_stays_in_its_place() -> None:
    text = "SELECT 'a -- b', /* c\n d */ r'\\', 1.5BD, 2L, \"/* e */\" -- f\n FROM `t--u` ;  -- g"
    asked = parse_statement(text)
    assert isinstance(asked, Query)
    assert len(asked.text) == text.index(" ;")
    assert "\n" in asked.text
    for kept in ("'a -- b'", "r'\\'", "1.5BD, 2L", '"/* e */"', "`t--u`"):
        assert asked.text.index(kept) == text.index(kept)


@pytest.mark.parametrize("text", ["SELECT '\\044{env:PATH}'", "SELECT '\\u0024{env:PATH}'", "SELECT '$\\{env:PATH}'"])
def test_a_string_never_becomes_a_variable_by_being_written_again(text: str) -> None:
    asked = parse_statement(text)
    assert isinstance(asked, Query)
    assert "${" not in asked.text
    assert "${" not in write(asked.tree)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, 'reflect(', \"; DROP TABLE t\" FROM t -- rand()",
        "SELECT transform(array(1), x -> x + 1)",
        "SELECT a AS reflect FROM t",
        "SELECT * FROM range(3)",
        "SELECT explode(sequence(1, 3))",
        "FROM t SELECT k",
        "SELECT k FROM t;",
        "(SELECT 1) UNION ALL (SELECT 2)",
    ],
)
def test_what_looks_alike_and_is_harmless_is_granted(text: str) -> None:
    assert isinstance(parse_statement(text), Query)


@pytest.mark.parametrize(
    "text", ["SELECT user FROM t", "SELECT `session_user`", "SELECT 1 WHERE current_catalog = 'a'"]
)
def test_a_function_that_looks_like_a_column_is_refused(text: str) -> None:
    asked = parse_statement(text)
    assert isinstance(asked, Query)
    with pytest.raises(StatementError, match="no column"):
        check_names(asked.tree, {"k"})
    check_names(asked.tree, {"user", "session_user", "current_catalog"})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k AS user FROM t ORDER BY user",
        "SELECT transform(a, user -> user + 1) FROM t",
        "SELECT t.user FROM t",
        "WITH c(user) AS (SELECT 1) SELECT user FROM c",
        "SELECT user FROM (SELECT 1) AS t(user)",
    ],
)
def test_a_name_that_the_query_gives_is_no_function(text: str) -> None:
    asked = parse_statement(text)
    assert isinstance(asked, Query)
    check_names(asked.tree, set())
