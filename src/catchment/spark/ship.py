"""Executors without installation: the package, the libraries it needs and its compiled kernels travel with the job.

Two archives are made, once for each content, in the user's cache folder: the libraries (numpy, numba, pyarrow, …),
which change with an upgrade, and catchment itself with its kernels, small, which changes with every edit. Spark copies
archives to each executor and unpacks them in its working folder; PYTHONPATH leads there. PySpark is not in them: the
cluster has it.

numba looks for compiled kernels in `__pycache__` beside the source, so that is where they are put. A kernel is kept
together with the processor it was compiled for: an executor on another kind of processor compiles its own.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import py_compile
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from catchment.kernel import compile as kernels
from catchment.kernel.checksum import crc32c
from catchment.spark.cache import cached

__all__ = ["WORKERS_NEED", "is_local", "ship", "together"]

WORKERS_NEED = ("numpy", "numba", "pyarrow", "pandas", "datasketches")
"""What catchment's functions import on an executor; what these need in turn is found through their metadata."""

_ARCHIVES, _PATH = "spark.archives", "spark.executorEnv.PYTHONPATH"
_JOINED_BY = {_ARCHIVES: ",", _PATH: ":"}
_CODE_FOLDER, _LIBRARIES_FOLDER = "catchment_code", "catchment_libraries"
_NOT_AT_RUN_TIME = {"tests", "include"}
_NOT_PACKED = {".h", ".hpp", ".pxd", ".pxi", ".pyx", ".a", ".pyc"}
_TRUSTED = py_compile.PycInvalidationMode.UNCHECKED_HASH
_WARM_SECONDS = 600


def is_local(master: str) -> bool:
    """Whether executors run on this machine as this installation: `local`, `local[n]`, `local-cluster[…]`."""
    return master.startswith("local")


def ship(master: str) -> dict[str, str]:
    """The settings that bring catchment to the executors of `master`; none for a local one.

    The first call of a version takes about ten seconds for the libraries, and up to a minute for kernels that this
    machine has not compiled yet; later ones take none. The executors need a Python of this release and platform.
    """
    if is_local(master):
        return {}
    archives = {_CODE_FOLDER: _code_archive(), _LIBRARIES_FOLDER: _libraries_archive()}
    return {
        _ARCHIVES: ",".join(f"{archive.as_uri()}#{folder}" for folder, archive in archives.items()),
        _PATH: ":".join(archives),
    }


def together(shipped: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Both settings as one: where both name archives or paths, the user's come after; elsewhere the user's stand."""
    joined = {name: mark.join((shipped[name], str(config[name]))) for name, mark in _JOINED_BY.items()
              if name in shipped and name in config}  # fmt: skip
    return {**shipped, **config, **joined}


def _platform() -> dict[str, str]:
    return {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}


def _libraries_archive() -> Path:
    libraries = _distributions(WORKERS_NEED)
    versions = {name: library.version for name, library in libraries.items()}
    stamp = hashlib.sha256(json.dumps([versions, _platform()], sort_keys=True).encode()).hexdigest()[:16]

    def build(place: Path) -> None:
        files = {str(file): Path(str(file.locate())) for library in libraries.values() for file in _run_time(library)}
        _pack(place, files)

    return cached(f"ship/libraries-{stamp}.tar.gz", build)


def _distributions(names: tuple[str, ...]) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions of these names and all that they require, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # wanted on another platform, or by nobody here
        for requirement in found[name].requires or []:
            if "extra ==" not in requirement:
                waiting += re.findall(r"^[\w.-]+", requirement)
    return found


def _run_time(library: importlib.metadata.Distribution) -> Iterator[importlib.metadata.PackagePath]:
    for file in library.files or []:
        if ".." not in file.parts and not _NOT_AT_RUN_TIME & set(file.parts) and file.suffix not in _NOT_PACKED:
            yield file


def _code_archive() -> Path:
    package = Path(kernels.__file__).parents[1]
    sources = {
        str(Path("catchment") / file.relative_to(package)): file
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    digest = hashlib.sha256(json.dumps([_platform(), importlib.metadata.version("numba")]).encode())
    digest.update(platform.processor().encode())
    for name, file in sources.items():
        digest.update(name.encode() + file.read_bytes())

    def build(place: Path) -> None:
        _pack(place, sources | _compiled_kernels())

    return cached(f"ship/code-{digest.hexdigest()[:16]}.tar.gz", build)


def _compiled_kernels() -> dict[str, Path]:
    """Numba's files of all kernels, by their place in the archive; compiled now, in another process, where missing."""
    subprocess.run([sys.executable, "-m", "catchment.spark.warm"], timeout=_WARM_SECONDS, check=True)
    cache = getattr(crc32c, "_cache", None)
    folder = Path(cache.cache_path) if cache else Path()
    return {f"catchment/kernel/__pycache__/{file.name}": file for file in sorted(folder.glob("*.nb[ic]"))}


def _pack(place: Path, files: Mapping[str, Path]) -> None:
    """Put the files into one archive, and the byte code of each source beside it: it saves each executor seconds.

    The byte code is trusted without a look at the source's date, as both were packed together.
    """
    scratch = place.with_name("byte-code")
    # Level 1: the libraries shrink to 36 % in 8 s; higher levels take minutes for a few percent more.
    with tarfile.open(place, "w:gz", compresslevel=1) as archive:
        for name, file in files.items():
            archive.add(file.resolve(), name)
            if file.suffix == ".py":
                made = py_compile.compile(str(file), str(scratch), invalidation_mode=_TRUSTED, quiet=2)
                if made:  # a library may hold a template that is no Python
                    archive.add(made, importlib.util.cache_from_source(name))
