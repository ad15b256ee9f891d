"""One Spark session for the run, as small as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from catchment.spark.session import session

    folder: Path = tmp_path_factory.mktemp("spark")
    running = session("local[2]", "catchment tests", {"spark.sql.warehouse.dir": folder})
    yield running
    running.stop()
