"""A cloud that fails, at every step of a query: the error that names it or the answer that says what is missing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pytest

from catchment.errors import CancelledQueryError, CloudError, QueryError, TooManyBytesError
from catchment.federation import Federation
from catchment.federation.cloud import Column, Errand, Table

QUERY = "SELECT v.name, count(*) AS n FROM big AS b JOIN small AS v ON b.k = v.k GROUP BY v.name"


class ScriptedCloud:
    """Answers by the look of a statement, remembers its views, and is down from the call on that it is told."""

    region = "here"
    cost_in = 0.0
    cost_out = 1.0

    def __init__(self, name: str, *, fail_at: int | None = None, slow: bool = False) -> None:
        self.name = name
        self.views: set[str] = set()
        self.calls = 0
        self.cancelled = threading.Event()
        self.stopped: set[str] = set()
        self.fail_at = fail_at
        self.slow = slow

    def tables(self) -> Mapping[str, Table]:
        big = Table("big", (Column("k", "bigint"),), rows=1_000_000)
        small = Table("small", (Column("k", "bigint"), Column("name", "string")), rows=10)
        return {"big": big, "small": small}

    def run(self, sql: str, errand: Errand) -> pa.Table:
        if sql.startswith("SHOW"):
            raise QueryError("SCHEMA_NOT_FOUND", "no index")
        if "current_database" in sql:
            return pa.table({"name": ["default"]})
        if "LIMIT 0" in sql:
            return pa.table({"name": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
        self._count()
        if self.slow:
            if not self.cancelled.wait(30):
                raise AssertionError("nobody told this cloud to stop")
            raise CancelledQueryError("stopped", "ask again")
        if "AS `_p0`" in sql:
            return pa.table({"_k0": ["x"], "_p0": pa.array([1], pa.int64())})
        if "AS `n`" in sql:
            return pa.table({"name": ["x"], "n": pa.array([2], pa.int64())})
        return pa.table({"k": pa.array([1], pa.int64()), "name": ["x"]})

    def put(self, name: str, rows: pa.Table, errand: Errand) -> None:
        self._count()
        self.views.add(name)

    def keep(self, name: str, sql: str, errand: Errand) -> None:
        self.run(sql, errand)
        self.views.add(name)

    def forget(self, names: Iterable[str]) -> None:
        self.views.difference_update(names)

    def cancel(self, query: str) -> None:
        self.stopped.add(query)
        self.cancelled.set()

    def _count(self) -> None:
        self.calls += 1
        if self.fail_at is not None and self.calls >= self.fail_at:
            raise CloudError(f"cloud {self.name!r} is down", "start it", cloud=self.name)


def _calls_of(name: str) -> int:
    clouds = [ScriptedCloud("paris"), ScriptedCloud("rome")]
    with Federation(clouds) as federation:
        federation.sql(QUERY)
    return next(cloud.calls for cloud in clouds if cloud.name == name)


@pytest.mark.parametrize("name", ["paris", "rome"])
def test_a_cloud_that_dies_at_any_call_is_named_and_nothing_is_left(name: str) -> None:
    calls = _calls_of(name)
    assert calls >= 3
    for fail_at in range(1, calls + 1):
        clouds = [ScriptedCloud(each, fail_at=fail_at if each == name else None) for each in ("paris", "rome")]
        with Federation(clouds) as federation:
            with pytest.raises(CloudError) as problem:
                federation.sql(QUERY)
            assert problem.value.cloud == name
            assert not any(cloud.views for cloud in clouds)


@pytest.mark.parametrize("name", ["paris", "rome"])
def test_a_partial_answer_says_what_is_missing(name: str) -> None:
    for fail_at in range(1, _calls_of(name) + 1):
        clouds = [ScriptedCloud(each, fail_at=fail_at if each == name else None) for each in ("paris", "rome")]
        with Federation(clouds) as federation:
            outcome = federation.query(QUERY, partial=True)
        assert set(outcome.missing) == {name}
        assert "is down" in outcome.missing[name]
        assert not any(cloud.views for cloud in clouds)


def test_a_whole_answer_misses_nothing() -> None:
    with Federation([ScriptedCloud("paris"), ScriptedCloud("rome")]) as federation:
        outcome = federation.query(QUERY, partial=True)
    assert outcome.missing == {}
    assert outcome.table.to_pylist() == [{"name": "x", "n": 2}]


def test_all_clouds_down_is_an_error_even_if_a_part_would_do() -> None:
    clouds = [ScriptedCloud("paris", fail_at=1), ScriptedCloud("rome", fail_at=1)]
    with Federation(clouds) as federation, pytest.raises(CloudError):
        federation.sql(QUERY, partial=True)


def test_the_others_are_told_to_stop() -> None:
    slow = ScriptedCloud("rome", slow=True)
    with Federation([ScriptedCloud("paris", fail_at=1), slow]) as federation, pytest.raises(CloudError) as problem:
        federation.sql("SELECT k, count(*) AS n FROM big GROUP BY k")
    assert problem.value.cloud == "paris"
    assert slow.cancelled.is_set()


def test_what_spark_says_of_the_statement_is_told_though_its_fragments_were_stopped() -> None:
    """What stops the other cloud stops this one as well, and the whole statement is looked at last."""
    slow = ScriptedCloud("rome", slow=True)
    slow.cost_out = 9.0  # the cheaper one looks at the statement

    class RefusingCloud(ScriptedCloud):
        def run(self, sql: str, errand: Errand) -> pa.Table:
            if "LIMIT 0" in sql:
                assert slow.cancelled.wait(30)
                if errand.query in slow.stopped:
                    raise CancelledQueryError("stopped", "ask again")
                raise QueryError("no column nope", "mend it")
            if "GROUP BY" in sql:
                raise QueryError("no column in a fragment", "mend it")
            return super().run(sql, errand)

    with Federation([RefusingCloud("paris"), slow]) as federation, pytest.raises(QueryError, match="nope"):
        federation.sql("SELECT k, count(*) AS n FROM big GROUP BY k")


def test_a_query_that_failed_may_be_asked_again_by_its_name() -> None:
    class Refusing(ScriptedCloud):
        def run(self, sql: str, errand: Errand) -> pa.Table:
            if errand.query in self.stopped:
                raise CancelledQueryError("stopped", "ask again")
            return super().run(sql, errand)

    paris, rome = ScriptedCloud("paris", fail_at=1), Refusing("rome", slow=True)
    with Federation([paris, rome]) as federation:
        with pytest.raises(CloudError):
            federation.query(QUERY, query_id="Report 1")
        assert rome.stopped
        paris.fail_at, rome.slow = None, False
        assert federation.query(QUERY, query_id="Report 1").table.num_rows == 1


def test_cancel_reaches_the_clouds() -> None:
    clouds = [ScriptedCloud("paris", slow=True), ScriptedCloud("rome", slow=True)]
    with Federation(clouds) as federation:
        failures: list[BaseException] = []

        def ask() -> None:
            try:
                federation.query("SELECT k, count(*) AS n FROM big GROUP BY k", query_id="mine")
            except CancelledQueryError as problem:
                failures.append(problem)

        asking = threading.Thread(target=ask)
        asking.start()
        for _ in range(1000):
            if all(cloud.calls for cloud in clouds):
                break
            threading.Event().wait(0.01)
        federation.cancel("mine")
        asking.join(30)
        assert not asking.is_alive()
        assert failures


def test_above_the_limit_a_query_is_refused_with_the_reason() -> None:
    clouds = [ScriptedCloud("paris"), ScriptedCloud("rome")]
    with Federation(clouds, byte_limit=1000) as federation:
        with pytest.raises(TooManyBytesError, match="window function sees all rows"):
            federation.sql("SELECT k AS name, row_number() OVER (ORDER BY k) AS n FROM big")
        assert not any(cloud.calls for cloud in clouds)
