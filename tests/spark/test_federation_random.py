"""Random queries over three clouds, against one Spark with the union: on clouds that share a local session."""

from __future__ import annotations

from typing import Any

import pytest

from catchment.testing.differential import minimal
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import random_world
from experiments.federated_worlds import checked, local_world

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("seed", "queries"),
    [
        (101, 8),
        pytest.param(101, 60, marks=pytest.mark.long("fuzz")),
        pytest.param(102, 60, marks=pytest.mark.long("fuzz")),
    ],
)
def test_every_answer_is_that_of_one_spark(spark: Any, seed: int, queries: int) -> None:
    """`catchment experiment federated-queries` asks a thousand."""
    world = random_world(seed)
    with local_world(spark, world) as (federation, exact):
        verdicts = list(checked(federation, exact, [random_query(world, number) for number in range(queries)]))
        wrong = [minimal(federation, exact, verdict) for verdict in verdicts if verdict.problem]
    assert not wrong, "\n\n".join(wrong)
    assert sum(bool(verdict.refused) for verdict in verdicts) <= queries // 20
    assert sum(bool(verdict.invalid) for verdict in verdicts) <= queries // 10
    ways = frozenset[str]().union(*(verdict.ways for verdict in verdicts))
    assert {"split", "broadcast"} <= ways
    if queries > 20:  # enough for what is rare
        assert ({"kept", "dealt", "scattered"} <= ways) is (seed % 2 == 1)
