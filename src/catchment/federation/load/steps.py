"""The steps of a load, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from catchment.federation.cloud import Column
from catchment.federation.ledger import Ledger
from catchment.federation.load.staging import Stage

__all__ = ["FileReport", "LoadReport", "Step"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file."""

    file: str
    rows: dict[str, int]
    """Rows that each cloud got now."""
    rejected: int = 0
    skipped: bool = False
    """Whether it was there already, all of it."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of all files."""

    files: tuple[FileReport, ...]
    seconds: float
    ledger: Ledger = field(compare=False)
    notes: tuple[str, ...] = ()
    """What went wrong after the rows were safe."""

    @property
    def rows(self) -> int:
        return sum(sum(file.rows.values()) for file in self.files)

    @property
    def rejected(self) -> int:
        return sum(file.rejected for file in self.files)


class Step(Protocol):
    """A step of a load: a file that lies here, or files that the cloud sees."""

    @property
    def label(self) -> str: ...

    def key(self, batch: str | None) -> str: ...

    def columns(self) -> tuple[Column, ...]: ...

    def fill(self, stages: Sequence[Stage | None], columns: tuple[Column, ...]) -> None: ...

    def close(self) -> None: ...
