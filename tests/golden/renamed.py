"""A copy of the library in which every class has another name: what is durable must not hang on names.

Only names in the code are changed. What is in quotation marks stays: that is data. What other libraries call the same,
such as `pa.Table`, keeps its name.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

import catchment

__all__ = ["classes_of", "copy_renamed", "failures", "renamed"]

ENDING = "Renamed"
_LIBRARY = Path(catchment.__file__).parent
_TESTS = Path(__file__).parents[1]
_OURS = ("catchment", "tests")
_UNCHANGED = "kernel"
"""The room that is left as it is: its code is compiled, and known by its text."""


def classes_of(folder: Path) -> frozenset[str]:
    """The names of all classes in a folder, those in functions and classes too."""
    return frozenset(
        node.name
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )


def renamed(text: str, names: frozenset[str]) -> str:
    """The same code with these names changed, but for names from other libraries.

    >>> renamed("Total(Total.kind, 'Total')  # Total", frozenset({"Total"}))
    "TotalRenamed(TotalRenamed.kind, 'Total')  # Total"
    >>> renamed("import pyarrow as pa; pa.Total(Total)", frozenset({"Total"}))
    'import pyarrow as pa; pa.Total(TotalRenamed)'
    """
    foreign = _foreign(text)
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for place in reversed(range(len(tokens))):
        token = tokens[place]
        if token.type == tokenize.NAME and token.string in names and _owner(tokens, place) not in foreign:
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            lines[row - 1] = line[:start] + token.string + ENDING + line[end:]
    return "".join(lines)


def _foreign(text: str) -> set[str]:
    """The names that a file has from other libraries."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                if (module or alias.name).partition(".")[0] not in _OURS:
                    found.add(alias.asname or alias.name.partition(".")[0])
    return found


def _owner(tokens: list[tokenize.TokenInfo], place: int) -> str:
    """The first name of a dotted one: `pa` of `pa.Table`."""
    while tokens[place - 1].string == "." and tokens[place - 2].type == tokenize.NAME:
        place -= 2
    return tokens[place].string


def copy_renamed(target: Path) -> Path:
    """Copy the library and the tests of bytes; the folder to run them in."""
    names = classes_of(_LIBRARY) - _names_in(_LIBRARY / _UNCHANGED)
    for source, place in ((_LIBRARY, target / "src" / "catchment"), (_TESTS, target / "tests")):
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "conftest.py"))
        for file in place.rglob("*.py"):
            text = file.read_text()
            changed = renamed(text, names)
            if changed != text:
                file.write_text(changed)
    kernels = _LIBRARY / _UNCHANGED / "__pycache__"
    if kernels.is_dir():  # compiled ones, which are known by their sources
        shutil.copytree(kernels, target / "src" / "catchment" / _UNCHANGED / "__pycache__")
    (target / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "-p", "no:cacheprovider"]\n'
        'pythonpath = [".", "src"]\nfilterwarnings = ["error"]\nmarkers = ["long", "spark"]\n'
    )
    return target


def _names_in(folder: Path) -> set[str]:
    """Every name in the code of a folder."""
    texts = (io.StringIO(file.read_text()) for file in folder.rglob("*.py"))
    return {token.string for text in texts for token in tokenize.generate_tokens(text.readline)}


def failures(folder: Path, tests: Iterable[str]) -> list[str]:
    """Run these tests in such a copy; those that fail, and the words of a run that went wrong."""
    run = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n", "0", "-rfE", "--tb=line",
            *(f"tests/{name}" for name in tests),
        ],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [match[1] for match in re.finditer(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)]
    if run.returncode not in (0, 1) or (run.returncode and not found):
        found.append(run.stdout[-2000:] + run.stderr[-2000:])
    return found
