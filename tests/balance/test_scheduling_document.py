"""What docs/balance-scheduling.md shows as a library runs; what it shows on Spark is run in tests/spark."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "balance-scheduling.md"


def test_the_library_s_example_runs() -> None:
    *on_spark, library = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    assert len(on_spark) == 2
    assert all("catchment.spark" in example for example in on_spark)
    exec(compile(library, str(DOCUMENT), "exec"), {})
