"""The indexes of one cloud as they can be used this moment: what is written down, held against the files there are.

A segment is used only if the table is defined as it was, and each file from which the segment was made is there with
the size and the time of change that it had before it was read. Whatever happened to the files in between, the answer
then is the one that a scan would have given at the moment of the list.

To list files takes a cloud about as long as to look up a row. So a query is planned with what was true for the last one
(`believed`), and if that is not of just now, it runs while the files are listed (`of`); if it read an index, its answer
counts only if both say the same. (To list them in the statement that reads the index is no cheaper: measured.) What a
table is, its columns and its folder, is as old as the list of tables may be, with an index or without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from catchment.errors import BytesError, QueryError
from catchment.federation.cloud import Cloud, Errand, Index, Part, Segment, Table
from catchment.federation.column_statistics import ColumnStatistics
from catchment.federation.index_manifest import (
    Claim,
    Definition,
    Manifest,
    SourceFile,
    hidden_database,
    property_of,
)
from catchment.federation.index_text import about_text, files_text
from catchment.federation.intervals import Domain, Value, domain_of
from catchment.federation.spark_text import name_text, string_text

__all__ = ["IndexCatalog", "Written", "definitions_of", "files_of", "with_indexes"]


@dataclass(frozen=True, slots=True)
class Believed:
    """What was said last of the indexes of some tables."""

    indexes: Mapping[str, tuple[Index, ...]]
    is_young: bool
    """Whether it was said so lately that one that was made since need not be known."""
    is_fresh: bool = False
    """Whether it was said so lately that an answer may rest on it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A segment as it is written down, and the `about` table that says so."""

    about: str
    segment: Segment
    manifest: Manifest

    def stands(self, definition: Definition | None, files: Mapping[str, SourceFile]) -> bool:
        """Whether the table is what it was, and every file as it was."""
        return definition == self.manifest.definition and all(
            files.get(file.path) == file for file in self.manifest.files
        )


class IndexCatalog:
    """What one client knows of one cloud's indexes.

    Parameters
    ----------
    cloud
        The cloud; its indexes are those of its current database.
    seconds
        How long the list of indexes and segments is believed, and what tables are. One that another client has made is
        not used for that long, and one that another has dropped makes a query fail for that long; neither makes a
        wrong answer. A table that another has moved to other files is read by index as it was, for that long.
    age
        How old a list of a table's files may be that an answer rests on, in seconds.
    """

    def __init__(self, cloud: Cloud, *, seconds: float = 5.0, age: float = 0.0) -> None:
        self.cloud = cloud
        self._seconds = seconds
        self._age = age
        self._lock = threading.Lock()
        self._hidden: str | None = None
        self._claims: dict[str, Claim] = {}
        self._abouts: dict[str, list[str]] = {}
        self._orphans: list[str] = []
        self._read_at: float | None = None
        self._written: dict[str, Written] = {}
        self._believed: dict[str, tuple[Index, ...]] = {}
        self._asked_at: dict[str, float] = {}
        self._definitions: dict[str, tuple[float, Definition | None]] = {}
        self._seen: dict[str, Mapping[str, SourceFile]] = {}

    def forget(self) -> None:
        """Read the list of indexes anew when it is asked for next, and believe nothing until then."""
        with self._lock:
            self._read_at = None
            self._believed.clear()
            self._definitions.clear()

    def hidden(self, errand: Errand) -> str:
        """The database of the indexes."""
        if self._hidden is None:
            [database] = self.cloud.run("SELECT current_database() AS name", errand)["name"].to_pylist()
            self._hidden = hidden_database(database)
        return self._hidden

    def claims(self, errand: Errand) -> dict[str, Claim]:
        """Every index by its name."""
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at > self._seconds:
                self._read_names(errand)
                self._read_at = time.monotonic()
            return dict(self._claims)

    def _read_names(self, errand: Errand) -> None:
        try:
            rows = self.cloud.run(f"SHOW TABLE EXTENDED IN {name_text(self.hidden(errand))} LIKE '*'", errand)
        except QueryError as problem:
            if "SCHEMA_NOT_FOUND" not in problem.problem:
                raise
            self._claims, self._abouts = {}, {}
            return
        said = dict(zip(rows["tableName"].to_pylist(), rows["information"].to_pylist(), strict=True))
        texts = [property_of(information) for name, information in said.items() if name.startswith("index_")]
        self._claims = {claim.name: claim for claim in map(Claim.from_text, filter(None, texts))}
        self._abouts = {claim.id: [] for claim in self._claims.values()}
        self._orphans = []
        for name in said:
            kind, _, rest = name.partition("_")
            if kind in ("rows", "about"):
                of = self._abouts.get(rest.partition("_")[0])
                (self._orphans if of is None else of if kind == "about" else []).append(name)

    def orphans(self, errand: Errand) -> list[str]:
        """Tables of indexes that are gone: an index exists before its first table does, so these are of no use."""
        self.forget()
        self.claims(errand)
        return list(self._orphans)

    def written(self, claims: Iterable[Claim], errand: Errand) -> dict[str, list[Written]]:
        """The segments of indexes, by the names of these; each is read from its cloud once."""
        asked = tuple(claims)
        with self._lock:
            names = {claim.name: [(about, claim) for about in self._abouts.get(claim.id, ())] for claim in asked}
        missing = [pair for pairs in names.values() for pair in pairs if pair[0] not in self._written]
        if missing:
            hidden = self.hidden(errand)
            types = {name_text(hidden, about): claim.type for about, claim in missing}
            told = {row["about"]: row for row in self.cloud.run(about_text(types.items()), errand).to_pylist()}
            for about, claim in missing:
                self._written[about] = _written(hidden, about, claim, told[name_text(hidden, about)])
        return {name: [self._written[about] for about, _ in pairs] for name, pairs in names.items()}

    def of(self, tables: Iterable[str], errand: Errand) -> dict[str, tuple[Index, ...]]:
        """The indexes of some tables, each with the segments that stand now and the files beside them.

        An index that cannot be read, because another client drops it meanwhile or for any other reason, is none.
        """
        wanted = {table.lower() for table in tables}
        began = time.monotonic()
        try:
            found = self._of(wanted, errand)
        except (QueryError, BytesError):
            self.forget()
            found = {}
        with self._lock:
            self._believed |= {table: found.get(table, ()) for table in wanted}
            self._asked_at |= dict.fromkeys(wanted, began)
        return found

    def believed(self, tables: Iterable[str]) -> Believed | None:
        """What `of` said last of these tables, without asking; None if it was never asked about one of them."""
        wanted = {table.lower() for table in tables}
        with self._lock:
            if not wanted <= self._believed.keys():
                return None
            since = min((self._asked_at[table] for table in wanted), default=0.0)
            found = {table: self._believed[table] for table in wanted if self._believed[table]}
        age = time.monotonic() - since
        return Believed(found, is_young=age <= self._seconds, is_fresh=age < self._age)

    def _of(self, wanted: set[str], errand: Errand) -> dict[str, tuple[Index, ...]]:
        claims = [claim for claim in self.claims(errand).values() if claim.table in wanted]
        if not claims:
            return {}
        written = self.written(claims, errand)
        definitions, files = self._now(claims, written, errand)
        found: dict[str, tuple[Index, ...]] = {}
        for claim in claims:
            definition = definitions.get(claim.table)
            there = files.get(definition["Location"], {}) if definition else {}
            self._look_again(claim.table, there, errand)
            index = usable(claim, written[claim.name], definition, there)
            found[claim.table] = (*found.get(claim.table, ()), index)
        return found

    def _look_again(self, table: str, files: Mapping[str, SourceFile], errand: Errand) -> None:
        """Have Spark list a table's files anew if they are others than last time: a session remembers its list."""
        if self._seen.get(table) != files:
            self.cloud.run(f"REFRESH TABLE {name_text(table)}", errand)
            self._seen[table] = files

    def _now(
        self, claims: Iterable[Claim], written: Mapping[str, Iterable[Written]], errand: Errand
    ) -> tuple[dict[str, Definition], dict[str, dict[str, SourceFile]]]:
        """What the tables are and which files they have, asked at once: where they are is known from last time."""
        before = {one.manifest.definition for segments in written.values() for one in segments}
        with ThreadPoolExecutor(1, thread_name_prefix="index") as pool:
            listed = pool.submit(files_of, self.cloud, before, errand)
            definitions = self._defined({claim.table for claim in claims}, errand)
        moved = set(definitions.values()) - before
        try:
            files = listed.result()
        except QueryError:
            files, moved = {}, set(definitions.values())
        for definition in moved:
            with suppress(QueryError):  # a folder that is gone has no files, and fails any list that it is in
                files |= files_of(self.cloud, [definition], errand)
        return definitions, files

    def _defined(self, tables: set[str], errand: Errand) -> dict[str, Definition]:
        """What tables are, or were not long ago."""
        now = time.monotonic()
        with self._lock:
            known = {name: said for name, (at, said) in self._definitions.items() if now - at <= self._seconds}
        missing = tables - known.keys()
        if missing:
            told = definitions_of(self.cloud, missing, errand)
            known |= {name: told.get(name) for name in missing}
            with self._lock:
                self._definitions |= {name: (now, told.get(name)) for name in missing}
        return {name: said for name in tables if (said := known[name]) is not None}

    def filled(self, tables: Mapping[str, Table], names: Iterable[str], errand: Errand) -> dict[str, Table]:
        """The same tables, those of the names with their indexes and, where an index counted them, their rows."""
        return with_indexes(tables, self.of((name for name in names if name.lower() in tables), errand))


