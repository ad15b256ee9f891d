"""Files that a cloud sees itself: the cloud reads them by SQL, and nothing crosses but bad rows.

Spark knows no line numbers, so a bad row has its file and its text, and no line.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catchment.errors import InputError
from catchment.federation.cloud import Column
from catchment.federation.load.csv_files import CsvForm, Rejected
from catchment.federation.load.desk import Desk, literal
from catchment.federation.load.local import batch_key
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.staging import Stage
from catchment.federation.load.types import quoted

__all__ = ["RemoteFiles", "files_key"]

_BAD = "catchment_bad_record"


@dataclass
class RemoteFiles:
    """A path as one cloud sees it: a file, a folder or a pattern. It is one step of a load, whole or not at all."""

    desk: Desk
    path: str
    form: CsvForm | None
    rejects: Rejects

    def __post_init__(self) -> None:
        self.view = f"catchment_files_{uuid.uuid4().hex[:12]}"

    @property
    def label(self) -> str:
        return self.path

    def key(self, batch: str | None) -> str:
        """By what the files are known: paths, sizes and times of change; or the path in a batch."""
        if batch is not None:
            return batch_key(batch, self.path)
        found = self.desk.run(
            f"SELECT path, length, unix_micros(modificationTime) AS changed FROM binaryFile.{quoted(self.path)} "
            "ORDER BY path"
        ).to_pylist()
        if not found:
            raise InputError(
                f"cloud {self.desk.name!r} finds no file in {self.path}", "give a path that the cloud sees"
            )
        return files_key((row["path"], row["length"], row["changed"]) for row in found)

    def columns(self) -> tuple[Column, ...]:
        """As Spark guesses them, from all rows."""
        self._look((), guess=True)
        return self.desk.columns(self.view)

    def fill(self, stages: Sequence[Stage | None], columns: tuple[Column, ...]) -> None:
        """Have the cloud put the good rows into its stage; the bad ones come here."""
        (stage,) = stages
        assert stage is not None, "a cloud that is done is not asked"
        columns = columns or self.columns()
        self._look(columns)
        names = ", ".join(quoted(column.name) for column in columns)
        good = f" WHERE {_BAD} IS NULL" if self.form else ""
        stage.fill(lambda name: self.desk.do(f"INSERT INTO {name} ({names}) SELECT {names} FROM {self.view}{good}"))
        self.rejects.begin()
        if self.form is not None:
            self._reject(names)

    def _reject(self, names: str) -> None:
        found = self.desk.run(
            f"SELECT input_file_name() AS path, {_BAD} AS record, {names} FROM {self.view} "
            f"WHERE {_BAD} IS NOT NULL LIMIT {self.rejects.most + 1}"
        )
        for path, record in zip(found["path"].to_pylist(), found["record"].to_pylist(), strict=True):
            self.rejects.add(Rejected(path, None, "Spark cannot read it with this schema", record))

    def close(self) -> None:
        """Leave nothing."""
        self.desk.do(f"DROP VIEW IF EXISTS {self.view}")

    def _look(self, columns: tuple[Column, ...], *, guess: bool = False) -> None:
        """Make the view; with columns, a record that does not fit them is in a column of its own."""
        options = {"path": self.path}
        if self.form is not None:
            # Without pruning of columns a record is judged by all its fields, whichever are asked for.
            options |= {
                "header": str(self.form.header).lower(),
                "sep": self.form.delimiter,
                "quote": self.form.quote,
                "escape": self.form.quote,
                # Spark takes a quoted empty field for null too if null is the empty text: it is this one, for Spark.
                "nullValue": self.form.null or "\x00",
                "multiLine": str(self.form.multiline).lower(),
                "mode": "PERMISSIVE",
                "columnNameOfCorruptRecord": _BAD,
                "enforceSchema": "false" if self.form.header else "true",
                "columnPruning": "false",
                "inferSchema": str(guess).lower(),
            }
        typed = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
        schema = f" ({typed}, {_BAD} STRING)" if columns and self.form else ""
        told = ", ".join(f"{literal(name)} {literal(value)}" for name, value in options.items())
        kind = "csv" if self.form else "parquet"
        self.desk.do(f"CREATE OR REPLACE TEMPORARY VIEW {self.view}{schema} USING {kind} OPTIONS ({told})")


def files_key(files: Iterable[tuple[str, int, int]]) -> str:
    """By what files of a cloud are known: path, size and time of change (µs) of each. It is kept in the journal.

    >>> files_key([("file:/a.csv", 12, 5)]) == files_key([("file:/a.csv", 12, 6)])
    False
    """
    told = "".join(f"{path}\0{size}\0{changed}\n" for path, size, changed in files)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()
