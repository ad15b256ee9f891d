"""A cloud is killed at every point of a query: its name, or a labelled partial answer; no hang, no wrong number."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import pytest

from catchment.errors import CloudError
from catchment.federation.federation import Federation
from catchment.federation.rules.deal import DEALT
from catchment.spark.cloud import ConnectCloud
from tests.spark.clouds import SECONDS, errand, kill, running_clouds

pytestmark = pytest.mark.long("clouds")  # each kill costs a server

QUERY = """
    SELECT u.country, count(*) AS n, sum(v.spent) AS spent
    FROM visits v JOIN users u ON v.user = u.id
    WHERE u.id % 3 < 2 GROUP BY u.country ORDER BY u.country
"""
"""Its users must go to where the visits are, and its sums come together at home: fragments, puts, and a final query."""

VISITS = {"berlin": range(300), "lyon": range(300, 700)}
USERS = {"berlin": range(40), "lyon": range(40, 60)}
COUNTRIES = ("de", "fr", "pt")

POINTS = [
    # where the door of the victim is, how many times it has been there, and who is killed
    ("tables", 1, "lyon"),
    ("run", 1, "berlin"),
    ("run", 1, "lyon"),
    ("run: batch", 1, "berlin"),
    ("run: end", 1, "lyon"),
    ("run", 2, "berlin"),
    ("put", 1, "lyon"),
    ("put: sent", 1, "berlin"),
    ("put: end", 1, "lyon"),
    ("run", 3, "berlin"),
    ("run: end", 3, "berlin"),
    ("forget", 1, "lyon"),
    ("keep", 1, "berlin"),
    ("keep: end", 1, "berlin"),
]


def truth(clouds: tuple[str, ...]) -> list[dict[str, Any]]:
    """The answer over the rows of some clouds, worked out here."""
    users = {user for cloud in clouds for user in USERS[cloud] if user % 3 < 2}
    found: dict[str, list[int]] = {}
    for cloud in clouds:
        for visit in VISITS[cloud]:
            if visit % 60 in users:
                found.setdefault(COUNTRIES[visit % 60 % 3], []).append(visit)
    return [{"country": key, "n": len(visits), "spent": sum(visits)} for key, visits in sorted(found.items())]


class Trap:
    """Kills a cloud when its door comes by a point for the nth time."""

    def __init__(self, point: str, number: int, victim: str) -> None:
        self.point, self.left, self.victim = point, number, victim
        self.armed = False
        self.sprung = False
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        with self._lock:
            if not self.armed or point != self.point or self.sprung:
                return
            self.left -= 1
            if self.left:
                return
            self.sprung = True
        kill(self.victim)


@contextmanager
def federation_with(trap: Trap) -> Iterator[Federation]:
    """Both clouds with their rows; what they know of each other's tables is too old when the trap is armed."""
    with running_clouds(2) as settings:
        clouds = [
            ConnectCloud(each, watch=trap if name == trap.victim else _nothing) for name, each in settings.items()
        ]
        for cloud in clouds:
            visits, users = VISITS[cloud.name], USERS[cloud.name]
            cloud.run(
                "CREATE TABLE visits USING parquet AS SELECT id % 60 AS user, id AS spent "
                f"FROM range({visits.start}, {visits.stop})",
                errand(),
            )
            cloud.run(
                "CREATE TABLE users USING parquet AS SELECT id, element_at(array('de', 'fr', 'pt'), int(id % 3) + 1) "
                f"AS country FROM range({users.start}, {users.stop})",
                errand(),
            )
        try:
            with Federation(clouds) as federation:
                assert federation.sql(QUERY).to_pylist() == truth(("berlin", "lyon"))
                for cloud in clouds:
                    cloud.refresh()
                trap.armed = True
                yield federation
        finally:
            for cloud in clouds:
                cloud.close()


def _nothing(_point: str) -> None:
    return


@pytest.mark.parametrize(("point", "number", "victim"), POINTS)
def test_a_cloud_that_is_killed_is_named_or_labelled(
    point: str, number: int, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if point.startswith("keep"):
        monkeypatch.setattr("catchment.federation.planner.LEAST_KEPT", 0)
    trap = Trap(point, number, victim)
    with federation_with(trap) as federation:
        start = time.monotonic()
        answer, culprit = None, None
        try:
            answer = federation.sql(QUERY).to_pylist()
        except CloudError as problem:
            culprit = problem.cloud
        assert culprit == victim or answer == truth(("berlin", "lyon"))  # right if it had given all it had to give
        assert trap.sprung, "the query never came by this point"
        assert time.monotonic() - start < SECONDS
        # Dead as it is: its name, or without its rows and said so.
        with pytest.raises(CloudError) as caught:
            federation.sql(QUERY)
        assert caught.value.cloud == victim
        outcome = federation.query(QUERY, partial=True)
        other = "lyon" if victim == "berlin" else "berlin"
        assert list(outcome.missing) == [victim]
        assert outcome.table.to_pylist() == truth((other,))


@pytest.mark.parametrize(("point", "number"), [("put: end", 1), ("run: batch", 2)])
def test_a_cloud_that_is_killed_while_groups_are_dealt_out(
    point: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.federation.rules.deal.LEAST_DEALT", 0)
    query = QUERY.replace("ORDER BY u.country", "")
    trap = Trap(point, number, "lyon")
    with federation_with(trap) as federation:
        explained = federation.sql(f"EXPLAIN {query}").to_pylist()
        assert any(DEALT in str(row) for row in explained)
        with pytest.raises(CloudError) as caught:
            federation.sql(query)
        assert trap.sprung
        assert caught.value.cloud == "lyon"
        outcome = federation.query(query, partial=True)
        assert list(outcome.missing) == ["lyon"]
        assert sorted(outcome.table.to_pylist(), key=itemgetter("country")) == truth(("berlin",))


def test_a_cloud_that_is_killed_under_way_of_a_partial_answer() -> None:
    trap = Trap("run: batch", 1, "lyon")
    with federation_with(trap) as federation:
        outcome = federation.query(QUERY, partial=True)
        assert trap.sprung
        assert list(outcome.missing) == ["lyon"]
        assert "lyon" in outcome.missing["lyon"]
        assert outcome.table.to_pylist() == truth(("berlin",))


def test_a_cloud_that_comes_back_is_asked_again() -> None:
    trap = Trap("run", 1, "lyon")
    with federation_with(trap) as federation:
        with pytest.raises(CloudError):
            federation.sql(QUERY)
        lyon = federation.clouds[1]
        with running_clouds(2):  # starts it where it was, without its tables
            assert lyon.tables() == {}
            assert lyon.run("SELECT 1 AS x", errand())["x"].to_pylist() == [1]


def test_nothing_is_left_behind() -> None:
    with federation_with(Trap("never", 1, "lyon")) as federation:
        federation.sql(QUERY)
        for cloud in federation.clouds:
            assert isinstance(cloud, ConnectCloud)
            there = cloud.run("SHOW TABLES", errand()).to_pylist()
            assert [row["tableName"] for row in there if row["isTemporary"]] == []
