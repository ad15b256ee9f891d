"""Random queries over three real Spark Connect servers, against one of them that also holds the union."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from catchment.federation.federation import Federation
from catchment.federation.settings import CloudSettings
from catchment.spark.cloud import ConnectCloud
from catchment.testing.differential import Verdict, every_way, minimal
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import CLOUDS, random_world
from experiments.federated_worlds import LEAN, asked, checked
from tests.spark.clouds import NAMES, dead, running_clouds

pytestmark = [pytest.mark.spark, pytest.mark.long("clouds")]

QUERIES = 105


def test_a_hundred_answers_are_those_of_one_spark() -> None:
    assert tuple(CLOUDS) == NAMES
    for _ in range(2):
        with running_clouds(3) as settings:
            verdicts, wrong = _verdicts(settings)
            died = dead(NAMES)
        if not died:
            break  # else Spark died, not an answer: all of it once more
    assert not died
    assert not wrong, "\n\n".join(wrong)
    answered = [verdict for verdict in verdicts if not verdict.refused and not verdict.invalid]
    assert len(answered) >= 100
    assert {"kept", "dealt", "scattered"} <= frozenset[str]().union(*(verdict.ways for verdict in verdicts))


def _verdicts(settings: dict[str, CloudSettings]) -> tuple[list[Verdict], list[str]]:
    """What is to be said of each query, and the shortest form of each that is answered wrongly."""
    world = random_world(11)
    clouds = {name: ConnectCloud(settings[name]) for name in CLOUDS}
    plain, whole = ConnectCloud(settings[CLOUDS[0]]), ConnectCloud(settings[CLOUDS[0]])
    try:
        for cloud in (*clouds.values(), plain, whole):
            for key, value in LEAN.items():
                cloud.session().sql(f"SET {key} = {value}").collect()
        for name, cloud in clouds.items():
            for statement in world.statements(name, "default")[1:]:
                cloud.session().sql(statement).collect()
        for statement in world.union_statements("whole", "plain"):
            plain.session().sql(statement).collect()
        plain.session().sql("USE plain").collect()
        whole.session().sql("USE whole").collect()
        exact = asked(plain.session().sql, whole.session().sql)
        with Federation(clouds.values()) as federation:
            queries = [random_query(world, number) for number in range(QUERIES)]
            verdicts = list(checked(federation, exact, queries[::2]))
            with every_way(), patch("catchment.spark.cloud._INLINE_BYTES", 0):  # all that is put goes in lists of rows
                verdicts += checked(federation, exact, queries[1::2])
            wrong = [verdict for verdict in verdicts if verdict.problem and not dead(NAMES)]
            return verdicts, [minimal(federation, exact, verdict) for verdict in wrong]
    finally:
        for cloud in (*clouds.values(), plain, whole):
            cloud.close()
