"""What a user meets on the first day with a coordinator and a site, as real processes: the last word is claimed, a kind
stop loses nothing, and what does not fit is named in the log, with its cure and without a traceback.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catchment.app.jobs.monitor import SUPERSEDED
from catchment.net.certificates import Authority, make_certificates

WATCH = '[[watch]]\nname = "all"\nquantity = "total"\nrule = "centralise"\n'
WITHIN = 120.0
"""Seconds; nearly all of them are for a machine that compiles kernels beside other tests."""


class Office:
    """A coordinator of one site, `a`, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.describe_coordinator("development = true")
        self.running: list[subprocess.Popen[bytes]] = []

    def _write(self, name: str, text: str) -> None:
        (self._folder / f"{name}.toml").write_text(text)

    def describe_coordinator(self, trust: str, tables: str = "", watch: str = WATCH) -> None:
        self._write(
            "coordinator",
            f'[coordinator]\nlisten = "127.0.0.1:{self._port}"\nsites = ["a"]\nstate = "coordinator"\n{trust}\n'
            f'lease = "10 seconds"\n{tables}{watch}',
        )

    def certify(self, *, days: int = 1) -> None:
        """Let the coordinator use TLS."""
        keys = self._folder / "keys"
        make_certificates(keys, None, ["a"])
        certificate, key = Authority.load(keys).coordinator(["127.0.0.1"], days=days)
        (keys / "coordinator.pem").write_bytes(certificate)
        (keys / "coordinator.key").write_bytes(key)
        names = {"authority": "authority.pem", "certificate": "coordinator.pem", "key": "coordinator.key"}
        lines = "".join(f'{name} = "keys/{file}"\n' for name, file in names.items())
        self.describe_coordinator("", f"[tls]\n{lines}")

    def describe(self, name: str, source: str, watch: str = WATCH) -> None:
        """A site `a` in a file of this name, with a state of its own."""
        self._write(
            name,
            f'[site]\nname = "a"\ncoordinator = "127.0.0.1:{self._port}"\nstate = "{name}"\ndevelopment = true\n'
            f"[source]\n{source}\n{watch}",
        )

    def rows(self, file: str, count: int) -> None:
        (self._folder / file).write_text("url\n" + "/x\n" * count)

    def append(self, file: str, text: str) -> None:
        with (self._folder / file).open("a") as out:
            out.write(text)

    def start(self, command: str, name: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "catchment.app", command, str(self._folder / f"{name}.toml"), *more]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def take_the_port(self) -> socket.socket:
        taken = socket.socket()
        taken.bind(("127.0.0.1", self._port))
        taken.listen()
        return taken

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN) == 0

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    @property
    def claims_file(self) -> Path:
        return self._folder / "coordinator" / "claims.json"

    def claim(self) -> dict[str, Any]:
        found = json.loads(self.claims_file.read_text())["all"] if self.claims_file.exists() else None
        return found or {"value": None, "cut": {}, "left": [], "missing": []}

    def wait_until(self, true: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN
        while not true():
            assert time.monotonic() < end, f"{self.claim()} {self.log('coordinator')}"
            time.sleep(0.05)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.wait()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def test_what_a_site_said_last_is_claimed_and_outlives_the_coordinator(office: Office) -> None:
    office.rows("a.csv", 5000)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "url"')
    coordinator = office.start("coordinator", "coordinator")
    assert office.start("site", "a", "--once").wait(WITHIN) == 0
    office.wait_until(lambda: office.claim()["left"] == ["a"])
    assert (office.claim()["value"], office.claim()["cut"]["a"][0]) == (5000, 5000)
    office.stop(coordinator)
    office.claims_file.unlink()
    again = office.start("coordinator", "coordinator")  # all have left: there is nobody to wait for
    office.wait_until(lambda: office.claim()["value"] == 5000)
    office.stop(again)
    assert "has changed" not in office.log("coordinator")
    office.describe_coordinator("development = true", watch=WATCH + "theta = 0.2\n")
    office.start("coordinator", "coordinator")
    office.wait_until(lambda: "the watch 'all' has changed: what " in office.log("coordinator"))
    assert "coordinator holds for it of a is not used" in office.log("coordinator")


@pytest.mark.long("crashes")
def test_a_kind_stop_keeps_what_came_by_standard_input(office: Office) -> None:
    office.describe("a", 'format = "csv"\nstdin = true\nkey = "url"\ncolumns = ["url"]')
    office.start("coordinator", "coordinator")
    site = office.start("site", "a")
    assert site.stdin is not None
    site.stdin.write(b"/x\n" * 3000)
    site.stdin.flush()
    office.wait_until(lambda: office.claim()["value"] == 3000)
    office.stop(site)
    again = office.start("site", "a")
    assert again.stdin is not None
    again.stdin.write(b"/x\n" * 10)
    again.stdin.flush()
    office.wait_until(lambda: office.claim()["value"] == 3010)


def test_a_file_that_was_rotated_is_refused_after_a_restart_too_and_the_claim_stays(office: Office) -> None:
    office.rows("a.csv", 3000)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "url"\nfollow = true')
    office.start("coordinator", "coordinator")
    site = office.start("site", "a")
    office.wait_until(lambda: office.claim()["value"] == 3000)
    office.rows("a.csv", 10)
    assert site.wait(WITHIN) == 1
    assert office.start("site", "a").wait(WITHIN) == 1
    assert office.log("a").count("is not the file that was read up to byte") == 2
    assert office.claim()["value"] == 3000


def test_a_site_with_other_watches_is_named(office: Office) -> None:
    office.rows("a.csv", 10)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "url"', WATCH + "theta = 0.2\n")
    office.start("coordinator", "coordinator")
    office.start("site", "a")
    office.wait_until(lambda: "what a reports is refused: 'a' watches something else" in office.log("coordinator"))
    assert "the same [[watch]] tables" in office.log("coordinator")


def test_a_state_of_other_watches_is_named_by_its_folder(office: Office) -> None:
    office.rows("a.csv", 10)
    source = 'format = "csv"\npath = "a.csv"\nkey = "url"'
    office.describe("a", source)
    office.start("coordinator", "coordinator")
    assert office.start("site", "a", "--once").wait(WITHIN) == 0
    office.describe("a", source, WATCH.replace("total", "self_join"))
    assert office.start("site", "a").wait(WITHIN) == 1
    folder = office.claims_file.parents[1] / "a"
    assert f"a state of other watches in {folder}: give these watches a folder of their own" in office.log("a")


@pytest.mark.long("crashes")
def test_of_two_processes_under_one_name_the_first_ends_and_says_why(office: Office) -> None:
    office.rows("a.csv", 10)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "url"\nfollow = true')
    office.describe("other", 'format = "csv"\npath = "a.csv"\nkey = "url"\nfollow = true')
    office.start("coordinator", "coordinator")
    first = office.start("site", "a")
    office.wait_until(lambda: office.claim()["value"] == 10)
    second = office.start("site", "other")
    assert first.wait(WITHIN) == SUPERSEDED
    assert "another process speaks as site 'a'" in office.log("a")
    assert "give each site its own name" in office.log("a")
    assert "Traceback" not in office.log("a")
    office.wait_until(lambda: office.claim()["value"] == 10 and not office.claim()["missing"])
    assert second.poll() is None


def test_of_two_processes_that_begin_together_under_one_name_one_stays(office: Office) -> None:
    office.rows("a.csv", 10)
    office.rows("other.csv", 30)
    for name in ("a", "other"):
        office.describe(name, f'format = "csv"\npath = "{name}.csv"\nkey = "url"\nfollow = true')
    office.start("coordinator", "coordinator")
    both = {name: office.start("site", name) for name in ("a", "other")}
    office.wait_until(lambda: any(process.poll() is not None for process in both.values()))
    (ended,) = [name for name, process in both.items() if process.poll() is not None]
    assert both[ended].returncode == SUPERSEDED, office.log(ended)
    truth = {"a": 30, "other": 10}[ended]  # that of the one who stays
    office.wait_until(lambda: office.claim()["value"] == truth and office.claim()["cut"]["a"][0] == truth)


@pytest.mark.long("crashes")
def test_what_came_by_standard_input_is_kept_by_a_process_that_another_ends(office: Office) -> None:
    for name in ("a", "other"):
        office.describe(name, 'format = "csv"\nstdin = true\nkey = "url"\ncolumns = ["url"]')
    office.start("coordinator", "coordinator")
    first = office.start("site", "a")
    assert first.stdin is not None
    first.stdin.write(b"/x\n" * 3000)
    first.stdin.flush()
    office.wait_until(lambda: office.claim()["value"] == 3000)
    second = office.start("site", "other")
    assert first.wait(WITHIN) == SUPERSEDED
    office.stop(second)
    office.start("site", "a")
    office.wait_until(lambda: office.claim()["value"] == 3000 and not office.claim()["missing"])


@pytest.mark.parametrize(("tls", "cause"), [(False, "another process does"), (True, "Address already in use")])
def test_a_port_that_another_process_has_is_named_and_nobody_is_said_to_listen(
    office: Office, tls: bool, cause: str
) -> None:
    if tls:
        office.certify()
    with office.take_the_port():
        assert office.start("coordinator", "coordinator").wait(WITHIN) == 1
    assert cause in office.log("coordinator")
    assert "listening" not in office.log("coordinator")
    assert "Traceback" not in office.log("coordinator")
    office.start("coordinator", "coordinator")
    office.wait_until(lambda: "listening on 127.0.0.1" in office.log("coordinator"))


def test_claims_can_be_read_when_the_certificate_has_expired(office: Office) -> None:
    office.certify(days=-1)
    assert office.start("coordinator", "coordinator").wait(WITHIN) == 2
    assert "certificate has expired" in office.log("coordinator")
    office.claims_file.parent.mkdir()
    office.claims_file.write_text('{"all": null}')
    assert office.start("claims", "coordinator").wait(WITHIN) == 0
    assert "all: nothing yet" in office.log("coordinator")


def test_bad_lines_are_summed_up_at_the_end(office: Office) -> None:
    office.rows("a.csv", 100)
    office.append("a.csv", ",\n" * 50)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "url"')
    office.start("coordinator", "coordinator")
    assert office.start("site", "a", "--once").wait(WITHIN) == 0
    assert "50 lines were no events (it has another number of fields: 50)" in office.log("a")


def test_a_column_that_is_not_there_is_named_without_a_traceback(office: Office) -> None:
    office.rows("a.csv", 10)
    office.describe("a", 'format = "csv"\npath = "a.csv"\nkey = "uri"')
    assert office.start("site", "a").wait(WITHIN) == 1
    assert "uri" in office.log("a")
    assert "Traceback" not in office.log("a")
