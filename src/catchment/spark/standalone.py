"""A real Spark cluster on this machine, for tests and trials: a master and workers as processes of their own.

    with standalone(workers=2) as cluster:
        spark = session(cluster.master, config={"spark.pyspark.python": "/usr/bin/python3.11"})

Unlike `local[2]`, executors are other processes that get everything through Spark: what works here works on a cluster.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from catchment.errors import UnreachableError
from catchment.spark.java import java_home

__all__ = ["Cluster", "standalone"]

_STOP_SECONDS = 10
_NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "SPARK_CONF_DIR")


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs: `master` is its address for a session, `folder` holds the logs and the workers' folders."""

    master: str
    folder: Path
    workers: tuple[int, ...]
    """The workers' process ids."""

    def log(self, name: str) -> str:
        """What a process has said so far: `"master"`, `"worker 0"`, …"""
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextmanager
def standalone(workers: int = 2, cores: int = 1, memory: str = "1g", seconds: float = 60) -> Iterator[Cluster]:
    """Start a master and `workers` workers on free ports of the loopback address; stop them at the end, come what may.

    Parameters
    ----------
    workers, cores, memory
        How many workers, and what each offers to executors.
    seconds
        How long the start may take before it is an `UnreachableError` with the last lines of the log.
    """
    started: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="catchment-cluster-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            started.append(_start(folder, "master", "master.Master", "--port", "0"))
            master = _wait_for(folder, "master", r"Starting Spark master at (spark://\S+)", started[0], deadline)
            offer = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"), master]
            started += [_start(folder, f"worker {n}", "worker.Worker", *offer) for n in range(workers)]
            for n, worker in enumerate(started[1:]):
                _wait_for(folder, f"worker {n}", r"(Successfully registered) with master", worker, deadline)
            yield Cluster(master, folder, tuple(worker.pid for worker in started[1:]))
        finally:
            _stop(started[::-1])


def _start(folder: Path, name: str, role: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
    environment |= {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # they live for minutes and do little
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
    with (folder / f"{name}.log").open("wb") as log:
        # A session of its own: the executors that a worker starts are stopped together with it.
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True,
        )  # fmt: skip


def _wait_for(folder: Path, name: str, pattern: str, process: subprocess.Popen[bytes], deadline: float) -> str:
    while True:
        said = (folder / f"{name}.log").read_text(errors="replace")
        found = re.search(pattern, said)
        if found:
            return found[1]
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            how = f"ended with {process.returncode}" if ended else "did not come up in time"
            last = " | ".join(said.splitlines()[-3:])
            raise UnreachableError(f"the {name} of the cluster {how} ({last})", "read its log, or give it more seconds")
        time.sleep(0.05)


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Ask all of them, workers first, which stop their executors; then end the groups of those that stay."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # nobody is left, as it should be
