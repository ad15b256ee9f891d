"""How far a stream was read stands in Spark's checkpoints: golden offsets lead the sources to the same place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from catchment.spark.source import generator, wc98

RECORDS = bytes(20 * 5)
"""Five of the web log."""


def parts(reader: DataSourceStreamReader, start: str) -> list[dict[str, Any]]:
    """What is still to be read after an offset."""
    begin = json.loads(start)
    return [vars(part) for part in reader.partitions(begin, reader.latestOffset(begin, reader.getDefaultReadLimit()))]


def test_the_generator_goes_on_at_the_event() -> None:
    plan = generator.Plan.from_options({"events": "50", "partitions": "1"})
    assert parts(generator.EventStreamReader(plan), '{"events": 30}') == [{"start": 30, "end": 50}]


@pytest.mark.parametrize(("offset", "left"), [('{"a": 40, "b.gz": 1}', {"a": 40}), ('{"a": 100}', {"b.gz": 0})])
def test_web_logs_go_on_after_the_records_that_were_read(tmp_path: Path, offset: str, left: dict[str, int]) -> None:
    (tmp_path / "a").write_bytes(RECORDS)
    (tmp_path / "b.gz").write_bytes(gzip.compress(RECORDS))
    moved = json.dumps({str(tmp_path / name): at for name, at in json.loads(offset).items()})
    plan = wc98.Plan.from_options({"path": str(tmp_path)})
    found = parts(wc98.WebLogStreamReader(plan), moved)
    assert {Path(part["file"]).name: part["start"] for part in found} == left
