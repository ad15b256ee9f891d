"""Folders of a real coordinator and two real sites, stopped half-way, for every later version to go on with.

`python -m tests.golden.folders` made `folders-v1.tar.gz`, with processes on loopback. It is never made again. One site
has read its file to the end and has left; the other was told to stop, and its file goes on.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["LEFT", "LINES", "SITES", "STAYED", "TARGET", "lines_of", "main", "settings"]

TARGET = Path(__file__).with_name("folders-v1.tar.gz")
STAYED, LEFT = SITES = ("north", "south")
LINES = 600
"""In each file, when the folders were made."""
_WITHIN = 300.0

_WATCHES = """
[[watch]]
name = "all"
quantity = "total"

[[watch]]
name = "skew"
quantity = "self_join"
theta = 0.6
epsilon = 0.4
delta = 0.2

[[watch]]
name = "recent"
quantity = "total"
theta = 0.4
epsilon = 0.2
window = "300 seconds"
threshold = 10

[[watch]]
name = "pages"
quantity = "items"
threshold = 100
theta = 0.2

[[watch]]
name = "heavy"
quantity = "heavy_hitters"
phi = 0.2
epsilon = 0.3
delta = 0.3
"""


def settings(folder: Path, *, port: int = 7000, follow: bool = False) -> None:
    """The files of settings, beside the folders."""
    development = "development = true"
    (folder / "coordinator.toml").write_text(
        f'[coordinator]\nlisten = "127.0.0.1:{port}"\nsites = {json.dumps(SITES)}\nstate = "coordinator"\n'
        f"{development}\n{_WATCHES}"
    )
    for site in SITES:
        waits = "follow = true\n" if follow and site == STAYED else ""
        (folder / f"{site}.toml").write_text(
            f'[site]\nname = "{site}"\ncoordinator = "127.0.0.1:{port}"\nstate = "{site}"\n{development}\n'
            f'[source]\nformat = "csv"\npath = "{site}.csv"\nkey = "url"\ntime = "at"\n{waits}{_WATCHES}'
        )


def lines_of(site: str, start: int, stop: int) -> list[tuple[str, int]]:
    """Events of a site: pages and times, some pages much more often than others."""
    step = 3 + SITES.index(site)
    return [(f"/page/{60 // (1 + (step * place) % 61)}", place) for place in range(start, stop)]


def append(folder: Path, site: str, start: int, stop: int) -> None:
    """Write lines into a site's file."""
    file = folder / f"{site}.csv"
    if not file.exists():
        file.write_text("url,at\n")
    with file.open("a") as out:
        out.writelines(f"{page},{at}\n" for page, at in lines_of(site, start, stop))


def main() -> None:
    if TARGET.exists():
        raise SystemExit(f"{TARGET.name} exists: golden files are never changed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            settings(folder, port=free.getsockname()[1], follow=True)
        _run(folder)
        with tarfile.open(TARGET, "w:gz") as archive:
            for part in ("coordinator", *SITES, f"{STAYED}.csv"):
                archive.add(folder / part, arcname=part, filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nothing about who made it; locks are of running processes."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return None if info.name.endswith("/lock") else info


def _run(folder: Path) -> None:
    append(folder, STAYED, 0, LINES // 2)
    append(folder, LEFT, 0, LINES)
    coordinator = _start("coordinator", "--every", "0.2", str(folder / "coordinator.toml"))
    more = ("--heartbeat", "0.5", "--keep", "100")
    leaves = _start("site", "--once", *more, str(folder / f"{LEFT}.toml"))
    stays = _start("site", *more, str(folder / f"{STAYED}.toml"))
    try:
        _await(folder, LINES // 2)
        leaves.wait(_WITHIN)
        append(folder, STAYED, LINES // 2, LINES)
        _await(folder, LINES)
    finally:
        for process in (stays, coordinator):
            process.send_signal(signal.SIGTERM)
            process.wait(_WITHIN)
        leaves.kill()


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "catchment.app", *arguments])


def _await(folder: Path, lines: int) -> None:
    """Until every claim is about so many lines of the site that stays, and all of the one that leaves."""
    _until(lambda: _cuts(folder) == [{STAYED: lines, LEFT: LINES}])


def _cuts(folder: Path) -> list[Any]:
    file = folder / "coordinator" / "claims.json"
    claims = json.loads(file.read_text()) if file.exists() else {}
    found: list[Any] = []
    for claim in claims.values():
        cut = None if claim is None or LEFT not in claim["left"] else {site: at[0] for site, at in claim["cut"].items()}
        found += [] if cut in found else [cut]
    return found


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + _WITHIN
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the processes took too long")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
