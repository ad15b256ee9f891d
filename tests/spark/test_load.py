"""Loading files into tables: against what the files hold, with clouds that are databases of one session."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catchment.errors import CloudError, InputError
from catchment.federation.cloud import Errand
from catchment.federation.load.csv_files import CsvForm
from catchment.federation.load.dealing import HAND
from catchment.federation.load.loader import Load
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.steps import LoadReport
from catchment.federation.load.types import columns_of
from catchment.spark.local_clouds import LocalCloud
from tests.amounts import one_in

pytestmark = pytest.mark.spark

NAMES = ("paris", "rome")
STEPS = ["INSERT INTO catchment_stage", "'begun'", "INSERT INTO `t`", "'done'"]
SCHEMA = "n BIGINT, word STRING"


@pytest.fixture
def clouds(spark: Any) -> Iterator[list[LocalCloud]]:
    for name in NAMES:
        spark.sql(f"DROP DATABASE IF EXISTS load_{name} CASCADE")
        spark.sql(f"CREATE DATABASE load_{name}")
    yield [LocalCloud(spark, name, f"load_{name}") for name in NAMES]
    for name in NAMES:
        spark.sql(f"DROP DATABASE load_{name} CASCADE")


def csv(path: Path, count: int, *, start: int = 0) -> Path:
    path.write_text("".join(f"{n},w{n % 7}\n" for n in range(start, start + count)))
    return path


def load(clouds: list[LocalCloud], file: Path | list[Path], folder: Path, **how: Any) -> LoadReport:
    replace = how.pop("replace", False)
    given: dict[str, Any] = {"columns": columns_of(SCHEMA), "form": CsvForm()} | how
    work = Load(clouds, "t", Rejects(folder / "t.rejected.jsonl"), **given)
    files = file if isinstance(file, list) else [file]
    return work.replace(files) if replace else work.append(files)


def table(spark: Any, cloud: LocalCloud) -> Any:
    spark.catalog.refreshTable(f"load_{cloud.name}.t")  # this session has a list of files of its own
    return spark.table(f"load_{cloud.name}.t")


def rows(spark: Any, cloud: LocalCloud) -> list[Any]:
    return sorted(map(tuple, table(spark, cloud).collect()))


def tables(spark: Any, cloud: LocalCloud) -> set[str]:
    """What is in the database; the views are those of other tests, which share the session."""
    return {table.name for table in spark.catalog.listTables(f"load_{cloud.name}") if not table.isTemporary}


def test_rows_are_dealt_evenly_and_always_the_same_way(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    count = 5 * HAND + 10
    report = load(clouds, csv(tmp_path / "a.csv", count), tmp_path)
    truth = [(n, f"w{n % 7}") for n in range(count)]
    assert rows(spark, clouds[0]) == [row for row in truth if row[0] // HAND % 2 == 0]
    assert rows(spark, clouds[1]) == [row for row in truth if row[0] // HAND % 2 == 1]
    assert report.files[0].rows == {"paris": 3 * HAND, "rome": 2 * HAND + 10}
    assert report.ledger.bytes(purpose="load", outward=False) > 0
    assert tables(spark, clouds[0]) == {"t", "catchment_loads"}
    assert clouds[0].views() == []
    known = spark.sql("DESCRIBE TABLE EXTENDED load_paris.t").where("col_name = 'Statistics'").collect()[0].data_type
    assert known.endswith(f"{3 * HAND} rows")


def test_bad_rows_stand_aside_with_line_and_reason(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'1,a\nx,b\n3,"open\n4,c,d\n5,\xff\n6,""\n7,\n')
    report = load(clouds[:1], file, tmp_path)
    assert rows(spark, clouds[0]) == [(1, "a"), (6, ""), (7, None)]
    assert (report.rows, report.rejected) == (3, 4)
    letters = [json.loads(line) for line in (tmp_path / "t.rejected.jsonl").read_text().splitlines()]
    assert [(letter["line"], letter["record"]) for letter in letters] == [
        (2, "x,b"), (3, '3,"open'), (4, "4,c,d"), (5, "5,\\xff"),
    ]  # fmt: skip
    assert [letter["reason"] for letter in letters] == [
        "column n: int64: invalid value 'x'",
        "a quote is not closed on its line",
        "3 fields, 2 are expected",
        "column word: string: invalid UTF8 data",
    ]
    assert {letter["file"] for letter in letters} == {str(file)}


def test_a_file_with_too_many_bad_rows_leaves_everything_as_it_was(
    spark: Any, clouds: list[LocalCloud], tmp_path: Path
) -> None:
    load(clouds, csv(tmp_path / "good.csv", 300), tmp_path)
    before = [rows(spark, cloud) for cloud in clouds]
    bad = tmp_path / "bad.csv"
    bad.write_text("1,a\n" * 1000 + "x,y\n" * 3)
    work = Load(clouds, "t", Rejects(tmp_path / "r.jsonl", most=2), columns_of(SCHEMA), CsvForm())
    with pytest.raises(InputError, match=r"more than 2 bad rows, the last in line 1,003 \(column n"):
        work.append([bad])
    assert [rows(spark, cloud) for cloud in clouds] == before
    assert tables(spark, clouds[0]) == {"t", "catchment_loads"}
    assert sorted(tmp_path.iterdir()) == [bad, tmp_path / "good.csv"]


def test_a_file_is_loaded_once_unless_it_is_asked_for_again(
    spark: Any, clouds: list[LocalCloud], tmp_path: Path
) -> None:
    file = csv(tmp_path / "a.csv", 10)
    load(clouds[:1], file, tmp_path)
    same = file.rename(tmp_path / "another name.csv")
    assert load(clouds[:1], same, tmp_path).files[0].skipped
    assert len(rows(spark, clouds[0])) == 10
    assert not load(clouds[:1], same, tmp_path, again=True).files[0].skipped
    assert len(rows(spark, clouds[0])) == 20
    csv(same, 3)
    load(clouds[:1], same, tmp_path)
    assert len(rows(spark, clouds[0])) == 23


def test_in_a_batch_a_file_is_known_by_its_name(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", 10)
    load(clouds[:1], file, tmp_path, batch="monday")
    assert load(clouds[:1], csv(file, 20), tmp_path, batch="monday").files[0].skipped
    assert not load(clouds[:1], file, tmp_path, batch="tuesday").files[0].skipped
    assert len(rows(spark, clouds[0])) == 30


def test_other_clouds_for_a_file_that_was_dealt_are_refused(clouds: list[LocalCloud], tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", 10)
    load(clouds, file, tmp_path)
    with pytest.raises(InputError, match="over the clouds paris,rome: give the same clouds"):
        load(clouds[:1], file, tmp_path)


class Breaking(LocalCloud):
    """A cloud that dies before or after one statement of a kind."""

    def __init__(self, *given: Any, breaks: str, after: bool) -> None:
        super().__init__(*given)
        self._breaks = breaks
        self._after = after

    def run(self, sql: str, errand: Errand) -> pa.Table:
        if self._breaks not in sql or sql.startswith("SELECT"):
            return super().run(sql, errand)
        if self._after:
            super().run(sql, errand)
        raise CloudError("cloud 'rome' is gone", "start it again", cloud="rome")


@pytest.mark.parametrize(("breaks", "when"), one_in(6, itertools.product(STEPS, ["before", "after"]), "clouds"))
def test_a_load_that_was_cut_off_is_finished_by_the_same_command(
    spark: Any, clouds: list[LocalCloud], tmp_path: Path, breaks: str, when: str
) -> None:
    """Whether the second cloud dies before or after a step: the first may be done by then, and stays so."""
    file = csv(tmp_path / "a.csv", 3 * HAND)
    with file.open("a") as more:
        more.write("bad\n")
    load(clouds, csv(tmp_path / "before.csv", 100, start=1000), tmp_path)
    breaking = Breaking(spark, "rome", "load_rome", breaks=breaks, after=when == "after")
    with pytest.raises(CloudError):
        load([clouds[0], breaking], file, tmp_path)
    load(clouds, file, tmp_path)
    everything = sorted(row[0] for cloud in clouds for row in rows(spark, cloud))
    assert everything == [*range(3 * HAND), *range(1000, 1100)]
    assert load(clouds, file, tmp_path).files[0].skipped
    assert {name for cloud in clouds for name in tables(spark, cloud)} == {"t", "catchment_loads"}
    assert len((tmp_path / "t.rejected.jsonl").read_text().splitlines()) == 1, "neither lost nor doubled"


def test_a_cut_off_load_and_a_strangers_rows_need_a_person(
    spark: Any, clouds: list[LocalCloud], tmp_path: Path
) -> None:
    file = csv(tmp_path / "a.csv", 10)
    with pytest.raises(CloudError):
        load([Breaking(spark, "paris", "load_paris", breaks="'done'", after=False)], file, tmp_path)
    spark.sql("INSERT INTO load_paris.t VALUES (99, 'mine')")
    with pytest.raises(InputError, match="has 11 rows, neither 0 as before it nor 10 as after it"):
        load(clouds[:1], file, tmp_path)
    assert len(rows(spark, clouds[0])) == 11


def test_replace_changes_nothing_until_all_is_there(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    old, new = csv(tmp_path / "old.csv", 300), csv(tmp_path / "new.csv", 600, start=5000)
    load(clouds, old, tmp_path)
    before = [rows(spark, cloud) for cloud in clouds]
    for breaks in ("RENAME TO `catchment_old", "RENAME TO `t`"):
        broken = Breaking(spark, "paris", "load_paris", breaks=breaks, after=False)
        with pytest.raises(CloudError):
            load([broken, clouds[1]], new, tmp_path, replace=True)
        with pytest.raises(InputError, match="a replacement of t in cloud 'paris' was cut off"):
            load(clouds, new, tmp_path)  # and the first one has its name back
        assert [rows(spark, cloud) for cloud in clouds] == before
    load(clouds, new, tmp_path, replace=True)
    assert sorted(row[0] for cloud in clouds for row in rows(spark, cloud)) == list(range(5000, 5600))
    assert load(clouds, new, tmp_path).files[0].skipped
    load(clouds, old, tmp_path)
    assert sum(len(rows(spark, cloud)) for cloud in clouds) == 900


def test_every_type_arrives_as_spark_itself_would_read_it(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    ddl = (
        "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(10,2), h BOOLEAN, i DATE, j TIMESTAMP, "
        "k TIMESTAMP_NTZ, l STRING, m STRING"
    )
    file = tmp_path / "a.csv"
    file.write_text(
        '1,2,3,4,0.5,0.1,12.34,true,2020-02-29,2020-01-01T01:02:03.5Z,2020-01-01T01:02:03,"a, ""b""",é\n'
        "-128,-32768,-2147483648,-9223372036854775808,-1e10,1e300,-99999999.99,false,0001-01-01,"
        '1969-12-31T23:59:59Z,1969-12-31T23:59:59,"",😀\n'
        ",,,,,,,,,,,,\n"
    )
    load(clouds[:1], file, tmp_path, columns=columns_of(ddl))
    rejects = Rejects(tmp_path / "r.jsonl")
    Load(clouds[1:], "t", rejects, columns_of(ddl), CsvForm()).remote([str(file)])
    here, there = (table(spark, cloud).orderBy("a") for cloud in clouds)
    assert here.collect() == there.collect()
    assert here.collect()[2][:9] == (1, 2, 3, 4, 0.5, 0.1, Decimal("12.34"), True, date(2020, 2, 29))
    assert [row.l for row in here.collect()] == [None, "", 'a, "b"']
    assert here.schema == there.schema == spark.createDataFrame([], ddl).schema


