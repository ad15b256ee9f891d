"""SQL over three clouds, which are databases of one local Spark, against the same SQL over their union.

Rows, names and types must be the same. The clouds are real in all but the network: see `LocalCloud`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from catchment.errors import CatchmentError, QueryError
from catchment.federation import Federation
from catchment.federation.cloud import Errand, Purpose
from catchment.federation.ledger import Ledger
from catchment.federation.plan import Run
from catchment.federation.rules.deal import SCATTERED
from catchment.testing.differential import every_way
from tests.amounts import one_in

pytestmark = pytest.mark.spark

PARTS = {"fed_paris": (0, 40), "fed_rome": (40, 70), "fed_oslo": (70, 100)}
UNION = "fed_union"

ROWS = [
    "SELECT * FROM t",
    "SELECT A, s FROM t WHERE a > 50 AND dt < DATE '2020-01-05'",
    "SELECT a + 1 AS x, x * 2 AS y, upper(s) FROM t WHERE a < 5",
    "SELECT st.x, arr[0], arr FROM t WHERE st.x = 1",
    "SELECT a, e FROM t LATERAL VIEW explode(arr) z AS e WHERE a < 5",
    "SELECT a, explode(arr) FROM t WHERE a < 4",
    "SELECT * FROM only",
    "SELECT 1, 'x'",
    "SELECT d FROM t WHERE a IS NULL",
]
AGGREGATES = [
    "SELECT count(*), sum(a), avg(d), sum(d), min(dt), max(x), avg(a), avg(x), sum(big) FROM t",
    "SELECT k, count(*), sum(d), avg(d), avg(d * d) FROM t GROUP BY k",
    "SELECT substr(s, 1, 1), sum(a) FROM t GROUP BY substr(s, 1, 1)",
    "SELECT s, k, count(DISTINCT a), sum(DISTINCT k) FROM t GROUP BY s, k ORDER BY s, k",
    "SELECT count(*), count(DISTINCT s), count(DISTINCT s, k), sum(a) FROM t WHERE a > 1000",
    "SELECT s, sum(a) AS total FROM t GROUP BY s HAVING sum(a) > 10 ORDER BY total DESC LIMIT 2",
    "SELECT stddev(a), variance(x), var_pop(d), stddev_pop(a), std(a), var_samp(x), variance(a + 1e4) FROM t",
    "SELECT k, stddev(x), variance(a) FROM t WHERE a < 60 GROUP BY k",
    "SELECT k, s, count(*) c, grouping(k) FROM t GROUP BY ROLLUP (k, s) ORDER BY c, k, s",
    "SELECT s, sum(k) FROM t GROUP BY GROUPING SETS ((s), ()) ORDER BY s",
    "SELECT any_value(s) IS NOT NULL, max_by(a, x), min_by(a, d), count_if(a > 3), bool_and(a >= 0), every(b), any(b),"
    " bit_xor(a), median(a), percentile(x, 0.3), percentile(a, array(0.1, 0.9)) FROM t",
    "SELECT k, sort_array(collect_list(a)), sort_array(collect_set(s)), count(a) FILTER (WHERE b),"
    " count(DISTINCT s) FILTER (WHERE b), avg(DISTINCT d) FROM t GROUP BY k",
    "SELECT k, s, sum(a) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT min(struct('x' AS x, a)), max(struct(a, array(struct('y' AS y)))) FROM t WHERE a > 75",  # null in two
    "SELECT min_by(s, struct('x' AS x, a)) FROM t WHERE a > 1000",
    "SELECT CASE WHEN a > 50 THEN 'hi' ELSE 'lo' END g, count(*) FROM t GROUP BY g",
    "SELECT s, rank() OVER (ORDER BY sum(a) DESC) r, sum(sum(a)) OVER () tot FROM t GROUP BY s",
    "SELECT cast(sum(d) AS string), cast(avg(d) AS string), cast(avg(cast(d AS decimal(38,10))) AS string) FROM t",
    "SELECT max(dt) - min(dt), date_add(max(dt), 3), year(min(dt)) FROM t",
    "SELECT listagg(s) WITHIN GROUP (ORDER BY a), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), corr(a, x) FROM t",
]
SCATTERED_GROUPS = [
    "SELECT a, count(NOT b), count(NOT a > 3), count(d IS NULL), count(a IN (1, 2)), count(x BETWEEN 1 AND 2) FROM t"
    " GROUP BY a",
    "SELECT a, count(*), count(d), sum(d), sum(k), sum(x), avg(d), avg(a), min(dt), max(s) FROM t GROUP BY a",
    "SELECT a, max(struct(dt, s)), max(arr), max(st), max(cast(null AS string)) FROM t GROUP BY a",
    "SELECT a, stddev(k), bit_or(k), count(d) FILTER (WHERE b), approx_count_distinct(s) FROM t GROUP BY a",
    "SELECT a AS k, s AS a, sum(k) AS s FROM t WHERE b OR k > 2 GROUP BY a, s HAVING sum(k) > 1",
    "SELECT a, _cloud, count(*) FROM t GROUP BY a, _cloud",
    "SELECT d, a FROM t GROUP BY d, a",
    "SELECT a, 'x', count(*) FROM t GROUP BY ALL",
]
"""As many groups as rows, nearly."""
ORDERED = [
    "SELECT a FROM t ORDER BY a DESC LIMIT 5",
    "SELECT a FROM t ORDER BY d, a LIMIT 5 OFFSET 3",
    "SELECT a b, k a FROM t ORDER BY a, b LIMIT 3",
    "SELECT a, s FROM t ORDER BY s DESC, a",
    "SELECT DISTINCT s, k FROM t ORDER BY k, s",
    "SELECT k FROM t UNION SELECT k FROM u ORDER BY k",
]
JOINS = [
    "SELECT t.a, u.name FROM t JOIN u ON t.k = u.k WHERE t.a < 30",
    "SELECT u.name, sum(t.d), count(*) FROM t JOIN u ON t.k = u.k GROUP BY u.name",
    "SELECT u.name, t.a FROM u LEFT JOIN t ON t.k = u.k AND t.a < 20",
    "SELECT t.a, u.name FROM t LEFT JOIN u ON t.k = u.k AND u.w > 12 WHERE u.name IS NULL",
    "SELECT t.a, u.name FROM t RIGHT JOIN u ON t.k = u.k AND t.a < 5",
    "SELECT t.a, u.name FROM t FULL JOIN u ON t.k = u.k AND t.a < 5 AND u.w > 4",
    "SELECT * FROM t JOIN only ON t.k = only.k",
    "SELECT * FROM t NATURAL JOIN u WHERE a < 10",
    "SELECT k, t.a FROM t FULL JOIN u USING (k) WHERE (a < 10 OR a IS NULL) AND u.w > 4",
    "SELECT a FROM t LEFT SEMI JOIN u ON t.k = u.k AND u.w > 12",
    "SELECT a FROM t LEFT ANTI JOIN u ON t.k = u.k",
    "SELECT a FROM t LEFT ANTI JOIN (SELECT k AS c FROM u WHERE w > 12) AS c ON t.k = c.c",
    "SELECT a FROM t LEFT SEMI JOIN (SELECT k AS j, st AS a FROM t) AS a ON t.k = a.j AND a.a.x = 1",
    "SELECT t1.a, t2.a FROM t t1 JOIN t t2 ON t1.a = t2.a + 1 WHERE t1.k = 2",
    "SELECT v.x, t.a FROM t JOIN (VALUES (1), (2)) v(x) ON t.a = v.x",
]
NESTED = [
    "SELECT a FROM t WHERE k IN (SELECT k FROM u WHERE w > 10)",
    "SELECT a FROM t WHERE k NOT IN (SELECT k FROM u WHERE w > 10)",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.a)",
    "SELECT a, (SELECT max(w) FROM u) m FROM t WHERE a < 10",
    "SELECT a, (SELECT max(w) FROM u WHERE u.k = t.k) m FROM t WHERE a < 10",
    "SELECT a FROM t WHERE a IN (SELECT max(a) FROM t GROUP BY k) ORDER BY a",
    "WITH c AS (SELECT k, count(*) n FROM t GROUP BY k) SELECT c1.k, c1.n, c2.n FROM c c1 JOIN c c2 ON c1.k = c2.k",
    "SELECT count(*) FROM (SELECT a FROM t LIMIT 7) q",
    "SELECT x.k, x.n FROM (SELECT k, count(*) n FROM t GROUP BY k) x WHERE x.n > 14",
    "SELECT a FROM t UNION ALL SELECT w FROM u",
    "SELECT a FROM t WHERE a < 3 UNION ALL SELECT q FROM only UNION ALL SELECT 1.5",
    "SELECT k FROM t INTERSECT SELECT k FROM u",
    "SELECT k FROM t EXCEPT ALL SELECT k FROM u WHERE w < 8",
    "SELECT a, row_number() OVER (PARTITION BY k ORDER BY a) r FROM t",
    "SELECT a, lag(a) OVER (ORDER BY a) FROM t QUALIFY row_number() OVER (ORDER BY a) < 4",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT n, (SELECT count(*) FROM t) FROM r",
    "SELECT * FROM (SELECT a, k FROM t WHERE a < 20) PIVOT (count(a) FOR k IN (1, 2))",
]
WRONG = [
    ("SELECT nope FROM t", "nope"),
    ("SELECT a FROM nope", "there is no table 'nope'"),
    ("SELECT a, sum(k) FROM t", "GROUP BY"),
    ("SELECT a / 0 FROM t", "DIVIDE_BY_ZERO"),
    ("SELECT sum(big * 100000000) FROM t", "OVERFLOW"),
]


@pytest.fixture(scope="module")
def world(spark: Any) -> Iterator[tuple[Federation, Any, list[Any]]]:
    """The federation, the one Spark with everything, and the clouds."""
    from catchment.spark.local_clouds import LocalCloud

    for database, (low, high) in PARTS.items():
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(
            f"CREATE TABLE {database}.t USING parquet AS SELECT cast(id AS int) A, id % 7 k,"
            " CASE WHEN id % 11 = 0 THEN null ELSE cast(id * 1.25 AS decimal(12,2)) END d, concat('s', id % 5) s,"
            " date_add(DATE '2020-01-01', cast(id % 9 AS int)) dt,"
            " CASE WHEN id % 13 = 0 THEN null ELSE id / 3.0D END x, id % 2 = 0 b, id * 1000000007 big,"
            " array(id, id + 1) arr, named_struct('x', id % 3, 'y', 'q') st"
            f" FROM range({low}, {high})"
        )
        spark.sql(
            f"CREATE TABLE {database}.u USING parquet AS SELECT id % 7 k, concat('n', id) name, id * 2 w"
            f" FROM range({low // 10}, {high // 10})"
        )
    spark.sql("CREATE TABLE fed_rome.only USING parquet AS SELECT id k, id * id q FROM range(5)")
    spark.sql(f"CREATE DATABASE {UNION}")
    for table in ("t", "u"):
        parts = " UNION ALL ".join(f"SELECT * FROM {database}.{table}" for database in PARTS)
        spark.sql(f"CREATE TABLE {UNION}.{table} USING parquet AS {parts}")
    spark.sql(f"CREATE TABLE {UNION}.only USING parquet AS SELECT * FROM fed_rome.only")
    clouds = [LocalCloud(spark, name.removeprefix("fed_"), name, catalog_seconds=600) for name in PARTS]
    with Federation(clouds) as federation:
        yield federation, LocalCloud(spark, "one", UNION), clouds
    for database in (*PARTS, UNION):
        spark.sql(f"DROP DATABASE {database} CASCADE")


def _values(table: pa.Table, ordered: bool) -> list[str]:
    rows = [repr([_rounded(value) for value in row.values()]) for row in _unique(table).to_pylist()]
    return rows if ordered else sorted(rows)


def _unique(table: pa.Table) -> pa.Table:
    return table.rename_columns([f"c{number}" for number in range(table.num_columns)])


def _rounded(value: Any) -> Any:
    """Sums of fractions depend on their order in the last places."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return value


