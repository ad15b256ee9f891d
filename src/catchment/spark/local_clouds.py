"""Clouds without servers: databases of one local Spark session, each behind the protocol of a micro-cloud.

This is the way to test federated queries. What a federation plans and how its SQL behaves is the same as with servers;
what differs is only that nothing crosses a network. What would cross is entered in the ledger as the bytes of an Arrow
stream without compression.

    spark.sql("CREATE DATABASE paris"); spark.sql("CREATE TABLE paris.visits …")
    federation = Federation([LocalCloud(spark, "paris", "paris"), LocalCloud(spark, "rome", "rome")])

Each cloud has a session of its own, so that its views and its current database are its own, as on a server.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from catchment.errors import CancelledQueryError, CloudError, QueryError
from catchment.federation.cloud import Column, Errand, Purpose, Table
from catchment.federation.index_text import SESSION_SETTINGS
from catchment.federation.map_reduce import Functions
from catchment.spark.map_reduce import python_trouble, reduced_frame, weight

__all__ = ["LocalCloud"]


class LocalCloud:
    """A database of a local session as a micro-cloud.

    Parameters
    ----------
    spark
        The session, on this machine; the cloud makes one beside it that shares its tables.
    name
        The cloud's name.
    database
        The database whose tables are the cloud's.
    region, cost_in, cost_out
        As in a file of clouds.
    catalog_seconds
        How long a list of tables is believed.
    settings
        Of Spark, for the cloud's session alone.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        database: str,
        *,
        region: str = "here",
        cost_in: float = 0.0,
        cost_out: float = 1.0,
        catalog_seconds: float = 5.0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.region = region
        self.cost_in = cost_in
        self.cost_out = cost_out
        self._spark = spark.newSession()
        for key, value in (settings or {}).items():
            self._spark.conf.set(key, value)
        self._spark.catalog.setCurrentDatabase(database)
        for setting, value in SESSION_SETTINGS.items():
            self._spark.conf.set(setting, value)
        self._database = database
        self._catalog_seconds = catalog_seconds
        self._tables: dict[str, Table] | None = None
        self._read_at = 0.0
        self._cancelled: set[str] = set()
        self._lock = threading.Lock()

    def tables(self) -> Mapping[str, Table]:
        with self._lock:
            if self._tables is None or time.monotonic() - self._read_at > self._catalog_seconds:
                with self._speaking():
                    # Not catalog.listTables, which fails if another thread drops a view while it looks at each; and
                    # not isTemporary, which is false for a view that was dropped since it was listed.
                    listed = self._spark.sql(f"SHOW TABLES IN `{self._database}`").collect()
                    names = [row["tableName"].lower() for row in listed if row["namespace"]]
                    self._tables = {name: self._table(name) for name in names}
                self._read_at = time.monotonic()
            return self._tables

    def refresh(self) -> None:
        """Read the list of tables anew when it is asked for next."""
        with self._lock:
            self._tables = None

    def run(self, sql: str, errand: Errand) -> pa.Table:
        with self._speaking(errand.query):
            rows = _nullable(self._spark.sql(sql)).toArrow()
        errand.ledger.add(self.name, errand.purpose, outward=True, size=_stream_bytes(rows), rows=rows.num_rows)
        return rows

    def run_functions(
        self, sql: str, functions: Functions, errand: Errand, progress: Callable[[float], None]
    ) -> pa.Table:
        """What tasks of a map-reduce give; a local session does not tell how far it is."""
        progress(0.0)
        with self._speaking(errand.query):
            try:
                rows = reduced_frame(self._spark, sql, functions).toArrow()
            except PySparkException as problem:
                trouble = python_trouble(problem, self.name)
                if trouble is None:
                    raise
                raise trouble from problem
        errand.ledger.add(self.name, Purpose.PROGRAM, outward=False, size=weight(functions))
        errand.ledger.add(self.name, errand.purpose, outward=True, size=_stream_bytes(rows), rows=rows.num_rows)
        return rows

    def put(self, name: str, rows: pa.Table, errand: Errand) -> None:
        with self._speaking(errand.query):
            frame = self._spark.createDataFrame(rows, schema=from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
            frame.createOrReplaceTempView(name)
        errand.ledger.add(self.name, errand.purpose, outward=False, size=_stream_bytes(rows), rows=rows.num_rows)

    def keep(self, name: str, sql: str, errand: Errand) -> None:
        with self._speaking(errand.query):
            self._spark.sql(sql).localCheckpoint(eager=True).createOrReplaceTempView(name)

    def forget(self, names: Iterable[str]) -> None:
        with self._speaking():
            for name in names:
                self._spark.catalog.dropTempView(name)

    def cancel(self, query: str) -> None:
        self._cancelled.add(query)
        self._spark.interruptTag(_tag(query))

    def views(self) -> list[str]:
        """The views that are there now: none, when no query runs."""
        return [table.name for table in self._spark.catalog.listTables(self._database) if table.isTemporary]

    def _table(self, name: str) -> Table:
        frame = self._spark.table(f"`{name}`")
        columns = tuple(Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields)
        size: Any = frame._jdf.queryExecution().optimizedPlan().stats()
        rows = size.rowCount()
        return Table(
            name,
            columns,
            rows=int(str(rows.get())) if rows.isDefined() else None,
            bytes=int(str(size.sizeInBytes())),
        )

    @contextmanager
    def _speaking(self, query: str | None = None) -> Iterator[None]:
        """Spark's errors as ours: what the statement did wrong, what was stopped on request, a Spark that is gone."""
        if query is not None:
            if query in self._cancelled:
                raise CancelledQueryError(f"query {query} was stopped", "ask again")
            self._spark.addTag(_tag(query))
        try:
            yield
        except Py4JNetworkError as problem:
            raise CloudError(
                f"cloud {self.name!r} is gone ({problem})", "start its Spark again", cloud=self.name
            ) from problem
        except (PySparkException, Py4JError) as problem:
            if query in self._cancelled or "cancel" in str(problem).lower():
                raise CancelledQueryError(f"query {query} was stopped", "ask again") from None
            if "SparkContext" in str(problem) and "stopped" in str(problem):
                raise CloudError(
                    f"cloud {self.name!r} is gone ({problem})", "start its Spark again", cloud=self.name
                ) from problem
            said = _PLACE.sub("", _reason(problem).strip().split("\n")[0])
            raise QueryError(f"cloud {self.name!r} cannot answer: {said}", "mend the statement") from problem
        finally:
            if query is not None:
                self._spark.removeTag(_tag(query))


_PLACE = re.compile(r"; line \d+ pos \d+;?$")
"""Where in a fragment something is wrong, which is nowhere in the user's text."""


def _reason(problem: PySparkException | Py4JError) -> str:
    """What Spark said: an error of a thread that waited for another has only the place of the call in its own text."""
    if not isinstance(problem, Py4JJavaError):
        return str(problem)
    java = problem.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() or java.toString())


def _tag(query: str) -> str:
    return f"catchment-{query}"


def _nullable(frame: DataFrame) -> DataFrame:
    """The frame with structs whose fields may be null: PySpark 4.3 cannot give one that is null otherwise."""
    fields = frame.schema.fields
    has_struct = any(isinstance(field.dataType, StructType) for field in fields)
    if not has_struct or len({field.name.lower() for field in fields}) < len(fields):
        return frame
    return frame.to(frame.schema.toNullable())


def _stream_bytes(rows: pa.Table) -> int:
    """What a table takes as an Arrow stream."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return int(sink.size())
