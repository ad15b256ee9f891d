"""Parquet to Arrow, batch by batch. Its rows have types already, so a file that does not fit is refused whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catchment.errors import InputError
from catchment.federation.cloud import Column

__all__ = ["ParquetFile"]

_BATCH_ROWS = 64 * 1024


@dataclass
class ParquetFile:
    """One Parquet file, read in bounded memory."""

    path: Path
    position: int = field(default=0, init=False)
    """Bytes of the file that are behind us, about."""

    def names(self) -> tuple[str, ...]:
        """The columns; their types are the file's."""
        with self._open() as file:
            return tuple(file.schema_arrow.names)

    def tables(self, columns: tuple[Column, ...]) -> Iterator[pa.Table]:
        """All rows with these columns, by their names, in the file's order; any columns if none are given."""
        size = self.path.stat().st_size
        with self._open() as file:
            spelling = {name.lower(): name for name in file.schema_arrow.names}
            wanted = [column.name for column in columns] or list(file.schema_arrow.names)
            if {name.lower() for name in wanted} != set(spelling):
                raise InputError(
                    f"{self.path} has the columns {', '.join(spelling.values())}, the table has {', '.join(wanted)}",
                    "give a file with the table's columns",
                )
            total, behind = max(file.metadata.num_rows, 1), 0
            try:
                for batch in file.iter_batches(_BATCH_ROWS, columns=[spelling[name.lower()] for name in wanted]):
                    behind += batch.num_rows
                    self.position = size * behind // total
                    table = pa.Table.from_batches([batch])
                    yield table.select([spelling[name.lower()] for name in wanted]).rename_columns(wanted)
            except (pa.ArrowException, OSError) as problem:
                raise InputError(f"{self.path} cannot be read ({problem})", "fetch it again") from None
        self.position = size

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path)
        except pa.ArrowException as problem:
            raise InputError(f"{self.path} is no Parquet file ({problem})", "fetch it again, or load csv") from None