def test_columns_come_from_the_header_and_the_first_rows(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"\xef\xbb\xbfn,when,share,name\n1,2020-01-01 00:00:00,0.5,x\n2,,1,\n"))
    load(clouds[:1], file, tmp_path, columns=(), form=CsvForm(header=True))
    assert table(spark, clouds[0]).dtypes == [
        ("n", "bigint"), ("when", "timestamp"), ("share", "double"), ("name", "string"),
    ]  # fmt: skip
    first = table(spark, clouds[0]).orderBy("n").collect()[0]
    assert first.when.astimezone(UTC) == datetime(2020, 1, 1, tzinfo=UTC)
    more = tmp_path / "b.csv"
    more.write_text("NAME,share,n,when\ny,2,3,2020-01-02 00:00:00\n")
    load(clouds[:1], more, tmp_path, columns=(), form=CsvForm(header=True))
    assert table(spark, clouds[0]).where("n = 3").select("name", "share").collect() == [("y", 2.0)]
    more.write_text("name,n\ny,3\n")
    with pytest.raises(InputError, match="has the columns name, n, the table has n, when, share, name"):
        load(clouds[:1], more, tmp_path, columns=(), form=CsvForm(header=True))


def test_a_gzip_file_that_is_cut_short_leaves_no_table(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"".join(b"%d,x\n" % n for n in range(100_000)))[:-20])
    with pytest.raises(InputError, match="is no whole gzip file"):
        load(clouds[:1], file, tmp_path)
    assert tables(spark, clouds[0]) == set()


