"""Blobs on a disk: each is whole and durable, or it is not there.

    <state>/<name>-<number>.blob        what a machine asked to keep; the largest number of a name counts
    <state>/<name>-<number>.new         being written; what a crash leaves of it is thrown away

A blob is written to a file of its own, forced to the disk, given its name, and the folder is forced too: only then may
a message leave that builds on it. The one before it is then removed. Blobs carry a checksum. One that does not match
cannot come from a crash, since a name is given only to what is on the disk: the disk has lost it. Going back to an
older blob would let a site say again, under the same numbers, what it has said differently before, so this is refused,
and a person decides.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from catchment.errors import DamagedBytesError, ParameterError, UnreachableError
from catchment.kernel.checksum import crc32c
from catchment.monitor.machine import Persist

__all__ = ["Disk"]

_MAGIC = b"CTBL"
_HEAD = struct.Struct("<4sIQI")  # magic, version, length, CRC-32C
_VERSION = 1
_FILE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)-([0-9]{16})\.blob")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Disk:
    """A folder of blobs, of one process at a time.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Disk(folder) as disk:
    ...     disk.write([Persist("state", b"one"), Persist("state", b"two")])
    >>> with Disk(folder) as disk:
    ...     disk.read()
    {'state': b'two'}
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise ParameterError(
                f"the state folder {folder} ({problem.strerror})", "name a folder to write in"
            ) from None
        self.folder = folder
        self._lock = _locked(folder)
        self._numbers: dict[str, int] = {}
        for name, number, _ in self._files():
            self._numbers[name] = max(number, self._numbers.get(name, 0))
        for file in folder.glob("*.new"):
            file.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def read(self) -> dict[str, bytes]:
        """The newest blob of each name; `DamagedBytesError` if the disk has lost one."""
        newest = {name: file for name, number, file in self._files() if number == self._numbers[name]}
        return {name: _open(file) for name, file in sorted(newest.items())}

    def write(self, blobs: Sequence[Persist]) -> None:
        """Make these durable, in order: after a crash, one is there only if all before it are.

        Of neighbours with one name only the last is written. All files are forced to the disk before the first gets its
        name, so several blobs cost little more than one.
        """
        following = [*(blob.name for blob in blobs[1:]), ""]
        written = [self._put(blob) for blob, after in zip(blobs, following, strict=False) if blob.name != after]
        for name, new, final in written:
            new.rename(final)
            _force(self.folder)
            self._remove_before(name, final)

    def _put(self, blob: Persist) -> tuple[str, Path, Path]:
        if not _NAME.fullmatch(blob.name):
            raise ParameterError(f"a blob called {blob.name!r}", "use letters, digits, dots, - and _")
        self._numbers[blob.name] = number = self._numbers.get(blob.name, 0) + 1
        final = self.folder / f"{blob.name}-{number:016d}.blob"
        new = final.with_suffix(".new")
        with new.open("wb") as out:
            out.write(_HEAD.pack(_MAGIC, _VERSION, len(blob.blob), _checksum(blob.blob)))
            out.write(blob.blob)
            out.flush()
            os.fsync(out.fileno())
        return blob.name, new, final

    def _remove_before(self, name: str, newest: Path) -> None:
        for other, _, file in self._files():
            if other == name and file.name < newest.name:
                file.unlink()

    def _files(self) -> list[tuple[str, int, Path]]:
        found = ((_FILE.fullmatch(file.name), file) for file in self.folder.iterdir())
        return [(match[1], int(match[2]), file) for match, file in found if match]


def _open(file: Path) -> bytes:
    data = file.read_bytes()
    cure = (
        "the disk has lost it: restore the file from a copy; or give the site a new state folder and a new name, "
        "since the old name's state is gone"
    )
    if len(data) < _HEAD.size:
        raise DamagedBytesError(f"{file} is cut short", cure)
    magic, version, length, checksum = _HEAD.unpack_from(data)
    content = data[_HEAD.size :]
    if magic != _MAGIC or version != _VERSION or length != len(content) or checksum != _checksum(content):
        raise DamagedBytesError(f"{file} is not what was written", cure)
    return content


def _checksum(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, dtype=np.uint8)))


def _force(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _locked(folder: Path) -> int:
    """Two processes on one folder would write over each other's state; the lock goes with the process, even killed."""
    opened = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise UnreachableError(
            f"the state folder {folder} is in use", "stop the process that has it, or give each one its own"
        ) from None
    return opened
