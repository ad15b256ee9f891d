"""A table beside the table: rows gather in it, and go over in one statement when the file is whole."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa

from catchment.errors import CatchmentError, CloudError
from catchment.federation.cloud import Column
from catchment.federation.load.desk import Desk
from catchment.federation.load.types import quoted

__all__ = ["BATCH_BYTES", "Stage", "drop_stages", "restore"]

BATCH_BYTES = 32 << 20
"""Arrow bytes that go over at a time: each costs a job of Spark, so not too few; each is held here, so not too many."""
FILE_BYTES = 256 << 20
"""Arrow bytes to a file of the table: a few row groups of Parquet, and not a file for every batch."""
_ROW_BYTES = 100
"""What a row is taken to be worth that we have not seen."""
_PREFIX = "catchment_stage"
_OLD = "catchment_old"


class Stage:
    """The gathering rows of one cloud.

    Parameters
    ----------
    desk, table
        The cloud, and where the rows go in the end.
    key
        What is loaded; a stage that a crash left behind is known by it.
    columns
        Those of the table; those of the first rows, if none are given.
    """

    def __init__(self, desk: Desk, table: str, key: str, columns: tuple[Column, ...]) -> None:
        self._desk = desk
        self._table = table
        self._columns = columns
        self._name = f"{_PREFIX}_{key[:12]}_{uuid.uuid4().hex[:8]}"
        self._made: tuple[str, ...] = ()
        self._waiting: list[pa.Table] = []
        self._like: pa.Table | None = None
        self._size = 0
        self._total = 0
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows; they go over when they are many."""
        self._like = rows.slice(0, 0)
        if rows.num_rows:
            self._waiting.append(rows)
            self._size += rows.nbytes
            if self._size >= BATCH_BYTES:
                self.flush()

    def fill(self, fill: Callable[[str], None]) -> None:
        """Have the cloud itself put rows into the stage, whose name it is told."""
        self._make()
        fill(self._name)
        self.rows = self._desk.count(self._name)
        self._total = self.rows * _ROW_BYTES

    def flush(self) -> None:
        """Send what waits."""
        self._make()
        if self._waiting:
            self._send(pa.concat_tables(self._waiting).combine_chunks())
        self._waiting, self._size = [], 0

    def check(self) -> None:
        """Make sure that what is in the cloud is what was sent."""
        self.flush()
        there = self._desk.count(self._name) if self._made else 0
        if there != self.rows:
            raise CloudError(
                f"cloud {self._desk.name!r} has {there:,} of the {self.rows:,} rows that were sent",
                "load the file again",
                cloud=self._desk.name,
            )

    @property
    def is_made(self) -> bool:
        """Whether it is known which columns the rows have; a Parquet file without any row does not tell."""
        return bool(self._made)

    def append(self) -> None:
        """Put all rows into the table, by one statement; the table is made if there is none."""
        if not self._made:
            return
        if self._table.lower() not in self._desk.tables():
            like = f"SELECT * FROM {self._name} WHERE false"
            self._desk.do(f"CREATE TABLE {quoted(self._table)} USING parquet AS {like}")
        columns = self._columns or self._desk.columns(self._name)
        names = ", ".join(quoted(column.name) for column in columns)
        self._desk.do(f"INSERT INTO {quoted(self._table)} ({names}) {self._packed(names)}")

    def replace(self) -> None:
        """Make the rows the table, in place of the one that was there; it is away only while names change."""
        new, old = f"{self._name}_new", f"{_OLD}_{self._table.lower()}"
        self._made += (new,)
        self._desk.do(f"CREATE TABLE {new} USING parquet AS {self._packed('*')}")
        there = self._table.lower() in self._desk.tables()
        if there:
            self._desk.do(f"ALTER TABLE {quoted(self._table)} RENAME TO {quoted(old)}")
        self._desk.do(f"ALTER TABLE {new} RENAME TO {quoted(self._table)}")
        if there:
            self._desk.do(f"DROP TABLE {quoted(old)}")

    def drop(self) -> None:
        """Leave nothing; a cloud that is gone keeps it until the same is loaded again."""
        with suppress(CatchmentError):
            for name in self._made:
                self._desk.do(f"DROP TABLE IF EXISTS {name}")

    def _make(self) -> None:
        """Make the stage's table, once, by the columns or like the first rows."""
        if self._made or not (self._columns or self._like is not None):
            return
        self._made = (self._name,)
        if self._columns:
            columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in self._columns)
            self._desk.do(f"CREATE TABLE {self._name} ({columns}) USING parquet")
        else:
            view = self._desk.put(self._like)
            try:
                self._desk.do(f"CREATE TABLE {self._name} USING parquet AS SELECT * FROM {view}")
            finally:
                self._desk.cloud.forget([view])

    def _send(self, rows: pa.Table) -> None:
        names = ", ".join(quoted(name) for name in rows.column_names)
        view = self._desk.put(rows)
        try:
            self._desk.do(f"INSERT INTO {self._name} ({names}) SELECT {names} FROM {view}")
        finally:
            self._desk.cloud.forget([view])
        self.rows += rows.num_rows
        self._total += rows.nbytes

    def _packed(self, names: str) -> str:
        """All rows, in as many files as they are worth; without a shuffle, so in their order."""
        return f"SELECT /*+ COALESCE({self._total // FILE_BYTES + 1}) */ {names} FROM {self._name}"


def drop_stages(desk: Desk, key: str, tables: Sequence[str]) -> None:
    """Drop what an earlier load of the same left behind."""
    for name in tables:
        if name.startswith(f"{_PREFIX}_{key[:12]}_"):
            desk.do(f"DROP TABLE IF EXISTS {name}")


def restore(desk: Desk, table: str, tables: Sequence[str]) -> None:
    """Give a table its name back that a replacement, cut off, had moved aside; its files were never touched."""
    old = f"{_OLD}_{table.lower()}"
    if old in tables:
        if table.lower() in tables:
            desk.do(f"DROP TABLE {quoted(old)}")
        else:
            desk.do(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(table)}")