def test_parquet_brings_its_types_and_is_read_by_names(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    content = pa.table(
        {
            "n": pa.array(range(1000), pa.int32()),
            "price": pa.array([Decimal("1.10")] * 1000),
            "day": pa.array([date(2020, 1, 1)] * 1000),
            "at": pa.array([0] * 1000, pa.timestamp("us", "UTC")),
            "tags": pa.array([["a", None]] * 1000),
            "place": pa.array([{"x": 1.5}] * 1000),
        }
    )
    pq.write_table(content, tmp_path / "a.parquet")
    load(clouds, tmp_path / "a.parquet", tmp_path, columns=(), form=None)
    assert table(spark, clouds[1]).schema.simpleString() == (
        "struct<n:int,price:decimal(3,2),day:date,at:timestamp,tags:array<string>,place:struct<x:double>>"
    )
    pq.write_table(content.select(["place", "tags", "at", "day", "price", "n"]), tmp_path / "b.parquet")
    load(clouds, tmp_path / "b.parquet", tmp_path, columns=(), form=None)
    both = [row for cloud in clouds for row in table(spark, cloud).collect()]
    assert sorted(row.n for row in both) == sorted([*range(1000)] * 2)
    assert {(tuple(row.tags), row.place.x, row.price) for row in both} == {(("a", None), 1.5, Decimal("1.10"))}
    pq.write_table(content.slice(0, 10), tmp_path / "few.parquet")  # all of them are one cloud's
    load(clouds, tmp_path / "few.parquet", tmp_path, columns=(), form=None, replace=True)
    assert [table(spark, cloud).count() for cloud in clouds] == [10, 0]
    (tmp_path / "c.parquet").write_text("PAR1 and no more")
    with pytest.raises(InputError, match="is no Parquet file"):
        load(clouds, tmp_path / "c.parquet", tmp_path, columns=(), form=None)


def test_a_cloud_that_sees_the_files_reads_them_itself(spark: Any, clouds: list[LocalCloud], tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.csv").write_text("n,word\n1,a\nx,b\n3,c\n")
    (folder / "b.csv").write_text("n,word\n4,d\n5,e,f\n")

    def remote() -> LoadReport:
        form = CsvForm(header=True)
        return Load(clouds[:1], "t", Rejects(tmp_path / "r.jsonl"), columns_of(SCHEMA), form).remote([str(folder)])

    report = remote()
    assert rows(spark, clouds[0]) == [(1, "a"), (3, "c"), (4, "d")]
    assert (report.rows, report.rejected) == (3, 2)
    letters = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert sorted((Path(letter["file"]).name, letter["record"], letter["line"]) for letter in letters) == [
        ("a.csv", "x,b", None),
        ("b.csv", "5,e,f", None),
    ]
    assert remote().files[0].skipped
    assert clouds[0].views() == []
    guessed = Load(clouds[:1], "u", Rejects(tmp_path / "r.jsonl"), form=CsvForm(header=True))
    guessed.remote([str(folder / "b.csv")])
    assert spark.table("load_paris.u").dtypes == [("n", "int"), ("word", "string")]
