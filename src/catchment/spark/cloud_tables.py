"""The tables of a micro-cloud: names, columns, and sizes as far as they are known without reading rows."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyspark.sql.connect.proto as proto
from pyspark.errors import AnalysisException
from pyspark.sql.connect.session import SparkSession

from catchment.federation.cloud import Column, Table

__all__ = ["TableReader"]

_AT_ONCE = 4
_COUNTED_QUICKLY = ("parquet", "orc")
"""Formats whose files say how many rows they have, so that a count reads no rows."""
_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+) ([KMGTPE]i)?B")
_UNITS = {unit: 1024**power for power, unit in enumerate((None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_SIZES_SECONDS = 60.0
_UNKNOWN_SIZE = 1 << 60
"""Spark's size of what it knows nothing about is 8 EiB."""


_LIST = "SHOW TABLE EXTENDED LIKE '*'"
_LISTINGS = 5
"""Tries: one fails if another query drops its view while Spark looks at each."""


class TableReader:
    """Reads the catalogue of one cloud: one question if nothing changed in it since, some for each table otherwise.

    Sizes may be a minute old, since files can be added without the catalogue's knowing. Row counts are kept as long as
    a table's size stays the same.
    """

    def __init__(self) -> None:
        self._counted: dict[tuple[str, int], int] = {}
        self._last: tuple[float, list[str], dict[str, Table]] | None = None

    def forget(self) -> None:
        """Have the next `read` ask for everything."""
        self._last = None

    def read(self, session: SparkSession) -> dict[str, Table]:
        """The tables and views of the current database by lower-case names; a broken view is left out.

        Views that were put for a query are temporary, and none of these.
        """
        listed = [row for row in _listed(session) if row["namespace"]]  # a view that goes is told as not temporary
        told = [row["information"] for row in listed]
        now, last = time.monotonic(), self._last
        if last is not None and now - last[0] < _SIZES_SECONDS and last[1] == told:
            return last[2]
        found = self._read(session, [row["tableName"] for row in listed])
        self._last = (now, told, found)
        return found

    def _read(self, session: SparkSession, names: list[str]) -> dict[str, Table]:
        if not names:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(names)), thread_name_prefix="catalogue") as threads:
            found = threads.map(lambda name: self._table(session, name), names)
            return {table.name: table for table in found if table is not None}

    def _table(self, session: SparkSession, name: str) -> Table | None:
        quoted = "`" + name.replace("`", "``") + "`"
        try:
            schema = session.client.schema(_plan(f"TABLE {quoted}"))
            told = json.loads(_rows(session, f"DESCRIBE TABLE EXTENDED {quoted} AS JSON")[0]["json_metadata"])
            columns = tuple(Column(field.name.lower(), field.dataType.simpleString()) for field in schema.fields)
            if told.get("type") == "VIEW":
                return Table(name.lower(), columns)
            size = self._size(session, quoted, told)
            rows = self._count(session, quoted, told, size)
        except AnalysisException:
            return None  # dropped since it was listed, or a view over a table that is gone
        return Table(name.lower(), columns, rows, size)

    def _size(self, session: SparkSession, quoted: str, told: dict[str, Any]) -> int | None:
        known = told.get("statistics", {}).get("size_in_bytes")
        if known is not None:
            return int(known)
        match = _SIZE.search(session.client.explain_string(_plan(f"TABLE {quoted}"), "cost"))
        size = int(float(match[1]) * _UNITS[match[2]]) if match else None
        return size if size is not None and size < _UNKNOWN_SIZE else None

    def _count(self, session: SparkSession, quoted: str, told: dict[str, Any], size: int | None) -> int | None:
        known = told.get("statistics", {}).get("num_rows")
        if known:  # Hive's catalogue says 0 of a table that Spark has filled
            return int(known)
        if size is None or told.get("provider", "").lower() not in _COUNTED_QUICKLY:
            return None
        key = (quoted, size)
        if key not in self._counted:
            self._counted[key] = int(_rows(session, f"SELECT count(*) AS n FROM {quoted}")[0]["n"])
        return self._counted[key]


def _plan(sql: str) -> Any:
    plan = proto.Plan()
    plan.root.sql.query = sql
    return plan


def _listed(session: SparkSession) -> list[dict[str, Any]]:
    for _ in range(_LISTINGS - 1):
        with suppress(AnalysisException):
            return _rows(session, _LIST)
    return _rows(session, _LIST)


def _rows(session: SparkSession, sql: str) -> list[dict[str, Any]]:
    table, _, _ = session.client.to_table(_plan(sql), {})
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
