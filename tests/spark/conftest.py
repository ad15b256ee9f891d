"""One Spark session for the run, as small as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark import kafka_broker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from catchment.spark.kafka import connector_settings
    from catchment.spark.session import session

    folder: Path = tmp_path_factory.mktemp("spark")
    # Jars count when the JVM starts, so the one session of the run has those of Kafka, where they are.
    kafka = connector_settings(jars=kafka_broker.ARTIFACTS / "connector") if kafka_broker.PRESENT else {}
    running = session("local[2]", "catchment tests", {"spark.sql.warehouse.dir": folder} | kafka)
    yield running
    running.stop()
