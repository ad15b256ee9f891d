"""The commands around a pipeline, as processes; what needs no Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catchment import ECMSketch
from catchment.spark.pipeline.folder import OutputFolder

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


def catchment(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catchment.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_init_writes_a_file_that_check_accepts_and_no_file_twice(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    assert catchment("pipeline", "init", file).returncode == 0
    checked = catchment("pipeline", "check", file)
    assert checked.returncode == 0
    assert "views, generator to" in checked.stdout
    assert "hits: ecm of key; at each site truth in [low, high]" in checked.stdout
    again = catchment("pipeline", "init", file)
    assert (again.returncode, again.stderr) == (2, f"error: {file} is there already: give another name\n")


@pytest.mark.parametrize("command", [("pipeline", "check"), ("run",)])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "p.toml"
    file.write_text('[pipeline]\nname = "x"\n[sorce]\n')
    said = catchment(*command, file)
    assert said.returncode == 2
    assert said.stderr.startswith(f"error: {file}, line 3: a pipeline has no key 'sorce': did you mean 'source'?")
    assert said.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites, each with the keys 1 to 3 once a second for a minute."""
    path = tmp_path_factory.mktemp("out")
    folder = OutputFolder(path, keep=2)
    about = {"version": 1, "name": "t", "tick": 1_000_000, "window": 600, "lateness": 0, "every": 60}
    listed = [{"name": "hits", "kind": "ecm", "integers": True}]
    folder.begin({**about, "mode": "snapshots", "sites": ["site"], "sketches": listed}, path / "checkpoint")
    sketch = ECMSketch(0.05, 0.01, window=600)
    sketch.update(np.tile([1, 2, 3], 60), at=np.repeat(np.arange(START + 1, START + 61), 3))
    at = pa.array([datetime.fromtimestamp(START + 60, UTC)] * 2, pa.timestamp("us", "UTC"))
    columns = {"site": ["north", "south"], "name": ["hits"] * 2, "at": at, "sketch": [sketch.to_bytes()] * 2}
    folder.write(0, pa.table({**columns, "events": [180, 180], "late": [0, 0]}))
    return path


def test_query_prints_a_table_or_json(out: Path) -> None:
    shown = catchment("query", out, "point", "hits", "1", "4", "--last", "30 seconds")
    assert shown.returncode == 0, shown.stderr
    assert "after 2026-01-01T00:00:30Z, up to 2026-01-01T00:01:00Z; with confidence 0.99" in shown.stdout
    assert "2 sites: north, south" in shown.stdout
    facts = json.loads(catchment("query", out, "point", "hits", "1", "4", "--json").stdout)
    assert [row["key"] for row in facts["answers"]] == ["1", "4"]
    assert facts["answers"][0]["low"] <= 120 <= facts["answers"][0]["high"]
    assert facts["window"] == [START + 60 - 600, START + 60]
    assert (facts["sites"], facts["missing"]) == (["north", "south"], [])
    each = json.loads(catchment("query", out, "total", "hits", "--per-site", "--json").stdout)
    assert {site: answer["value"] for site, answer in each["sites"].items()} == {"north": 180, "south": 180}


def test_query_refuses_in_one_line(out: Path) -> None:
    for arguments, problem in (
        (("top", "hits"), "hits is of kind ecm, which cannot be asked for top"),
        (("total", "hits", "--last", "soon"), "last='soon' is no length of time"),
        (("total", "hits", "--now", "noon"), "--now noon: give a moment such as"),
    ):
        said = catchment("query", out, *arguments)
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
        assert problem in said.stderr


def test_a_query_loads_no_spark(out: Path) -> None:
    code = (
        "import sys; from catchment.app.cli import app; "
        f"app(['query', {str(out)!r}, 'total', 'hits'], standalone_mode=False); print('pyspark' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "False"
