"""Clouds on this machine: started, found, stopped, and their tables kept."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.app.cli import app
from catchment.errors import NameNotFoundError, ParameterError, UnreachableError
from catchment.spark.cloud import federation
from catchment.spark.cloud_folder import VARIABLE, find_clouds, start_clouds, stop_clouds
from catchment.spark.connect_server import ServerSettings, running, start, stop
from tests.spark.clouds import SECONDS, errand


@pytest.mark.long("clouds")
def test_up_and_down_and_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "clouds"))
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    try:
        told = run(app, ["clouds", "up", "-n", "1", "--heap", "640m", "--cores", "1"], catch_exceptions=False)
        assert told.exit_code == 0
        assert "berlin: sc://localhost:" in told.stdout
        server = running(tmp_path / "clouds" / "berlin")
        assert server is not None
        for secret in ("token", "server.properties"):
            assert stat.S_IMODE((server.folder / secret).stat().st_mode) == 0o600
        assert server.token not in Path(f"/proc/{server.pid}/cmdline").read_text()
        with federation() as clouds:
            (cloud,) = clouds.clouds
            cloud.run("CREATE TABLE kept USING parquet AS SELECT id FROM range(42)", errand())

        # A second `up` changes nothing.
        assert start_clouds(1)["berlin"] == server

        shown = run(app, ["clouds", "--json"], catch_exceptions=False)
        (fact,) = json.loads(shown.stdout)["clouds"]
        assert fact["healthy"]
        assert [(table["name"], table["rows"]) for table in fact["tables"]] == [("kept", 42)]

        # After a crash, `show` says so and `up` brings it back where it was, with its tables.
        os.kill(server.pid, signal.SIGKILL)
        shown = run(app, ["clouds", "show"], catch_exceptions=False)
        assert shown.exit_code == 1
        assert "does not answer" in shown.stdout
        again = start_clouds(1, heap="640m", cores=1)["berlin"]
        assert (again.port, again.token) == (server.port, server.token)
        assert again.pid != server.pid
        with federation() as clouds:
            assert clouds.sql("SELECT count(*) AS n FROM kept").to_pylist() == [{"n": 42}]

        assert run(app, ["clouds", "down"], catch_exceptions=False).stdout == "stopped berlin\n"
        assert running(again.folder) is None
        assert not Path(f"/proc/{again.pid}").exists() or not Path(f"/proc/{again.pid}/cmdline").read_bytes()
        assert run(app, ["clouds", "down"], catch_exceptions=False).stdout == "no cloud runs here\n"
    finally:
        stop_clouds()
    with pytest.raises(NameNotFoundError, match="clouds up"):
        find_clouds()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="ended"):
        start(ServerSettings("bad", tmp_path / "bad", more={"spark.master": "nowhere"}), SECONDS)
    assert running(tmp_path / "bad") is None
    assert not stop(tmp_path / "bad")


def test_a_process_that_has_taken_the_number_is_left_alone(tmp_path: Path) -> None:
    """The record of a server that died names a process that is another's now."""
    (tmp_path / "server.json").write_text(json.dumps({"pid": os.getpid(), "group": 1, "port": 1, "name": "x"}))
    assert running(tmp_path) is None
    assert not stop(tmp_path)


def test_what_a_server_is_given_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="768m"):
        ServerSettings("x", tmp_path, heap="lots")
    with pytest.raises(ParameterError, match="at least 1"):
        ServerSettings("x", tmp_path, cores=0)
    with pytest.raises(ParameterError, match="1 to 3"):
        start_clouds(4, tmp_path)
