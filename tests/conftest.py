"""The rules of the test run itself: a skip must say what it needs, or the run fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

# Deadlines would measure the compiler: a kernel compiles on its first call. Examples are the same on every run.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

pytest_plugins = ["pytester"]

_unexplained: list[str] = []


class _SparkByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A file of Spark tests stays on one worker, whose session they share; every other test goes to whoever is free.

    Each worker has a session of its own: a Spark test mostly waits, for a job to be planned or a stream to turn.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::")[0] if nodeid.startswith("tests/spark/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _SparkByFile(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "needs " not in reason:
            _unexplained.append(f"{report.nodeid}: {reason}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _unexplained.append(f"{report.nodeid}: skipped while collecting")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in _unexplained:
        terminalreporter.write_line(f"unexplained skip: {line} (say what it needs: 'needs …')", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _unexplained and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
