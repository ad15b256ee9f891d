"""Processes killed with SIGKILL at random moments, again and again: in the end every event counts once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from catchment.net.disk import Disk
from catchment.sketch.keys import hash_keys
from tests.net.loop import free_port
from tests.net.toy import ToyCoordinator, ToySite, events_of

EVENTS = 300_000


def start(role: str, file: Path, *more: str) -> subprocess.Popen[bytes]:
    log = file.with_suffix(".log").open("ab")
    with log:
        return subprocess.Popen([sys.executable, "-m", "tests.net.toy", role, str(file), *more], stdout=log, stderr=log)


def kill(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_sites_and_coordinator_killed_at_random_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    port = free_port()
    coordinator_file, site_file = tmp_path / "coordinator.toml", tmp_path / "site.toml"
    coordinator_file.write_text(
        f'[coordinator]\nlisten = "127.0.0.1:{port}"\nsites = ["a"]\nstate = "coordinator"\ndevelopment = true\n'
    )
    site_file.write_text(
        f'[site]\nname = "a"\ncoordinator = "127.0.0.1:{port}"\nstate = "a"\ndevelopment = true\n'
        '[source]\nformat = "csv"\npath = "events.csv"\nkey = "k"\nbatch = 500\n'
    )
    keys = [f"key {n % 5003}" for n in range(EVENTS)]
    lines = [f'bad,"{n}' if n % 1009 == 0 else f"{key},{n}" for n, key in enumerate(keys)]
    (tmp_path / "events.csv").write_text("k,n\n" + "\n".join(lines) + "\n")
    good = [key for n, key in enumerate(keys) if n % 1009]
    truth = len(good), int(hash_keys(good)[0].sum()) % 2**64
    random = np.random.default_rng(11)

    def position() -> int:
        """How far the site is, by the newest blob that it has left; it may be replaced while we look."""
        for file in sorted((tmp_path / "a").glob("state-*.blob"), reverse=True):
            try:
                return int(np.frombuffer(file.read_bytes()[-24:], dtype=np.uint64)[1])
            except (OSError, ValueError, IndexError):
                continue
        return 0

    coordinator = start("coordinator", coordinator_file)
    lives = 0
    try:
        for _ in range(3):
            before = position()
            site = start("site", site_file, str(len(good)))
            end = time.monotonic() + 300
            while position() < before + 5_000 and site.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(float(random.uniform(0, 0.2)))
            if site.poll() is not None:
                break
            kill(site)
            lives += 1
            if lives == 2:
                kill(coordinator)
                coordinator = start("coordinator", coordinator_file)
        site = start("site", site_file, str(len(good)))
        assert site.wait(600) == 0, site_file.with_suffix(".log").read_text()[-3000:]
    finally:
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(120) == 0
    assert lives >= 3
    with Disk(tmp_path / "a") as disk:
        machine = ToySite(disk.read())
        assert (machine.position, machine.digest) == truth
        assert machine.incarnation == lives + 2
    with Disk(tmp_path / "coordinator") as disk:
        assert events_of(ToyCoordinator(disk.read()), "a") == truth


def test_a_machine_that_fails_gives_another_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(
        f'[site]\nname = "a"\ncoordinator = "127.0.0.1:{free_port()}"\nstate = "a"\ndevelopment = true\n'
        '[source]\nformat = "csv"\npath = "events.csv"\nkey = "k"\n'
    )
    (tmp_path / "events.csv").write_text("k\nx\n")
    with Disk(tmp_path / "a") as disk:
        disk.write([])
    (tmp_path / "a" / "state-0000000000000001.blob").write_bytes(b"torn")
    assert start("site", file, "1").wait(300) == 1
    assert "the disk has lost it" in file.with_suffix(".log").read_text()


def test_a_signal_ends_a_site_cleanly(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(
        f'[site]\nname = "a"\ncoordinator = "127.0.0.1:{free_port()}"\nstate = "a"\ndevelopment = true\n'
        '[source]\nformat = "csv"\npath = "events.csv"\nkey = "k"\nfollow = true\n'
    )
    (tmp_path / "events.csv").write_text("k\nx\n")
    site = start("site", file, "1")
    end = time.monotonic() + 300
    while not list((tmp_path / "a").glob("state-*.blob")) and time.monotonic() < end:
        time.sleep(0.05)
    site.send_signal(signal.SIGINT)
    assert site.wait(120) == 0, file.with_suffix(".log").read_text()
