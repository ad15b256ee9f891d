"""What docs/sql.md says is what Spark answers: every example is run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from catchment.spark.functions import register
from catchment.spark.functions.catalog import EVENTS, FUNCTIONS, TABLE_FUNCTIONS, SqlFunction, TableFunction, shown
from catchment.spark.functions.documents import sql_document
from catchment.spark.functions.kinds import KINDS

pytestmark = pytest.mark.spark

ENTRIES: list[SqlFunction | TableFunction] = [*FUNCTIONS.values(), *TABLE_FUNCTIONS.values()]
DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"


@pytest.mark.parametrize("group", ["any", *KINDS])
def test_every_example_gives_its_result(spark: Any, group: str) -> None:
    register(spark)
    spark.sql(EVENTS)
    examples = [entry for entry in ENTRIES if entry.group == group]

    def outcome(example: str) -> str:
        (row,) = spark.sql(example).collect()
        return ", ".join(map(shown, row))

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(outcome, [entry.example for entry in examples]))
    assert examples
    assert dict(zip([entry.name for entry in examples], found, strict=True)) == {
        entry.name: entry.result for entry in examples
    }


def test_an_example_calls_the_function_that_it_is_about() -> None:
    for entry in ENTRIES:
        assert f"{entry.name}(" in entry.example


def test_the_document_is_written_from_the_table() -> None:
    assert DOCUMENT.read_text() == sql_document(), "python -m catchment.spark.functions.documents docs/sql.md"
