"""Indexes in clouds behind Spark Connect, through a federation, as a user has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catchment.errors import StatementError
from catchment.federation.federation import Federation
from catchment.federation.index_belief import may_read_index
from catchment.spark.cloud import ConnectCloud
from tests.spark.clouds import errand, running_clouds

pytestmark = pytest.mark.spark

ROWS = 60_000
ASKED = "SELECT day, word FROM visits WHERE day BETWEEN DATE '2000-02-01' AND DATE '2000-02-02' ORDER BY word, day"


@pytest.fixture(scope="module")
def clouds() -> Iterator[list[ConnectCloud]]:
    with running_clouds(2) as settings:
        opened = [ConnectCloud(each) for each in settings.values()]
        for place, cloud in enumerate(opened):
            grow(cloud, "CREATE TABLE visits USING parquet AS", place)
        yield opened
        for cloud in opened:
            cloud.close()


def grow(cloud: ConnectCloud, how: str, seed: int) -> None:
    rows = f"SELECT date_add(DATE '2000-01-01', CAST(id * 7919 % 300 AS INT)) AS day, concat('w{seed}-', id) AS word"
    cloud.run(f"{how} {rows} FROM range({ROWS})", errand())


@pytest.mark.long("clouds")
def test_an_index_over_clouds(clouds: list[ConnectCloud]) -> None:
    with Federation(clouds, index_age=0) as federation:
        truth = federation.sql(ASKED)
        assert truth.num_rows == 2 * 2 * ROWS // 300
        made = federation.sql("CREATE INDEX by_day ON visits(day)").to_pylist()
        assert [(row["cloud"], row["rows"]) for row in made] == [("berlin", ROWS), ("lyon", ROWS)]
        with pytest.raises(StatementError, match="already"):
            federation.sql("CREATE INDEX by_day ON visits(word)")
        for _ in range(2):
            outcome = federation.query(ASKED)
            assert outcome.table.equals(truth)
            assert outcome.plan is not None
            assert may_read_index(outcome.plan)
        # Another client adds rows, and then drops the index: neither is noticed late.
        with ConnectCloud(clouds[0].settings) as other, Federation([other]) as elsewhere:
            grow(other, "INSERT INTO visits", 7)
            assert federation.sql(ASKED).num_rows == truth.num_rows * 3 // 2
            assert federation.sql("REFRESH INDEX by_day").column("segments").to_pylist() == [2, 1]
            assert federation.sql(ASKED).num_rows == truth.num_rows * 3 // 2
            elsewhere.sql("DROP INDEX by_day")
        assert federation.sql(ASKED).num_rows == truth.num_rows * 3 // 2
        federation.sql("DROP INDEX by_day")
        assert federation.sql("SHOW INDEXES").num_rows == 0
        assert federation.sql(ASKED).num_rows == truth.num_rows * 3 // 2
