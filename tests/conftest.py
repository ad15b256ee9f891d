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


class _SparkTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One worker runs all the Spark tests, on one session; every other test goes to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith("tests/spark/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _SparkTogether(config, log)


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
