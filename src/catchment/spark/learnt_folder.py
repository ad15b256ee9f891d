"""What was learnt, one small file for each micro-batch, beside the checkpoint: on any file system that Spark can reach.

The file of batch n is made from that of the newest batch before n and from batch n alone, and is written whole or not
at all. So a batch that runs again after a crash starts from what was known before it, and counts once.

A stream that begins anew, with a new checkpoint, counts its batches from 0 again. The newest file of the life before
then becomes the file `base`, from which the first batch starts.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from catchment.errors import BytesError, DamagedBytesError, ParameterError

__all__ = ["LearntFolder"]

KEPT = 10

T = TypeVar("T")


class LearntFolder:
    """Numbered files in one folder; the newest few are kept."""

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise ParameterError("a session of Spark Connect", "run on the driver: what is learnt is kept there")
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(str(path))
        self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def numbers(self) -> list[int]:
        """Of which batches there is a file, oldest first."""
        if not self._files.exists(self._folder):
            return []
        names = (str(status.getPath().getName()) for status in self._files.listStatus(self._folder))
        return sorted(int(match[1]) for name in names if (match := re.fullmatch(r"batch-(\d+)", name)))

    def newest(self, read: Callable[[bytes], T], *, before: int | None = None) -> tuple[T | None, list[str]]:
        """What the newest file holds (of a batch before `before`), and for each that could not be read a line."""
        problems: list[str] = []
        for number in reversed(self.numbers()):
            if before is None or number < before:
                try:
                    return read(self._blob(self._path(number))), problems
                except BytesError as problem:
                    problems.append(f"what was learnt up to batch {number} is left out: {problem.problem}")
        if self._files.exists(self._path(None)):
            try:
                return read(self._blob(self._path(None))), problems
            except BytesError as problem:
                problems.append(f"what was learnt before this stream is left out: {problem.problem}")
        return None, problems

    def begin_anew(self, number: int) -> None:
        """Files of batches after `number`, which comes now, are of a life before: the newest becomes the base."""
        later = [other for other in self.numbers() if other > number]
        if later:
            self._move(self._path(later[-1]), self._path(None))
            for other in later[:-1]:
                self._files.delete(self._path(other), False)

    def write(self, number: int, blob: bytes) -> None:
        """Keep this for batch `number`, in place of what an earlier try of the same batch left."""
        draft = self._jvm.org.apache.hadoop.fs.Path(self._folder, f".draft-{uuid.uuid4().hex}")
        stream = self._files.create(draft, True)
        try:
            stream.write(bytearray(blob))
        finally:
            stream.close()
        self._move(draft, self._path(number))
        for old in self.numbers()[:-KEPT]:
            self._files.delete(self._path(old), False)

    def _path(self, number: int | None) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, "base" if number is None else f"batch-{number}")

    def _blob(self, path: Any) -> bytes:
        stream = self._files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        except Py4JJavaError as problem:  # Hadoop keeps checksums of its own, where the file system has none
            raise DamagedBytesError(str(problem.java_exception)) from None
        finally:
            stream.close()

    def _move(self, source: Any, target: Any) -> None:
        """Not every file system replaces. Of a crash in between, the file of a batch is lost that will run again."""
        self._files.delete(target, False)
        if not self._files.rename(source, target):
            raise OSError(f"{source} could not be renamed to {target}")
