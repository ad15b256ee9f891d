"""Real Spark Connect servers for tests: started once in a worker, reused by every module, stopped when it ends."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.federation.cloud import Errand, Purpose
from catchment.federation.ledger import Ledger
from catchment.federation.settings import CloudSettings
from catchment.spark.cloud import ConnectCloud
from catchment.spark.connect_server import RunningServer, ServerSettings, launch, running, stop, wait_until_listening

NAMES = ("berlin", "lyon", "porto")
SECONDS = 300.0
"""How long things may take on a machine that does many others."""

_folder: list[Path] = []


@contextmanager
def running_clouds(number: int = 2) -> Iterator[dict[str, CloudSettings]]:
    """Clouds without any table, by their names: address and token. A server that died is started anew.

    `Federation(ConnectCloud(each) for each in clouds.values())` asks them all.
    """
    names = NAMES[:number]
    for name in names:
        if running(_place() / name) is None:
            shutil.rmtree(_place() / name / "warehouse", ignore_errors=True)  # files of tables that died with a server
        launch(server_settings(name))
    servers = {name: wait_until_listening(_place() / name, SECONDS) for name in names}
    clouds = {name: settings_of(server) for name, server in servers.items()}
    for settings in clouds.values():
        _clear(settings)
    try:
        yield clouds
    finally:
        for name in dead(names):  # a test has killed it, or it died: then this is why
            log = (_place() / name / "server.log").read_text(errors="replace")
            print(f"{name} does not run:", *log.splitlines()[-40:], sep="\n")


def dead(names: Iterable[str]) -> list[str]:
    """Those whose servers do not run."""
    return [name for name in names if running(_place() / name) is None]


def server_settings(name: str) -> ServerSettings:
    # One core each: two or three share a small machine with the tests. They live for minutes: what helps is a quick
    # start, without a catalogue on disk, and without the compiler that makes code faster later (half the work).
    java = ("-XX:TieredStopAtLevel=1",)
    return ServerSettings(name, _place() / name, heap="1g", cores=1, keeps_tables=False, java=java)


def settings_of(server: RunningServer) -> CloudSettings:
    return CloudSettings(server.name, "localhost", server.port, "here", token=server.token, deadline=SECONDS)


def errand(query: str = "q", purpose: Purpose = Purpose.RESULT, ledger: Ledger | None = None) -> Errand:
    return Errand(query, purpose, Ledger() if ledger is None else ledger)


def kill(name: str) -> None:
    """End the server of a cloud as a crash does, and wait until it is gone."""
    server = running(_place() / name)
    assert server is not None, f"{name} does not run"
    os.kill(server.pid, signal.SIGKILL)
    while running(_place() / name) is not None:
        time.sleep(0.01)


def busy_threads(name: str) -> int:
    """How many threads of a cloud's server work on a task: Spark calls them so, and Linux keeps fifteen letters."""
    server = running(_place() / name)
    assert server is not None, f"{name} does not run"
    names = [file.read_text() for file in Path(f"/proc/{server.pid}/task").glob("*/comm") if file.exists()]
    return sum(name.startswith("Executor task l") for name in names)


def _place() -> Path:
    if not _folder:
        _folder.append(Path(tempfile.mkdtemp(prefix="catchment-clouds-")))
        atexit.register(_stop_all)
    return _folder[0]


def _stop_all() -> None:
    for name in NAMES:
        stop(_folder[0] / name)
    shutil.rmtree(_folder[0], ignore_errors=True)


def _clear(settings: CloudSettings) -> None:
    with ConnectCloud(settings) as cloud:
        spark = cloud.session()
        for database in spark.catalog.listDatabases():
            for table in spark.catalog.listTables(database.name):
                if not table.isTemporary:
                    kind = "VIEW" if table.tableType == "VIEW" else "TABLE"
                    spark.sql(f"DROP {kind} IF EXISTS `{database.name}`.`{table.name}`")
            if database.name != "default":
                spark.sql(f"DROP DATABASE IF EXISTS `{database.name}` CASCADE")
