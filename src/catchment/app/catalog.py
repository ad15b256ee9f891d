"""The experiments and benchmarks of a checkout, by name: one file each, found where they lie."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import catchment.errors as errors
from catchment.app.report import Progress, Report

__all__ = ["Catalog"]


class Runnable(Protocol):
    def __call__(self, *, quick: bool, progress: Progress) -> Report: ...


class Catalog:
    """The files of one folder that have a `run(*, quick, progress) -> Report`; file `a_b.py` is called `a-b`.

    A `run` that can work on the user's own data also has `data: Path | None = None`.
    """

    def __init__(self, folder: str, root: Path | None = None) -> None:
        self.folder = (root or _checkout()) / folder

    def names(self) -> dict[str, str]:
        """Each name with the first line of its docstring."""
        found = {}
        for path in sorted(self.folder.glob("*.py")):
            tree = ast.parse(path.read_text())
            if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
                found[path.stem.replace("_", "-")] = (ast.get_docstring(tree) or "").split("\n")[0]
        return found

    def load(self, name: str, *, data: Path | None = None) -> Runnable:
        """The `run` of that name, on that data if there is any."""
        if name not in self.names():
            raise errors.NameNotFoundError(
                f"no {self.folder.name.removesuffix('s')} is called {name!r}", f"there are {', '.join(self.names())}"
            )
        path = self.folder / f"{name.replace('-', '_')}.py"
        spec = importlib.util.spec_from_file_location(f"{self.folder.name}.{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look up their module by its name
        # What files of the folder share is imported from the checkout, wherever the command was started.
        sys.path.insert(0, str(self.folder.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(self.folder.parent))
        if data is None:
            return cast(Runnable, module.run)
        if "data" not in inspect.signature(module.run).parameters:
            raise errors.ParameterError(f"--data {data}: {name} makes its own data", "leave --data out")
        return cast(Runnable, partial(module.run, data=data))


def _checkout() -> Path:
    """The project's root: the folder above `src`, or the current one."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / "experiments").is_dir() and (root / "benchmarks").is_dir():
            return root
    raise errors.NameNotFoundError(
        "experiments and benchmarks are not part of the installed package", "run this in a checkout of the project"
    )
