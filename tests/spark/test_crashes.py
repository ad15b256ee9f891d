"""A pipeline under kill −9 ends as one that was left alone; `catchment experiment crashes` does more of it."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.crashes import run

pytestmark = [pytest.mark.spark, pytest.mark.long("crashes")]


def test_killed_drivers_and_workers_leave_no_trace(spark: Any) -> None:
    report = run(quick=True, progress=lambda _label, _share: None, spark=spark)
    figures = dict(report.figures)
    assert figures.pop("driver_kills") == figures.pop("worker_kills") == 1
    assert len(figures) == 6
    assert set(figures.values()) == {0.0}, report.rows
