"""The experiment of distributed heavy hitters: nothing is missed, little is sent."""

from __future__ import annotations

from pathlib import Path

from catchment.app.catalog import Catalog


def test_no_heavy_hitter_is_missed_and_little_is_sent() -> None:
    run = Catalog("experiments", Path(__file__).parents[2]).load("dhhe")
    report = run(quick=True, progress=lambda _label, _share: None)
    assert len(report.rows) == 4 * 2 * 2 + 2
    assert report.figures["least_recall"] == 1.0
    assert report.figures["least_precision_skewed"] >= 0.95
    assert report.figures["most_bytes_ratio"] <= 0.05
