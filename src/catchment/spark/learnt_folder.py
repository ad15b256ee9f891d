"""What was learnt, one small file for each micro-batch, beside the checkpoint: on any file system that Spark can reach.

The file of batch n is made from that of the newest batch before n and from batch n alone, and is written whole or not
at all. So a batch that runs again after a crash starts from what was known before it, and counts once.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from catchment.errors import BytesError, ParameterError

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
            if before is not None and number >= before:
                continue
            stream = self._files.open(self._path(number))
            try:
                blob = bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
            try:
                return read(blob), problems
            except BytesError as problem:
                problems.append(f"what was learnt up to batch {number} is left out: {problem.problem}")
        return None, problems

    def write(self, number: int, blob: bytes) -> None:
        """Keep this for batch `number`, in place of what an earlier try of the same batch left."""
        draft = self._jvm.org.apache.hadoop.fs.Path(self._folder, f".draft-{uuid.uuid4().hex}")
        stream = self._files.create(draft, True)
        try:
            stream.write(bytearray(blob))
        finally:
            stream.close()
        self._files.delete(
            self._path(number), False
        )  # of a crash now only this batch's file is lost, and it runs again
        self._files.rename(draft, self._path(number))
        for old in self.numbers()[:-KEPT]:
            self._files.delete(self._path(old), False)

    def _path(self, number: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, f"batch-{number}")
