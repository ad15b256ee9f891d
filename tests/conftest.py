"""The rules of the test run itself: a skip must say what it needs, or the run fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

# Deadlines would measure the compiler: a kernel compiles on its first call. Examples are the same on every run.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

pytest_plugins = ["pytester"]

_unexplained: list[str] = []


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
