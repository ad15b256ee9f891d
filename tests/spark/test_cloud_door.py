"""The door to a micro-cloud, against real Spark Connect servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.errors import CancelledQueryError, CloudError, ParameterError, QueryError, StatementError
from catchment.federation.cloud import Column, Purpose
from catchment.federation.ledger import Ledger
from catchment.federation.settings import CloudSettings
from catchment.spark.cloud import ConnectCloud
from tests.spark.clouds import busy_threads, errand, running_clouds

PAIR = pa.struct({"a": pa.int64(), "b": pa.string()})
ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE rand() < 0.5"


@pytest.fixture(scope="module")
def settings() -> Iterator[CloudSettings]:
    with running_clouds(1) as clouds:
        yield clouds["berlin"]


@pytest.fixture(scope="module")
def cloud(settings: CloudSettings) -> Iterator[ConnectCloud]:
    with ConnectCloud(settings) as cloud:
        cloud.run("CREATE TABLE Visits USING parquet AS SELECT id, 'u' || id % 7 AS Url FROM range(1000)", errand())
        cloud.run("CREATE VIEW few AS SELECT url, count(*) AS n FROM visits GROUP BY url", errand())
        yield cloud


def test_tables_have_columns_rows_and_size(cloud: ConnectCloud) -> None:
    tables = cloud.tables()
    assert set(tables) == {"visits", "few"}
    visits = tables["visits"]
    assert visits.columns == (Column("id", "bigint"), Column("url", "string"))
    assert visits.rows == 1000
    assert visits.bytes is not None
    assert 1_000 < visits.bytes < 50_000
    assert tables["few"].columns == (Column("url", "string"), Column("n", "bigint"))
    assert (tables["few"].rows, tables["few"].bytes) == (None, None)


def test_a_statement_that_changes_something_runs_once_and_is_seen_at_once(cloud: ConnectCloud) -> None:
    cloud.run("CREATE TABLE grows USING parquet AS SELECT 1 AS x", errand())
    assert cloud.tables()["grows"].rows == 1
    cloud.run("INSERT INTO grows VALUES (2)", errand())
    assert cloud.tables()["grows"].rows == 2
    assert cloud.run("SELECT x FROM grows ORDER BY x", errand())["x"].to_pylist() == [1, 2]
    cloud.run("DROP TABLE grows", errand())
    assert "grows" not in cloud.tables()


def test_a_broken_view_does_not_hide_the_others(cloud: ConnectCloud) -> None:
    cloud.run("CREATE TABLE gone USING parquet AS SELECT 1 AS x", errand())
    cloud.run("CREATE VIEW broken AS SELECT x FROM gone", errand())
    cloud.run("DROP TABLE gone", errand())
    try:
        assert {"visits", "few"} <= set(cloud.tables())
    finally:
        cloud.run("DROP VIEW broken", errand())


def rows_of_every_type() -> pa.Table:
    return pa.table(
        {
            "whole": pa.array([1, None, -(2**63)], pa.int64()),
            "small": pa.array([1, None, 127], pa.int8()),
            "real": pa.array([0.5, None, float("nan")], pa.float64()),
            "exact": pa.array([Decimal("1.25"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
            "text": pa.array(["é", None, ""], pa.string()),
            "raw": pa.array([b"\0", None, b""], pa.binary()),
            "fact": pa.array([True, None, False], pa.bool_()),
            "day": pa.array([date(2026, 1, 31), None, date(1, 1, 1)], pa.date32()),
            "moment": pa.array([datetime(2026, 1, 31, 8, 0, 0, 123456), None, None], pa.timestamp("us", tz="UTC")),
            "wall": pa.array([datetime(2026, 1, 31, 8, 0, 0, 123456), None, None], pa.timestamp("us")),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "pair": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], PAIR),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )  # fmt: skip


@pytest.mark.parametrize(("number", "inline"), [(0, 1), (3, 1 << 20), (3, 0), (3000, 0)])
def test_what_is_put_comes_back(cloud: ConnectCloud, number: int, inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the statement, and before it in lists of rows."""
    monkeypatch.setattr("catchment.spark.cloud._INLINE_BYTES", inline)
    rows = pa.concat_tables([rows_of_every_type()] * max(1, number // 3)).slice(0, number)
    cloud.put("every", rows, errand())
    back = cloud.run("SELECT * FROM every", errand())
    assert [field.type for field in back.schema] == [field.type for field in rows.schema]
    assert str(back.to_pylist()) == str(rows.to_pylist())  # as text, since nan is not itself
    cloud.forget(["every", "never_put"])
    with pytest.raises(StatementError, match="TABLE_OR_VIEW_NOT_FOUND"):
        cloud.run("SELECT * FROM every", errand())


def test_what_is_kept_is_run_once_and_does_not_cross(cloud: ConnectCloud) -> None:
    ledger = Ledger()
    cloud.keep("kept", "SELECT id, rand() AS x FROM range(100000)", errand(ledger=ledger))
    assert ledger.bytes() < 20_000
    one, two = (cloud.run("SELECT * FROM kept ORDER BY id", errand()) for _ in range(2))
    assert one.num_rows == 100_000
    assert one.equals(two)
    cloud.forget(["kept"])
    with pytest.raises(QueryError):
        cloud.run("SELECT * FROM kept", errand())
    with pytest.raises(QueryError):
        cloud.keep("kept", "SELECT nothing FROM nowhere", errand())
    cloud.forget(["kept"])


@pytest.mark.parametrize("number", [1_000, 100_000, 1_000_000])
def test_rows_of_any_number_are_put_whole(cloud: ConnectCloud, number: int) -> None:
    """Within a statement, as chunks before it, and as pieces that are blocks of the cloud."""
    rows = pa.table({"id": np.arange(number), "x": np.arange(number) % 100, "y": np.arange(number) * 0.5})
    ledger = Ledger()
    cloud.put("many", rows, errand(purpose=Purpose.ROWS, ledger=ledger))
    told = cloud.run("SELECT count(*) AS n, sum(id) AS s, count(DISTINCT id) AS d, sum(y) AS y FROM many", errand())
    total = number * (number - 1) // 2
    assert told.to_pylist() == [{"n": number, "s": total, "d": number, "y": total / 2}]
    assert sum(entry.rows for entry in ledger if not entry.outward) == number
    assert ledger.bytes(outward=False) < rows.nbytes  # compressed
    cloud.forget(["many"])


def test_bytes_are_counted_as_they_cross(cloud: ConnectCloud) -> None:
    ledger = Ledger()
    rows = cloud.run("SELECT id, rand(1) AS r FROM range(200000)", errand(ledger=ledger))
    (out,) = [entry for entry in ledger if entry.outward]
    assert (out.cloud, out.purpose, out.rows) == ("berlin", "result", 200_000)
    # Random numbers do not compress, ids do: between the one column and both.
    assert 200_000 * 6 < out.bytes < rows.nbytes
    again = Ledger()
    cloud.run("SELECT id, rand(1) AS r FROM range(200000)", errand(ledger=again))
    assert again.bytes(outward=True) == pytest.approx(out.bytes, rel=0.05)


def test_a_stream_keeps_no_more_than_a_few_batches(cloud: ConnectCloud) -> None:
    stream = cloud.stream("SELECT id FROM range(2000000)", errand())
    first = next(stream)
    assert 0 < first.num_rows < 100_000
    assert first.num_rows + sum(batch.num_rows for batch in stream) == 2_000_000


def test_who_leaves_a_stream_stops_it(cloud: ConnectCloud) -> None:
    stream = cloud.stream("SELECT id FROM range(0, 1000000000, 1, 10000)", errand("left"))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert_nothing_runs(cloud)


def test_errors_of_a_statement_are_no_trouble_with_the_cloud(cloud: ConnectCloud) -> None:
    with pytest.raises(StatementError, match="DIVIDE_BY_ZERO"):
        cloud.run("SELECT 1 / (id - id) FROM range(2)", errand())
    with pytest.raises(StatementError, match="PARSE_SYNTAX_ERROR"):
        cloud.run("SELEC 1", errand())
    with pytest.raises(ParameterError, match="view"):
        cloud.put("a b", pa.table({"x": [1]}), errand())


def test_cancel_stops_the_remote_job(cloud: ConnectCloud) -> None:
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            cloud.run(ENDLESS, errand("endless"))
        except CancelledQueryError as problem:
            caught.append(problem)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: busy_threads("berlin"), "no job started")
    cloud.cancel("endless")
    asking.join(60)
    assert len(caught) == 1
    assert_nothing_runs(cloud)
    with pytest.raises(CancelledQueryError):
        cloud.run("SELECT 1", errand("endless"))  # the query is stopped, with the steps that it has not begun
    assert cloud.run("SELECT 1 AS x", errand("another"))["x"].to_pylist() == [1]


def test_a_slow_cloud_is_given_up_at_its_deadline(settings: CloudSettings) -> None:
    with ConnectCloud(replace(settings, deadline=3.0)) as cloud:
        cloud.check()
        start = time.monotonic()
        with pytest.raises(CloudError, match="after 3 s") as caught:
            cloud.run(ENDLESS, errand("slow"))
        assert time.monotonic() - start < 60
        assert caught.value.cloud == "berlin"
        assert_nothing_runs(cloud)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def check_named_soon(wrong: CloudSettings, said: str) -> None:
    start = time.monotonic()
    with ConnectCloud(wrong) as cloud, pytest.raises(CloudError) as caught:
        cloud.tables()
    assert time.monotonic() - start < 60
    assert said in str(caught.value)
    assert caught.value.cloud == "berlin"
    if wrong.token:
        assert wrong.token not in str(caught.value)


def test_a_wrong_token_and_a_dead_address_are_named_soon(settings: CloudSettings) -> None:
    check_named_soon(replace(settings, token="wrong-one"), "token_env")
    check_named_soon(replace(settings, token=None), "token_env")
    check_named_soon(replace(settings, port=1), "does not answer")


@pytest.mark.long("clouds")
def test_a_server_that_never_says_anything_is_named_soon(silent: int) -> None:
    check_named_soon(CloudSettings("berlin", "localhost", silent, tls=True, token="x-y-z"), "does not answer")


def test_a_session_takes_its_views_with_it(settings: CloudSettings) -> None:
    with ConnectCloud(settings) as other:
        other.put("mine", pa.table({"x": [1]}), errand())
        with ConnectCloud(settings) as stranger, pytest.raises(StatementError, match="NOT_FOUND"):
            stranger.run("SELECT * FROM mine", errand())
        assert other.run("SELECT x FROM mine", errand())["x"].to_pylist() == [1]
    with pytest.raises(ParameterError, match="closed"):
        other.run("SELECT 1", errand())


def wait_until(what: Any, otherwise: str) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def assert_nothing_runs(cloud: ConnectCloud) -> None:
    wait_until(lambda: not busy_threads(cloud.name), "a task still runs at the server")
    assert cloud.session().client.interrupt_all() == []  # nor does it know of a statement that could