def _one(cloud: Any, query: str) -> pa.Table:
    return cloud.run(query, Errand("one", Purpose.RESULT, Ledger()))


@pytest.mark.parametrize("query", one_in(3, [*ROWS, *AGGREGATES, *ORDERED, *JOINS, *NESTED], "clouds"))
def test_the_answer_is_that_of_one_spark(world: tuple[Federation, Any, list[Any]], query: str) -> None:
    federation, one, clouds = world
    expected, found = _one(one, query), federation.sql(query)
    assert found.schema.names == expected.schema.names
    assert [str(kind) for kind in found.schema.types] == [
        str(kind).replace(" not null", "") for kind in expected.schema.types
    ]
    ordered = query in ORDERED
    assert _values(found, ordered) == _values(expected, ordered)
    assert not [view for cloud in clouds for view in cloud.views()]


@pytest.mark.parametrize("query", one_in(4, SCATTERED_GROUPS, "clouds"))
def test_groups_that_hardly_repeat_are_those_of_one_spark(world: tuple[Federation, Any, list[Any]], query: str) -> None:
    federation, one, clouds = world
    # One Spark has no hidden column; which cloud a row is in is what its key says.
    asked = query.replace("_cloud", "CASE WHEN a < 40 THEN 'paris' WHEN a < 70 THEN 'rome' ELSE 'oslo' END")
    with every_way():
        expected, outcome = _one(one, asked), federation.query(query)
    assert outcome.plan is not None
    assert any(step.why == SCATTERED for step in outcome.plan if isinstance(step, Run))
    assert [kind for kind in outcome.table.schema.types if pa.types.is_primitive(kind)] == [
        kind for kind in expected.schema.types if pa.types.is_primitive(kind)
    ]
    assert _values(outcome.table, False) == _values(expected, False)
    assert not [view for cloud in clouds for view in cloud.views()]


