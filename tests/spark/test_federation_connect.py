"""Random queries over three real Spark Connect servers, against one of them that also holds the union."""

from __future__ import annotations

import pytest

from catchment.federation.federation import Federation
from catchment.spark.cloud import ConnectCloud
from catchment.testing.differential import every_way, minimal
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import CLOUDS, random_world
from experiments.federated_worlds import LEAN, asked, checked
from tests.spark.clouds import NAMES, running_clouds

pytestmark = pytest.mark.spark

QUERIES = 105


def test_a_hundred_answers_are_those_of_one_spark() -> None:
    assert tuple(CLOUDS) == NAMES
    world = random_world(11)
    with running_clouds(3) as settings:
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
                with every_way():
                    verdicts += checked(federation, exact, queries[1::2])
                wrong = [minimal(federation, exact, verdict) for verdict in verdicts if verdict.problem]
        finally:
            for cloud in (*clouds.values(), plain, whole):
                cloud.close()
    assert not wrong, "\n\n".join(wrong)
    answered = [verdict for verdict in verdicts if not verdict.refused and not verdict.invalid]
    assert len(answered) >= 100
    assert any("kept" in verdict.ways for verdict in verdicts)
