"""The output folder of a pipeline: snapshots that readers can take at any moment, and that stay few.

    pipeline.json                          what the sketches are, for readers
    snapshots/batch=7/part.parquet         the snapshots of micro-batch 7
    snapshots/until=5/part.parquet         of micro-batches 0 to 5, the newest for each site and sketch
    dead_letters/batch=7/reason=…/         what could not be used
    metrics.jsonl                          a line for each micro-batch

A file gets its name when it is whole, by a rename. A micro-batch that is repeated after a crash replaces its own
file. Folding old batches into `until=` writes the new file before it removes what is in it, so a crash in between
leaves rows twice, which changes nothing for a reader that takes the newest of each; the next fold removes them.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catchment.errors import PipelineError

__all__ = ["OutputFolder"]

SNAPSHOTS, DEAD_LETTERS, METRICS, ABOUT = "snapshots", "dead_letters", "metrics.jsonl", "pipeline.json"
BATCH, UNTIL, PART = "batch=", "until=", "part.parquet"


class OutputFolder:
    """Writes what `catchment query` reads.

    Parameters
    ----------
    path
        The folder, on a file system of this machine.
    keep
        Batches that stay as they are; when there are twice as many, the older half is folded.
    """

    def __init__(self, path: Path, *, keep: int) -> None:
        self.path, self.keep = path, keep
        self.snapshots = path / SNAPSHOTS
        self.snapshots.mkdir(parents=True, exist_ok=True)

    @property
    def dead_letters(self) -> Path:
        return self.path / DEAD_LETTERS

    @property
    def metrics(self) -> Path:
        return self.path / METRICS

    def begin(self, about: dict[str, Any], checkpoint: str | Path) -> None:
        """Say what is in the folder; refuse one whose snapshots another checkpoint made.

        A checkpoint at an address (`s3a://…`) cannot be looked into from here, and is trusted.
        """
        known = "://" in str(checkpoint) or (Path(checkpoint) / "offsets").is_dir()
        if not known and any(self.snapshots.glob(f"*=*/{PART}")):
            raise PipelineError(
                f"{self.path} has snapshots, but the checkpoint {checkpoint} is new",
                "remove the output folder, give another, or bring its checkpoint back",
            )
        replace_file(self.path / ABOUT, json.dumps(about, indent=2).encode() + b"\n")

    def write(self, batch: int, rows: pa.Table) -> None:
        """Put the snapshots of a micro-batch there, in place of what an earlier try left."""
        if rows.num_rows:
            self._put(self.snapshots / f"{BATCH}{batch}", rows)
        else:
            shutil.rmtree(self.snapshots / f"{BATCH}{batch}", ignore_errors=True)
        self._fold()

    def _put(self, folder: Path, rows: pa.Table) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="none")  # sketches are packed already
        replace_file(folder / PART, sink.getvalue())

    def _fold(self) -> None:
        """Keep of old batches only what is newest, in one file."""
        batches = self.numbered(BATCH)
        if len(batches) <= 2 * self.keep:
            return
        old = batches[: -self.keep]
        before = self.numbered(UNTIL)
        files = [self.snapshots / f"{UNTIL}{number}" / PART for number in before]
        files += [self.snapshots / f"{BATCH}{number}" / PART for number in old]
        whole = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files if file.exists()])
        self._put(self.snapshots / f"{UNTIL}{old[-1]}", newest(whole))
        for folder in (*(f"{UNTIL}{number}" for number in before), *(f"{BATCH}{number}" for number in old)):
            if folder != f"{UNTIL}{old[-1]}":
                shutil.rmtree(self.snapshots / folder, ignore_errors=True)

    def numbered(self, prefix: str) -> list[int]:
        """The numbers of the folders that are called so, in order."""
        names = (entry.name.removeprefix(prefix) for entry in self.snapshots.glob(f"{prefix}*"))
        return sorted(int(name) for name in names if name.isdigit())


def newest(rows: pa.Table) -> pa.Table:
    """Of each site and sketch the row with the newest time; of equal ones the later row."""
    groups = [name for name in rows.column_names if name not in ("at", "sketch", "events", "late")]
    numbered = rows.select([*groups, "at"]).append_column("row", pa.array(np.arange(rows.num_rows)))
    ordered = numbered.sort_by([("at", "ascending"), ("row", "ascending")])
    last = ordered.group_by(groups, use_threads=False).aggregate([("row", "last")])["row_last"]
    return rows.take(pa.array(np.sort(last.to_numpy())))


def replace_file(path: Path, content: Any) -> None:
    """The whole content under that name, or what was there before; also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
