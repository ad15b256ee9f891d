"""The command line as a user meets it: real processes, real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from catchment import CountMin
from catchment.answer import plain
from catchment.app.describe import describe
from catchment.app.jobs.tour import run_tour
from catchment.app.targets import shortfalls

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/v1"


def catchment(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catchment.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_inspect_prints_what_a_sketch_is(tmp_path: Path) -> None:
    sketch = CountMin(epsilon=0.01, delta=0.05, seed=9)
    sketch.update(["a", "b"])
    path = tmp_path / "a.sketch"
    path.write_bytes(sketch.to_bytes())
    shown = catchment("inspect", path)
    assert shown.returncode == 0
    for text in ("CountMin", "width=272, depth=3", "seed=9", sketch.guarantee, str(len(sketch.to_bytes())), "total=2"):
        assert text in shown.stdout
    facts = json.loads(catchment("inspect", path, "--json").stdout)
    assert facts["parameters"]["width"] == 272
    assert facts["bytes in memory"] == sketch.nbytes


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sketch")), ids=lambda path: path.stem)
def test_inspect_reads_every_family(path: Path) -> None:
    facts = json.loads(json.dumps(plain(describe(path)), allow_nan=False))
    assert facts["bytes in the file"] == path.stat().st_size
    assert facts["guarantee"]
    assert ("clock" in facts) == ("window" in facts["parameters"])


def test_inspect_prints_text_or_json() -> None:
    path = GOLDEN / "panes.sketch"
    facts = json.loads(catchment("inspect", path, "--json").stdout, parse_constant=pytest.fail)
    assert facts["sketch"] == "Panes"
    assert "CountMin.sized(width=6" in catchment("inspect", path).stdout


def test_inspect_refuses_what_is_not_a_sketch_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("GET / HTTP/1.1\n")
    for target, problem in ((path, "not b'CTCH'"), (tmp_path / "gone", "no file")):
        result = catchment("inspect", target)
        assert result.returncode == 2
        assert problem in result.stderr
        assert "Traceback" not in result.stderr


def test_bare_experiment_and_bench_list_their_names() -> None:
    assert "error-against-size" in catchment("experiment").stdout
    listed = catchment("bench").stdout
    assert "sketches" in listed
    assert "startup" in listed


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    result = catchment("bench", "nothing")
    assert result.returncode == 2
    assert "no benchmark is called 'nothing': there are amplab, balance, monitors, sketches, spark" in result.stderr


def test_experiment_writes_table_json_and_plot(tmp_path: Path) -> None:
    for plot in ("plot.svg", "plot.png"):
        result = catchment(
            "experiment", "error-against-size", "--quick", "--json", tmp_path / "r.json", "--plot", tmp_path / plot
        )
        assert result.returncode == 0, result.stderr
    figures = json.loads((tmp_path / "r.json").read_text())["figures"]
    assert figures["SpaceSaving_missed"] == 0
    assert "UltraLogLog" in result.stdout
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    refused = catchment("experiment", "error-against-size", "--quick", "--plot", tmp_path / "plot.bmp")
    assert refused.returncode == 2
    assert ".svg or .png" in refused.stderr


def test_a_destination_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    for arguments in (
        ["bench", "sketches", "--json", tmp_path],
        ["experiment", "error-against-size", "--json", "/dev/null/x"],
    ):
        result = catchment(*arguments)
        assert result.returncode == 2
        assert "cannot write" in result.stderr
        assert "Traceback" not in result.stderr


def test_the_version_is_printed() -> None:
    assert catchment("--version").stdout.strip() == "0.1.0"


def test_bench_runs_and_writes_figures(tmp_path: Path) -> None:
    result = catchment("bench", "sketches", "--quick", "--json", tmp_path / "r.json")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["quick"] is True
    assert report["figures"]["space_saving_missed_truths"] == 0
    assert report["figures"]["count_min_int64_over_datasketches"] > 1


def test_check_exits_1_and_names_what_falls_short(tmp_path: Path) -> None:
    for folder in ("experiments", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "benchmarks/tiny.py").write_text(
        "'''Tiny.'''\n"
        "from catchment.app.report import Report\n"
        "def run(*, quick, progress):\n"
        "    return Report('t', ['a'], [[1]], {'speed': 3.0, 'bytes': 9.0})\n"
    )
    targets = tmp_path / "benchmarks/targets.toml"
    code = (
        "import sys; from pathlib import Path; import catchment.app.catalog as c\n"
        f"c._checkout = lambda: Path({str(tmp_path)!r})\n"
        "from catchment.app.cli import main; sys.argv = ['catchment', 'bench', 'tiny', '--check']; main()"
    )

    def check(text: str) -> subprocess.CompletedProcess[str]:
        targets.write_text(text)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    met = check("[tiny]\nspeed = { min = 3 }\nbytes = { max = 9 }")
    assert (met.returncode, "every target is met" in met.stdout) == (0, True)
    short = check("[tiny]\nspeed = { min = 4 }\nbytes = { max = 5 }\nwidth = { min = 1 }")
    assert short.returncode == 1
    for line in ("speed: 3, at least 4", "bytes: 9, at most 5", "width: not measured"):
        assert line in short.stderr
    assert check("[tiny]\nspeed = { minimum = 4 }").returncode == 2


def test_the_targets_that_are_written_name_benchmarks_that_exist() -> None:
    import tomllib

    targets = tomllib.loads((ROOT / "benchmarks/targets.toml").read_text())
    assert set(targets) <= {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert shortfalls(ROOT / "benchmarks/targets.toml", "sketches", {})


def test_the_tour_answers_truly_and_moves_little() -> None:
    told: list[float] = []
    answers, moved = run_tour(seed=3, progress=lambda _, share: told.append(share), events_a_site=40_000)
    assert answers.figures["answers"] == 12
    assert answers.figures["answers_that_hold"] >= 11
    assert moved.figures["raw_over_moved"] > 3
    assert told == sorted(told)
