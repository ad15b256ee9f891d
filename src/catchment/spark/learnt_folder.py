"""What was learnt, one small file for each micro-batch, beside the checkpoint: on any file system that Spark can reach.

The file of batch n is made from that of the newest batch before n and from batch n alone, and is written whole or not
at all. So a batch that runs again after a crash starts from what was known before it, and counts once.

A stream that begins anew, with a new checkpoint, counts its batches from 0 again. The newest file of the life before
then becomes the file `base`, from which the first batch starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from catchment.errors import DamagedBytesError
from catchment.spark.folder import Folder

__all__ = ["LearntFolder"]

KEPT = 10
BASE = "base"

_CURE = "name another folder, or remove the file and learn from the one before it on"

T = TypeVar("T")


class LearntFolder:
    """Numbered files in one folder; the newest few are kept."""

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        self._folder = Folder(spark, path)

    def numbers(self) -> list[int]:
        """Of which batches there is a file, oldest first."""
        return sorted(int(match[1]) for name in self._folder.names() if (match := re.fullmatch(r"batch-(\d+)", name)))

    def newest(self, read: Callable[[bytes], T], *, before: int | None = None) -> tuple[T | None, list[str]]:
        """What the newest file holds (of a batch before `before`), and for each that is damaged a line that names it.

        A damaged file is passed over: nothing but time depends on what was learnt, and nobody could read it. One of a
        later version is an `UnknownFormatError`: it is not damaged, and going on would in time remove it.
        """
        problems: list[str] = []
        numbers = [number for number in reversed(self.numbers()) if before is None or number < before]
        names = [f"batch-{number}" for number in numbers] + ([BASE] if self._folder.has(BASE) else [])
        for name in names:
            try:
                return self._folder.load(name, read, _CURE), problems
            except DamagedBytesError as problem:
                problems.append(f"what was learnt is left out: {problem}")
        return None, problems

    def begin_anew(self, number: int) -> None:
        """Files of batches after `number`, which comes now, are of a life before: the newest becomes the base."""
        later = [other for other in self.numbers() if other > number]
        for other in later[:-1]:
            self._folder.delete(f"batch-{other}")  # the newest last, or a crash in between would make another the base
        if later:
            self._folder.move(f"batch-{later[-1]}", BASE)

    def write(self, number: int, blob: bytes) -> None:
        """Keep this for batch `number`, in place of what an earlier try of the same batch left."""
        self._folder.write(f"batch-{number}", blob)
        for old in self.numbers()[:-KEPT]:
            self._folder.delete(f"batch-{old}")
