"""Where Spark's own words go: into a file for programs of ours, and where a user's own program has them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from catchment.errors import ParameterError, UnreachableError
from catchment.spark import logs
from catchment.spark.logs import KEPT, ProgramLog, hush, program_log, see_log, spark_failure
from catchment.spark.session import settings

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
BAR = re.compile(r" *\d+% .+")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, and no file that the environment names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    return tmp_path / "cache" / "catchment"


def catchment(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catchment.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | environment)


# -- which file -----------------------------------------------------------------------------------------------


def test_a_program_has_a_file_of_its_own_and_a_pipeline_one_beside_its_output(cache: Path) -> None:
    of_its_own = program_log("demo").path
    assert of_its_own is not None
    assert of_its_own.parent == cache / "logs"
    assert re.fullmatch(rf"demo-\d{{8}}-\d{{6}}-{os.getpid()}\.log", of_its_own.name)
    assert (cache / "logs").stat().st_mode & 0o077 == 0, "others may not read it"
    assert program_log("run", Path("out")) == ProgramLog(Path("out").absolute() / "spark.log")


@pytest.mark.usefixtures("cache")
def test_the_environment_names_another_file_or_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(logs.VARIABLE, "mine.log")
    assert program_log("run", tmp_path) == ProgramLog(Path("mine.log").absolute())
    monkeypatch.setenv(logs.VARIABLE, "-")
    assert (program_log("run", tmp_path).path, str(program_log("demo"))) == (None, "the terminal")


def test_old_files_make_room_and_those_of_running_programs_and_of_others_stay(cache: Path) -> None:
    place = cache / "logs"
    place.mkdir(parents=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old = [place / f"bench-a-b-20260101-0000{n:02}-{ended.pid}.log" for n in range(KEPT + 3)]
    running, other = place / f"demo-20250101-000000-{os.getpid()}.log", place / "notes.log"
    for file in (*old, running, other, place / f"{old[0].name}.1"):
        file.touch()
    program_log("demo")
    assert set(place.iterdir()) == {*old[4:], running, other}


def test_without_a_cache_folder_there_is_a_file_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = program_log("demo").path
    assert path is not None
    assert path.parent.parent == tmp_path
    path.touch()


def test_a_large_file_is_emptied_under_its_writers_and_its_end_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LIMIT", 10)
    path = tmp_path / "spark.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"0123456789")
        logs._empty_if_large(path)
        assert path.read_bytes() == b"0123456789"
        writer.write(b"ab")
        logs._empty_if_large(path)
        writer.write(b"new")
    assert (path.read_bytes(), (tmp_path / "spark.log.1").read_bytes()) == (b"new", b"23456789ab")


def test_a_file_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match=r"cannot be written to .*/file/spark.log .*CATCHMENT_SPARK_LOG to a file"):
        logs._launch_into(tmp_path / "file" / "spark.log", pyspark.SparkConf(loadDefaults=False))


# -- what PySpark says in this process ------------------------------------------------------------------------


def test_pyspark_in_this_process_speaks_into_the_file_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spark.log"
    loggers = [PySparkLogger.getLogger(name) for name in logs._CHATTY]
    before = [list(logger.handlers) for logger in loggers]
    for logger in loggers:  # a Spark Connect session of ours has silenced them, if this process had one
        monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: print(f"shown: {message}"))
    hush(ProgramLog(None))
    assert [logger.handlers for logger in loggers] == before, "on the terminal everything is as it was"
    try:
        hush(ProgramLog(path))
        assert not path.exists(), "nothing was said"
        loggers[1].error("a query failed", errorClass="DIVIDE_BY_ZERO")
        warnings.showwarning("of Spark", UserWarning, f"{pyspark.__path__[0]}/sql/session.py", 1)
        warnings.showwarning("of somebody", UserWarning, __file__, 1)
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            for handler in set(logger.handlers) - set(handlers):
                handler.close()
            logger.handlers[:] = handlers
    assert capsys.readouterr() == ("shown: of somebody\n", "")
    assert "DIVIDE_BY_ZERO" in path.read_text()
    assert "UserWarning: of Spark" in path.read_text()


def test_a_failure_of_sparks_is_one_line_and_its_traceback_is_in_the_file(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PySparkException) as failed:
        spark.sql("SELECT nothing FROM nowhere").collect()
    monkeypatch.setattr(logs, "_named", [])
    assert (spark_failure(failed.value), see_log()) == (None, "")
    path = tmp_path / "spark.log"
    monkeypatch.setattr(logs, "_named", [ProgramLog(path)])
    told = spark_failure(failed.value)
    assert told is not None
    assert re.fullmatch(rf"Spark failed \(.*nowhere.*\); Spark's own words are in {path}", told)
    assert "Traceback (most recent call last)" in path.read_text()
    assert spark_failure(ConnectionRefusedError()) == f"Spark's process has ended; Spark's own words are in {path}"
    assert spark_failure(UnreachableError("a master", "start it")) is None, "an error of ours says all there is to say"
    assert spark_failure(ValueError("a mistake")) is None


# -- programs -------------------------------------------------------------------------------------------------


def test_java_that_does_not_start_is_one_line_that_names_the_log(tmp_path: Path) -> None:
    assert catchment("pipeline", "init", tmp_path / "p.toml").returncode == 0
    text = (tmp_path / "p.toml").read_text() + '"spark.driver.memory" = "much"\n'
    (tmp_path / "p.toml").write_text(text)
    said = catchment("run", tmp_path / "p.toml")
    log = tmp_path / "out" / "spark.log"
    assert (said.returncode, said.stdout) == (2, "")
    first, second = said.stderr.splitlines()
    assert first == f"views: starting Spark; what it says goes to {log}"
    why = "Invalid maximum heap size: -Xmxmuch"
    assert second == f"error: Spark's Java does not start ({why}): mend what it says; Spark's own words are in {log}"
    assert log.read_text().startswith(why)


OF_A_USER = """
import sys
from catchment.spark.session import session
def speak(batches):
    print("a worker speaks", file=sys.stderr, flush=True)
    yield from batches
