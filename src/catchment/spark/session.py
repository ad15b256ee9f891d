"""A Spark session that suits sketches: Java found, settings measured, errors that come soon and say the cure.

    from catchment.spark.session import session
    spark = session()                                # this machine, two cores
    spark = session("spark://head:7077")             # a cluster: the package is shipped to its executors

Everything here is ordinary Spark configuration. Who builds a session elsewhere takes `settings()` and, for executors
that have nothing installed, `catchment.spark.ship.ship(master)`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catchment.errors import ParameterError, UnreachableError
from catchment.spark.java import java_home
from catchment.spark.logs import ProgramLog, start_java
from catchment.spark.ship import is_local, ship, together

__all__ = ["session", "settings"]

CONNECT_SECONDS = 10
"""How long a master may take to accept a connection."""

_QUIET = Path(__file__).with_name("log4j2.properties")

_EVERYWHERE = {
    # transformWithState works on this provider alone, and a changelog makes a commit as small as what changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Any smaller limit makes the JVM measure every row, which costs mapInArrow a third of its speed and more. What then
    # bounds a batch is its number of records: Arrow holds 2 GiB in a batch, which is 2,000 sketches of a megabyte.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",  # a new worker spends two seconds on imports and kernels
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Batches by the thousand are garbage at once, which suits the collector that is made for throughput.
_JAVA = "-XX:+UseParallelGC"

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def settings(**more: Any) -> dict[str, str]:
    """The Spark settings that catchment recommends, as text by name; `more` stands over them and is added.

    `settings(**{"spark.master": "spark://head:7077"})` are those for a cluster. A local master, which is the default,
    also gets two shuffle partitions, the loopback address, and this Python for its workers. Spark logs errors only,
    unless there is a `log4j2.properties` of yours in `SPARK_CONF_DIR` or in `conf` of `SPARK_HOME`.
    """
    given = {name: _text(value) for name, value in more.items()}
    master = given.setdefault("spark.master", "local[2]")
    chosen = dict(_EVERYWHERE)
    chosen["spark.driver.extraJavaOptions"] = (
        _JAVA if _logs_as_told() else f'{_JAVA} "-Dlog4j2.configurationFile={_QUIET}"'
    )
    if is_local(master):
        chosen |= {"spark.sql.shuffle.partitions": "2", "spark.pyspark.python": sys.executable}
    else:
        # The executors' own, of this release: what is shipped was compiled for it.
        chosen["spark.pyspark.python"] = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if is_local(master) or re.match(r"spark://(127\.|localhost:)", master):
        chosen |= _LOOPBACK
    return chosen | given


def session(
    master: str = "local[2]",
    app: str = "catchment",
    config: Mapping[str, Any] | None = None,
    *,
    log: ProgramLog | None = None,
) -> SparkSession:
    """A Spark session on `master`, new or the one that runs there already.

    Parameters
    ----------
    master
        `"local[n]"`, `"spark://host:port"`, `"yarn"`, `"k8s://…"`. On a cluster the package, what it needs and its
        compiled kernels are shipped to the executors (`ship`), which need a Python of this release and nothing else.
    app
        The name under which the cluster lists the session.
    config
        Further Spark settings; they stand over `settings()`. `spark.pyspark.python` names the executors' Python.
    log
        For programs: where Spark speaks, and their Ctrl-C does not reach it. Without it Spark speaks on the standard
        output and error of this process. A JVM that runs already stays as it is.

    Raises
    ------
    PackageMissingError
        There is no Java.
    UnreachableError
        The master does not answer: after ten seconds if nothing listens there, after Spark's own minute otherwise.
    ParameterError
        A session on another master runs in this process, and a process holds one.
    """
    running = SparkContext._active_spark_context
    if running is not None and running.master != master:
        raise ParameterError(
            f"master={master!r}, but this process has a session on {running.master!r}", "stop() that session first"
        )
    named = {"spark.master": master, "spark.app.name": app}
    wanted = settings(**named | dict(config or {}))
    environment = {"PYSPARK_PYTHON": wanted["spark.pyspark.python"]}
    if SparkContext._gateway is None:
        environment["JAVA_HOME"] = str(java_home())
    with _environment(environment):
        if log is not None:
            start_java(wanted, log)
        if running is None:
            _knock(master, wanted)  # before anything is packed, which takes longer
            wanted = settings(**named | together(ship(master), config or {}))
        try:
            return SparkSession.builder.config(map=dict[str, Any](wanted)).getOrCreate()
        except (Py4JError, PySparkException) as problem:
            if is_local(master):
                raise
            raise _unreachable(master, str(problem).strip().splitlines()[-1]) from problem


def _logs_as_told() -> bool:
    """Whether the user has told Spark's log what to say, in one of the places where log4j looks."""
    homes = (os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME") and os.environ["SPARK_HOME"] + "/conf")
    named = (file for home in homes if home for file in Path(home).glob("log4j2*"))
    return "LOG4J_CONFIGURATION_FILE" in os.environ or any(not file.name.endswith(".template") for file in named)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _environment(names: Mapping[str, str]) -> Iterator[None]:
    """Spark reads some settings from the environment only, once: they are put there for that long."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _knock(master: str, wanted: Mapping[str, str]) -> None:
    """Fail now if nobody listens at the master's address: Spark itself tries for a minute before it says so."""
    addresses = _addresses(master)
    if not addresses:
        return
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(wanted.items())))
    jvm: Any = SparkContext._jvm
    java = jvm.java.net
    refusals = []
    for host, port in addresses:
        line = java.Socket()
        try:
            line.connect(java.InetSocketAddress(host, port), CONNECT_SECONDS * 1000)
            return
        except Py4JError as problem:
            refusal = str(getattr(problem, "java_exception", problem)).split(": ", 1)[-1]
            refusals.append(f"{host}:{port} says {refusal}")
        finally:
            line.close()
    raise _unreachable(master, "; ".join(refusals))


def _addresses(master: str) -> list[tuple[str, int]]:
    """Where the master of a standalone cluster or of Kubernetes listens; YARN's is in Hadoop's own files."""
    kind, _, rest = master.partition("://")
    if kind == "spark":
        found = [re.fullmatch(r"\[?([^\]]+)\]?:(\d+)", address) for address in rest.split(",")]
        return [(match[1], int(match[2])) for match in found if match]
    if kind == "k8s":
        match = re.fullmatch(r"(?:(https?)://)?\[?([^\]/]+?)\]?(?::(\d+))?(?:/.*)?", rest)
        return [(match[2], int(match[3] or (80 if match[1] == "http" else 443)))] if match else []
    return []


def _unreachable(master: str, reason: str) -> UnreachableError:
    return UnreachableError(
        f"the Spark master {master} does not take this application ({reason})",
        "check the address and that the master runs this version of Spark, or use master='local[2]'",
    )
