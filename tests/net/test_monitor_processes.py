"""Five real processes on loopback: a coordinator and four sites, killed at any time, started again."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SITES = ("s0", "s1", "s2", "s3")
WATCHES = """
[[watch]]
name = "all"
quantity = "total"
rule = "centralise"

[[watch]]
name = "skew"
quantity = "self_join"
theta = 0.2
epsilon = 0.1

[[watch]]
name = "pages"
quantity = "items"
threshold = 2000
theta = 0.2

[[watch]]
name = "heavy"
quantity = "heavy_hitters"
phi = 0.1
"""
BACK_WITHIN = 60.0
"""Seconds after the last start within which the answer must be about everything again; Python takes most of them."""
UP_WITHIN = 600.0
"""Seconds for the first start: kernels may have to be compiled, by five processes at once, on a busy machine."""


class World:
    """The processes, their files, and what is true of them."""

    def __init__(self, folder: Path, watches: str = WATCHES, source: str = "") -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "coordinator.toml").write_text(
            f'[coordinator]\nlisten = "127.0.0.1:{port}"\nsites = {json.dumps(SITES)}\nstate = "coordinator"\n'
            f'lease = "5 seconds"\ndevelopment = true\n{watches}'
        )
        for site in SITES:
            (folder / f"{site}.csv").write_text("url,at\n")
            (folder / f"{site}.toml").write_text(
                f'[site]\nname = "{site}"\ncoordinator = "127.0.0.1:{port}"\nstate = "{site}"\ndevelopment = true\n'
                f'[source]\nformat = "csv"\npath = "{site}.csv"\nfollow = true\nkey = "url"\ntime = "at"\n{source}\n'
                f"{watches}"
            )
        self.counts: Counter[str] = Counter()
        self.lines = dict.fromkeys(SITES, 0)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._first: float | None = None

    @property
    def back_within(self) -> float:
        """More than is promised only where the first start has shown that the machine is busy."""
        return UP_WITHIN if self._first is None else max(BACK_WITHIN, 5 * self._first)

    def start(self, name: str) -> None:
        more = (
            ["coordinator", "--every", "0.2"]
            if name == "coordinator"
            else ["site", "--heartbeat", "0.5", "--keep", "2000"]
        )
        command = [sys.executable, "-m", "catchment.app", *more, str(self._folder / f"{name}.toml")]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def write(self, site: str, rng: random.Random, count: int) -> None:
        keys = [f"/{int(rng.paretovariate(1.0))}" for _ in range(count)]
        with (self._folder / f"{site}.csv").open("a") as file:
            file.writelines(f"{key},{self.lines[site] + place}\n" for place, key in enumerate(keys))
        self.counts.update(keys)
        self.lines[site] += count

    def write_now(self, site: str, keys: list[str]) -> None:
        """Events of this second."""
        with (self._folder / f"{site}.csv").open("a") as file:
            file.writelines(f"{key},{int(time.time())}\n" for key in keys)
        self.lines[site] += len(keys)

    def claims(self) -> dict[str, Any]:
        file = self._folder / "coordinator" / "claims.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def await_everything(self) -> dict[str, Any]:
        """Wait until all claims are about every line that was written."""
        begun = time.monotonic()
        end = begun + self.back_within
        while time.monotonic() < end:
            for name, process in self.running.items():
                assert process.poll() is None, f"{name} has ended: {self.log(name)}"
            claims = self.claims()
            if claims and all(
                claim and _cut(claim) == self.lines and not claim["missing"] for claim in claims.values()
            ):
                self._first = self._first or time.monotonic() - begun
                return claims
            time.sleep(0.1)
        raise AssertionError(
            f"{self.lines} were written, and this is claimed: {self.claims()} {self.log('coordinator')}"
        )

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-2000:]


def _cut(claim: dict[str, Any]) -> dict[str, int]:
    return {site: position for site, (position, _) in claim["cut"].items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from _running(World(tmp_path))


def _running(made: World) -> Iterator[World]:
    for name in ("coordinator", *SITES):
        made.start(name)
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()


def test_killed_and_started_again_nothing_is_lost_or_counted_twice(world: World) -> None:
    rng = random.Random(4)
    for site in SITES:
        world.write(site, rng, 5000)
    world.await_everything()
    for victim in ("s0", "coordinator", "s2", "s1", "s3"):
        for _ in range(4):
            for site in SITES:
                world.write(site, rng, rng.randint(100, 3000))
            time.sleep(rng.uniform(0, 0.3))
        world.kill(victim)
        for site in SITES:
            world.write(site, rng, rng.randint(100, 3000))  # the others go on meanwhile
        world.start(victim)
    claims = world.await_everything()
    assert claims["all"]["value"] == sum(world.lines.values()) == sum(world.counts.values())
    truth = sum(count * count for count in world.counts.values())
    assert abs(claims["skew"]["value"] - truth) <= 0.2 * truth
    assert claims["skew"]["low"] <= truth <= claims["skew"]["high"]
    pages = {item["key"]: item for item in claims["pages"]["items"]}
    assert {key for key, count in world.counts.items() if count >= 2000} <= set(pages)
    for key, item in pages.items():
        assert world.counts[key] >= 1600
        assert item["low"] <= world.counts[key] <= item["high"]
    heavy = {item["key"]: item for item in (*claims["heavy"]["heavy"], *claims["heavy"]["unresolved"])}
    assert claims["heavy"]["total"] == sum(world.lines.values())
    assert {key for key, count in world.counts.items() if count >= 0.1 * claims["heavy"]["total"]} <= set(heavy)
    assert all(world.counts[key] <= item["high"] for key, item in heavy.items())
    assert {alarm["target"] for alarm in claims["heavy"]["alarms"]} <= set(heavy)


@pytest.mark.long("crashes")
def test_stopped_kindly_they_end_well(world: World) -> None:
    rng = random.Random(5)
    for site in SITES:
        world.write(site, rng, 1000)
    world.await_everything()
    for process in reversed(world.running.values()):
        process.send_signal(signal.SIGTERM)
    for name, process in world.running.items():
        assert process.wait(120) == 0, world.log(name)


WINDOWS = """
[[watch]]
name = "all"
quantity = "total"
window = "20 seconds"
epsilon = 0.05