spark = session("local[1]")
print(spark.range(3).mapInArrow(speak, "id BIGINT").count())
spark._jvm.System.out.println("the JVM speaks")
spark._jvm.org.slf4j.LoggerFactory.getLogger("mine").info("as I told log4j")
"""


@pytest.mark.long("crashes")
def test_a_users_own_session_speaks_where_the_user_does(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = error\nrootLogger.appenderRef.one.ref = one\nappender.one.type = Console\n"
        "appender.one.name = one\nappender.one.target = SYSTEM_ERR\nappender.one.layout.type = PatternLayout\n"
        "appender.one.layout.pattern = %c: %m%n\nlogger.mine.name = mine\nlogger.mine.level = info\n"
    )
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", OF_A_USER], capture_output=True, text=True, env=environment, check=True
    )
    assert said.stdout.splitlines() == ["3", "the JVM speaks"]
    assert "a worker speaks\n" in said.stderr
    assert "mine: as I told log4j\n" in said.stderr
    assert not (cache / "logs").exists()


def test_a_log4j_file_of_the_user_stands_over_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "log4j2.properties.template").touch()
    assert "log4j2.configurationFile" in settings()["spark.driver.extraJavaOptions"]
    (tmp_path / "log4j2.properties").touch()
    assert settings()["spark.driver.extraJavaOptions"] == "-XX:+UseParallelGC"


@pytest.mark.long("crashes")
def test_the_demo_prints_its_own_lines_only(cache: Path) -> None:
    said = catchment("demo", "--events", "600000")
    assert (said.returncode, said.stderr) == (0, "")
    first, *lines = said.stdout.splitlines()
    assert first == "starting Spark, and a pipeline of eight sites on it"
    ours = (
        r" *[\d,]+ events; first is .*|The last hour's top 10 .*|[┏┡└┃│].*|[\d,]+ events at 8 sites; .*|"
        r"\d+ of \d+ answers .*|"
    )
    assert [line for line in lines if not re.fullmatch(ours, line)] == []
    (log,) = (cache / "logs").iterdir()
    assert "Starting Streaming TransformWithStateInPandas Python worker." in log.read_text()


@pytest.mark.long("crashes")
def test_a_benchmark_prints_its_own_lines_only(cache: Path) -> None:
    said = catchment("bench", "spark", "--quick")
    assert said.returncode == 0, said.stderr
    assert [line for line in said.stderr.splitlines() if not BAR.fullmatch(line)] == []
    assert said.stdout.startswith("Sketches on Spark, two cores")
    (log,) = (cache / "logs").iterdir()
    assert re.search(r"^\S+ \S+ ERROR \w+: ", log.read_text(), re.MULTILINE), "queries that were stopped"


@pytest.mark.long("crashes")
@pytest.mark.usefixtures("cache")
def test_all_of_it_is_on_the_terminal_when_that_is_asked_for() -> None:
    said = catchment("demo", "--events", "600000", **{logs.VARIABLE: "-"})
    assert said.returncode == 0
    assert "Starting Streaming TransformWithStateInPandas Python worker." in said.stdout + said.stderr
