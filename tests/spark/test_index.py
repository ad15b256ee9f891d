"""Indexes on a real Spark: what they give, what they read, and what becomes of them when files change."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from catchment.errors import CloudError, NameNotFoundError, StatementError
from catchment.federation import index_text
from catchment.federation.cloud import Errand, Index, Purpose, Table
from catchment.federation.federation import Federation
from catchment.federation.index import create_index, drop_index, extend_indexes, refresh_index, show_indexes
from catchment.federation.index_belief import may_read_index
from catchment.federation.index_catalog import Believed, IndexCatalog
from catchment.federation.index_manifest import HIDDEN
from catchment.federation.ledger import Ledger
from catchment.federation.rules.use_index import use_index
from catchment.federation.selectivity import estimate_rows
from tests.amounts import one_in

pytestmark = pytest.mark.spark

TYPES = {
    "whole": "INT", "long": "BIGINT", "real": "DOUBLE", "money": "DECIMAL(10,2)", "word": "STRING", "day": "DATE",
    "moment": "TIMESTAMP", "wall": "TIMESTAMP_NTZ", "fact": "BOOLEAN",
}  # fmt: skip
COLUMNS = ", ".join(TYPES)
INDEXED = tuple(name for name in TYPES if name != "fact")
ROWS = 6_000
TRUTH = "SELECT whole, word FROM t WHERE whole BETWEEN 3 AND 5"

_number = count()


def an_errand() -> Errand:
    return Errand("test", Purpose.STATISTICS, Ledger())


class World:
    """One cloud with a table of random rows."""

    def __init__(self, spark: Any, folder: Path) -> None:
        from catchment.spark.local_clouds import LocalCloud

        self.spark, self.name = spark, f"city{next(_number)}"
        self.folder = folder / self.name / "t"
        spark.sql(f"CREATE DATABASE {self.name} LOCATION '{folder / self.name}'")
        self.cloud = LocalCloud(spark, self.name, self.name, catalog_seconds=0)
        self.catalog = IndexCatalog(self.cloud, seconds=0)
        self.run(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())}) USING parquet")

    def close(self) -> None:
        self.spark.sql(f"DROP DATABASE {self.name} CASCADE")
        self.spark.sql(f"DROP DATABASE IF EXISTS catchment_index_{self.name} CASCADE")

    def run(self, sql: str) -> pa.Table:
        return self.cloud.run(sql, an_errand())

    def add(self, rows: int, seed: int) -> None:
        """One more file: nulls, duplicates, a few values that are frequent."""
        self.run(
            f"INSERT INTO t SELECT /*+ COALESCE(1) */ IF(r < 0.1, NULL, CAST(pow(r, 4) * 1000 AS INT)), "
            f"id % 500 - 250, IF(s < 0.05, NULL, IF(s < 0.1, 0.5D, IF(s < 0.11, double('NaN'), s * 100))), "
            f"CAST(r * 1000 AS DECIMAL(10,2)), "
            f"IF(r < 0.05, NULL, concat('w', CAST(s * 300 AS INT), IF(s > 0.9, 'é', ''))), "
            f"date_add(DATE '1999-12-01', CAST(s * 100 AS INT)), timestamp_millis(CAST(r * 1e9 AS BIGINT)), "
            f"CAST(timestamp_millis(CAST(s * 1e9 AS BIGINT)) AS TIMESTAMP_NTZ), r < 0.5 "
            f"FROM (SELECT id, rand({seed}) AS r, rand({seed + 1}) AS s FROM range({rows}))"
        )

    def create(self, name: str, column: str, *include: str) -> pa.Table:
        return create_index([self.catalog], name, "t", column, include, an_errand())

    def refresh(self) -> None:
        refresh_index([self.catalog], "i", an_errand())

    def table(self) -> Table:
        return self.catalog.filled(self.cloud.tables(), ["t"], an_errand())["t"]

    def index(self) -> Index:
        [index] = self.table().indexes
        return index

    def check(self, predicate: str, columns: str = "whole, word, day", *, used: bool = True) -> str:
        """The index's rows are those of the scan; gives the SQL that read the index."""
        text = f"SELECT {columns} FROM t AS a WHERE {predicate}"
        found = use_index(leaf(text), self.table())
        assert (found is not None) is used, predicate
        if found is None:
            return ""
        self.run("REFRESH TABLE t")
        sql = found.relation.sql("spark")
        assert in_any_order(self.run(sql)) == in_any_order(self.run(text)), sql
        return sql


def in_any_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def leaf(text: str) -> exp.Select:
    tree = parse_one(text, dialect="spark")
    assert isinstance(tree, exp.Select)
    return tree


