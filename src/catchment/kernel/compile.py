"""How a plain function on arrays becomes a kernel: compiled once, kept on disk, run without the GIL."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from catchment.errors import KernelCacheWarning

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_warned = False


def _sources_digest() -> str:
    """One stamp for all kernels.

    numba dates a cached kernel by its own file, so a kernel that inlines a helper from another file would go on
    running the old helper. Dating each by the text of all kernel files costs a millisecond and ends that.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


_DIGEST = _sources_digest()


def kernel(function: F) -> F:
    """Compile `function` with numba on first call and keep the result in numba's cache directory.

    numba tries NUMBA_CACHE_DIR, then `__pycache__` beside the source, then the user's cache. Where none can be
    written, the kernel still works, but every process compiles it again: a `KernelCacheWarning` says so, once.
    """
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError as problem:  # numba: "cannot cache function …: no locator available"
        _warn_once(str(problem))
        return cast(F, numba.njit(**_OPTIONS)(function))
    compiled._cache._cache_file._source_stamp = _DIGEST
    return cast(F, compiled)


def _warn_once(problem: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"compiled kernels cannot be kept ({problem}), so every process spends seconds compiling them again: "
            "set NUMBA_CACHE_DIR to a directory that can be written",
            KernelCacheWarning,
            stacklevel=3,
        )
