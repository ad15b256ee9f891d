"""The house stands: imports go down, libraries stay in their rooms, every test is collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import catchment
from tests import house

PACKAGE = Path(catchment.__file__).parent
TESTS = Path(__file__).parent


def test_no_import_goes_up_and_no_library_leaves_its_room() -> None:
    assert house.violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("room", "text", "complaint"),
    [
        ("kernel/bad.py", "from catchment.sketch import CountMin", "kernel (floor 1) imports sketch (floor 2)"),
        ("sketch/bad.py", "def f():\n    import pyspark.sql", "pyspark outside ['spark']"),
        ("sketch/bad.py", "def f():\n    from catchment.app import cli", "sketch (floor 2) imports app (floor 6)"),
        ("monitor/bad.py", "import catchment.federation.plan", "monitor (floor 4) imports federation (floor 4)"),
        ("monitor/bad.py", "import socket", "socket outside ['net']"),
        ("window/bad.py", "__import__('grpc')", "grpc outside ['net']"),
        ("window/bad.py", "import importlib\nimportlib.import_module('typer')", "typer outside ['app']"),
        ("sketch/bad.py", "from .base import Sketch", "a relative import"),
        ("sketch/bad.py", "from catchment import CountMin", "CountMin is not a room"),
        ("attic/bad.py", "", "room attic has no floor"),
        ("sketch/bad.py", "import scipy", "scipy in the core"),
        ("sketch/bad.py", "def f():\n    import pyarrow", "pyarrow in the core"),
        ("monitor/bad.py", "from http.client import HTTPConnection", "http outside ['app', 'net']"),
        ("monitor/bad.py", "import urllib.request", "urllib outside"),
        ("federation/bad.py", "from importlib import import_module as im", "a dynamic import"),
        ("federation/bad.py", "__import__('py' + 'spark')", "a dynamic import"),
        ("federation/bad.py", "import importlib\nimportlib.import_module(name='x')", "a dynamic import"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, room: str, text: str, complaint: str) -> None:
    source = tmp_path / room
    source.parent.mkdir()
    source.write_text(text)
    (found,) = house.violations(tmp_path)
    assert complaint in found


def test_the_facade_may_import_rooms_and_no_libraries(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("from catchment.sketch import CountMin\nimport pandas")
    (found,) = house.violations(tmp_path)
    assert "pandas outside ['spark']" in found


def test_a_cycle_through_the_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "sketch").mkdir()
    (tmp_path / "sketch/one.py").write_text("from catchment.sketch import two")
    (tmp_path / "sketch/two.py").write_text("from catchment.sketch import one")
    (found,) = house.violations(tmp_path)
    assert "cycle" in found


def test_a_planted_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "sketch").mkdir()
    (tmp_path / "sketch/one.py").write_text("def f():\n    import catchment.sketch.two")
    (tmp_path / "sketch/two.py").write_text("from catchment.sketch.one import f")
    assert house.violations(tmp_path) == ["cycle: catchment.sketch.one -> catchment.sketch.two -> catchment.sketch.one"]


def test_the_core_loads_with_numpy_and_numba_alone() -> None:
    code = (
        "import sys, catchment\n"
        "heavy = {'pyarrow', 'pandas', 'pyspark', 'typer', 'rich', 'altair', 'datasketches', 'scipy', 'zstandard'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_public_names_are_listed_and_there() -> None:
    assert catchment.__all__ == sorted(catchment.__all__)
    visible = {
        name for name, value in vars(catchment).items() if getattr(value, "__module__", "").startswith("catchment.")
    }
    assert visible == set(catchment.__all__)


def test_every_test_like_function_is_collected() -> None:
    assert house.uncollected(TESTS) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test_a.py", "def tests_nothing(): ..."),
        ("test_a.py", "def oshould_hold(): ..."),
        ("test_a.py", "def check_test_of_x(): ..."),
        ("test_a.py", "class Suite:\n    def test_x(self): ..."),
        ("test_a.py", "def test_x(): ...\ndef test_x(): ..."),
        ("test_a.py", "async def test_x(): ..."),
        ("helpers.py", "def test_x(): ..."),
        ("test_a.py", "class MyTests:\n    pass\nclass tests_of:\n    pass"),
    ],
)
def test_a_planted_overlooked_test_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert house.uncollected(tmp_path)


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("import pytest\ndef test_x(): pytest.skip('later')", False),
        ("import pytest\n@pytest.mark.skip\ndef test_x(): ...", False),
        ("import pytest\npytest.skip('later', allow_module_level=True)", False),
        ("import pytest\ndef test_x(): pytest.skip('needs a printer')\ndef test_y(): ...", True),
        ("import warnings\ndef test_x(): warnings.warn('old')", False),
    ],
)
def test_the_run_fails_on_unexplained_skips_and_on_warnings(pytester: pytest.Pytester, body: str, passes: bool) -> None:
    rules = (TESTS / "conftest.py").read_text().replace('pytest_plugins = ["pytester"]', "")
    pytester.makeconftest(rules)
    pytester.makeini("[pytest]\nfilterwarnings = error")
    pytester.makepyfile(test_sample=body)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    assert (result.ret == 0) is passes
