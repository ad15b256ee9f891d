"""CREATE, DROP, REFRESH and SHOW INDEX over clouds: each cloud indexes its own files, by SQL that it runs itself.

What a cloud holds of an index is described in `index_manifest`. Everything here may be stopped at any place: an index
that is not whole is not used, and DROP INDEX clears what is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa

from catchment.errors import CatchmentError, NameNotFoundError, QueryError, StatementError
from catchment.federation.cloud import Cloud, Errand, Index
from catchment.federation.index_catalog import IndexCatalog, Written, definitions_of, files_of, usable
from catchment.federation.index_manifest import PROPERTY, Claim, Definition, Manifest, SourceFile
from catchment.federation.index_text import make_about_text, make_segment_text
from catchment.federation.intervals import domain_of
from catchment.federation.spark_text import name_text, string_text

__all__ = ["create_index", "drop_index", "extend_indexes", "refresh_index", "show_indexes"]

MOST_SEGMENTS = 8
"""With more of them an index is made anew: each is one more relation that a query opens."""

_FILE_FORMATS = {"parquet", "orc", "csv", "json", "text", "avro"}
_ANY = TypeVar("_ANY")


def create_index(
    catalogs: Iterable[IndexCatalog], name: str, table: str, column: str, include: Sequence[str], errand: Errand
) -> pa.Table:
    """Index a column of a table in every cloud that has the table, or in none.

    Parameters
    ----------
    catalogs
        Of the clouds; those without the table are left out.
    name, table, column
        The index's name, which is its cloud's only one of that name, and what is indexed.
    include
        The other columns that a scan of the index can give; all of the table's if empty.
    errand
        For which query this is; what crosses is entered under its purpose.

    Raises
    ------
    StatementError
        There is such an index, or no such table or column, or the table is no plain table of files. What clouds had
        begun is dropped again.
    """
    having = [catalog for catalog in catalogs if table.lower() in catalog.cloud.tables()]
    if not having:
        raise StatementError(f"no cloud has a table {table!r}", "SHOW TABLES lists those that there are")
    claims = _in_each(having, lambda catalog: _planned(catalog, name, table, column, include, errand))
    begun: list[IndexCatalog] = []

    def make(catalog: IndexCatalog) -> None:
        _begin(catalog, claims[having.index(catalog)], errand)
        begun.append(catalog)
        _extend(catalog, claims[having.index(catalog)], errand)

    try:
        _in_each(having, make)
    except BaseException:
        for catalog in begun:
            with suppress(CatchmentError):
                _drop(catalog, name.lower(), errand, only=claims[having.index(catalog)].id)
        raise
    return show_indexes(having, table, errand, only=name)


def drop_index(catalogs: Iterable[IndexCatalog], name: str, errand: Errand) -> None:
    """Drop an index in every cloud that has it; `NameNotFoundError` if none has."""
    dropped = _in_each(list(catalogs), lambda catalog: _drop(catalog, name.lower(), errand))
    if not any(dropped):
        raise NameNotFoundError(f"no cloud has an index {name!r}", "SHOW INDEXES lists those that there are")


def refresh_index(catalogs: Iterable[IndexCatalog], name: str, errand: Errand) -> pa.Table:
    """Take in files that were added, and drop segments of files that changed or vanished; `NameNotFoundError`."""
    asked = list(catalogs)
    found = _in_each(asked, lambda catalog: _refresh(catalog, name.lower(), errand))
    if not any(found):
        raise NameNotFoundError(f"no cloud has an index {name!r}", "SHOW INDEXES lists those that there are")
    return show_indexes(asked, None, errand, only=name)


def extend_indexes(catalog: IndexCatalog, table: str, errand: Errand) -> tuple[str, ...]:
    """Bring every index of a table in one cloud up to date, after a load; gives their names."""
    catalog.forget()
    names = tuple(claim.name for claim in catalog.claims(errand).values() if claim.table == table.lower())
    for name in names:
        _refresh(catalog, name, errand)
    return names


def show_indexes(
    catalogs: Iterable[IndexCatalog], table: str | None, errand: Errand, *, only: str | None = None
) -> pa.Table:
    """The indexes of a table, or all: a row for each cloud and index, with what of the table it covers now."""
    rows = [row for part in _in_each(list(catalogs), lambda one: _shown(one, table, only, errand)) for row in part]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: (str(row["name"]), str(row["cloud"]))), schema=_SHOWN)


_SHOWN = pa.schema(
    [
        ("name", pa.string()), ("cloud", pa.string()), ("table", pa.string()), ("column", pa.string()),
        ("covers", pa.list_(pa.string())), ("segments", pa.int64()), ("rows", pa.int64()),
        ("fresh_files", pa.int64()), ("distinct", pa.int64()), ("nulls", pa.int64()),
    ]
)  # fmt: skip


def _shown(catalog: IndexCatalog, table: str | None, only: str | None, errand: Errand) -> list[dict[str, object]]:
    catalog.forget()
    claims = catalog.claims(errand)
    wanted = {claim.table for claim in claims.values()} if table is None else {table.lower()}
    indexes: list[Index] = [index for found in catalog.of(wanted, errand).values() for index in found]
    return [
        {
            "name": index.name, "cloud": catalog.cloud.name, "table": index.table, "column": index.column,
            "covers": index.covered, "segments": len(index.segments),
            "rows": sum(segment.rows for segment in index.segments), "fresh_files": len(index.fresh),
            "distinct": round(max((part.distinct for part in index.statistics), default=0.0)),
            "nulls": sum(segment.statistics.nulls for segment in index.segments),
        }
        for index in indexes
        if only is None or index.name == only.lower()
    ]  # fmt: skip


def _in_each(catalogs: Sequence[IndexCatalog], work: Callable[[IndexCatalog], _ANY]) -> list[_ANY]:
    """Clouds work side by side; all have ended when an error comes out."""
    with ThreadPoolExecutor(max(1, len(catalogs)), thread_name_prefix="index") as pool:
        futures = [pool.submit(work, catalog) for catalog in catalogs]
    return [future.result() for future in futures]


def _planned(
    catalog: IndexCatalog, name: str, table: str, column: str, include: Sequence[str], errand: Errand
) -> Claim:
    """What would be built in a cloud, checked: before any cloud begins."""
    cloud = catalog.cloud
    definition = _definition(cloud, table, errand)
    described = cloud.run(f"DESCRIBE TABLE {name_text(table)}", errand)
    types = dict(zip(described["col_name"].to_pylist(), described["data_type"].to_pylist(), strict=True))
    named = {each.lower(): each for each in types}
    asked = [each.lower() for each in ([column, *include] if include else [column, *types])]
    missing = [each for each in asked if each not in named]
    if missing:
        raise StatementError(
            f"table {table!r} of cloud {cloud.name!r} has no column {missing[0]!r}", f"it has {', '.join(types)}"
        )
    covered = tuple(each for each in types if each.lower() in asked)
    if "_metadata" in named:
        raise StatementError(f"table {table!r} hides what files its rows are from", "rename its column _metadata")
    padded = [each for each in covered if types[each].startswith("char(")]
    if padded:
        raise StatementError(
            f"column {padded[0]!r} is {types[padded[0]]}, whose padding a copy does not keep",
            "leave it out with INCLUDE (…), or make it a string",
        )
    if domain_of(types[named[column.lower()]]) is None:
        raise StatementError(
            f"column {column!r} is {types[named[column.lower()]]}, which has no order that files are read by",
            "index a number, a string, a date or a time",
        )
    if not definition["Location"]:
        raise StatementError(f"table {table!r} has no place for its files", "index a table of files")
    id_ = secrets.token_hex(6)
    return Claim(name.lower(), id_, table.lower(), named[column.lower()], types[named[column.lower()]], covered)


def _definition(cloud: Cloud, table: str, errand: Errand) -> Definition:
    definition = definitions_of(cloud, [table], errand).get(table.lower())
    where = f"{table!r} of cloud {cloud.name!r}"
    if definition is None:
        raise StatementError(f"table {where} is gone or temporary", "SHOW TABLES lists those that there are")
    if definition["Type"] == "VIEW":
        raise StatementError(f"{where} is a view and has no files of its own", "index the tables that it reads")
    if definition["Provider"].lower() not in _FILE_FORMATS:
        raise StatementError(
            f"table {where} is kept by {definition['Provider'] or 'nobody'}, not in plain files",
            f"index a table of {', '.join(sorted(_FILE_FORMATS))}",
        )
    if definition["Partition Columns"]:
        raise StatementError(
            f"table {where} is partitioned by {definition['Partition Columns']}",
            "filter by these columns, by which Spark picks the files; or copy it into a table that is not partitioned",
        )
    return definition


def _begin(catalog: IndexCatalog, claim: Claim, errand: Errand) -> None:
    """Take the name; of two who try, the catalog of the cloud lets one."""
    hidden = catalog.hidden(errand)
    catalog.cloud.run(f"CREATE DATABASE IF NOT EXISTS {name_text(hidden)}", errand)
    properties = f"TBLPROPERTIES ({string_text(PROPERTY)} = {string_text(claim.to_text())})"
    try:
        catalog.cloud.run(
            f"CREATE TABLE {name_text(hidden, f'index_{claim.name}')} (nothing INT) USING parquet {properties}", errand
        )
    except QueryError as problem:
        if "ALREADY_EXISTS" not in problem.problem:
            raise
        raise StatementError(
            f"cloud {catalog.cloud.name!r} has an index {claim.name!r} already, or one is being made",
            f"DROP INDEX {claim.name}, or take another name",
        ) from None
    catalog.forget()


def _extend(catalog: IndexCatalog, claim: Claim, errand: Errand) -> None:
    """Make a segment of all files that are there and that no segment holds, or of all if there are many segments."""
    cloud = catalog.cloud
    definition = _definition(cloud, claim.table, errand)
    files = files_of(cloud, [definition], errand)[definition["Location"]]
    written = catalog.written([claim], errand)[claim.name]
    index = usable(claim, written, definition, files)
    standing = {segment.table for segment in index.segments}
    taken = [files[path] for path in index.fresh]
    if taken and len(standing) >= MOST_SEGMENTS:
        taken, standing = list(files.values()), set()
    if taken:
        _make_segment(catalog, claim, Manifest(definition, tuple(taken)), errand)
    _drop_segments(catalog, [one for one in written if one.segment.table not in standing], errand)
    catalog.forget()


def _make_segment(catalog: IndexCatalog, claim: Claim, manifest: Manifest, errand: Errand) -> None:
    """The files were listed before they are read: one that changes meanwhile differs from what is written down."""
    cloud, hidden, id_ = catalog.cloud, catalog.hidden(errand), f"{claim.id}_{secrets.token_hex(6)}"
    rows, about = name_text(hidden, f"rows_{id_}"), name_text(hidden, f"about_{id_}")
    cloud.run(f"REFRESH TABLE {name_text(claim.table)}", errand)
    files: tuple[SourceFile, ...] = manifest.files
    try:
        cloud.run(make_segment_text(claim, rows, files), errand)
        cloud.run(make_about_text(claim, rows, about, manifest), errand)
    except BaseException:
        with suppress(CatchmentError):
            cloud.run(f"DROP TABLE IF EXISTS {rows}", errand)
        raise


def _drop_segments(catalog: IndexCatalog, segments: Iterable[Written], errand: Errand) -> None:
    hidden = catalog.hidden(errand)
    for one in segments:
        catalog.cloud.run(f"DROP TABLE IF EXISTS {name_text(hidden, one.about)}", errand)
        catalog.cloud.run(f"DROP TABLE IF EXISTS {one.segment.table}", errand)


def _refresh(catalog: IndexCatalog, name: str, errand: Errand) -> bool:
    catalog.forget()
    claim = catalog.claims(errand).get(name)
    if claim is not None:
        _extend(catalog, claim, errand)
    return claim is not None


def _drop(catalog: IndexCatalog, name: str, errand: Errand, *, only: str | None = None) -> bool:
    """The name first: from then on there is no such index, whatever becomes of its segments."""
    catalog.forget()
    claim = catalog.claims(errand).get(name)
    if claim is None or only not in (None, claim.id):
        return False
    hidden = catalog.hidden(errand)
    catalog.cloud.run(f"DROP TABLE IF EXISTS {name_text(hidden, f'index_{name}')}", errand)
    for table in catalog.orphans(errand):
        catalog.cloud.run(f"DROP TABLE IF EXISTS {name_text(hidden, table)}", errand)
    catalog.forget()
    return True