def with_indexes(tables: Mapping[str, Table], indexes: Mapping[str, tuple[Index, ...]]) -> dict[str, Table]:
    """Tables with the indexes that were found."""
    return {name: _with_indexes(table, indexes.get(name.lower(), ())) for name, table in tables.items()}


def _with_indexes(table: Table, indexes: tuple[Index, ...]) -> Table:
    if not indexes:
        return table
    counted = [index.rows for index in indexes if index.segments]
    return replace(table, indexes=indexes, rows=round(max(counted)) if counted else table.rows)


def usable(
    claim: Claim, written: Iterable[Written], definition: Definition | None, files: Mapping[str, SourceFile]
) -> Index:
    """An index with the segments that stand, the largest first, each file in one only; the other files are fresh."""
    everything = tuple(written)
    chosen: list[Written] = []
    held: set[str] = set()
    for one in sorted(everything, key=lambda one: (-len(one.manifest.files), one.about)):
        paths = {file.path for file in one.manifest.files}
        if one.stands(definition, files) and held.isdisjoint(paths):
            chosen.append(one)
            held |= paths
    fresh = sorted(path for path in files if path not in held)
    return Index(
        claim.name, claim.table, claim.column, claim.type, claim.covered,
        format=definition["Provider"].lower() if definition else "",
        segments=tuple(one.segment for one in chosen),
        fresh=tuple(fresh),
        fresh_bytes=sum(files[path].size for path in fresh),
        covered_bytes=sum(files[path].size for path in held),
        statistics=tuple(one.segment.statistics for one in chosen or everything),
    )  # fmt: skip


