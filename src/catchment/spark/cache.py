"""What the Spark room builds once is kept in a folder of the user's; no reader ever sees half of a thing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from catchment.errors import ParameterError

__all__ = ["cached", "user_cache"]


def user_cache() -> Path:
    """The user's cache folder for catchment: below XDG_CACHE_HOME, or `~/.cache`; made if it is not there."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "catchment"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise ParameterError(
            f"the cache folder {folder} cannot be made ({problem.strerror})",
            "set XDG_CACHE_HOME to a folder that can be written",
        ) from problem
    return folder


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The file or folder `name` of the cache; built at first, beside its place, and moved there when it is whole.

    Two processes may build at the same time: the first to finish is kept, and both get it.
    """
    place = user_cache() / name
    if place.exists():
        return place
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    try:
        build(workshop / place.name)
        try:
            (workshop / place.name).rename(place)
        except OSError:  # a folder that another process has put there meanwhile
            if not place.exists():
                raise
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return place
