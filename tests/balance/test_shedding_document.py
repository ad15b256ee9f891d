"""What docs/balance-shedding.md shows without Spark runs; what it shows on Spark is run in tests/spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "balance-shedding.md"
ALL = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
EXAMPLES = [example for example in ALL if "catchment.spark" not in example]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example: str) -> None:
    exec(compile(example, str(DOCUMENT), "exec"), {})


def test_there_are_examples_with_and_without_spark() -> None:
    assert (len(EXAMPLES), len(ALL)) == (2, 3)
    assert "from catchment.spark.shed import shed" in DOCUMENT.read_text()
