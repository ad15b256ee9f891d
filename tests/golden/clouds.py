"""Tables of a cloud with indexes and a journal of loads, for every later version to go on with.

`python -m tests.golden.clouds` made `cloud-v1.tar.gz`; it is never made again. In it are the statements that make the
tables anew, and their files. The table `t` is of three CSV files: `a.csv`; `b.csv`, which was loaded in the batch
`monday`; and `c.csv`, of which the load was cut off when its rows were in the table and the journal did not say so.
Indexes are on each of three columns, and were made before `c.csv` came. The journal also has a table `u`, which was
replaced, and `v`, of which a replacement was cut off.

What is written down about an index names files by their paths and times: `restore` brings both to where it puts them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import chdir, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from catchment.errors import CloudError
from catchment.federation.cloud import Errand, Purpose
from catchment.federation.index import create_index
from catchment.federation.index_catalog import IndexCatalog, definitions_of
from catchment.federation.index_manifest import Manifest, hidden_database
from catchment.federation.ledger import Ledger
from catchment.federation.load.csv_files import CsvForm
from catchment.federation.load.loader import Load
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.steps import LoadReport
from catchment.federation.load.types import columns_of
from catchment.spark.local_clouds import LocalCloud
from catchment.spark.session import session
from tests.golden.archives import pack, refuse_again

__all__ = [
    "BATCH", "DATABASE", "FILES", "INDEXED", "NAME", "TARGET",
    "an_errand", "as_made", "csv_file", "definitions", "load", "restore", "rows_of",
]  # fmt: skip

TARGET = Path(__file__).with_name("cloud-v1.tar.gz")
DATABASE = "golden_town"
NAME = "town"
INDEXED = ("whole", "real", "word")
FILES = {"a.csv": range(300), "b.csv": range(300, 400), "c.csv": range(400, 450), "d.csv": range(450, 480)}
"""The numbers of the rows in each; the last one is for whoever goes on."""
BATCH = "monday"
_SCHEMA = "whole INT, real DOUBLE, word STRING, day DATE"
_WAREHOUSE = "/golden/warehouse"
"""Stands for where tables are."""
_TABLES = "tables.json"

Row = dict[str, Any]


def rows_of(*files: str) -> list[Row]:
    """The rows of files: some numbers are missing, and some are more frequent than others."""
    return [
        {
            "whole": None if number % 10 == 0 else number * 37 % 101 % 60,
            "real": number * 31 % 97 / 8,
            "word": f"w{number % 23}" + ("é" if number % 4 == 0 else ""),
            "day": date(2000, 1, 1) + timedelta(days=number % 90),
        }
        for file in files
        for number in FILES[file]
    ]


def csv_file(folder: Path, name: str) -> Path:
    """One of the files, written there."""
    lines = (["" if value is None else str(value) for value in row.values()] for row in rows_of(name))
    (folder / name).write_text("".join(",".join(line) + "\n" for line in lines))
    return folder / name


def an_errand() -> Errand:
    return Errand("golden", Purpose.LOAD, Ledger())


def load(cloud: LocalCloud, file: Path, *, table: str = "t", replace: bool = False, **more: Any) -> LoadReport:
    """Load one of the files; bad rows, of which there are none, go beside it."""
    work = Load([cloud], table, Rejects(file.with_suffix(".rejected")), columns_of(_SCHEMA), CsvForm(), **more)
    return work.replace([file]) if replace else work.append([file])


class _Breaking(LocalCloud):
    """A cloud that is gone before one statement."""

    breaks = ""

    def run(self, sql: str, errand: Errand) -> pa.Table:
        if self.breaks and self.breaks in sql and not sql.startswith("SELECT"):
            raise CloudError("gone", "wait", cloud=self.name)
        return super().run(sql, errand)


# -- making ---------------------------------------------------------------------------------------------------


def main() -> None:
    refuse_again(TARGET)
    with tempfile.TemporaryDirectory() as name, chdir(name):  # the journal has files by their paths, as they were given
        warehouse = Path(name) / "warehouse"
        spark = session(config={"spark.sql.warehouse.dir": warehouse})
        spark.sql(f"CREATE DATABASE {DATABASE}")
        _make(_Breaking(spark, NAME, DATABASE, catalog_seconds=0))
        _keep(spark, warehouse, Path(name) / "kept")
        pack(Path(name) / "kept", TARGET)
        spark.stop()


def _make(cloud: _Breaking) -> None:
    a, b, c = (csv_file(Path(), name) for name in ("a.csv", "b.csv", "c.csv"))
    load(cloud, a)
    load(cloud, b, batch=BATCH)
    for column in INDEXED:
        create_index([IndexCatalog(cloud)], f"by_{column}", "t", column, (), an_errand())
    cloud.breaks = "'done'"
    with suppress(CloudError):
        load(cloud, c)
    cloud.breaks = ""
    load(cloud, a, table="u", replace=True)
    load(cloud, a, table="v")
    cloud.breaks = "RENAME TO `catchment_old"
    with suppress(CloudError):
        load(cloud, b, table="v", replace=True)
    cloud.breaks = ""


def _keep(spark: SparkSession, warehouse: Path, target: Path) -> None:
    """The tables that are gone on with: the statement that makes each, and its files."""
    statements: list[dict[str, str]] = []
    for database in (DATABASE, hidden_database(DATABASE)):
        named = [row["tableName"] for row in spark.sql(f"SHOW TABLES IN {database}").collect()]
        for table in sorted(set(named) - {"u", "v"}):
            (said,) = spark.sql(f"SHOW CREATE TABLE {database}.{table}").collect()
            statements.append({"database": database, "table": table, "create": as_made(said[0])})
            (target / database / table).mkdir(parents=True)
            for file in (warehouse / f"{database}.db" / table).glob("*.parquet"):
                place = target / database / table / file.name
                shutil.copyfile(file, place)
                if table.startswith("about_"):
                    _moved(place, str(warehouse), _WAREHOUSE)
    (target / _TABLES).write_text(json.dumps(statements, indent=1) + "\n")


def as_made(statement: str) -> str:
    """What `SHOW CREATE TABLE` says, as the statement was: types are named with the collation that they have anyway."""
    return statement.replace(" COLLATE UTF8_BINARY", "")


def _moved(about: Path, old: str, new: str) -> None:
    """Tell the row about a segment that the table lies elsewhere."""
    rows = pq.ParquetFile(about).read()
    place = rows.schema.get_field_index("manifest")
    texts = [text.replace(old, new) for text in rows["manifest"].to_pylist()]
    pq.write_table(rows.set_column(place, rows.schema.field(place), pa.array(texts, pa.string())), about)


# -- going on -------------------------------------------------------------------------------------------------


def definitions(folder: Path) -> list[dict[str, str]]:
    """Of each table its database, its name and the statement that makes it."""
    found: list[dict[str, str]] = json.loads((folder / _TABLES).read_text())
    return found


def restore(spark: SparkSession, folder: Path) -> LocalCloud:
    """The cloud with its tables, made from what the unpacked archive holds."""
    for database in (DATABASE, hidden_database(DATABASE)):
        spark.sql(f"CREATE DATABASE {database}")
    cloud = LocalCloud(spark, NAME, DATABASE, catalog_seconds=0)
    for each in definitions(folder):
        spark.sql(each["create"])
    location = definitions_of(cloud, ["t"], an_errand())["t"]["Location"]
    warehouse = Path(location.removeprefix("file:")).parents[1]
    for file in folder.rglob("*.parquet"):
        if file.parent.name.startswith("about_"):
            _moved(file, _WAREHOUSE, str(warehouse))
            _dated(file, folder / DATABASE / "t")
    for each in definitions(folder):
        for file in (folder / each["database"] / each["table"]).iterdir():
            shutil.copy2(file, warehouse / f"{each['database']}.db" / each["table"])
    return cloud


def _dated(about: Path, table: Path) -> None:
    """Give the table's files the times that they had when the segment was made."""
    for text in pq.ParquetFile(about).read()["manifest"].to_pylist():
        for file in Manifest.from_text(text).files:
            os.utime(table / Path(file.path).name, ns=(file.changed * 1000,) * 2)


if __name__ == "__main__":
    main()
