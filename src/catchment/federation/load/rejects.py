"""Bad rows aside: one JSON object a line, with file, line, reason and the record as it was.

They are kept just before the rows of their file go into the table, so none is lost if a crash comes in between; the
load that is repeated finds them here and does not add them again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from catchment.errors import InputError
from catchment.federation.load.csv_files import Rejected

__all__ = ["Rejects"]


class Rejects:
    """The dead letters of a load.

    Parameters
    ----------
    path
        Where they end; the file is made with the first, and added to.
    most
        How many a file may have: one more is an `InputError`, and nothing of the file is loaded.
    """

    def __init__(self, path: Path, most: int = 10_000) -> None:
        self.path = path
        self.count = 0
        self.most = most
        self._of_file = 0
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")

    def begin(self) -> None:
        """A new file begins."""
        self._of_file = 0

    def add(self, rejected: Rejected) -> None:
        """Take one."""
        self._of_file += 1
        self.count += 1
        if self._of_file > self.most:
            raise InputError(
                f"{rejected.file} has more than {self.most:,} bad rows, the last {_line(rejected)}({rejected.reason})",
                "give the schema that it has, or a larger --max-rejected",
            )
        with self._part.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(rejected), ensure_ascii=False) + "\n")

    def keep(self) -> None:
        """Add what was taken to the file, except what is in it already."""
        if not self._part.exists():
            return
        before: set[str] = set()
        if self.path.exists():
            with self.path.open(encoding="utf-8") as there:
                before.update(there)
        with self._part.open(encoding="utf-8") as taken, self.path.open("a", encoding="utf-8") as there:
            there.writelines(line for line in taken if line not in before)
        self._part.unlink()

    def forget(self) -> None:
        """Drop what was taken and not kept."""
        self._part.unlink(missing_ok=True)


def _line(rejected: Rejected) -> str:
    return "" if rejected.line is None else f"in line {rejected.line:,} "
