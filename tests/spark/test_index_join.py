"""Joins that read a table by an index once the keys are known, on Spark: the answers are those of a scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catchment.federation.federation import Federation
from catchment.spark.local_clouds import LocalCloud
from tests.amounts import one_in

pytestmark = pytest.mark.spark

NAMES = ("probing_paris", "probing_rome")
KEYS = ("url", "n", "day")
SELECT = "SELECT p.rank, p.url, v.n FROM pages AS p"


@pytest.fixture(scope="module")
def federations(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Federation]]:
    """Two clouds with 20,000 pages each, of which visits name some; asked with indexes and without."""
    folder: Path = tmp_path_factory.mktemp("probing")
    strange = "array('', 'it''s', 'a\\\\b', 'tab\\t', 'ü', '%', 'line\\n', concat('w', id))"
    url = f"IF(id % 97 = 0, NULL, IF(id % 7 = 0, element_at({strange}, int(id % 8) + 1), concat('w', id)))"
    columns = f"{url} AS url, CAST(id - 9000 AS INT) AS n, date_add(DATE'1960-01-01', int(id)) AS day"
    for place, name in enumerate(NAMES):
        spark.sql(f"CREATE DATABASE {name} LOCATION '{folder / name}'")
        spark.sql(f"CREATE TABLE {name}.pages USING parquet AS SELECT {columns}, id AS rank "
                  f"FROM range({place}, 40000, 2)")  # fmt: skip
        spark.sql(f"CREATE TABLE {name}.visits USING parquet AS SELECT {columns}, id AS number "
                  f"FROM range({place * 7}, 60000, 311)")  # fmt: skip
    clouds = [LocalCloud(spark, name, name) for name in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catchment.federation.rules.use_index.RELATION_COST", 0.0)
        patch.setattr("catchment.federation.rules.use_index.PAGE_ROWS", 1)
        patch.setattr("catchment.federation.index_text.FILE_BYTES", 100_000)
        patch.setattr("catchment.federation.probe.LONGEST_LIST", 50)
        with Federation(clouds) as choosing, Federation(clouds, indexes="never") as scanning:
            for key in KEYS:
                choosing.sql(f"CREATE INDEX by_{key} ON pages({key}) INCLUDE (url, n, day, rank)")
            yield {"choosing": choosing, "scanning": scanning}
    for name in NAMES:
        spark.sql(f"DROP DATABASE {name} CASCADE")
        spark.sql(f"DROP DATABASE IF EXISTS catchment_index_{name} CASCADE")


def rows(federation: Federation, query: str) -> list[str]:
    return sorted(map(repr, federation.sql(query).to_pylist()))


@pytest.mark.parametrize(
    ("query", "read"),
    one_in(2, [
        (f"{SELECT} JOIN visits AS v ON p.url = v.url", r"pages by \d+ keys, index by_url"),
        (f"{SELECT} JOIN visits AS v ON p.n = v.n", r"pages by \d+ keys, index by_n"),
        (f"{SELECT} JOIN visits AS v ON p.day = v.day AND p.rank >= v.number", r"pages by \d+ keys, index by_day"),
        (f"{SELECT}, visits AS v WHERE v.url = p.url AND v.number < 300", r"pages by [12] keys, index by_url"),
        (f"{SELECT} JOIN visits AS v ON p.url = v.url WHERE p.rank % 3 = 0 AND v.n < 0",
         r"pages by \d+ keys, index by_"),
        ("SELECT p.url FROM pages AS p LEFT SEMI JOIN visits AS v ON p.n = v.n", r"pages by \d+ keys, index by_n"),
        ("SELECT v.day, count(*), sum(p.rank) FROM visits AS v JOIN pages AS p ON v.url = p.url GROUP BY v.day",
         r"pages by \d+ keys, index by_url"),
        (f"{SELECT} JOIN visits AS v ON p.n = v.n JOIN visits AS w ON p.url = w.url", r"pages by \d+ keys, index by_"),
        (f"{SELECT} JOIN visits AS v ON p.n = v.n AND v.number < 0", "nothing of pages: there is no key"),
        (f"{SELECT} JOIN (SELECT n, url FROM visits WHERE day < DATE'1970-01-01') AS v ON p.url = v.url", ""),
        ("SELECT v.n, p.rank FROM visits AS v LEFT JOIN pages AS p ON p.n = v.n", ""),
        (f"{SELECT} LEFT JOIN visits AS v ON p.n = v.n", ""),
        ("SELECT p.url FROM pages AS p LEFT ANTI JOIN visits AS v ON p.n = v.n", ""),
    ], "clouds"),
)  # fmt: skip
def test_the_answer_is_that_of_a_scan(federations: dict[str, Federation], query: str, read: str) -> None:
    truth = rows(federations["scanning"], query)
    assert rows(federations["choosing"], query) == truth
    said = federations["choosing"].explain(query, run=True)
    if read:
        assert re.search(f"    read {read}", said), said
        assert truth or read.startswith("nothing")
    else:
        assert "    read " not in said
