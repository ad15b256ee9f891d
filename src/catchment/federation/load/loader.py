"""A load: files, one after the other, into one table of one cloud or dealt over several.

What is promised:

- **A file is loaded whole or not at all**, in each cloud. Its rows gather in a table beside, and one statement appends
  them when all of them are there and counted. Whatever goes wrong before leaves the table as it was.
- **A file is not loaded twice.** Each cloud keeps a journal (`journal`); a file is known by its bytes, or by its name
  and that of a batch, if one is given. A load that was cut off, even between clouds, is finished by the same command.
- Nobody else may write to the table while a load that was cut off waits to be repeated; if somebody has, the load says
  so and does nothing.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from catchment.errors import CatchmentError, InputError, ParameterError
from catchment.federation.cloud import Cloud, Column
from catchment.federation.index import extend_indexes
from catchment.federation.index_catalog import IndexCatalog
from catchment.federation.ledger import Ledger
from catchment.federation.load.csv_files import CsvForm
from catchment.federation.load.desk import Desk
from catchment.federation.load.journal import Journal, Note
from catchment.federation.load.local import LocalFile
from catchment.federation.load.rejects import Rejects
from catchment.federation.load.remote import RemoteFiles
from catchment.federation.load.staging import Stage, drop_stages, restore
from catchment.federation.load.steps import FileReport, LoadReport, Step
from catchment.federation.load.types import quoted

__all__ = ["Load"]


@dataclass
class Load:
    """What is to be loaded, and how.

    Parameters
    ----------
    clouds
        Where the rows go; several get even parts, in this order.
    table
        The table's name; it is made where it is missing.
    rejects
        Where bad rows go.
    columns
        The columns of a table that is to be made. Without them a CSV file's header and first rows tell.
    form
        How CSV files are written; None for Parquet.
    batch
        A name for this load, by which its files are known in place of their bytes.
    again
        Load files that were loaded before once more.
    progress
        Told what is done and the share that is behind.
    """

    clouds: Sequence[Cloud]
    table: str
    rejects: Rejects
    columns: tuple[Column, ...] = ()
    form: CsvForm | None = None
    batch: str | None = None
    again: bool = False
    progress: Callable[[str, float], None] = lambda _label, _share: None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", self.table) or self.table.lower().startswith("catchment_"):
            raise ParameterError(
                f"a table of the name {self.table!r}", "use letters, digits and _; catchment_… are our own"
            )
        self._id = f"load-{uuid.uuid4().hex[:12]}"
        self._deal = ",".join(cloud.name for cloud in self.clouds)
        self._ledger = Ledger()
        self._desks = [Desk(cloud, self._ledger, self._id) for cloud in self.clouds]

    def append(self, files: Sequence[Path]) -> LoadReport:
        """Add the rows of the files to the table; each file is a step by itself."""
        return self._append_all(self._local(files))

    def replace(self, files: Sequence[Path]) -> LoadReport:
        """Make the rows of the files the table; until all of them are there, the table is what it was."""
        return self._replace_all(self._local(files))

    def remote(self, paths: Sequence[str], *, replace: bool = False) -> LoadReport:
        """The same with files that the one cloud sees itself."""
        (desk,) = self._desks
        files = [RemoteFiles(desk, path, self.form, self.rejects) for path in paths]
        return self._replace_all(files) if replace else self._append_all(files)

    def _append_all(self, files: Sequence[Step]) -> LoadReport:
        start = time.monotonic()
        with self._work():
            journals = self._open()
            for desk, journal in zip(self._desks, journals, strict=True):
                if journal.is_half_replaced:
                    raise InputError(
                        f"a replacement of {self.table} in cloud {desk.name!r} was cut off", "run it again first"
                    )
            reports = [self._append(file, journals) for file in files]
            notes = () if all(report.skipped for report in reports) else self._finish()
        return LoadReport(tuple(reports), time.monotonic() - start, self._ledger, notes)

    def _replace_all(self, files: Sequence[Step]) -> LoadReport:
        start = time.monotonic()
        reports = []
        with self._work() as work:
            journals = self._open()
            there = [] if self.columns or self.form is None else [d for d in self._desks if self._in(d.tables())]
            columns = self._columns(files[0], there)
            stages = [self._stage(work, desk, self._id.removeprefix("load-"), columns) for desk in self._desks]
            for file in files:
                work.callback(file.close)
                before, rejected = [stage.rows for stage in stages], self.rejects.count
                file.fill(stages, columns)
                rows = {d.name: s.rows - old for d, s, old in zip(self._desks, stages, before, strict=True)}
                reports.append(FileReport(file.label, rows, self.rejects.count - rejected))
            if not all(stage.is_made for stage in stages):
                raise InputError(f"there is no row to replace {self.table} with", "give files that hold some")
            done = [Note(file.key(self.batch), file.label, self._deal, "done") for file in files]
            self.rejects.keep()
            for stage, journal in zip(stages, journals, strict=True):
                journal.write(Note("", "", self._deal, "replacing"))
                stage.replace()
                journal.write(Note("", "", self._deal, "replaced"), *done)
            notes = self._finish()
        return LoadReport(tuple(reports), time.monotonic() - start, self._ledger, notes)

    def _append(self, file: Step, journals: list[Journal]) -> FileReport:
        key = file.key(self.batch)
        ready = [self._is_done(key, journal) for journal in journals]
        if all(ready):
            file.close()
            return FileReport(file.label, {}, skipped=True)
        there = [desk.tables() for desk in self._desks]
        columns = self._columns(file, [d for d, names in zip(self._desks, there, strict=True) if self._in(names)])
        rejected = self.rejects.count
        with self._work() as work:
            stages = [
                None if is_done else self._stage(work, desk, key, columns, names)
                for desk, is_done, names in zip(self._desks, ready, there, strict=True)
            ]
            work.callback(file.close)
            file.fill(stages, columns)
            self.rejects.keep()
            rows = {}
            for desk, stage, journal in zip(self._desks, stages, journals, strict=True):
                if stage is not None:
                    before = desk.count(self.table) if self._in(desk.tables()) else 0
                    journal.write(Note(key, file.label, self._deal, "begun", before, stage.rows))
                    stage.append()
                    journal.write(Note(key, file.label, self._deal, "done", before, stage.rows))
                    rows[desk.name] = stage.rows
        return FileReport(file.label, rows, self.rejects.count - rejected)

    def _is_done(self, key: str, journal: Journal) -> bool:
        note = None if self.again else journal.find(key)
        if note is None:
            return False
        if note.deal != self._deal:
            raise InputError(
                f"{note.file} was loaded into {self.table} before, over the clouds {note.deal}",
                "give the same clouds, or --again to load it once more",
            )
        if note.state == "begun" and journal.was_appended(note):
            journal.write(Note(note.key, note.file, note.deal, "done", note.before, note.rows))
            return True
        return note.state == "done"

    def _columns(self, file: Step, there: list[Desk]) -> tuple[Column, ...]:
        """The columns that the rows of a file get: the table's, where there is one. None at all are Parquet's own."""
        if not there:
            return self.columns or file.columns()
        first, *others = ((desk, desk.columns(self.table)) for desk in there)
        for desk, columns in others:
            if _shape(columns) != _shape(first[1]):
                raise InputError(
                    f"{self.table} has other columns in cloud {desk.name!r} than in {first[0].name!r}",
                    "load into one cloud at a time",
                )
        if self.columns and _shape(self.columns) != _shape(first[1]):
            held = ", ".join(f"{column.name} {column.type}" for column in first[1])
            raise InputError(f"{self.table} is there with the columns {held}", "leave the schema out, or replace it")
        return first[1]

    def _stage(
        self, work: ExitStack, desk: Desk, key: str, columns: tuple[Column, ...], tables: Sequence[str] = ()
    ) -> Stage:
        drop_stages(desk, key, tables)
        stage = Stage(desk, self.table, key, columns)
        work.callback(stage.drop)
        return stage

    def _open(self) -> list[Journal]:
        """Every cloud is asked before any is changed: one that is down stops the load here."""
        tables = [desk.tables() for desk in self._desks]
        for desk, names in zip(self._desks, tables, strict=True):
            restore(desk, self.table, names)
        return [Journal(desk, self.table, names) for desk, names in zip(self._desks, tables, strict=True)]

    @contextmanager
    def _work(self) -> Iterator[ExitStack]:
        """At the end stages go, and bad rows that nobody kept; an error first stops what clouds still do."""
        with ExitStack() as work:
            work.callback(self.rejects.forget)
            try:
                yield work
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        for desk in self._desks:
            desk.stop()

    def _finish(self) -> tuple[str, ...]:
        """Tell the planner of queries how many rows there are now, and bring indexes up to date, in all clouds at once.

        The rows are in the table by then, and queries are right without; so what fails here is a note.
        """
        with ThreadPoolExecutor(len(self._desks)) as crew:
            return tuple(note for note in crew.map(self._finish_one, self._desks) if note)

    def _finish_one(self, desk: Desk) -> str:
        try:
            if self._in(desk.tables()):
                desk.do(f"ANALYZE TABLE {quoted(self.table)} COMPUTE STATISTICS")
                extend_indexes(IndexCatalog(desk.cloud), self.table, desk.errand)
        except CatchmentError as problem:
            return f"statistics and indexes of {self.table} in cloud {desk.name!r} are behind ({problem.problem})"
        return ""

    def _in(self, tables: Sequence[str]) -> bool:
        return self.table.lower() in tables

    def _local(self, files: Sequence[Path]) -> list[LocalFile]:
        """The files, each with the function that is told how many of its bytes are behind."""
        sizes = [file.stat().st_size for file in files]
        total, before, found = max(sum(sizes), 1), 0, []
        for file, size in zip(files, sizes, strict=True):

            def share(position: int, name: str = file.name, start: int = before) -> None:
                self.progress(f"{name} into {self.table}", (start + position) / total)

            found.append(LocalFile(file, self.form, self.rejects, share, self._stop))
            before += size
        return found


def _shape(columns: Sequence[Column]) -> list[tuple[str, str]]:
    return sorted((column.name.lower(), column.type.lower().replace(" ", "")) for column in columns)
