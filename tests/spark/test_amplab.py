"""AMPLab's tables are what is published of them, the same in any number of parts; its queries run over clouds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.federation import amplab
from catchment.federation.federation import Federation
from catchment.spark.local_clouds import LocalCloud

PAGES, VISITS = 20_000, 30_000


@pytest.fixture(scope="module")
def tables(spark: Any) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Both tables in one database, and in halves in two others."""
    spark.sql("CREATE DATABASE amplab_whole")
    for name, text in (
        ("rankings", amplab.rankings_sql(PAGES, seed=5)),
        ("uservisits", amplab.uservisits_sql(VISITS, pages=PAGES, seed=5)),
    ):
        spark.sql(f"CREATE TABLE amplab_whole.{name} USING parquet AS {text}")
    for part in (0, 1):
        spark.sql(f"CREATE DATABASE amplab_{part}")
        made = {"seed": 5, "part": part, "parts": 2}
        spark.sql(f"CREATE TABLE amplab_{part}.rankings USING parquet AS {amplab.rankings_sql(PAGES, **made)}")
        visits = amplab.uservisits_sql(VISITS, pages=PAGES, **made)
        spark.sql(f"CREATE TABLE amplab_{part}.uservisits USING parquet AS {visits}")
    yield spark.table("amplab_whole.rankings").toArrow(), spark.table("amplab_whole.uservisits").toArrow()
    for name in ("amplab_whole", "amplab_0", "amplab_1"):
        spark.sql(f"DROP DATABASE {name} CASCADE")


def test_pages_have_the_published_shape(tables: tuple[pa.Table, pa.Table]) -> None:
    rankings, _ = tables
    assert rankings.schema.types == [pa.string(), pa.int32(), pa.int32()]
    assert len(set(rankings.column("pageURL").to_pylist())) == PAGES
    lengths = np.array([len(url) for url in rankings.column("pageURL").to_pylist()])
    assert (lengths.min(), lengths.max()) == (10, 100)
    assert lengths.mean() == pytest.approx(55.2, abs=1)
    ranks = rankings.column("pageRank").to_numpy()
    # Of 1,200 published pages: quartiles 24, 29, 41, mean 39.4, smallest 12; of the 90 million pages of the whole
    # data set 3,331,851 have more than 100 and 32,888 more than 1,000.
    assert np.percentile(ranks, [25, 50, 75]) == pytest.approx([24, 29, 41], abs=1)
    assert ranks.mean() == pytest.approx(39.4, rel=0.05)
    assert 8 <= ranks.min() <= 14
    assert np.mean(ranks > 100) == pytest.approx(3_331_851 / 90e6, rel=0.2)
    assert np.mean(ranks > 1000) == pytest.approx(32_888 / 90e6, rel=0.6)
    duration = rankings.column("avgDuration").to_numpy()
    assert (duration.min(), duration.max()) == (1, 99)


def test_visits_have_the_published_shape(tables: tuple[pa.Table, pa.Table]) -> None:
    rankings, visits = tables
    assert visits.column_names == [
        "sourceIP", "destURL", "visitDate", "adRevenue", "userAgent", "countryCode", "languageCode", "searchWord",
        "duration",
    ]  # fmt: skip
    pages = set(rankings.column("pageURL").to_pylist())
    counts = dict.fromkeys(pages, 0)
    for url in visits.column("destURL").to_pylist():
        counts[url] += 1  # a KeyError would be a visit to nowhere
    # Of the published, 1,200 pages with 8.34 visits each deviate by 2.87: they are drawn with equal odds.
    assert np.var(list(counts.values())) == pytest.approx(VISITS / PAGES, rel=0.1)
    dates = visits.column("visitDate").to_pylist()
    assert date(1970, 1, 1) <= min(dates) < date(1970, 2, 1)
    assert date(2012, 4, 1) < max(dates) <= date(2012, 4, 30)
    assert np.mean([day < date(1991, 3, 1) for day in dates]) == pytest.approx(0.5, abs=0.02)
    revenue = visits.column("adRevenue").to_numpy()
    assert (revenue.mean(), revenue.std()) == (pytest.approx(0.5, abs=0.01), pytest.approx(0.288, abs=0.01))
    assert np.array_equal(revenue * 2**20, np.round(revenue * 2**20))
    octets = np.array([address.split(".") for address in visits.column("sourceIP").to_pylist()], dtype=int)
    assert octets.shape == (VISITS, 4)
    assert octets.mean(axis=0) == pytest.approx([127.6, 127.8, 127.4, 127.4], abs=2)
    assert len(set(visits.column("sourceIP").to_pylist())) > 0.999 * VISITS
    words = visits.column("searchWord").to_pylist()
    assert len(set(words)) == 1000  # as in the published
    assert np.mean([len(word) for word in words]) == pytest.approx(9.28, abs=0.4)
    assert 1 <= min(visits.column("duration").to_pylist()) < max(visits.column("duration").to_pylist()) == 10
    pairs = zip(visits.column("countryCode").to_pylist(), visits.column("languageCode").to_pylist(), strict=True)
    assert all(language.startswith(f"{country}-") for country, language in pairs)


def test_parts_are_the_table_and_a_seed_is_another(spark: Any, tables: tuple[pa.Table, pa.Table]) -> None:
    for place, name in enumerate(("rankings", "uservisits")):
        parts = [spark.table(f"amplab_{part}.{name}").toArrow() for part in (0, 1)]
        assert _rows(pa.concat_tables(parts)) == _rows(tables[place])
    other = spark.sql(amplab.rankings_sql(PAGES, seed=6)).toArrow()
    assert not set(other.column("pageURL").to_pylist()) & set(tables[0].column("pageURL").to_pylist())


@pytest.mark.long("clouds")
@pytest.mark.usefixtures("tables")
def test_every_query_over_two_clouds_gives_what_one_spark_gives(spark: Any) -> None:
    with Federation([LocalCloud(spark, f"c{part}", f"amplab_{part}") for part in (0, 1)]) as clouds:
        ranks = [(row["value"], row["rows"]) for row in clouds.sql(amplab.RANKS_SQL).to_pylist()]
        days = [(row["value"], row["rows"]) for row in clouds.sql(amplab.DAYS_SQL).to_pylist()]
        assert sum(rows for _, rows in ranks) == PAGES
        drawn = amplab.drawn_queries(ranks, days, seed=1)
        spark.sql("USE amplab_whole")
        try:
            for name, text in {**amplab.QUERIES, **drawn}.items():
                expected = spark.sql(text).toArrow()
                assert expected.num_rows > 0, name
                assert _rows(clouds.sql(text)) == _rows(expected), name
        finally:
            spark.sql("USE default")


def test_parameters_are_drawn_from_the_data() -> None:
    ranks = [(10, 5000), (50, 300), (60, 200), (2000, 1)]
    days = [(date(2000, 1, day), 10) for day in (1, 2, 5)]
    for seed in range(20):
        drawn = amplab.drawn_queries(ranks, days, seed=seed)
        assert drawn["Q4"].split()[-1] in ("50", "60")
        assert "DATE'2000-01-01' AND DATE'2000-01-02'" in drawn["Q7"]
    assert amplab.drawn_queries(ranks, days, seed=3) == amplab.drawn_queries(ranks, days, seed=3)


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
