"""Small files in one folder, on any file system that Spark can reach, each written whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from catchment.errors import BytesError, DamagedBytesError, ParameterError, UnknownFormatError

__all__ = ["Folder"]

T = TypeVar("T")


class Folder:
    """Files by name. They are read and written by the driver, through Hadoop's file systems, as checkpoints are."""

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise ParameterError("a session of Spark Connect", "run on the driver: what is learnt is kept there")
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(str(path))
        try:
            self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())
        except Py4JJavaError as problem:
            raise ParameterError(
                f"a folder at {path} ({problem.java_exception})", "name one on a file system that this Spark can reach"
            ) from None

    def names(self) -> list[str]:
        """The files that are there, in no order."""
        if not self._files.exists(self._folder):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(self._folder)]

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self.path(name)))

    def load(self, name: str, read: Callable[[bytes], T], cure: str) -> T:
        """What a file holds; a `BytesError` that names the file if it is damaged, or of another version."""
        try:
            return read(self._blob(name))
        except UnknownFormatError as problem:
            raise UnknownFormatError(f"{self.path(name)}: {problem.problem}", f"{problem.cure}; or {cure}") from None
        except BytesError as problem:
            raise DamagedBytesError(f"{self.path(name)}: {problem.problem}", cure) from None

    def write(self, name: str, blob: bytes) -> None:
        """Put a file there, in place of an older one; of a write that fails nothing is seen."""
        draft = f".draft-{uuid.uuid4().hex}"
        try:
            stream = self._files.create(self.path(draft), True)
            try:
                stream.write(bytearray(blob))
            finally:
                stream.close()
            self.move(draft, name)
        except Py4JJavaError as problem:
            with suppress(Py4JJavaError):
                self.delete(draft)
            raise OSError(f"{self.path(name)} could not be written: {problem.java_exception}") from None

    def move(self, source: str, target: str) -> None:
        """Give a file another name. Not every file system replaces: after a crash in between, `target` is not there."""
        self.delete(target)
        if not self._files.rename(self.path(source), self.path(target)):
            raise OSError(f"{self.path(source)} could not be renamed to {target}")

    def delete(self, name: str) -> None:
        self._files.delete(self.path(name), False)

    def path(self, name: str) -> Any:
        """Where a file is, as Hadoop names it."""
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)

    def _blob(self, name: str) -> bytes:
        try:
            stream = self._files.open(self.path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as problem:
            # Hadoop keeps checksums of its own, where the file system has none. Anything else may be over tomorrow.
            if problem.java_exception.getClass().getSimpleName() in ("ChecksumException", "EOFException"):
                raise DamagedBytesError(str(problem.java_exception)) from None
            raise OSError(f"{self.path(name)} could not be read: {problem.java_exception}") from None
