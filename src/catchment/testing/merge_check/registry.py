"""Adapters by name: ours, those of other libraries, and anybody's as `module:Class`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

from catchment.errors import NameNotFoundError
from catchment.testing.merge_check.adapter import WindowCounterAdapter
from catchment.testing.merge_check.ours import OURS
from catchment.testing.merge_check.peer_sketch_oxide import SketchOxideHistogram

__all__ = ["PEERS", "is_ours", "load_adapter"]

PEERS: dict[str, Callable[[], WindowCounterAdapter]] = {SketchOxideHistogram.name: SketchOxideHistogram}
"""Sketches of other libraries by the name of their adapter."""

_PARTS = ("name", "claims", "new", "update", "merge", "estimate")


def load_adapter(name: str) -> WindowCounterAdapter:
    """The adapter of that name, or the class that `module:Class` names, built without arguments.

    >>> load_adapter("wave").claims.keys
    False
    >>> load_adapter("waves")
    Traceback (most recent call last):
    catchment.errors.NameNotFoundError: no adapter is called 'waves': there are ecm-wave, ..., or give module:Class
    """
    known = {**OURS, **PEERS}
    if name in known:
        return known[name]()
    if ":" not in name:
        raise NameNotFoundError(f"no adapter is called {name!r}", f"there are {', '.join(known)}, or give module:Class")
    try:
        adapter: WindowCounterAdapter = pkgutil.resolve_name(name)()
    except (ImportError, AttributeError, ValueError) as problem:
        raise NameNotFoundError(
            f"{name} cannot be loaded ({problem})", "give module:Class, with the module's folder on PYTHONPATH"
        ) from problem
    missing = [part for part in _PARTS if not hasattr(adapter, part)]
    if missing:
        raise NameNotFoundError(
            f"{name} has no {', '.join(missing)}", "give it all of catchment.testing.merge_check.WindowCounterAdapter"
        )
    return adapter


def is_ours(adapter: WindowCounterAdapter) -> bool:
    """Whether it is a sketch of this package, whose claims are ours to keep."""
    return adapter.name in OURS
