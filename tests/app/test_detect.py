"""`catchment detect` on flows that are made up: the target, its start, its sites; and what is refused."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from catchment.app.detect_commands import detect
from catchment.app.jobs.detect import read_flows
from catchment.errors import InputError, NameNotFoundError, ParameterError

app = typer.Typer()
app.command()(detect)

BEGIN = datetime(2011, 8, 16, 10, 0, tzinfo=UTC)


def flows(path: Path) -> Path:
    """Ten minutes, five flows a second; from the fifth minute on every third to one address, through two routers."""
    rng = np.random.default_rng(1)
    lines = ["StartTime,SrcAddr,DstAddr,Router"]
    for number in range(3_000):
        at = BEGIN + timedelta(seconds=number / 5)
        hit = number >= 1_500 and number % 3 == 0
        target = "10.0.0.1" if hit else f"10.1.{rng.integers(200)}.{rng.integers(200)}"
        router = ("north", "south")[number % 2] if hit else ("north", "south", "west")[rng.integers(3)]
        lines.append(f"{at:%Y/%m/%d %H:%M:%S.%f},1.2.3.4,{target},{router}")
    lines.append(f"{BEGIN:%Y/%m/%d %H:%M:%S.%f},1.2.3.4,,west")
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_the_target_is_found_with_its_start_and_its_sites(tmp_path: Path) -> None:
    options = ["--phi", "0.2", "--window", "60", "--panes", "6", "--site", "Router", "--json"]
    shown = CliRunner().invoke(app, [str(flows(tmp_path / "f.csv.gz")), *options])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["events"] == 3_000
    (alarm,) = found["alarms"]
    assert alarm["target"] == "10.0.0.1"
    started = datetime.strptime(alarm["started"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert abs((started - BEGIN).total_seconds() - 300) <= 20
    assert set(alarm["sites"]) == {"north", "south"}
    assert alarm["ended"] is None
    assert alarm["confidence"] > 0.9


def test_a_table_tells_the_same_and_sites_can_be_drawn(tmp_path: Path) -> None:
    options = ["--phi", "0.2", "--window", "60", "--panes", "6", "--sites", "3"]
    shown = CliRunner().invoke(app, [str(flows(tmp_path / "f.csv.gz")), *options])
    assert shown.exit_code == 0, shown.output
    assert "10.0.0.1" in shown.output
    assert "all 3" in shown.output


def test_what_is_no_netflow_is_refused_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no file"):
        read_flows(tmp_path / "gone")
    bad = tmp_path / "bad.csv"
    for content in ("a,b\n1,2\n", "StartTime,DstAddr\nyesterday,10.0.0.1\n", "StartTime,DstAddr\n"):
        bad.write_text(content)
        with pytest.raises(InputError):
            read_flows(bad)


@pytest.mark.parametrize("phi", ["0", "1", "-0.1", "1e-9", "nan"])
def test_a_share_that_is_none_is_refused_by_its_option(tmp_path: Path, phi: str) -> None:
    found = CliRunner().invoke(app, [str(flows(tmp_path / "f.csv.gz")), f"--phi={phi}"])
    assert isinstance(found.exception, ParameterError)
    assert str(found.exception).startswith("--phi ")
