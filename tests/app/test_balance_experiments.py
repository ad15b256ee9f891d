"""The experiment of key grouping: DKG is at full knowledge where the thesis says so, hashing is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.balance_parts import partition, shedding
from benchmarks.balance_parts.slow_rows import KINDS, seconds_of_kinds
from catchment.app.catalog import Catalog
from catchment.app.report import Report
from catchment.balance import KeyLearner, PartitionMap, build_map
from experiments.key_streams import UNIVERSE, key_stream, trace_stream

ROOT = Path(__file__).parents[2]


def quick(data: Path | None = None) -> Report:
    told: list[float] = []
    run = Catalog("experiments", ROOT).load("key-grouping", data=data)
    report = run(quick=True, progress=lambda _, at: told.append(at))
    assert told == sorted(told)
    assert {len(row) for row in report.rows} == {len(report.columns)}
    report.to_json("key-grouping", quick=True)
    report.chart.to_dict()
    return report


def rows_of(report: Report, figure: str) -> list[dict[str, Any]]:
    return [dict(zip(report.columns, row, strict=True)) for row in report.rows if row[0].startswith(figure)]


def test_the_figures_of_the_thesis_come_out() -> None:
    report = quick()
    for row in rows_of(report, "7.4"):
        # One key has 60.7 % of zipf-2: what one part cannot help, in percent of the mean.
        if row["algorithm"] in ("full knowledge", "DKG", "one part"):
            assert row["imbalance"] == pytest.approx(row["thesis"], abs=1.2 * row["k"])
        if row["algorithm"] == "hash":
            assert row["imbalance"] > 60.7 * row["k"] - 90
    assert report.figures["ours_mean_gap"] < 1
    assert report.figures["hash_mean_gap"] > 20
    for row in rows_of(report, "7.7"):
        if row["stream"] == "zipf-1" and row["mu"] == 8:
            assert row["imbalance"] < 5
    heavy = {(row["stream"], row["theta"]): row["imbalance"] for row in rows_of(report, "7.8")}
    assert heavy["zipf-2", 0.05] < heavy["zipf-2", 0.9]
    with_buckets, without = (
        np.mean([row["imbalance"] for row in rows_of(report, "7.10") if row["algorithm"] == name])
        for name in ("DKG", "DKG WOSIM")
    )
    assert with_buckets <= without
    split = {(row["stream"], row["k"], row["algorithm"]): row["imbalance"] for row in rows_of(report, "7.11")}
    assert split["zipf-2", 5, "DKG-PKG"] < split["zipf-2", 5, "DKG"]
    assert split["zipf-2", 10, "D-Choices"] < 20 < split["zipf-2", 10, "PKG"]


def test_streams_are_as_they_say() -> None:
    stream, again, other = key_stream(2.0, 3), key_stream(2.0, 3), key_stream(2.0, 4)
    assert np.array_equal(stream.training, again.training)
    assert not np.array_equal(stream.training, other.training)
    assert (stream.training.size, stream.counts.sum(), stream.names.size) == (80_000, 20_000, UNIVERSE)
    assert np.mean(stream.training == stream.names[0]) == pytest.approx(0.607, abs=0.01)
    names, counts = np.unique(stream.validation(), return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        name: count for name, count in zip(stream.names.tolist(), stream.counts.tolist(), strict=True) if count
    }
    trace = trace_stream(np.array([5, 5, 7, 9, 9, 9]))
    assert trace.training.tolist() == [5, 5, 7]
    assert dict(zip(trace.names.tolist(), trace.counts.tolist(), strict=True)) == {5: 0, 7: 0, 9: 3}


def test_the_benchmark_finds_dkg_near_full_knowledge_and_hashing_far() -> None:
    found: dict[str, float] = {}
    told: list[float] = []
    rows = list(partition.over_streams(3, 200_000, "", found, told.append))
    assert len(rows) == 3 * 9 * 3
    assert told == sorted(told)
    assert found["dkg_mean_gap_points"] < 5
    assert found["dkg_worst_gap_points"] < 10
    assert found["hash_mean_gap_points"] > 30
    best, dkg, hashed = (np.array([row[3] for row in rows if row[2] == how]) for how in partition.HOW)
    assert np.all(best <= dkg + 1e-9)
    assert np.mean(dkg) < np.mean(hashed)


def test_the_benchmark_learns_for_the_parts_that_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[tuple[int, int]] = []

    def watched(learner: KeyLearner, parts: int) -> PartitionMap:
        learnt.append((learner.buckets, parts))
        assert learner.parameters == KeyLearner.for_parts(parts, seed=learner.seed).parameters
        return build_map(learner, parts)

    monkeypatch.setattr(partition, "build_map", watched)
    list(partition.over_streams(1, 2_000, "", {}, lambda _: None))
    assert sorted(set(learnt)) == [(64 * k, k) for k in range(2, 11)]


def test_it_runs_on_the_trace_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    lines = [f"{893973600 + n},3,{n % 7 if n % 2 else 1},304,0" for n in range(400)]
    path.write_text("timestamp,clientID,objectID,status,size\n" + "\n".join(lines) + "\n")
    report = quick(path)
    assert {row["stream"] for row in rows_of(report, "7.12")} == {"WC98 sample sample.csv"}


def test_both_operators_on_spark_take_a_millisecond_to_a_second() -> None:
    seconds = sorted(seconds_of_kinds().values())
    assert (len(seconds), seconds[0], seconds[-1]) == (KINDS, 0.001, 1.0)
    assert sum(seconds[-KINDS // 10 :]) == pytest.approx(0.5 * sum(seconds), rel=0.05)  # a heavy tail
    assert seconds_of_kinds() == shedding.SECONDS
    assert pytest.approx(0.145, rel=0.02) == shedding.MEAN_COST
    assert 4 * seconds[-1] <= shedding.SPARK_TARGET


def test_rows_come_as_often_as_was_planned_however_often_one_looks() -> None:
    for looks in ([10.0], [0.25 * look for look in range(1, 41)], [0.3, 0.31, 7.0, 10.0]):
        last, came = 0.0, []
        for now in looks:
            times = shedding.come_between(last, now, 6.9)
            assert all(last < time <= now for time in times)
            came += times
            last = times[-1] if times else last
        assert len(came) in (68, 69)
