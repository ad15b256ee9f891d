"""The experiment of OSG: what the thesis claims of it holds for our rules, and a change is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from catchment.app.catalog import Catalog
from catchment.testing.queueing import Operated
from experiments.osg_series import SERIES, recovered_at


def test_osg_beats_round_robin_and_notices_a_change() -> None:
    told: list[float] = []
    run = Catalog("experiments", Path(__file__).parents[2]).load("osg")
    report = run(quick=True, progress=lambda _label, share: told.append(share))
    assert told == sorted(told)
    assert {len(row) for row in report.rows} == {len(report.columns)}
    assert report.figures["zipf_1_at_105_speed_up"] >= 1.2
    assert report.figures["least_mean_speed_up"] >= 1.0
    assert report.figures["zipf_1_at_105_speed_up"] < report.figures["zipf_1_at_105_full_knowledge"]
    assert report.figures["zipf_1_at_105_thesis_rules"] < report.figures["zipf_1_at_105_speed_up"]
    assert 0 < report.figures["series_recovered_after"] < 25_000
    assert report.figures["series_speed_up"] > 1.2
    # 7.28: a prototype's latency and jitter change little, as the thesis found.
    assert 0 < report.figures["prototype_series_recovered_after"] < 25_000
    assert report.figures["prototype_series_speed_up"] > 1.2
    assert report.figures["prototype_series_timed_out"] <= report.figures["prototype_series_round_robin_timed_out"]
    for series in SERIES:
        stretches = {row[1]: row for row in report.rows if row[0] == f"{series.figure} series"}
        assert list(stretches) == ["until RUN", "until the change", "after it"]
        assert stretches["until the change"][4] > 1.2
        assert any(f"thesis: {series.run_at:,}" in note for note in report.notes)
    late = next(row for row in report.rows if row[0] == "latency at 105 %")
    assert late[4] >= 1.2
    same = next(row for row in report.rows if row[1] == "max 0.1 ms")
    assert same[4] == 1.0  # where all tuples cost the same, nothing is gained and nothing lost
    report.to_json("osg", quick=True)
    report.chart.to_dict()


def test_recovered_is_when_all_instances_were_heard_after_the_change() -> None:
    nothing = np.zeros(0, dtype=np.int64)

    def log(*lines: tuple[int, int]) -> Operated:
        return Operated(nothing.astype(np.int32), nothing, nothing, log=lines)

    heard = [(10 + place, place) for place in range(5)]
    assert recovered_at(log(*heard, (20, -1)), 11) is None
    assert recovered_at(log((5, -1), *heard, (20, -1)), 10) == 20
