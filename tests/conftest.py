"""The rules of the test run itself: which tests run, who runs them, and what the end of the run says.

Tests with the mark `long` are left out unless `--long` asks for them: `--long all`, or one part of them. A skip must
say what it `needs`, or the run fails.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

# Deadlines would measure the compiler: a kernel compiles on its first call. Examples are the same on every run.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

# Every Java of the tests lives for minutes, those of commands and servers too: the compiler that makes code faster
# later costs more than it gives, a third of all work.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

pytest_plugins = ["pytester"]

PARTS = ("trials", "worlds", "fuzz", "crashes", "clouds")
"""Of the long tests: random trials of bounds; simulated networks; damaged bytes and random settings; kills of Spark's
processes; several Spark servers. They take about as long as each other: `.ci/run` plays one of them."""

_LEFT_OUT = "left out"

_unexplained: list[str] = []
_needed: Counter[str] = Counter()
_left_out: Counter[str] = Counter()
_begin = time.monotonic()


# -- which tests run ------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", choices=("none", *PARTS, "all"), default="none", help="run the long tests instead: all, or one part"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("--long")
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker("spark")
        part = _part_of(item)
        (chosen if part == asked or (part != "none" and asked == "all") else others).append(item)
        if part != "none" and asked == "none":
            _left_out[part] += 1
    if others:
        items[:] = chosen
        config.hook.pytest_deselected(items=others)


def _part_of(item: pytest.Item) -> str:
    """The part of the long tests that a test belongs to; "none": it is no long test."""
    mark = item.get_closest_marker("long")
    if mark is None:
        return "none"
    if len(mark.args) != 1 or mark.args[0] not in PARTS:
        raise pytest.UsageError(f"{item.nodeid}: long{mark.args} names no part: there are {', '.join(PARTS)}")
    return str(mark.args[0])


# -- who runs them --------------------------------------------------------------------------------------------


class _SparkByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A file of Spark tests stays on one worker, whose session they share; every other test goes to whoever is free.

    The first worker begins with Spark's files, which have the most tests and so stand in front; the others begin at the
    other end. A session is dear: its code is slow until Java has compiled it, and one that has run for long is quick.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::")[0] if nodeid.startswith("tests/spark/") else nodeid

    def _assign_work_unit(self, node: Any) -> None:
        if node is not next(iter(self.assigned_work)):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _SparkByFile(config, log)


# -- what the end says ----------------------------------------------------------------------------------------


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "needs " not in reason:
            _unexplained.append(f"{report.nodeid}: {reason}")
        _needed[reason[reason.find("needs ") :]] += 1


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _unexplained.append(f"{report.nodeid}: skipped while collecting")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each worker collects all tests, so any of them knows what is left out."""
    _left_out.update(Counter(getattr(node, "workeroutput", {}).get(_LEFT_OUT, {})) - _left_out)


def _counted(count: int) -> str:
    return f"{count:,} test{'' if count == 1 else 's'}"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = sum(len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed", "error", "xfailed"))
    minutes, seconds = divmod(round(time.monotonic() - _begin), 60)
    terminalreporter.section("what ran")
    terminalreporter.write_line(f"{_counted(ran)} in {minutes} min {seconds} s")
    if _left_out:
        parts = ", ".join(f"{count} of {part}" for part, count in sorted(_left_out.items()))
        terminalreporter.write_line(f"left out, and run by make test-long: {_counted(_left_out.total())} ({parts})")
    for reason, count in sorted(_needed.items()):
        verb = "each of which " if count > 1 else "which "
        terminalreporter.write_line(f"left out: {_counted(count)}, {verb}{reason}")
    for line in _unexplained:
        terminalreporter.write_line(f"unexplained skip: {line} (say what it needs: 'needs …')", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_LEFT_OUT] = dict(_left_out)
    if _unexplained and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
