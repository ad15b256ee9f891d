"""Feeds: where the bytes of a source come from; a file, a file that grows, a socket, the standard input."""

from __future__ import annotations

import gzip
import logging
import os
import select
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.kernel.checksum import crc32c
from catchment.net.address import Address

__all__ = ["END", "Feed", "FileFeed", "SocketFeed", "StreamFeed"]

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_HEAD = 4096
_POLL = 0.1

END = None
"""What `read` gives when nothing will come any more."""


class Feed(Protocol):
    """Bytes, in order."""

    @property
    def replayable(self) -> bool: ...

    def open(self, offset: int) -> None:
        """Begin at this byte; only a feed that is replayable takes another than 0."""
        ...

    def read(self) -> bytes | None:
        """The next bytes; b"" if there are none yet, after a short wait; END at the end."""
        ...

    def fingerprint(self) -> tuple[int, int]:
        """A length, and the checksum of so many first bytes, by which a file is known again."""
        ...

    def check(self, fingerprint: tuple[int, int]) -> None:
        """Refuse a file that does not begin as it did."""
        ...

    def close(self) -> None: ...


class FileFeed:
    """A file, plain or gzipped.

    - `follow`: wait at its end for what is added, as `tail -f` does. A file that becomes shorter, or another file in
      its place, is refused: positions in it would mean nothing.
    """

    replayable = True

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        if not path.is_file():
            raise NameNotFoundError(f"no file {path}", "name a file that is there; an empty one can be followed")
        self._path, self._follow = path, follow
        self._file: Any = None
        self._offset = 0
        self._head = b""  # as it was read: under the path another file may be by now
        with path.open("rb") as opened:
            self._packed = opened.read(2) == _GZIP
        if follow and self._packed:
            raise ParameterError(f"{path} is gzipped", "unpack it to follow it, or leave follow out")

    def open(self, offset: int) -> None:
        self.close()
        file: Any = gzip.open(self._path) if self._packed else self._path.open("rb", buffering=0)  # noqa: SIM115
        self._file = file
        try:
            if not self._packed and self._path.stat().st_size < offset:
                self.close()
                raise self._shorter(offset)
            self._head = file.read(min(offset, _HEAD))
            file.seek(offset)
            self._offset = offset
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.close()
            raise self._shorter(offset) from None

    def read(self) -> bytes | None:
        assert self._file is not None
        try:
            data: bytes = self._file.read(_CHUNK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise InputError(f"{self._path}, after byte {self._offset} ({problem})", "fetch the file again") from None
        self._offset += len(data)
        if len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
        if data:
            return data
        if not self._follow:
            return END
        self._check_same()
        time.sleep(_POLL)
        return b""

    def _check_same(self) -> None:
        assert self._file is not None
        mine = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError:
            raise InputError(f"{self._path} is gone", "put it back: what was read of it cannot be read again") from None
        if there.st_size < self._offset or (mine.st_ino, mine.st_dev) != (there.st_ino, there.st_dev):
            raise self._shorter(self._offset)

    def _shorter(self, offset: int) -> InputError:
        return InputError(
            f"{self._path} is not the file that was read up to byte {offset}",
            "files that are followed must only grow: write each day to a file of its own, with a site for each",
        )

    def fingerprint(self) -> tuple[int, int]:
        return _known_by(self._head)

    def check(self, fingerprint: tuple[int, int]) -> None:
        with gzip.open(self._path) if self._packed else self._path.open("rb") as opened:
            head = opened.read(fingerprint[0])
        if _known_by(head) != tuple(fingerprint):
            raise self._shorter(fingerprint[0])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _known_by(head: bytes) -> tuple[int, int]:
    return len(head), int(crc32c(np.frombuffer(head, dtype=np.uint8)))


class _Passing:
    """A feed that passes once: what was read and not yet durable when a site crashes is gone."""

    replayable = False

    def open(self, offset: int) -> None: ...

    def fingerprint(self) -> tuple[int, int]:
        return 0, 0

    def check(self, fingerprint: tuple[int, int]) -> None: ...


class StreamFeed(_Passing):
    """The standard input, or what a file descriptor gives, until it ends."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor

    def open(self, offset: int) -> None:
        self._descriptor = sys.stdin.fileno() if self._descriptor is None else self._descriptor

    def read(self) -> bytes | None:
        assert self._descriptor is not None
        ready, _, _ = select.select([self._descriptor], [], [], _POLL)
        return (os.read(self._descriptor, _CHUNK) or END) if ready else b""

    def close(self) -> None: ...


class SocketFeed(_Passing):
    """Lines from a TCP server that the site dials, and dials again when the connection ends.

    A line that the end of a connection cuts is not finished by the next one: a line break is put between them. What the
    server sends again after that is counted again: nothing tells it from new events.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._wait = _POLL
        self._dialled = False

    def read(self) -> bytes | None:
        if self._socket is None and not self._dial():
            return b""
        opened: Any = self._socket
        try:
            data: bytes = opened.recv(_CHUNK)
        except TimeoutError:
            return b""
        except OSError as problem:
            _LOG.warning("the source %s: %s", self._address, problem)
            data = b""
        if data:
            return data
        self.close()
        return b"\n"

    def _dial(self) -> bool:
        try:
            self._socket = socket.create_connection((self._address.host, self._address.port), timeout=1.0)
        except OSError as problem:
            _LOG.warning("the source %s does not answer (%s)", self._address, problem)
            time.sleep(self._wait)
            self._wait = min(self._wait * 2, 2.0)
            return False
        self._socket.settimeout(_POLL)
        self._wait = _POLL
        if self._dialled:
            _LOG.warning("the source %s is open again: what it sends again is counted again", self._address)
        self._dialled = True
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
