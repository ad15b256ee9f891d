"""The experiments on timed traces: what they find is sane, and what they cannot read is refused."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catchment.app.catalog import Catalog
from catchment.app.report import Report
from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.window.ecm import ECMSketch
from experiments import ecm_trials, topico, windowed_count_min
from experiments.traces import chosen, described, flow_like, load, web_like

ROOT = Path(__file__).parents[2]
SAMPLE = "timestamp,clientID,objectID,status,size\n893973604,3,7,304,0\n893973606,10,32,304,0\n893973605,1,7,200,5\n"
FLOWS = (
    "StartTime,Dur,Proto,SrcAddr,Sport\n"
    "2011/08/16 10:01:46.972101,3599.9,tcp,88.176.79.163,49213\n"
    "2011/08/16 10:01:47.000000,0.1,udp,147.32.85.112,22\n"
    "2011/08/16 10:01:48.000001,0.1,udp,88.176.79.163,22\n"
)


def record(at: int, item: int, server: int) -> bytes:
    return struct.pack(">IIIIBBBB", at, 1, item, 0xFFFFFFFF, 0, 2, 1, server)


def quick(name: str, data: Path | None = None) -> Report:
    told: list[float] = []
    report = Catalog("experiments", ROOT).load(name, data=data)(quick=True, progress=lambda _, at: told.append(at))
    assert told == sorted(told)
    assert 0 <= told[0] <= told[-1] <= 1
    assert {len(row) for row in report.rows} == {len(report.columns)}
    report.to_json(name, quick=True)
    report.chart.to_dict()
    return report


def column(report: Report, name: str) -> list[object]:
    return [row[list(report.columns).index(name)] for row in report.rows]


# -- traces ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_each_format_is_known_by_its_content(tmp_path: Path, pack: type) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(pack(SAMPLE.encode()))
    sample = load(path)
    assert (sample.keys.tolist(), sample.at.tolist()) == ([7, 7, 32], [893973604, 893973605, 893973606])
    assert "drawn at random" in sample.sites(2)[1]
    path.write_bytes(pack(FLOWS.encode()))
    flows = load(path)
    assert flows.keys.tolist() == [0, 1, 0]
    assert np.diff(flows.at).tolist() == [27_899, 1_000_001]
    assert flows.tick == "microsecond"
    path.write_bytes(pack(b"".join(record(897_861_223 + n // 2, 1000 + n, 32 * n + 1) for n in range(4))))
    records = load(path)
    assert records.keys.tolist() == [1000, 1001, 1002, 1003]
    assert records.at.tolist() == [897_861_223, 897_861_223, 897_861_224, 897_861_224]
    assert records.servers is not None
    assert records.servers.tolist() == [1, 33, 65, 97]
    sites, how = records.sites(2)
    assert sites.tolist() == [0, 1, 0, 1]
    assert "4 servers" in how
    assert "drawn at random" in records.sites(5)[1]


def test_events_without_a_key_are_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(SAMPLE + "893973607,2307,,404,334\n\n")
    trace = load(path)
    assert len(trace) == 3
    assert "1 events without objectID are left out" in described(trace)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no trace that is known"),
        (b"GET / HTTP/1.1\n", "no trace that is known"),
        (b"a,b,c\n1,2,3\n", "no trace that is known"),
        (record(897_861_223, 1, 1)[:-1], "no trace that is known"),
        (record(1_700_000_000, 1, 1), "no trace that is known"),
        (b"timestamp,objectID\n", "no events"),
        (SAMPLE.encode() + b"893973607,3", "line 5 has 2 fields"),
        (SAMPLE.encode() + b"893973607,3,x,200,1\n", "whole numbers"),
        (b"StartTime,SrcAddr\nyesterday,1.2.3.4\n", "StartTime is like"),
        (b"StartTime,SrcAddr\n,1.2.3.4\n", "StartTime is like"),
        (gzip.compress(SAMPLE.encode(), mtime=0)[:-9], "damaged gzip"),
    ],
)
def test_anything_else_is_refused_with_a_cure(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as refused:
        load(path)
    if "known" in problem:
        for known in ("WC98 sample", "NetFlow", "raw WC98 records"):
            assert known in refused.value.cure


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no file"):
        load(tmp_path / "gone")


def test_seeded_streams_are_in_order_and_the_same_each_time() -> None:
    for make in (web_like, flow_like):
        one, two, other = make(5_000), make(5_000), make(5_000, seed=1)
        assert np.array_equal(one.keys, two.keys)
        assert np.array_equal(one.at, two.at)
        assert not np.array_equal(one.keys, other.keys)
        assert np.all(np.diff(one.at) >= 0)
    assert [trace.like for trace in chosen(None, 100, quick=True)] == ["wc98", "caida"]


# -- what the experiments share -------------------------------------------------------------------------------


def test_questions_know_the_truth() -> None:
    trace = web_like(2_000)
    for part in ecm_trials.ranges_of(trace):
        inside = trace.keys[trace.at > trace.at[-1] - part.last]
        assert part.total == inside.size == part.counts.sum()
        assert part.counts[0] == np.sum(inside == part.keys[0])


def test_a_broken_bound_is_counted() -> None:
    trace = web_like(2_000)
    sketch = ECMSketch(0.1, 0.15, window=trace.window)
    sketch.update(trace.keys[::2], at=trace.at[::2])  # half of the events are kept from it
    ranges = ecm_trials.ranges_of(trace)
    found = ecm_trials.observed(sketch, ranges, ecm_trials.POINT)
    assert found.broken > 0
    assert found.outside > 0
    assert found.total_off < -0.3


def test_the_tree_moves_a_sketch_over_each_edge_and_keeps_its_values_when_it_claims_nothing() -> None:
    trace = web_like(4_000)
    sites, _ = trace.sites(16)
    panes = ECMSketch(0.3, 0.15, window=trace.window, counter="panes")
    parts = ecm_trials.leaves(trace, sites, 16, panes)
    whole = panes.copy()
    whole.update(trace.keys, at=trace.at)
    up, star = ecm_trials.merged(parts), ecm_trials.merged(parts, fan_in=16)
    assert up.root.to_bytes() == star.root.to_bytes() == whole.to_bytes()
    assert star.moved == sum(len(part.to_bytes()) for part in parts)
    assert up.moved > star.moved
    coarse = ecm_trials.leaves(trace, sites, 16, ECMSketch(0.3, 0.15, window=trace.window, counter="eh"))
    assert not ecm_trials.merged(coarse).claims
    assert ecm_trials.merged(coarse, fan_in=16).claims


# -- the experiments ------------------------------------------------------------------------------------------


def test_rates_are_there_for_every_counter() -> None:
    report = quick("ecm-rates")
    assert len(report.rows) == 2 * 3 * 4
    assert all(isinstance(rate, float) and rate > 0 for rate in column(report, "a second"))
    assert report.figures["wc98_updates_eh_over_eh"] == 1


def test_memory_buys_accuracy_and_no_certain_bound_breaks() -> None:
    report = quick("ecm-memory")
    assert report.figures["broken_bounds"] == 0
    for name, value in report.figures.items():
        if "_outside_" in name:
            assert value <= 0.15, name
    assert report.figures["wc98_bytes_randomized_over_eh"] > 2
    assert report.figures["wc98_error_eh"] < 0.15


def test_merged_sketches_keep_what_they_claim() -> None:
    report = quick("ecm-merged")
    assert report.figures["broken_bounds"] == 0
    assert report.figures["largest_ratio"] <= 2
    assert report.figures["outside_share"] <= 0.15
    off = zip(column(report, "claimed"), column(report, "total off: 16"), column(report, "sketch"), strict=True)
    for claimed, total_off, sketch in off:
        if isinstance(claimed, float) and isinstance(total_off, float) and sketch in ("ECM-EH", "ECM-DW"):
            assert abs(total_off) <= claimed


@pytest.mark.long("worlds")
def test_many_sites_cost_bytes_and_not_the_bounds() -> None:
    report = quick("ecm-sites")
    assert report.figures["broken_bounds"] == 0
    assert report.figures["beyond_claim_largest_share"] <= 0.15
    ratios = [value for name, value in report.figures.items() if name.endswith("error_at_256_over_one_site")]
    assert len(ratios) == 2 * 7
    assert max(ratios) <= 2
    for name, value in report.figures.items():
        if name.endswith("_fit_total_off_at_256"):
            assert abs(value) <= 0.15, name


def test_top_k_peers_are_near_the_observer_and_certify_nothing_false(tmp_path: Path) -> None:
    report = quick("topico")
    assert report.figures["false_certificates"] == 0
    assert all(isinstance(share, float) and share > 0.5 for share in column(report, "certain"))
    assert all(isinstance(far, float) and far < 0.5 for far in column(report, "distance"))
    path = tmp_path / "records"
    rng = np.random.default_rng(6)
    rows = zip(np.sort(rng.integers(0, 30, 2_000)), rng.zipf(1.5, 2_000) % 50, rng.integers(0, 20, 2_000), strict=True)
    path.write_bytes(b"".join(record(897_861_223 + int(at), int(item), int(server)) for at, item, server in rows))
    given = quick("topico", path)
    assert column(given, "stream") == ["WC98 records records"]
    assert given.figures["false_certificates"] == 0
    same, reversed_, apart = (topico.distance(np.arange(5), np.array(other)) for other in (
        [0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [5, 6, 7, 8, 9],
    ))  # fmt: skip
    assert (same, apart) == (0, 1)
    assert 0 < reversed_ < apart


def test_an_experiment_runs_on_the_trace_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "records"
    rng = np.random.default_rng(5)
    rows = zip(
        np.sort(rng.integers(0, 400, 3_000)), rng.zipf(1.5, 3_000) % 500, rng.integers(0, 20, 3_000), strict=True
    )
    path.write_bytes(b"".join(record(897_861_223 + int(at), int(item), int(server)) for at, item, server in rows))
    report = quick("ecm-merged", path)
    assert set(column(report, "stream")) == {"WC98 records records"}
    assert any("20 servers are dealt out to 16 sites" in note for note in report.notes)
    assert report.figures["broken_bounds"] == 0
    thesis = windowed_count_min.Runs(quick=True, progress=lambda _label, _share: None)
    thesis.trace(path)
    assert [row[0] for row in thesis.rows] == ["data"] * 4
    assert Catalog("experiments", ROOT).load("windowed-count-min", data=path)  # a module with dataclasses loads


def test_data_is_refused_where_it_would_be_ignored(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="leave --data out"):
        Catalog("experiments", ROOT).load("error-against-size", data=tmp_path)
    options = ["--quick", "--plot", str(tmp_path / "p.svg"), "--data", str(tmp_path / "gone")]
    command = [sys.executable, "-m", "catchment.app", "experiment", "ecm-merged", *options]
    gone = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert gone.returncode == 2
    assert "no file" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_what_experiments_share_is_not_listed_as_one() -> None:
    names = Catalog("experiments", ROOT).names()
    assert {"ecm-rates", "ecm-memory", "ecm-merged", "ecm-sites"} <= set(names)
    assert not {"traces", "ecm-trials"} & set(names)


def test_what_monitors_claim_stays_within_theta_and_ours_costs_less_than_the_baseline() -> None:
    report = quick("monitors")
    assert report.figures["largest_error_over_theta"] <= 1
    assert report.figures["auto_4_0.2_0.1_total_over_cg"] < 1
    assert report.figures["join_auto_4_0.2_0.1_total_over_cg"] < 1
    assert set(column(report, "rule")) == {"relative", "eager", "lazy", "auto", "oracle, eager", "oracle, lazy"}


def test_window_monitors_stay_within_theta() -> None:
    report = quick("ecm-monitors")
    assert report.figures["largest_error_over_theta"] <= 1
    assert all(isinstance(share, float) and share > 0 for share in column(report, "over forwarding"))