@pytest.mark.parametrize(("query", "said"), WRONG)
def test_what_spark_refuses_is_refused(world: tuple[Federation, Any, list[Any]], query: str, said: str) -> None:
    federation, one, clouds = world
    with pytest.raises(CatchmentError):
        _one(one, query)
    with pytest.raises(QueryError) as problem:
        federation.sql(query)
    assert said in str(problem.value)
    assert not [view for cloud in clouds for view in cloud.views()]


def test_what_spark_said_is_said_when_another_thread_met_it(spark: Any) -> None:
    from catchment.spark.local_clouds import LocalCloud

    cloud = LocalCloud(spark, "one", "default", settings={"spark.sql.adaptive.enabled": "false"})
    query = "SELECT /*+ BROADCAST(b) */ a.id FROM range(3) a JOIN (SELECT uuid() AS s FROM range(3)) b ON a.id = b.s"
    with pytest.raises(QueryError, match="CAST_INVALID_INPUT"):
        _one(cloud, query)


def test_the_hidden_column_is_the_cloud(world: tuple[Federation, Any, list[Any]]) -> None:
    federation, _, _ = world
    counts = federation.sql("SELECT _cloud, count(*) AS n FROM t GROUP BY _cloud").to_pylist()
    assert {row["_cloud"]: row["n"] for row in counts} == {"paris": 40, "rome": 30, "oslo": 30}
    outcome = federation.query("SELECT count(*) FROM t WHERE _cloud IN ('rome', 'oslo')")
    assert outcome.table.to_pylist() == [{"count(1)": 60}]
    assert outcome.plan is not None
    assert {step.cloud for step in outcome.plan if "AS `_p0`" in getattr(step, "sql", "")} == {"rome", "oslo"}
    assert federation.sql("SELECT * FROM t LIMIT 1").num_columns == 10


