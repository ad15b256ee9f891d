"""Spark Connect servers on this machine, as processes of their own: real micro-clouds for trials, tests and a laptop.

    server = start(ServerSettings("paris", folder / "paris"))
    server.port, server.token
    stop(folder / "paris")

A server listens on the loopback address alone and wants a token. Everything of it lives in its folder: the settings
with the token (readable by its owner only), the tables with their catalogue, the log, and who it is while it runs. So
another process can find it and stop it, and tables are there again after the next start.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from catchment.errors import ParameterError, UnreachableError
from catchment.spark.java import java_home
from catchment.spark.session import settings as recommended

__all__ = ["RunningServer", "ServerSettings", "launch", "running", "start", "stop", "wait_until_listening"]

START_SECONDS = 180.0
"""How long a server may take to listen: five seconds on an idle machine, a minute on one that starts many."""
_STOP_SECONDS = 15.0
_LOOKS = 100
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_HOME")
_LOG_SETTINGS = Path(__file__).with_name("connect_log4j2.properties")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server is given. `keeps_tables` false leaves out the catalogue on disk: quicker to start, for tests."""

    name: str
    folder: Path
    heap: str = "1g"
    cores: int = 2
    keeps_tables: bool = True
    java: tuple[str, ...] = ()
    """Further options of Java."""
    more: dict[str, str] = field(default_factory=dict)
    """Further Spark settings; they stand over all others."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[1-9]\d*[mg]", self.heap):
            raise ParameterError(f"heap={self.heap!r}", "give megabytes or gigabytes, such as 768m or 2g")
        if self.cores < 1:
            raise ParameterError(f"cores={self.cores}", "give at least 1")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that listens on the loopback address."""

    name: str
    folder: Path
    pid: int
    group: int
    """The process group, which has the Python workers of the server as well."""
    port: int
    token: str = field(repr=False)

    @property
    def log(self) -> Path:
        return _log(self.folder)


def start(settings: ServerSettings, seconds: float = START_SECONDS) -> RunningServer:
    """Start a server and wait until it listens; one that runs in this folder already is left as it is.

    Raises
    ------
    UnreachableError
        It ended, or did not listen in time; the last lines of its log are in the message, and nothing keeps running.
    """
    launch(settings)
    return wait_until_listening(settings.folder, seconds)


