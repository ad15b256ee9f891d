"""Indexes and the journal of a cloud of the first version are used: queries read the ones, and loads heed the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import InputError
from catchment.federation.cloud import Index
from catchment.federation.federation import Federation
from catchment.federation.index_belief import may_read_index
from catchment.federation.index_catalog import IndexCatalog
from catchment.federation.index_manifest import hidden_database
from catchment.spark.local_clouds import LocalCloud
from tests.golden.archives import unpack
from tests.golden.clouds import (
    BATCH,
    DATABASE,
    INDEXED,
    TARGET,
    an_errand,
    as_made,
    csv_file,
    definitions,
    load,
    restore,
    rows_of,
)

pytestmark = pytest.mark.spark

HIDDEN = hidden_database(DATABASE)
OLD, LATER = ("a.csv", "b.csv"), ("c.csv",)
"""What the indexes have, and what came after them."""
ASKED: dict[str, Any] = {
    "whole BETWEEN 3 AND 5": lambda row: row["whole"] in (3, 4, 5),
    "whole IS NULL": lambda row: row["whole"] is None,
    "real > 11.5D": lambda row: row["real"] > 11.5,
    "word = 'w4é'": lambda row: row["word"] == "w4é",
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(TARGET, tmp_path_factory.mktemp("cloud"))


@pytest.fixture(scope="module")
def cloud(spark: Any, golden: Path) -> Iterator[LocalCloud]:
    yield restore(spark, golden)
    for database in (DATABASE, HIDDEN):
        spark.sql(f"DROP DATABASE {database} CASCADE")


def indexes(cloud: LocalCloud) -> dict[str, Index]:
    table = IndexCatalog(cloud, seconds=0).filled(cloud.tables(), ["t"], an_errand())["t"]
    return {index.column: index for index in table.indexes}


def check_answers(cloud: LocalCloud, *files: str) -> None:
    """A query that an index can serve reads it, and its rows are those of the files."""
    with Federation([cloud], indexes="always", index_age=0) as federation:
        for predicate, holds in ASKED.items():
            outcome = federation.query(f"SELECT whole, real, word, day FROM t WHERE {predicate}")
            assert outcome.plan is not None
            assert may_read_index(outcome.plan), predicate
            found = Counter(tuple(row.values()) for row in outcome.table.to_pylist())
            assert found == Counter(tuple(row.values()) for row in rows_of(*files) if holds(row)), predicate


def test_golden_indexes_are_read_and_the_file_beside_them(cloud: LocalCloud, golden: Path) -> None:
    found = indexes(cloud)
    assert set(found) == set(INDEXED)
    for column, index in found.items():
        values = [row[column] for row in rows_of(*OLD) if row[column] is not None]
        (segment,) = index.segments
        assert segment.table.replace("`", "") in {f"{HIDDEN}.{each['table']}" for each in definitions(golden)}
        assert len(index.fresh) == 1
        told = segment.statistics
        assert (told.rows, told.values) == (len(rows_of(*OLD)), len(values))
        assert told.distinct == pytest.approx(len(set(values)), rel=0.05)
        (part,) = segment.parts
        smallest, largest = min(values), max(values)
        ends = (smallest.encode(), largest.encode()) if column == "word" else (smallest, largest)
        assert (part.low, part.high) == (told.cuts[0], told.cuts[-1]) == ends
        if column == "whole":
            assert told.counts is not None
            assert told.counts.estimate(7).holds(values.count(7))
        assert (told.counts is None) == (column == "real")
    check_answers(cloud, *OLD, *LATER)


def test_loads_go_on_from_the_golden_journal(cloud: LocalCloud, golden: Path, tmp_path: Path) -> None:
    def rows() -> int:
        return int(cloud.run("SELECT count(*) AS n FROM t", an_errand())["n"][0].as_py())

    renamed = csv_file(tmp_path, "a.csv").rename(tmp_path / "another name.csv")
    assert load(cloud, renamed).files[0].skipped
    assert load(cloud, renamed, table="u").files[0].skipped
    (tmp_path / "b.csv").write_text("1,1.5,other content,2000-01-01\n")
    assert load(cloud, tmp_path / "b.csv", batch=BATCH).files[0].skipped
    assert load(cloud, csv_file(tmp_path, "c.csv")).files[0].skipped, "its rows are in the table"
    assert rows() == len(rows_of(*OLD, *LATER))
    with pytest.raises(InputError, match="a replacement of v in cloud 'town' was cut off"):
        load(cloud, renamed, table="v")

    file = csv_file(tmp_path, "d.csv")
    assert load(cloud, file).rows == len(rows_of("d.csv"))
    assert {(len(index.segments), len(index.fresh)) for index in indexes(cloud).values()} == {(2, 0)}
    check_answers(cloud, *OLD, *LATER, "d.csv")

    # What was written now has the columns that the golden tables have, in their order.
    query = "SELECT target, file, deal, state, rows_before, rows FROM catchment_loads ORDER BY at, state"
    before, more = len(rows_of(*OLD, *LATER)), len(rows_of("d.csv"))
    assert [tuple(row.values()) for row in cloud.run(query, an_errand()).to_pylist()[-3:]] == [
        ("t", "c.csv", "town", "done", before - len(rows_of(*LATER)), len(rows_of(*LATER))),
        ("t", str(file), "town", "begun", before, more),
        ("t", str(file), "town", "done", before, more),
    ]
    listed = cloud.run(f"SHOW TABLES IN {HIDDEN}", an_errand())["tableName"].to_pylist()
    made = {each["table"]: each["create"] for each in definitions(golden)}
    for kind in ("about", "rows"):
        (shape,) = {made[name].replace(name, kind) for name in made if name.startswith(kind)}
        new = [name for name in listed if name.startswith(kind) and name not in made]
        assert len(new) == len(INDEXED)
        for name in new:
            said = cloud.run(f"SHOW CREATE TABLE {HIDDEN}.{name}", an_errand())[0][0].as_py()
            assert as_made(said).replace(name, kind) == shape
