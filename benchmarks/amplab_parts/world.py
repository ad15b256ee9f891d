"""Two clouds and, to compare with, one Spark with the cores of both, over the same files of AMPLab's tables.

Everything stays in a folder: tables that were written are used again by the next run, and an index that stands is kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from catchment.app.report import Progress
from catchment.federation.amplab import DAYS_SQL, RANKS_SQL, drawn_queries, rankings_sql, uservisits_sql
from catchment.federation.cloud import Errand, Purpose
from catchment.federation.federation import INDEX_AGE, Federation
from catchment.federation.ledger import Ledger
from catchment.federation.settings import CloudSettings
from catchment.spark.cloud import ConnectCloud
from catchment.spark.connect_server import ServerSettings, launch, stop, wait_until_listening

NAMES = ("paris", "rome")
ONE = "one"
INDEXES = {
    "by_rank": "rankings(pageRank)",
    "by_url": "rankings(pageURL) INCLUDE (pageRank)",
    "by_date": "uservisits(visitDate) INCLUDE (sourceIP, destURL, adRevenue)",
}
_FILES = 8
"""Of each table in each cloud."""
_HOURS = 4 * 3600.0


@dataclass(frozen=True)
class World:
    """The clouds of one size of tables, asked in four ways, and the one Spark."""

    rows: int
    clouds: tuple[ConnectCloud, ...]
    one: ConnectCloud
    choosing: Federation
    """Which picks index or scan by its statistics."""
    scanning: Federation
    forcing: Federation
    listing: Federation
    """Which takes every index, and has the files listed for each query."""

    def one_spark(self, sql: str) -> pa.Table:
        """The answer of the Spark that holds all rows, over the same channel."""
        return self.one.run(sql, errand())

    @cached_property
    def ranks(self) -> list[tuple[int, int]]:
        """Each rank in the data, with how many pages have it."""
        return sorted((row["value"], row["rows"]) for row in self.one_spark(RANKS_SQL).to_pylist())

    @cached_property
    def days(self) -> list[tuple[date, int]]:
        """Each day in the data, with its visits."""
        return sorted((row["value"], row["rows"]) for row in self.one_spark(DAYS_SQL).to_pylist())

    def drawn(self, seed: int) -> dict[str, str]:
        """Q4 to Q9 with parameters from the data."""
        return drawn_queries(self.ranks, self.days, seed=seed)


def errand(ledger: Ledger | None = None) -> Errand:
    return Errand("bench", Purpose.ROWS, Ledger() if ledger is None else ledger)


@contextmanager
def world(folder: Path, rows: int, progress: Progress) -> Iterator[World]:
    """Start the servers of one size, make what is missing, and stop them at the end."""
    heap, whole_heap = ("3g", "5g") if rows > 1_000_000 else ("768m", "1g")
    settings = [ServerSettings(name, folder / name, heap, 1) for name in NAMES]
    settings.append(ServerSettings(ONE, folder / ONE, whole_heap, 2))
    with ExitStack() as stack:
        for server in settings:
            stack.callback(stop, server.folder)
            launch(server)
        clouds = []
        for server in settings:
            running = wait_until_listening(server.folder)
            where = CloudSettings(server.name, "localhost", running.port, token=running.token, deadline=_HOURS)
            clouds.append(stack.enter_context(ConnectCloud(where)))
        *parts, one = clouds
        progress(f"{rows:,} rows of each table", 0.0)
        with ThreadPoolExecutor(len(parts)) as pool:
            for _ in pool.map(lambda place: _make_tables(parts[place], folder, rows, place), range(len(parts))):
                pass
        for table in ("rankings", "uservisits"):
            _declare(one, table, folder / "data" / table, "OPTIONS (recursiveFileLookup 'true')")
        progress("indexes", 0.5)
        choosing = stack.enter_context(Federation(parts, byte_limit=float("inf")))
        standing = set(choosing.sql("SHOW INDEXES").column("name").to_pylist())
        for name, what in INDEXES.items():
            if name not in standing:
                choosing.sql(f"CREATE INDEX {name} ON {what}")
        ways = [
            Federation(parts, byte_limit=float("inf"), indexes=how, index_age=age)
            for how, age in (("never", INDEX_AGE), ("always", INDEX_AGE), ("always", 0.0))
        ]
        for way in ways:
            stack.enter_context(way)
        progress("ready", 1.0)
        yield World(rows, tuple(parts), one, choosing, *ways)


def _make_tables(cloud: ConnectCloud, folder: Path, rows: int, part: int) -> None:
    """Have a cloud write its rows, unless they are there whole; a table is a folder of files, whoever names it."""
    how = {"part": part, "parts": len(NAMES), "files": _FILES}
    texts = {"rankings": rankings_sql(rows, **how), "uservisits": uservisits_sql(rows, pages=rows, **how)}
    for table, text in texts.items():
        place = folder / "data" / table / cloud.name
        if (place / "_SUCCESS").exists():
            if table not in cloud.tables():
                _declare(cloud, table, place)
            continue
        cloud.run(f"DROP TABLE IF EXISTS {table}", errand())
        shutil.rmtree(place, ignore_errors=True)
        cloud.run(f"CREATE TABLE {table} USING parquet LOCATION '{place}' AS {text}", errand())


def _declare(cloud: ConnectCloud, table: str, place: Path, options: str = "") -> None:
    if table not in cloud.tables():
        cloud.run(f"CREATE TABLE {table} USING parquet {options} LOCATION '{place}'", errand())
