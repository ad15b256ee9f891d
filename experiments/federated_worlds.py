"""Random tables in local clouds, and whole in one Spark beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from catchment.federation.federation import Federation
from catchment.spark.local_clouds import LocalCloud
from catchment.testing.differential import Exact, Verdict, check, every_way
from catchment.testing.random_queries import RandomQuery
from catchment.testing.random_tables import CLOUDS, World

__all__ = ["LEAN", "asked", "checked", "local_world"]

LEAN = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # to compile takes longer than to read a hundred rows
}
"""What makes many small queries cheap."""


@contextmanager
def local_world(spark: Any, world: World) -> Iterator[tuple[Federation, Exact]]:
    """A federation of databases of a local session, and what asks one Spark; the tables go at the end.

    Where the seed is odd, what pays for many rows alone is done for few as well.
    """
    databases = {cloud: f"{cloud}_{world.seed}" for cloud in CLOUDS}
    whole, plain = f"whole_{world.seed}", f"plain_{world.seed}"
    statements = [each for cloud, database in databases.items() for each in world.statements(cloud, database)]
    statements += world.union_statements(whole, plain)
    for statement in statements:
        spark.sql(statement)
    clouds = [LocalCloud(spark, cloud, database, settings=LEAN) for cloud, database in databases.items()]
    try:
        with every_way() if world.seed % 2 else nullcontext(), Federation(clouds) as federation:
            yield federation, asked(_session(spark, plain).sql, _session(spark, whole).sql)
        assert not any(cloud.views() for cloud in clouds), "views were left behind"
    finally:
        for database in (*databases.values(), plain, whole):
            spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def asked(plain: Callable[[str], Any], whole: Callable[[str], Any]) -> Exact:
    """One Spark as it is asked: without the column `_cloud`, or with it."""

    def exact(text: str, with_cloud: bool) -> pa.Table:
        answer: pa.Table = (whole if with_cloud else plain)(text).toArrow()
        return answer

    return exact


def checked(federation: Federation, exact: Exact, queries: list[RandomQuery]) -> Iterator[Verdict]:
    """The verdicts on queries, two at a time."""
    with ThreadPoolExecutor(2) as threads:
        yield from threads.map(lambda query: check(federation, exact, query), queries)


def _session(spark: Any, database: str) -> Any:
    made = spark.newSession()
    for key, value in LEAN.items():
        made.conf.set(key, value)
    made.catalog.setCurrentDatabase(database)
    return made
