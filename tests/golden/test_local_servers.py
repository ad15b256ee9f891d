"""Clouds of this machine that an older version started: found by their folder, told from others, and stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.spark.cloud_folder import _file, find_clouds, stop_clouds
from catchment.spark.connect_server import ServerSettings, _properties, running
from tests.golden.archives import unpack
from tests.golden.servers import PLACE, TARGET, where_tables_are


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpack(TARGET, tmp_path)


@pytest.fixture
def process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is to the record what the server was: its command names the file of settings."""
    wait = "import sys; sys.stdin.read()"
    server = folder / "berlin"
    command = [sys.executable, "-c", wait, str(server / "server.properties")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as started:
        record = json.loads((server / "server.json").read_text())
        assert [*record] == ["pid", "group", "port", "name"]
        (server / "server.json").write_text(json.dumps(record | {"pid": started.pid, "group": started.pid}))
        yield started
        started.kill()


def test_a_server_is_found_and_stopped(folder: Path, process: subprocess.Popen[bytes]) -> None:
    port = json.loads((folder / "berlin" / "server.json").read_text())["port"]
    token = (folder / "berlin" / "token").read_text()
    server = running(folder / "berlin")
    assert server is not None
    assert (server.name, server.pid, server.port, server.token) == ("berlin", process.pid, port, token)
    settings = find_clouds(folder / "clouds.toml")["berlin"]
    assert (settings.address, settings.region, settings.token) == (f"sc://localhost:{port}", "here", token)
    assert _file({"berlin": server}) == (folder / "clouds.toml").read_text()
    assert stop_clouds(folder) == ["berlin"]
    assert process.wait(60) != 0
    assert not (folder / "clouds.toml").exists()


def test_the_next_start_finds_the_tables(folder: Path) -> None:
    golden = (folder / "berlin" / "server.properties").read_text().replace(PLACE, str(folder))
    settings = _properties(ServerSettings("berlin", folder / "berlin"), "a token", 1)
    assert sorted(where_tables_are(settings).splitlines()) == sorted(golden.splitlines())
    assert len(golden.splitlines()) == 2
