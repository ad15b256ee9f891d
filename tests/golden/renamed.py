"""A copy of the library in which every class of `monitor` has another name: what is durable must not hang on names.

Only names in the code are changed. What is in quotation marks stays: that is data.
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
_GOLDEN = Path(__file__).parent


def classes_of(folder: Path) -> frozenset[str]:
    """The names of all classes in a folder, those in functions and classes too."""
    return frozenset(
        node.name
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )


def renamed(text: str, names: frozenset[str]) -> str:
    """The same code with these names changed.

    >>> renamed("Total(Total.kind, 'Total')  # Total", frozenset({"Total"}))
    "TotalRenamed(TotalRenamed.kind, 'Total')  # Total"
    """
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token in reversed(tokens):
        if token.type == tokenize.NAME and token.string in names:
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            lines[row - 1] = line[:start] + token.string + ENDING + line[end:]
    return "".join(lines)


def copy_renamed(target: Path) -> Path:
    """Copy the library and the golden tests; the folder to run them in."""
    names = classes_of(_LIBRARY / "monitor")
    for source, place in ((_LIBRARY, target / "src" / "catchment"), (_GOLDEN, target / "tests" / "golden")):
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "checkpoint*"))
        for file in place.rglob("*.py"):
            text = file.read_text()
            changed = renamed(text, names)
            if changed != text:
                file.write_text(changed)
    kernels = _LIBRARY / "kernel" / "__pycache__"
    if kernels.is_dir():  # compiled ones, which are known by their sources
        shutil.copytree(kernels, target / "src" / "catchment" / "kernel" / "__pycache__")
    (target / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "-p", "no:cacheprovider"]\n'
        'pythonpath = [".", "src"]\nfilterwarnings = ["error"]\n'
    )
    return target


def failures(folder: Path, tests: Iterable[str]) -> list[str]:
    """Run these files of golden tests in such a copy; the tests that fail, and the words of a run that went wrong."""
    run = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n", "0", "-rfE", "--tb=line",
            *(f"tests/golden/{name}" for name in tests),
        ],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [match[1] for match in re.finditer(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)]
    if run.returncode not in (0, 1) or (run.returncode and not found):
        found.append(run.stdout[-2000:] + run.stderr[-2000:])
    return found
