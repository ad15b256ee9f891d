"""Which of the user's own modules some functions need, with their sources, so that they can go where the functions go.

A pickled function names its modules, and the names that its code uses, as texts. Every text in a pickle that is the
name of a module of the user's own is taken as needed, and so is what the source of such a module imports, anywhere in
it. A text that is such a name by chance sends a module too many, which does no harm.

The user's own are modules in Python source outside of Python's installation and of its installed packages, which a
cloud must have by itself. This package counts as installed.
"""

from __future__ import annotations

import ast
import importlib.util
import pickletools
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

from catchment.errors import ParameterError

__all__ = ["modules_needed", "texts_in"]

_parsing = threading.Lock()
"""Python 3.11 counts the depth of a tree for all threads together, and fails when two parse at the same time."""


def texts_in(pickled: bytes) -> set[str]:
    """All texts in a pickle, those within pickles inside it as well.

    >>> import pickle
    >>> sorted(texts_in(pickle.dumps(("a", {"b": pickle.dumps("c")}))))
    ['a', 'b', 'c']
    """
    found: set[str] = set()
    for _, argument, _ in pickletools.genops(pickled):
        if isinstance(argument, str):
            found.add(argument)
        elif isinstance(argument, bytes) and argument[:1] == b"\x80":
            try:
                found |= texts_in(argument)
            except ValueError:
                continue  # bytes that only begin like a pickle
    return found


def modules_needed(names: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """For each module of the user's own that has one of these names or is needed by one: its file, and its source.

    A folder without `__init__.py` has no source. What cannot be sent as source is a `ParameterError`.
    """
    found: dict[str, tuple[str, str | None]] = {}
    waiting = [name for name in names if name.replace(".", "").isidentifier()]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None or not _is_own(spec):
            continue
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        text = None if spec.origin is None else Path(spec.origin).read_text(encoding="utf-8")
        found[name] = (spec.origin or name, text)
        if text is not None:
            waiting += _imported(text, name if spec.submodule_search_locations is not None else name.rpartition(".")[0])
    return found


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, without importing it; its packages are imported already, or it is not needed yet."""
    if name in ("__main__", "catchment") or name.startswith(("catchment.", "__main__.")):
        return None
    loaded = sys.modules.get(name)
    if loaded is not None:
        return getattr(loaded, "__spec__", None)
    package = name.rpartition(".")[0]
    if package and package not in sys.modules:
        return None
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _is_own(spec: ModuleSpec) -> bool:
    if spec.origin is None:
        places = [Path(place) for place in spec.submodule_search_locations or ()]
    elif spec.origin in ("built-in", "frozen"):
        return False
    else:
        places = [Path(spec.origin)]
    if not places or any(place.is_relative_to(folder) for place in places for folder in _installed()):
        return False
    if spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES)):
        raise ParameterError(
            f"module {spec.name} is compiled ({spec.origin}) and cannot be sent as source",
            "install it in every cloud as a package, or do without it",
        )
    return spec.origin is None or spec.origin.endswith(".py")


def _installed() -> Iterator[Path]:
    yield from (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from map(Path, site.getsitepackages())
    yield Path(site.getusersitepackages())
    yield Path(sys.base_prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def _imported(text: str, package: str) -> Iterator[str]:
    """Every name that a source may import: for `from a import b` both a and a.b."""
    with _parsing:
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