def launch(settings: ServerSettings) -> None:
    """Start a server and do not wait, unless one runs in its folder."""
    folder = settings.folder
    if running(folder) is not None or _alive(_record(folder), folder):
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    last = _record(folder).get("port", 0)
    token = _token(folder)
    _write_private(folder / "server.properties", _properties(settings, token, last))
    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
    environment |= {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    # A Connect server takes the Python of functions from here, and not from `spark.pyspark.python`.
    environment["PYSPARK_PYTHON"] = settings.more.get("spark.pyspark.python", sys.executable)
    submit = str(home / "bin" / "spark-submit")
    command = [submit, "--class", _CLASS, "--properties-file", str(folder / "server.properties"), "spark-internal"]
    _log(folder).write_bytes(b"")
    # The shell ends at once, so that the server is nobody's child: it outlives us, and leaves no corpse when it dies.
    # It is alone in a new session; the shell's process id is the group's, by which Python workers are found too.
    told = subprocess.run(
        ["sh", "-c", '"$@" < /dev/null > "$0" 2>&1 & echo $! $$', str(_log(folder)), *command],
        check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder, start_new_session=True,
    )  # fmt: skip
    pid, group = (int(number) for number in told.stdout.split())
    _write_private(_record_file(folder), json.dumps({"pid": pid, "group": group, "port": last, "name": settings.name}))


def wait_until_listening(folder: Path, seconds: float = START_SECONDS) -> RunningServer:
    """The server of a folder, which was launched, as soon as it listens; errors as in `start`."""
    deadline = time.monotonic() + seconds
    while True:
        found = running(folder)
        if found is not None:
            return found
        alive = _alive(_record(folder), folder)
        if not alive or time.monotonic() > deadline:
            how = "does not listen in time" if alive else "ended"
            said = " | ".join(_log(folder).read_text(errors="replace").splitlines()[-4:])
            stop(folder)
            raise UnreachableError(
                f"the Spark Connect server in {folder} {how} ({said})", f"read {_log(folder)}, or give it more time"
            )
        time.sleep(0.1)


def running(folder: Path) -> RunningServer | None:
    """The server that listens for a folder, if there is one."""
    record = _record(folder)
    if not _alive(record, folder):
        return None
    listens = re.search(r"Spark Connect server started at: \S*:(\d+)", _log(folder).read_text(errors="replace"))
    if listens is None:
        return None
    if record["port"] != int(listens[1]):
        record["port"] = int(listens[1])
        _write_private(_record_file(folder), json.dumps(record))
    return RunningServer(record["name"], folder, record["pid"], record["group"], record["port"], _token(folder))


def stop(folder: Path, seconds: float = _STOP_SECONDS) -> bool:
    """Stop the server of a folder with all its workers, and only that; says whether one ran."""
    record = _record(folder)
    ran = _alive(record, folder)
    if ran:
        os.kill(record["pid"], signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while _alive(record, folder) and time.monotonic() < deadline:
            time.sleep(0.05)
        # What is left of its group: a server that does not end, or Python workers that it started.
        with suppress(ProcessLookupError, PermissionError):  # nobody is left, as it should be
            os.killpg(record["group"], signal.SIGKILL)
        while _alive(record, folder) and time.monotonic() < deadline + seconds:
            time.sleep(0.05)
    return ran


def _properties(settings: ServerSettings, token: str, port: int) -> str:
    folder = settings.folder.absolute()
    java = [
        "-XX:+UseParallelGC",
        # Servers share a machine: the collector's and the compiler's threads are no more than the cores given.
        f"-XX:ParallelGCThreads={settings.cores}",
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        *settings.java,
    ]
    values = recommended(
        **{
            "spark.master": f"local[{settings.cores}]",
            "spark.app.name": f"catchment cloud {settings.name}",
            "spark.driver.memory": settings.heap,
            "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in java),
            "spark.sql.shuffle.partitions": str(settings.cores),
            "spark.cleaner.periodicGC.interval": "5min",  # blocks of views that are gone are dropped then
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            "spark.local.dir": str(folder / "scratch"),
            # Tables are on the local disk, where Hadoop starts a thread for each range of bytes of a vectored read: for
            # the pages of an index that is more work than anything else.
            "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            # The port of last time if it is still free, so that who held the address finds the server again.
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.port.maxRetries": "32",
            "spark.connect.authenticate.token": token,
            "spark.pyspark.python": sys.executable,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
            **(_catalogue(folder) if settings.keeps_tables else {}),
            **settings.more,
        }
    )
    return "".join(f"{name} {_escaped(value)}\n" for name, value in values.items())


def _catalogue(folder: Path) -> dict[str, str]:
    """Hive's catalogue in Derby, both part of PySpark: the one way in there that keeps tables over a restart."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'catalogue'};create=true",
    }


def _escaped(value: str) -> str:
    """A value as a file of Java properties has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _log(folder: Path) -> Path:
    return folder / "server.log"


def _record_file(folder: Path) -> Path:
    return folder / "server.json"


def _record(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(_record_file(folder).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _alive(record: dict[str, Any], folder: Path) -> bool:
    """Whether the process is there and is ours: ids are used again, but nobody else's command names this file."""
    if "pid" not in record:
        return False
    return str(folder / "server.properties") in _command_of(record["pid"])


def _command_of(pid: int) -> str:
    """The command of a process, empty if there is none or it is dead and only not yet buried."""
    if Path("/proc/self/cmdline").exists():
        return _command_in_proc(Path("/proc") / str(pid))
    told = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout


def _command_in_proc(process: Path) -> str:
    # Spark's scripts become one program after the other; in that moment a process that lives has no command to show.
    for _ in range(_LOOKS):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            dead = (process / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
        except OSError:
            return ""
        if command or dead:
            return command
        time.sleep(0.02)
    return ""


def _token(folder: Path) -> str:
    """The token of a folder's server; made at its first start."""
    file = folder / "token"
    if not file.exists():
        _write_private(file, secrets.token_urlsafe(32))
    return file.read_text().strip()


def _write_private(file: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner only."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