def test_approximate_answers_are_near(world: tuple[Federation, Any, list[Any]]) -> None:
    federation, _, _ = world
    outcome = federation.query(
        "SELECT approx_count_distinct(a), approx_count_distinct(s, 0.01), approx_percentile(a, 0.5),"
        " approx_percentile(x, array(0.1, 0.9), 100) FROM t"
    )
    (row,) = (list(row.values()) for row in outcome.table.to_pylist())
    assert row[0] == pytest.approx(100, rel=0.05)
    assert row[1] == 5
    assert 48 <= row[2] <= 51
    assert row[3] == pytest.approx([100 / 30, 30], rel=0.15)


def test_only_what_is_needed_crosses(world: tuple[Federation, Any, list[Any]]) -> None:
    federation, _, _ = world
    few = federation.query("SELECT s, sum(a) FROM t GROUP BY s")
    assert few.ledger.bytes(purpose="rows") == 0
    assert few.ledger.bytes(purpose="partial", outward=True) > 0
    said = federation.explain("SELECT s, sum(a) FROM t GROUP BY s", run=True)
    assert "true: 5 rows" in said
    assert "moved: " in said
    lines = federation.sql("EXPLAIN SELECT s FROM t")["plan"].to_pylist()
    assert any("ask paris" in line for line in lines)


def test_tables_are_shown_and_described(world: tuple[Federation, Any, list[Any]]) -> None:
    federation, _, _ = world
    shown = {row["table"]: row["clouds"] for row in federation.sql("SHOW TABLES").to_pylist()}
    assert shown == {"t": "paris, rome, oslo", "u": "paris, rome, oslo", "only": "rome"}
    described = federation.sql("DESCRIBE t").to_pylist()
    assert described[0] == {"col_name": "A", "data_type": "int"}


@pytest.mark.long("clouds")
def test_tables_are_listed_while_views_come_and_go(world: tuple[Federation, Any, list[Any]]) -> None:
    cloud = world[2][0]
    known = set(cloud.tables())
    errand = Errand("views", Purpose.ROWS, Ledger())
    over = threading.Event()

    def come_and_go(number: int) -> None:
        rows = pa.table({"x": [1]})
        while not over.is_set():
            names = [f"catchment_{number}_{view}" for view in range(20)]
            for name in names:
                cloud.put(name, rows, errand)
            cloud.forget(names)

    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(come_and_go, number) for number in range(2)]
        try:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                cloud.refresh()
                assert set(cloud.tables()) == known
        finally:
            over.set()
    for each in busy:
        each.result()
    assert cloud.views() == []