@pytest.fixture
def world(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("catchment.federation.rules.use_index.RELATION_COST", 0.0)
    monkeypatch.setattr("catchment.federation.rules.use_index.PAGE_ROWS", 1)
    made = World(spark, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def indexed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An index on every column, of several files, and a file beside them."""
    made = World(spark, tmp_path_factory.mktemp("indexed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catchment.federation.index_text.FILE_BYTES", 100_000)
        made.add(ROWS, 3)
        made.add(ROWS, 5)
        for column in INDEXED:
            made.create(f"by_{column}", column)
        made.add(500, 7)
    yield made
    made.close()


def predicates(draw: random.Random, column: str) -> Iterator[str]:
    def value() -> str:
        return {
            "whole": lambda: str(int(draw.random() ** 4 * 1000)),
            "long": lambda: str(draw.randint(-260, 260)),
            "real": lambda: draw.choice(["0.5D", f"{draw.random() * 100:.3f}D"]),
            "money": lambda: f"{draw.random() * 1000:.2f}",
            "word": lambda: f"'w{draw.randint(0, 310)}'",
            "day": lambda: f"DATE '{draw.choice(['1999-12-', '2000-01-', '2000-02-'])}{draw.randint(1, 28):02}'",
            "moment": lambda: f"TIMESTAMP '1970-01-{draw.randint(1, 12):02} 0{draw.randint(0, 9)}:11:00'",
            "wall": lambda: f"TIMESTAMP_NTZ '1970-01-{draw.randint(1, 12):02} 0{draw.randint(0, 9)}:11:00'",
        }[column]()

    yield f"{column} = {value()}"
    yield f"{value()} = {column}"
    yield f"{column} IN ({value()}, {value()}, {value()})"
    yield f"{column} > {value()} AND {column} <= {value()}"
    yield f"{column} BETWEEN {value()} AND {value()}"
    yield f"{column} < {value()} OR {column} = {value()}"
    yield f"{column} IS NULL"
    yield f"{column} IS NULL OR {column} = {value()}"
    yield f"{column} <=> {value()}"
    yield f"NOT {column} <= {value()}"
    yield f"{column} >= {value()}"
    yield f"{value()} > {column}"
    yield f"{column} IN ({', '.join(value() for _ in range(15))})"
    if column == "word":
        yield "word LIKE 'w1%'"
        yield "word LIKE 'w2%é'"
        yield "startswith(word, 'w29')"
    if column == "day":
        yield "day BETWEEN Date('2000-01-30') AND '2000-01-31'"


@pytest.mark.parametrize("column", one_in(4, INDEXED, "clouds"))
def test_rows_are_those_of_the_scan(indexed: World, column: str) -> None:
    """Whatever it costs: the index is taken wherever it can be, and a few files beside it are read too."""
    table = indexed.table()
    assert all(len(index.segments[0].parts) > 1 and len(index.fresh) == 1 for index in table.indexes)
    draw = random.Random(column)
    parts, named = [], []
    for predicate in predicates(draw, column):
        text = f"SELECT {COLUMNS} FROM t AS a WHERE {predicate} AND (fact OR long > 0)"
        found = use_index(leaf(text), table, always=True)
        if found is not None:
            named.append(predicate)
            for side, sql in enumerate((text, found.relation.sql("spark"))):
                hashed = f"SELECT xxhash64({COLUMNS}) AS h FROM ({sql})"
                parts.append(
                    f"SELECT {len(named) - 1} AS q, {side} AS side, count(*) AS n, "
                    f"coalesce(sum(CAST(h AS DECIMAL(38,0))), 0) AS h FROM ({hashed})"
                )
    rows = indexed.run(" UNION ALL ".join(parts)).to_pylist()
    said = {(row["q"], row["side"]): (row["n"], row["h"]) for row in rows}
    assert {q: said[q, 1] for q in range(len(named))} == {q: said[q, 0] for q in range(len(named))}, named
    assert len(named) >= 9
    assert sum(said[q, 0][0] > 0 for q in range(len(named))) >= 2, column


def test_estimates_against_exact_counts(indexed: World) -> None:
    """Within 3 % of all rows: ranks are off by 0.2 %, counts by 0.1 %, a cut is one in 256, and NaN has no rank."""
    table = indexed.table()
    [rows] = indexed.run("SELECT count(*) AS n FROM t")["n"].to_pylist()
    draw = random.Random(1)
    asked = [(column, predicate) for column in INDEXED for predicate in predicates(draw, column)]
    counts = ", ".join(f"count_if({predicate}) AS c{place}" for place, (_, predicate) in enumerate(asked))
    [truth] = indexed.run(f"SELECT {counts} FROM t").to_pylist()
    for place, (_, predicate) in enumerate(asked):
        guess = estimate_rows(table, leaf(f"SELECT 1 FROM t WHERE {predicate}").args["where"].this)
        off = guess - truth[f"c{place}"]
        assert off >= -0.03 * rows, (predicate, guess, truth[f"c{place}"])
        if "%é" not in predicate:  # of which the sketches know the prefix only
            assert off <= 0.03 * rows, (predicate, guess, truth[f"c{place}"])


def rows_read(spark: Any, sql: str) -> int:
    """What the scans of a statement gave to the filter above them."""
    frame = spark.sql(sql)
    frame.toArrow()
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan
    leaves = plan.collectLeaves()
    return sum(int(leaves.apply(n).metrics().apply("numOutputRows").value()) for n in range(leaves.size()))


def test_only_the_pages_that_hold_the_rows_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, page = 100_000, index_text.PAGE_ROWS
    monkeypatch.setattr("catchment.federation.index_text.FILE_BYTES", 2_000_000)
    world.run(
        f"CREATE TABLE big USING parquet AS SELECT id * 7919 % {rows} AS k, concat('v', id) AS v FROM range({rows})"
    )
    create_index([world.catalog], "i", "big", "k", (), an_errand())
    table = world.catalog.filled(world.cloud.tables(), ["big"], an_errand())["big"]
    session = world.spark.newSession()
    session.catalog.setCurrentDatabase(world.name)
    for setting, value in index_text.SESSION_SETTINGS.items():
        session.conf.set(setting, value)
    many = ", ".join(str(place * 8_001) for place in range(12))
    for predicate, most in (
        ("k = 5", page),
        ("k BETWEEN 4500 AND 5500", 1_001 + 2 * page),
        ("k IN (7, 90000)", 2 * page),
        (f"k IN ({many})", 12 * page),
    ):
        text = f"SELECT v FROM big WHERE {predicate}"
        found = use_index(leaf(text), table)
        assert found is not None
        assert rows_read(session, text) >= rows // 2
        assert rows_read(session, found.relation.sql("spark")) <= most, predicate


def test_an_index_is_made_used_shown_and_dropped(world: World) -> None:
    world.add(3_000, 1)
    world.add(3_000, 2)
    shown = world.create("by_whole", "whole", "word", "day").to_pylist()
    assert [(row["name"], row["column"], row["rows"], row["fresh_files"]) for row in shown] == [
        ("by_whole", "whole", 6_000, 0)
    ]
    assert "catchment_index_" in world.check("a.whole = 17")
    world.check("whole = 17", "real", used=False)  # not covered
    world.check("real > 3", "whole, real", used=False)
    drop_index([world.catalog], "BY_WHOLE", an_errand())
    assert show_indexes([world.catalog], None, an_errand()).num_rows == 0
    assert world.table().indexes == ()
    assert world.run(f"SHOW TABLES IN catchment_index_{world.name}").num_rows == 0
    with pytest.raises(NameNotFoundError, match="SHOW INDEXES"):
        drop_index([world.catalog], "by_whole", an_errand())


def test_files_added_changed_and_removed(world: World) -> None:
    world.add(3_000, 1)
    world.create("i", "whole")
    world.add(300, 11)
    assert (len(world.index().segments), len(world.index().fresh)) == (1, 1)
    assert "UNION ALL" in world.check("whole = 5")
    assert extend_indexes(world.catalog, "T", an_errand()) == ("i",)
    assert (len(world.index().segments), len(world.index().fresh)) == (2, 0)
    world.check("whole = 5")

    changed, other = sorted(world.folder.glob("*.parquet"), key=lambda path: path.stat().st_size)
    shutil.copyfile(other, changed)
    changed.with_name(f".{changed.name}.crc").unlink(missing_ok=True)
    index = world.index()
    assert len(index.segments) == 1
    assert [Path(path).name for path in index.fresh] == [changed.name]
    world.refresh()
    assert (len(world.index().segments), len(world.index().fresh)) == (2, 0)
    world.check("whole = 5")

    changed.unlink()
    assert len(world.index().segments) == 1
    world.check("whole = 5")
    world.refresh()
    assert world.run(f"SHOW TABLES IN catchment_index_{world.name}").num_rows == 3  # the index, a segment, its row

    world.run("CREATE TABLE u AS SELECT * FROM t WHERE whole < 100")
    world.run("INSERT OVERWRITE t SELECT * FROM u")
    assert world.index().segments == ()
    world.check("whole = 5", used=False)
    world.refresh()
    world.check("whole = 5")

    # Another table of that name, elsewhere, while the old files stay as they were.
    world.run(f"ALTER TABLE t SET LOCATION '{world.folder}2'")
    assert world.index().segments == ()


def test_what_is_said_of_files_and_tables_is_believed_so_long_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(3_000, 1)
    world.create("i", "whole", "word")
    clock = [1000.0]
    monkeypatch.setattr("catchment.federation.index_catalog.time", SimpleNamespace(monotonic=lambda: clock[0]))
    catalog = IndexCatalog(world.cloud, seconds=5, age=1)
    assert catalog.believed(["t"]) is None
    before = catalog.of(["t"], an_errand())
    world.add(200, 3)
    for later, fresh, young in [(0.0, True, True), (0.9, True, True), (1.0, False, True), (5.1, False, False)]:
        clock[0] = 1000.0 + later
        assert catalog.believed(["t"]) == Believed(before, is_young=young, is_fresh=fresh)
    clock[0] = 1004.0
    (index,) = catalog.of(["t"], an_errand())["t"]
    assert len(index.fresh) == 1
    world.run(f"ALTER TABLE t SET LOCATION '{world.folder}2'")
    for later, segments in [(4.9, 1), (5.1, 0)]:
        clock[0] = 1000.0 + later
        (index,) = catalog.of(["t"], an_errand())["t"]
        assert len(index.segments) == segments


@pytest.mark.long("clouds")
def test_a_federation_is_right_whatever_happens_to_files_and_indexes(world: World, tmp_path: Path) -> None:
    """Each query is planned with what was true for the one before it."""
    world.add(3_000, 1)
    other = World(world.spark, tmp_path)
    other.add(2_000, 2)
    with Federation([world.cloud, other.cloud], index_age=0) as federation:
        federation.sql("CREATE INDEX i ON t(whole) INCLUDE (word)")

        def check(*, indexed: bool = True) -> None:
            outcome = federation.query("SELECT whole, word FROM t WHERE whole BETWEEN 3 AND 5")
            for each in (world, other):
                each.run("REFRESH TABLE t")
            truth = [row for each in (world, other) for row in each.run(TRUTH).to_pylist()]
            assert in_any_order(outcome.table) == sorted(map(repr, truth))
            assert outcome.plan is not None
            assert may_read_index(outcome.plan) is indexed

        check()
        check()
        world.add(200, 3)
        check()
        oldest = min(other.folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        other.add(100, 4)
        oldest.unlink()
        check()
        drop_index([IndexCatalog(each.cloud) for each in (world, other)], "i", an_errand())  # by another client
        check(indexed=False)
        federation.sql("CREATE INDEX i ON t(whole)")
        check()
        assert federation.sql("REFRESH INDEX i").num_rows == 2
    other.close()


@pytest.mark.long("clouds")
def test_a_cloud_that_was_told_to_stop_answers_the_next_try(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cloud's index goes while the other still reads its own, is stopped, and is asked again without."""
    world.add(300, 1)
    other = World(world.spark, tmp_path)
    other.add(200, 2)
    run, cancel, told = other.cloud.run, other.cloud.cancel, threading.Event()

    def slow(sql: str, errand: Errand) -> pa.Table:
        if errand.purpose is not Purpose.STATISTICS and HIDDEN in sql:
            assert told.wait(60), "nobody told this cloud to stop"
        return run(sql, errand)

    def stopped(query: str) -> None:
        cancel(query)
        told.set()

    with Federation([world.cloud, other.cloud], index_age=0) as federation:
        federation.sql("CREATE INDEX i ON t(whole) INCLUDE (word)")
        question = "SELECT whole, word FROM t WHERE whole BETWEEN 3 AND 5"
        truth = in_any_order(federation.sql(question))
        drop_index([IndexCatalog(each.cloud) for each in (world, other)], "i", an_errand())
        monkeypatch.setattr(other.cloud, "run", slow)
        monkeypatch.setattr(other.cloud, "cancel", stopped)
        assert in_any_order(federation.sql(question)) == truth
        assert told.is_set()
    other.close()


@pytest.mark.long("clouds")
def test_of_two_who_create_one_name_one_does(world: World) -> None:
    world.add(200, 1)

    def create(column: str) -> str:
        try:
            create_index([IndexCatalog(world.cloud)], "i", "t", column, (), an_errand())
        except StatementError:
            return ""
        return column

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(create, ("whole", "long")))
    assert sorted(map(bool, made)) == [False, True]
    assert world.index().column == "".join(made)
    assert world.index().rows == 200


@pytest.mark.long("clouds")
def test_a_cloud_that_dies_while_an_index_is_made_or_refreshed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the statement that fails, nothing reaches the cloud; when it is back, answers are right and DROP clears."""
    world.add(300, 1)
    run, dead = world.cloud.run, [""]

    def dying(sql: str, errand: Errand) -> pa.Table:
        if dead[0] and (dead[0] == "dead" or dead[0] in sql):
            dead[0] = "dead"
            raise CloudError("gone", "wait", cloud=world.name)
        return run(sql, errand)

    monkeypatch.setattr(world.cloud, "run", dying)
    for fails in ("CREATE DATABASE", "`index_i`", "AS SELECT /*+ REPARTITION", "count_min_sketch"):
        dead[0] = fails
        with pytest.raises(CloudError):
            world.create("i", "whole")
        assert dead[0] == "dead"
        dead[0] = ""
        assert all(not index.segments for index in world.table().indexes)
        with suppress(NameNotFoundError):
            drop_index([world.catalog], "i", an_errand())
        world.catalog.forget()
        assert world.catalog.claims(an_errand()) == {}
    world.create("i", "whole")
    world.add(200, 2)
    for fails, segments in (("count_min_sketch", 1), ("", 2)):
        dead[0] = fails
        with pytest.raises(CloudError) if fails else nullcontext():
            world.refresh()
        dead[0] = ""
        assert len(world.index().segments) == segments
        world.check("whole = 5")
    # Made anew, and stopped before the old segments are dropped: no row counts twice.
    monkeypatch.setattr("catchment.federation.index.MOST_SEGMENTS", 2)
    world.add(100, 3)
    dead[0] = "DROP TABLE"
    with pytest.raises(CloudError):
        world.refresh()
    dead[0] = ""
    assert (len(world.index().segments), world.index().rows) == (1, 600)
    world.check("whole = 5")
    world.refresh()
    drop_index([world.catalog], "i", an_errand())
    assert world.run(f"SHOW TABLES IN catchment_index_{world.name}").num_rows == 0


@pytest.mark.long("clouds")
def test_many_extensions_become_one_segment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.federation.index.MOST_SEGMENTS", 2)
    world.add(100, 1)
    world.create("i", "word")
    for seed, segments in ((2, 2), (3, 1)):
        world.add(100, seed)
        world.refresh()
        assert len(world.index().segments) == segments
    assert world.index().rows == 300
    world.check("word LIKE 'w1%'")


def test_a_table_of_csv_is_read_from_its_index(world: World) -> None:
    rows = "SELECT CAST(id AS INT) AS a, IF(id % 3 = 0, NULL, concat('x', id)) AS b FROM range(500)"
    world.run(f"CREATE TABLE c USING csv OPTIONS (header = 'true') AS {rows}")
    create_index([world.catalog], "i", "c", "a", (), an_errand())
    table = world.catalog.filled(world.cloud.tables(), ["c"], an_errand())["c"]
    for text in ("SELECT a, b FROM c", "SELECT a, b FROM c WHERE a < 100 OR b IS NULL"):
        found = use_index(leaf(text), table)
        assert found is not None
        assert in_any_order(world.run(found.relation.sql("spark"))) == in_any_order(world.run(text))
    world.run("ALTER TABLE c SET SERDEPROPERTIES ('header' = 'false')")  # the same files, and other rows
    assert world.catalog.of(["c"], an_errand())["c"][0].segments == ()


def test_what_cannot_be_indexed_is_refused(world: World) -> None:
    world.add(100, 1)
    world.run("CREATE VIEW v AS SELECT * FROM t")
    world.run("CREATE TABLE p (a INT, b INT) USING parquet PARTITIONED BY (b)")
    world.run("CREATE TABLE c (a INT, b CHAR(3), l ARRAY<INT>) USING parquet")
    refusals = [
        ("v", "whole", (), "is a view"),
        ("p", "a", (), "partitioned by"),
        ("c", "a", (), "padding"),
        ("c", "l", ("a",), "no order"),
        ("t", "nothing", (), "no column 'nothing'"),
        ("nowhere", "a", (), "no cloud has a table"),
    ]
    for table, column, include, said in refusals:
        with pytest.raises(StatementError, match=said):
            create_index([world.catalog], "i", table, column, include, an_errand())
    world.create("i", "whole")
    with pytest.raises(StatementError, match="DROP INDEX i"):
        world.create("I", "long")
    assert world.index().column == "whole"
