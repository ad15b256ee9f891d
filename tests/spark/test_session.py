"""The session has the settings that catchment recommends, and says soon what is wrong."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from catchment.errors import ParameterError, UnreachableError
from catchment.spark import session as module
from catchment.spark.session import session, settings
from catchment.spark.ship import together

pytestmark = pytest.mark.spark


def test_the_running_session_has_the_settings(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    ours = {name: value for name, value in settings().items() if name != "spark.driver.extraJavaOptions"}
    assert {name: conf.get(name) for name in ours} == ours
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.pythonExec == sys.executable


def test_more_stands_over_the_recommended_and_becomes_text() -> None:
    chosen = settings(**{"spark.ui.enabled": True, "spark.executor.cores": 3})
    assert (chosen["spark.ui.enabled"], chosen["spark.executor.cores"]) == ("true", "3")


def test_a_cluster_gets_neither_this_python_nor_the_loopback_address() -> None:
    chosen = settings(**{"spark.master": "spark://head:7077"})
    assert chosen["spark.pyspark.python"] == f"python3.{sys.version_info.minor}"
    assert "spark.driver.host" not in chosen
    assert "spark.driver.host" in settings(**{"spark.master": "spark://127.0.0.1:7077"})


def test_the_same_master_gives_the_running_session(spark: Any) -> None:
    assert session("local[2]").sparkContext is spark.sparkContext


def test_another_master_is_refused_while_a_session_runs(spark: Any) -> None:
    with pytest.raises(ParameterError, match=r"session on 'local\[2\]': stop\(\) that session first"):
        session("spark://127.0.0.1:7077")
    assert spark.range(3).count() == 3


@pytest.mark.usefixtures("spark")
def test_a_master_that_does_not_answer_is_told_in_time() -> None:
    """The knock itself, in the JVM that is there: a whole session on another master is refused above."""
    start = time.monotonic()
    with pytest.raises(UnreachableError, match=r"spark://127\.0\.0\.1:9 does not take .*refused.*: check the address"):
        module._knock("spark://127.0.0.1:9", {})
    assert time.monotonic() - start < module.CONNECT_SECONDS


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://head:7077", [("head", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("k8s://https://api.cluster:6443", [("api.cluster", 6443)]),
        ("k8s://api.cluster", [("api.cluster", 443)]),
        ("k8s://http://127.0.0.1/path", [("127.0.0.1", 80)]),
        ("yarn", []),
        ("local[2]", []),
    ],
)
def test_where_a_master_listens(master: str, addresses: list[tuple[str, int]]) -> None:
    assert module._addresses(master) == addresses


def test_shipped_paths_and_the_users_are_joined() -> None:
    shipped = {"spark.archives": "a#code", "spark.executorEnv.PYTHONPATH": "code"}
    both = together(shipped, {"spark.archives": "mine#more", "spark.executor.cores": 2})
    assert both == {**shipped, "spark.archives": "a#code,mine#more", "spark.executor.cores": 2}