def definitions_of(cloud: Cloud, tables: Iterable[str], errand: Errand) -> dict[str, Definition]:
    """What tables are now, by their names; those that are gone are missing."""
    asked = sorted({table.lower() for table in tables})
    rows = cloud.run(f"SHOW TABLE EXTENDED LIKE {string_text('|'.join(asked))}", errand)
    columns = (rows[name].to_pylist() for name in ("tableName", "isTemporary", "information"))
    return {
        name.lower(): Definition.of(information)
        for name, is_temporary, information in zip(*columns, strict=True)
        if not is_temporary
    }


def files_of(cloud: Cloud, definitions: Iterable[Definition], errand: Errand) -> dict[str, dict[str, SourceFile]]:
    """The files of tables as they are now, by location and path."""
    locations = sorted({definition["Location"] for definition in definitions} - {""})
    found: dict[str, dict[str, SourceFile]] = {location: {} for location in locations}
    if not locations:
        return found
    rows: list[dict[str, Any]] = cloud.run(files_text(locations), errand).to_pylist()
    for row in rows:
        found[row["location"]][row["path"]] = SourceFile(row["path"], row["size"], row["changed"])
    return found


def _written(hidden: str, about: str, claim: Claim, told: Mapping[str, Any]) -> Written:
    from catchment.sketch.spark_count_min import SparkCountMin  # here, because its kernels take a second to import

    domain = domain_of(claim.type) or Domain.TEXT
    counts = told["counts"]
    statistics = ColumnStatistics(
        domain, told["rows"], told["nulls"], float(told["distinct"]), told["width"],
        cuts=tuple(_value(cut, domain) for cut in told["cuts"] or ()),
        counts=SparkCountMin.from_bytes(counts) if counts is not None else None,
    )  # fmt: skip
    parts = tuple(
        Part(part["name"], part["rows"], *(None if end is None else _value(end, domain) for end in (low, high)))
        for part in told["parts"] or ()
        for low, high in [(part["low"], part["high"])]
    )
    segment = Segment(name_text(hidden, about.replace("about_", "rows_", 1)), parts, statistics)
    return Written(about, segment, Manifest.from_text(told["manifest"]))


def _value(text: str, domain: Domain) -> Value:
    if domain is Domain.TEXT:
        return text.encode()
    return float(text) if domain is Domain.REAL else int(text)
