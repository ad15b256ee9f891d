"""What is written down about indexes and loads is for ever: golden texts and rows are read to the right objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catchment.federation.index_manifest import PROPERTY, Claim, Manifest, hidden_database, property_of
from catchment.federation.load.journal import TABLE
from catchment.federation.load.local import LocalFile, batch_key
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.remote import files_key
from tests.golden.archives import unpack
from tests.golden.clouds import BATCH, DATABASE, INDEXED, TARGET, csv_file, definitions

HIDDEN = hidden_database(DATABASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(TARGET, tmp_path_factory.mktemp("cloud"))


def claims(folder: Path) -> dict[str, str]:
    """The property of each index's table."""
    found = {
        each["table"]: re.search(rf"'{re.escape(PROPERTY)}' = '(.*)'", each["create"]) for each in definitions(folder)
    }
    return {table: match[1] for table, match in found.items() if match is not None}


def test_properties_are_claims(folder: Path) -> None:
    texts = claims(folder)
    assert set(texts) == {f"index_by_{column}" for column in INDEXED}
    types = {"whole": "int", "real": "double", "word": "string"}
    for column in INDEXED:
        text = texts[f"index_by_{column}"]
        claim = Claim.from_text(text)
        assert re.fullmatch("[0-9a-f]{12}", claim.id)
        covered = ("whole", "real", "word", "day")
        assert claim == Claim(f"by_{column}", claim.id, "t", column, types[column], covered)
        assert claim.to_text() == text
        assert property_of(f"Type: MANAGED\nTable Properties: [{PROPERTY}={text}]\n") == text


def test_each_index_has_a_segment_and_its_row(folder: Path) -> None:
    ids = {Claim.from_text(text).id for text in claims(folder).values()}
    assert HIDDEN == "catchment_index_golden_town"
    named = {each["table"] for each in definitions(folder) if each["database"] == HIDDEN} - set(claims(folder))
    found = {re.fullmatch("(rows|about)_([0-9a-f]{12})_[0-9a-f]{12}", name) for name in named}
    assert {(match[1], match[2]) for match in found if match} == {
        (kind, id_) for kind in ("rows", "about") for id_ in ids
    }


def test_manifests_say_which_files_a_segment_is_of(folder: Path) -> None:
    files = {file.name: file.stat().st_size for file in (folder / DATABASE / "t").iterdir()}
    for file in (folder / HIDDEN).glob("about_*/*.parquet"):
        (text,) = pq.ParquetFile(file).read()["manifest"].to_pylist()
        manifest = Manifest.from_text(text)
        definition = manifest.definition
        assert (definition["Type"], definition["Provider"], definition["Partition Columns"]) == (
            "MANAGED",
            "parquet",
            "",
        )
        assert all(Path(each.path).parent == Path(definition["Location"]) for each in manifest.files)
        named = {Path(each.path).name: each.size for each in manifest.files}
        assert named.items() < files.items()  # all but that of the last load
        assert all(each.changed > 1_700_000_000_000_000 for each in manifest.files)
        assert manifest.to_text() == text


def journal(folder: Path) -> pa.Table:
    parts = [pq.ParquetFile(file).read() for file in (folder / DATABASE / TABLE).iterdir()]
    return pa.concat_tables(parts).sort_by("at")


def test_a_file_is_known_by_what_the_journal_has(folder: Path, tmp_path: Path) -> None:
    known = {row["file"]: row["file_key"] for row in journal(folder).to_pylist() if row["target"] == "t"}

    def key(name: str) -> Callable[[str | None], str]:
        return LocalFile(csv_file(tmp_path, name), None, Rejects(tmp_path / "bad"), lambda _: None, lambda: None).key

    assert known == {"a.csv": key("a.csv")(None), "b.csv": key("b.csv")(BATCH), "c.csv": key("c.csv")(None)}
    assert known["b.csv"] == batch_key(BATCH, "b.csv")


def test_files_of_a_cloud_are_known_by_path_size_and_time() -> None:
    files = [("file:/data/a.csv", 120, 1_767_225_600_000_000), ("file:/data/b.csv", 7, 1_767_225_600_000_001)]
    assert files_key(files) == "eec134e14ed1c38e3c68dd2031568012"
    assert len({files_key(files), files_key(files[:1]), files_key(files[::-1])}) == 3
