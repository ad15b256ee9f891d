"""Random queries over three clouds, against one Spark with the union: on clouds that share a local session."""

from __future__ import annotations

from typing import Any

import pytest

from catchment.testing.differential import minimal
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import random_world
from experiments.federated_worlds import checked, local_world

pytestmark = pytest.mark.spark

QUERIES = 40
"""For each world; `catchment experiment federated-queries` asks a thousand."""


@pytest.mark.parametrize("seed", [101, 102])
def test_every_answer_is_that_of_one_spark(spark: Any, seed: int) -> None:
    world = random_world(seed)
    with local_world(spark, world) as (federation, exact):
        verdicts = list(checked(federation, exact, [random_query(world, number) for number in range(QUERIES)]))
        wrong = [minimal(federation, exact, verdict) for verdict in verdicts if verdict.problem]
    assert not wrong, "\n\n".join(wrong)
    assert sum(bool(verdict.refused) for verdict in verdicts) <= QUERIES // 20
    assert sum(bool(verdict.invalid) for verdict in verdicts) <= QUERIES // 10
    ways = frozenset[str]().union(*(verdict.ways for verdict in verdicts))
    assert {"split", "broadcast"} <= ways
    assert ({"kept", "dealt", "scattered"} <= ways) is (seed % 2 == 1)
