"""A file's bytes, unpacked where it is gzip, and how far its reader is."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Self

from catchment.errors import InputError

__all__ = ["Stream", "opened"]


def opened(path: Path, at: Callable[[int], None]) -> Stream:
    """The bytes of a file; `at` is told the place in the file as it lies there, packed or not."""
    return Stream(path, at)


class Stream:
    """What a reader of blocks needs of a file. A gzip file (`.gz`) that is cut short or damaged is an `InputError`."""

    def __init__(self, path: Path, at: Callable[[int], None]) -> None:
        self._path = path
        self._at = at
        self._raw = path.open("rb")
        self._stream = gzip.GzipFile(fileobj=self._raw) if path.suffix == ".gz" else self._raw

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        return self._checked(lambda: self._stream.read(size))

    def readline(self, size: int) -> bytes:
        """The next line, with its break."""
        return self._checked(lambda: self._stream.readline(size))

    def _checked(self, read: Callable[[], bytes]) -> bytes:
        try:
            data = read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise InputError(f"{self._path} is no whole gzip file ({problem})", "fetch it again") from None
        self._at(self._raw.tell())
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()