[[watch]]
name = "pages"
quantity = "items"
window = "20 seconds"
threshold = 50

[[watch]]
name = "heavy"
quantity = "heavy_hitters"
window = "20 seconds"
phi = 0.5
"""


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[World]:
    yield from _running(World(tmp_path, WINDOWS, 'idle = "1 second"'))


@pytest.mark.long("crashes")
def test_while_sources_are_silent_windows_grow_empty(windows: World) -> None:
    windows.write_now("s0", ["/"])
    for site in SITES[1:]:
        windows.write_now(site, ["/"])
    windows.await_everything()  # they are up, whatever that took
    for _ in range(6):  # on a busy machine the first may have grown old before the last are told
        for site in SITES:
            windows.write_now(site, ["/hot"] * 40)
        full = windows.await_everything()
        if full["all"]["value"] >= 140 and full["pages"]["items"]:
            break
    assert [item["key"] for item in full["pages"]["items"]] == ["/hot"]
    assert full["all"]["value"] >= 140
    assert "/hot" in {item["key"] for item in (*full["heavy"]["heavy"], *full["heavy"]["unresolved"])}
    end = time.monotonic() + windows.back_within
    while (claims := windows.claims())["pages"]["items"] or claims["all"]["value"] > 0 or claims["heavy"]["total"]:
        assert time.monotonic() < end, f"nothing comes, and this is claimed still: {claims}"
        time.sleep(0.1)
    assert claims["pages"]["missing"] == claims["all"]["missing"] == []
    assert _cut(claims["pages"]) == windows.lines  # nothing was lost: it has left by growing old
