"""Golden archives: a folder in one file, with nothing in it about who made it; written once, read for ever."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

__all__ = ["names_in", "pack", "refuse_again", "unpack"]


def refuse_again(*targets: Path) -> None:
    """Stop a script whose golden files are there."""
    for target in targets:
        if target.exists():
            raise SystemExit(f"{target.name} exists: golden files are never changed")


def pack(folder: Path, target: Path) -> None:
    """Put everything in a folder into an archive; one that is there is never changed."""
    with tarfile.open(target, "x:gz") as archive:
        for part in sorted(folder.iterdir()):
            archive.add(part, arcname=part.name, filter=_plain)
    print(target.name, target.stat().st_size)


def unpack(target: Path, folder: Path) -> Path:
    """The folder, with what is in an archive."""
    with tarfile.open(target) as archive:
        archive.extractall(folder, filter="data")
    return folder


def names_in(folder: Path) -> set[str]:
    """The files below a folder by their paths, with N for every number and without Hadoop's checksums.

    Files that Spark names by chance are called `part-N`.
    """
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {re.sub(r"\d+", "N", re.sub(r"part-[\w.-]+", "part-N", str(path))) for path in found}


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose it is and when it was made is left out."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info
