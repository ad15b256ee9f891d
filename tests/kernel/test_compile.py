from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import catchment

CODE = "from catchment import CountMin; s = CountMin(); s.update([1, 2, 2]); print(s.estimate(2).value)"


def run(package: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    return subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=settings, check=True)


def copy_of_the_package(folder: Path) -> Path:
    shutil.copytree(Path(catchment.__file__).parent, folder / "catchment", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_cache_that_cannot_be_written_is_said_once_and_the_answer_is_right(tmp_path: Path) -> None:
    """A file stands where each of the three cache folders would be: that stops root too."""
    package = copy_of_the_package(tmp_path)
    blocked = tmp_path / "blocked"
    for file in (blocked, package / "catchment/kernel/__pycache__"):
        file.write_text("")
    result = run(package, NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked), HOME=str(blocked))
    assert result.stdout.strip() == "2"
    assert result.stderr.count("KernelCacheWarning: compiled kernels cannot be kept") == 1
    assert "set NUMBA_CACHE_DIR to a directory that can be written" in result.stderr


def test_a_writable_cache_is_used_and_nothing_is_said(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    result = run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (result.stdout.strip(), result.stderr) == ("2", "")
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_a_changed_helper_compiles_its_users_anew(tmp_path: Path) -> None:
    """By itself numba dates a kernel by its own file alone, and this would answer as before."""
    package = copy_of_the_package(tmp_path)
    cache = str(tmp_path / "cache")
    assert run(package, NUMBA_CACHE_DIR=cache).stdout.strip() == "2"
    hashing = package / "catchment/kernel/hashing.py"
    changed = re.sub(r"return .* \* width.* >> _S32", "return width - width", hashing.read_text())
    assert changed != hashing.read_text()
    hashing.write_text(changed)
    assert run(package, NUMBA_CACHE_DIR=cache).stdout.strip() == "3"
