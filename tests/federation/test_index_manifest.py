"""What is written down, and which segments may be used for the files that are there."""

from __future__ import annotations

from catchment.federation.cloud import Segment
from catchment.federation.column_statistics import ColumnStatistics
from catchment.federation.index_catalog import Written, usable
from catchment.federation.index_manifest import PROPERTY, Claim, Definition, Manifest, SourceFile, property_of
from catchment.federation.intervals import Domain

INFORMATION = """Catalog: spark_catalog
Database: paris
Table: v
Created Time: Tue Nov 17 08:09:25 UTC 2026
Last Access: UNKNOWN
Type: MANAGED
Provider: parquet
Statistics: 123 bytes
Location: file:/tmp/paris.db/v
Schema: root
 |-- a: integer (nullable = true)
"""
HERE = Definition.of(INFORMATION)
CLAIM = Claim("i", "1f", "t", "a b'`=]", "int", ("é", "b"))


def file(name: str, size: int = 10, changed: int = 5) -> SourceFile:
    return SourceFile(f"file:/t/{name}", size, changed)


def written(name: str, *files: SourceFile) -> Written:
    return Written(name, Segment(name, (), ColumnStatistics(Domain.WHOLE, 7)), Manifest(HERE, files))


def used(files: list[SourceFile], *segments: Written) -> tuple[list[str], list[str]]:
    index = usable(CLAIM, segments, HERE, {each.path: each for each in files})
    return [segment.table for segment in index.segments], [path[-1] for path in index.fresh]


def test_texts_come_back() -> None:
    assert Claim.from_text(CLAIM.to_text()) == CLAIM
    assert property_of(f"Table Properties: [{PROPERTY}={CLAIM.to_text()}, other=1]\n") == CLAIM.to_text()
    assert property_of(INFORMATION) is None
    manifest = Manifest(HERE, (file("a"), file("it's \\ \n b")))
    assert Manifest.from_text(manifest.to_text()) == manifest


def test_a_definition_is_where_and_how_rows_come_about() -> None:
    assert (HERE["Location"], HERE["Provider"], HERE["Partition Columns"]) == ("file:/tmp/paris.db/v", "parquet", "")
    later = INFORMATION.replace("08:09", "09:09").replace("123 bytes", "99 bytes").replace("UNKNOWN", "today")
    assert Definition.of(later) == HERE
    for old, new in (("paris.db/v", "x"), ("parquet", "orc"), ("integer", "long"), ("MANAGED", "VIEW")):
        assert Definition.of(INFORMATION.replace(old, new)) != HERE


def test_segments_stand_while_all_their_files_do() -> None:
    first, second = written("one", file("a"), file("b")), written("two", file("c"))
    assert used([file("a"), file("b"), file("c")], first, second) == (["one", "two"], [])
    assert used([file("a"), file("b"), file("c"), file("d")], first, second) == (["one", "two"], ["d"])
    assert used([file("a"), file("c")], first, second) == (["two"], ["a"])
    assert used([file("a"), file("b", size=11), file("c")], first, second) == (["two"], ["a", "b"])
    assert used([file("a"), file("b", changed=6), file("c")], first, second) == (["two"], ["a", "b"])
    assert used([], first, second) == ([], [])


def test_a_file_is_in_one_segment_only() -> None:
    """Two who extended at once, or one who was stopped after the new segment and before the old ones were dropped."""
    all_, part, other = written("all", file("a"), file("b")), written("part", file("a")), written("other", file("b"))
    assert used([file("a"), file("b")], part, other, all_) == (["all"], [])
    assert used([file("a"), file("b"), file("c")], part, written("twin", file("a"))) == (["part"], ["b", "c"])


def test_another_definition_makes_every_file_fresh() -> None:
    there = {each.path: each for each in (file("a"),)}
    for definition in (None, Definition.of(INFORMATION.replace("integer", "long"))):
        index = usable(CLAIM, [written("one", file("a"))], definition, there)
        assert index.segments == ()
        assert len(index.fresh) == 1
        assert index.statistics  # good enough for an estimate
