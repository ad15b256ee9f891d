"""A part of the long tests that fails is blamed on a change only if it held on the parent commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# In place of pytest: the tests that this commit's file names fail, of those that are asked for, all if none is.
MAKEFILE = """
test-long:
\t@python3 stand_in.py $(PART) $(TEST_ARGS)
"""
STAND_IN = """
import json, pathlib, sys
part, *asked = sys.argv[1:]
failing = [test for test in pathlib.Path("failing").read_text().split("\\n") if test and (not asked or test in asked)]
print("ran", part, *asked)
if failing:
    place = pathlib.Path(".pytest_cache/v/cache")
    place.mkdir(parents=True, exist_ok=True)
    (place / "lastfailed").write_text(json.dumps({test: True for test in failing}))
sys.exit(bool(failing))
"""


def commit(folder: Path, failing: list[str]) -> None:
    (folder / "failing").write_text("\n".join(failing))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *arguments], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("before", "after", "status", "said"),
    [
        ([], [], 0, []),
        ([], ["t::a"], 1, ["t::a is to blame on this change"]),
        (["t::a[$x y]"], ["t::a[$x y]"], 0, ["t::a[$x y] fails on the parent too"]),
        (["t::a"], ["t::a", "t::b"], 1, ["t::a fails on the parent too", "t::b is to blame on this change"]),
    ],
)
def test_what_fails_is_run_on_the_parent_commit(
    tmp_path: Path, before: list[str], after: list[str], status: int, said: list[str]
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/long", tmp_path / ".ci/long")
    (tmp_path / ".gitignore").write_text(".pytest_cache")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    commit(tmp_path, before)
    commit(tmp_path, after)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run([tmp_path / ".ci/long"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    assert [
        line.removeprefix("long tests: ") for line in done.stdout.splitlines() if "::" in line and "ran" not in line
    ] == said
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line]


def test_the_first_commit_has_no_parent_to_compare_with(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/long", tmp_path / ".ci/long")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    commit(tmp_path, ["t::a"])
    assert subprocess.run([tmp_path / ".ci/long"], capture_output=True, check=False).returncode == 1
