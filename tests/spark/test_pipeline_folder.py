"""The output folder: replaced whole, folded without loss, refused where it belongs to another run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catchment.errors import PipelineError
from catchment.spark.pipeline.folder import OutputFolder

pytestmark = pytest.mark.spark


def rows(*snapshots: tuple[str, int, int]) -> pa.Table:
    """Of a site, at a second, with so many events."""
    return pa.table(
        {
            "site": [site for site, _, _ in snapshots],
            "name": ["hits"] * len(snapshots),
            "at": pa.array([datetime.fromtimestamp(at, UTC) for _, at, _ in snapshots], pa.timestamp("us", "UTC")),
            "sketch": [f"{site}{at}".encode() for site, at, _ in snapshots],
            "events": [events for _, _, events in snapshots],
            "late": [0] * len(snapshots),
        }
    )


def held(folder: OutputFolder) -> dict[tuple[str, int], int]:
    """The events of each site and moment."""
    found = {}
    for file in sorted(folder.snapshots.glob("*/part.parquet"), key=lambda file: file.parent.name, reverse=True):
        for row in pq.ParquetFile(file).read().to_pylist():
            found[row["site"], int(row["at"].timestamp())] = row["events"]
    return found


def test_a_batch_that_is_repeated_replaces_itself(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, keep=2)
    folder.write(0, rows(("a", 60, 1)))
    before = (tmp_path / "snapshots/batch=0/part.parquet").read_bytes()
    folder.write(0, rows(("a", 60, 1)))
    assert (tmp_path / "snapshots/batch=0/part.parquet").read_bytes() == before
    folder.write(0, rows())
    assert not list(folder.snapshots.iterdir())


def test_folding_keeps_the_newest_of_each_site_and_few_files(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, keep=3)
    folder.write(0, rows(("silent", 60, 7), ("a", 60, 1)))
    for batch in range(1, 50):
        folder.write(batch, rows(("a", 60 * batch, batch), ("a", 60 * (batch + 1), batch)))
        assert len(list(folder.snapshots.iterdir())) <= 2 * folder.keep + 1
        found = held(folder)
        assert found["silent", 60] == 7
        assert found["a", 60 * (batch + 1)] == batch
    assert folder.numbered("batch=")[-3:] == [47, 48, 49]


def test_of_two_snapshots_of_one_moment_the_later_one_stays(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, keep=2)
    for batch, events in enumerate((5, 6, 7)):
        folder.write(batch, rows(("a", 60, events)))
    for batch in (3, 4):
        folder.write(batch, rows(("b", 60 * batch, 1)))
    assert folder.numbered("until=") == [2]
    assert held(folder)["a", 60] == 7


def test_a_crash_between_fold_and_removal_loses_and_repeats_nothing(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, keep=2)
    for batch in range(4):
        folder.write(batch, rows((f"site-{batch}", 60, batch)))
    saved = tmp_path / "saved"
    shutil.copytree(folder.snapshots, saved)
    folder.write(4, rows(("site-4", 60, 4)))
    assert folder.numbered("batch=") == [3, 4]
    for old in saved.iterdir():  # as if the removal had not happened
        shutil.copytree(old, folder.snapshots / old.name, dirs_exist_ok=True)
    assert len(held(folder)) == 5
    folder.write(5, rows(("site-5", 60, 5)))
    assert folder.numbered("until=") == [3]
    assert held(folder) == {(f"site-{batch}", 60): batch for batch in range(6)}


def test_a_folder_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out", keep=2)
    folder.begin({"version": 1}, tmp_path / "checkpoint")
    folder.write(0, rows(("a", 60, 1)))
    with pytest.raises(PipelineError, match="is new"):
        folder.begin({"version": 1}, tmp_path / "checkpoint")
    (tmp_path / "checkpoint/offsets").mkdir(parents=True)
    folder.begin({"version": 1}, tmp_path / "checkpoint")
