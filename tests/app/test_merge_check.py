"""`catchment merge-check` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catchment.app.cli import app
from catchment.app.jobs.merge_check import run_merge_check
from catchment.testing.merge_check import OURS, SCENARIOS

BROKEN = "tests.testing.broken_adapters:"


def merge_check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["merge-check", *map(str, arguments)])


def test_the_list_names_ours_and_others() -> None:
    listed = merge_check("--list").output
    assert all(name in listed for name in OURS)
    assert "sketch-oxide-eh" in listed


def test_table_and_json_say_the_same(tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    result = merge_check("wave", "simple-count-min", "--sites", "1,3", "--trials", "1", "--json", target)
    assert result.exit_code == 0, result.output
    content = json.loads(target.read_text(), parse_constant=pytest.fail)
    assert (content["name"], content["trials"], content["seed"], content["broken"]) == ("merge-check", 1, 0, [])
    assert [row[:2] for row in content["rows"]] == [
        ["wave", 1], ["wave", 3], ["simple-count-min", 1], ["simple-count-min", 3],
    ]  # fmt: skip
    assert len(content["outcomes"]) == 4 * len(SCENARIOS)
    for outcome in content["outcomes"]:
        assert outcome["questions"] > 0
        assert outcome["violations"] <= outcome["violations allowed"]
    asked = sum(outcome["questions"] for outcome in content["outcomes"][: len(SCENARIOS)])
    assert content["rows"][0][content["columns"].index("asked")] == asked
    assert "simple-count-min" in result.output
    assert "holds" in result.output


def test_a_foreign_violation_is_a_finding_and_fails_only_when_strict() -> None:
    broken = [BROKEN + "TooNarrow", "--sites", "1", "--trials", "1"]
    found = merge_check(*broken)
    assert found.exit_code == 0
    assert "too narrow claims what does not hold" in found.output
    assert merge_check(*broken, "--strict").exit_code == 1
    assert merge_check(BROKEN + "Remembers", "--sites", "1", "--trials", "1", "--strict").exit_code == 0


def test_a_violation_of_ours_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from catchment.window.counters import TimeCounter

    honest = TimeCounter.total
    monkeypatch.setattr(TimeCounter, "total", lambda self, **range_: honest(self, last=1, now=range_["now"]))
    result = merge_check("wave", "--sites", "2", "--trials", "1")
    assert result.exit_code == 1
    assert "wave claims what does not hold" in result.output


def test_progress_goes_forward_and_names_the_sketch() -> None:
    told: list[tuple[str, float]] = []
    run_merge_check(["wave", "eh"], sites=[1], trials=1, seed=0, progress=lambda *step: told.append(step))
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert {label for label, _ in told} == {"wave", "eh"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing"], "no adapter is called 'nothing'"),
        (["wave", "--sites", "1;2"], "give whole numbers"),
        (["wave", "--sites", "0"], "give numbers from 1"),
        (["wave", "--trials", "0"], "trials=0"),
        (["wave", "--json", "/dev/null/x"], "cannot write"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(arguments: list[str], problem: str) -> None:
    command = [sys.executable, "-m", "catchment.app", "merge-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
