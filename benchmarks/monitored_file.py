"""A site as a process of its own that reads a file while it is monitored: events a second.

`catchment site --once` beside `catchment coordinator`, both as users start them, over the loopback. Two files, one five
times as long as the other: what the longer one takes more is the price of events, without that of the start. Time is
that of the site's process and all its threads, so what else the machine does is not in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from experiments.monitor_streams import WEB, draw

__all__ = ["events_a_second"]

TIMES = 5
WATCH = '[[watch]]\nname = "skew"\nquantity = "self_join"\ntheta = 0.1\nepsilon = 0.02\ndelta = 0.0078125\n'


def events_a_second(events: int) -> float:
    """Events a second of the processor, from CSV with a text and a time in each line."""
    folder = Path(tempfile.mkdtemp(prefix="catchment-bench-"))
    try:
        _processor_seconds(folder / "first", 1000)  # not counted: it may have kernels to compile
        few, many = (_processor_seconds(folder / f"{count}", count) for count in (events, TIMES * events))
        return (TIMES - 1) * events / (many - few)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _processor_seconds(folder: Path, events: int) -> float:
    folder.mkdir()
    keys = draw(WEB, events, 1).keys
    times = 900_000_000 + np.arange(events) // 1000
    with (folder / "events.csv").open("w") as file:
        file.write("url,at\n")
        file.writelines(f"/page/{key},{at}\n" for key, at in zip(keys.tolist(), times.tolist(), strict=True))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "coordinator.toml").write_text(
        f'[coordinator]\nlisten = "127.0.0.1:{port}"\nsites = ["one"]\nstate = "coordinator"\n'
        f"development = true\n{WATCH}"
    )
    (folder / "site.toml").write_text(
        f'[site]\nname = "one"\ncoordinator = "127.0.0.1:{port}"\nstate = "one"\ndevelopment = true\n'
        f'[source]\nformat = "csv"\npath = "events.csv"\nkey = "url"\ntime = "at"\n{WATCH}'
    )
    coordinator = _start(folder, "coordinator")
    try:
        site = _start(folder, "site", "--once")
        _, status, used = os.wait4(site.pid, 0)
        site.returncode = os.waitstatus_to_exitcode(status)
        if site.returncode:
            raise RuntimeError((folder / "site.log").read_text()[-2000:])
        return used.ru_utime + used.ru_stime
    finally:
        coordinator.send_signal(signal.SIGTERM)
        coordinator.wait(60)


def _start(folder: Path, role: str, *more: str) -> subprocess.Popen[bytes]:
    with (folder / f"{role}.log").open("wb") as log:
        command = [sys.executable, "-m", "catchment.app", role, *more, str(folder / f"{role}.toml")]
        return subprocess.Popen(command, stdout=log, stderr=log)
