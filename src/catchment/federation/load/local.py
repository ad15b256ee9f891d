"""Files that lie here: read here, and sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catchment.federation.cloud import Column
from catchment.federation.load.csv_files import CsvFile, CsvForm
from catchment.federation.load.gather import Source, gather
from catchment.federation.load.parquet_files import ParquetFile
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.staging import Stage

__all__ = ["LocalFile", "batch_key"]


@dataclass
class LocalFile:
    """One file; a step of a load.

    Parameters
    ----------
    path, form, rejects
        The file, how it is written if it is CSV, and where its bad rows go.
    share
        Told how many bytes of the file are behind.
    stop
        Called when the reading is interrupted or fails, so that clouds stop.
    """

    path: Path
    form: CsvForm | None
    rejects: Rejects
    share: Callable[[int], None]
    stop: Callable[[], None]

    @property
    def label(self) -> str:
        return str(self.path)

    def key(self, batch: str | None) -> str:
        """By what the file is known: its bytes, or its name in a batch."""
        if batch is not None:
            return batch_key(batch, self.path.name)
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    def columns(self) -> tuple[Column, ...]:
        """As the header and the first rows tell; none for Parquet, which brings its own."""
        return () if self.form is None else CsvFile(self.path, self.form, lambda _: None).guess()

    def fill(self, stages: Sequence[Stage | None], columns: tuple[Column, ...]) -> None:
        """Send the good rows; None is a cloud that has its part already."""
        gather(self._source(), columns, stages, self.share, self.stop)

    def _source(self) -> Source:
        if self.form is None:
            return ParquetFile(self.path)
        self.rejects.begin()
        return CsvFile(self.path, self.form, self.rejects.add)

    def close(self) -> None:
        """There is nothing to leave behind."""


def batch_key(batch: str, name: str) -> str:
    """By what a file is known in a batch.

    >>> batch_key("monday", "a.csv") == batch_key("monday", "b.csv")
    False
    """
    return hashlib.blake2b(f"{batch}\0{name}".encode(), digest_size=16).hexdigest()
