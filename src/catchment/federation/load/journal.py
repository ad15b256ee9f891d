"""What was loaded into a cloud's tables: a table of that cloud, `catchment_loads`, that anybody may query.

Spark cannot append rows to a table and note it in another at once. So a load notes the number of rows before it
appends, and again that it has. After a crash in between the number of rows tells which of the two it was; if it is
neither, somebody else has written, and a person must look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catchment.errors import InputError
from catchment.federation.load.desk import Desk, literal
from catchment.federation.load.types import quoted

__all__ = ["TABLE", "Journal", "Note"]

TABLE = "catchment_loads"
_COLUMNS = (
    "at TIMESTAMP, target STRING, file_key STRING, file STRING, deal STRING, state STRING, "
    "rows_before BIGINT, rows BIGINT"
)
State = Literal["begun", "done", "replacing", "replaced"]


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the journal, without its time."""

    key: str
    file: str
    deal: str
    """The clouds over which the file was dealt, in order."""
    state: State
    before: int = 0
    rows: int = 0


class Journal:
    """The journal of one cloud about one table, as it was when it was opened, and what this load adds."""

    def __init__(self, desk: Desk, table: str, tables: list[str]) -> None:
        self._desk = desk
        self._table = table.lower()
        self._there = TABLE in tables
        self._notes = self._read() if self._there else []

    def find(self, key: str) -> Note | None:
        """The newest note about a file: that it is done, if it is."""
        about = [note for note in self._notes if note.key == key]
        return next((note for note in about if note.state == "done"), about[-1] if about else None)

    @property
    def is_half_replaced(self) -> bool:
        """Whether a replacement of the whole table began and did not end."""
        return bool(self._notes) and self._notes[-1].state == "replacing"

    def was_appended(self, note: Note) -> bool:
        """Whether the rows of a file that was begun and is not done are in the table after all."""
        now = self._desk.count(self._table)
        if now in (note.before, note.before + note.rows):
            return now != note.before
        raise InputError(
            f"an earlier load of {note.file} into {self._table} of cloud {self._desk.name!r} was cut off, and the "
            f"table has {now:,} rows, neither {note.before:,} as before it nor {note.before + note.rows:,} as after it",
            "look whether the file's rows are there; if not, load it with --again",
        )

    def write(self, *notes: Note) -> None:
        """Add notes, all at once."""
        if not self._there:
            self._desk.do(f"CREATE TABLE IF NOT EXISTS {TABLE} ({_COLUMNS}) USING parquet")
            self._there = True
        lines = ", ".join(
            f"({', '.join(literal(text) for text in (self._table, note.key, note.file, note.deal, note.state))}, "
            f"{note.before}, {note.rows})"
            for note in notes
        )
        self._desk.do(
            f"INSERT INTO {TABLE} SELECT /*+ COALESCE(1) */ current_timestamp(), * FROM VALUES {lines} "
            "AS lines(target, file_key, file, deal, state, rows_before, rows)"
        )
        self._notes += notes

    def _read(self) -> list[Note]:
        """What counts, oldest first: nothing from before the table was replaced."""
        rows = self._desk.run(
            f"SELECT file_key, file, deal, state, rows_before, rows FROM {quoted(TABLE)} "
            f"WHERE target = {literal(self._table)} AND at >= coalesce((SELECT max(at) FROM {quoted(TABLE)} "
            f"WHERE target = {literal(self._table)} AND state = 'replaced'), timestamp'0001-01-01') "
            "ORDER BY at, state"
        ).to_pylist()
        found = [Note(*row.values()) for row in rows]
        return [note for note in found if note.state != "replaced"]
