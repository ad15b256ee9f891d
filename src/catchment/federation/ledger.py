"""The books of a query: bytes and rows that crossed a border, by cloud, direction and purpose."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What crossed between a cloud and the one who asks, in one direction, for one purpose."""

    cloud: str
    purpose: str
    outward: bool
    """Whether it left the cloud; otherwise it went in."""
    bytes: int
    rows: int
    messages: int


class Ledger:
    """Entries add up; any thread may make them.

    >>> ledger = Ledger()
    >>> ledger.add("paris", "partial", outward=True, size=1200, rows=10)
    >>> ledger.add("paris", "partial", outward=True, size=800, rows=7)
    >>> ledger.bytes(), ledger.bytes(cloud="paris", outward=False)
    (2000, 0)
    >>> next(iter(ledger)).rows
    17
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[tuple[str, str, bool]] = Counter()
        self._rows: Counter[tuple[str, str, bool]] = Counter()
        self._messages: Counter[tuple[str, str, bool]] = Counter()

    def add(self, cloud: str, purpose: str, *, outward: bool, size: int, rows: int = 0) -> None:
        """Enter one message of `size` bytes as they were on the wire."""
        key = (cloud, str(purpose), outward)
        with self._lock:
            self._bytes[key] += size
            self._rows[key] += rows
            self._messages[key] += 1

    def __iter__(self) -> Iterator[Entry]:
        with self._lock:
            entries = [Entry(*key, size, self._rows[key], self._messages[key]) for key, size in self._bytes.items()]
        return iter(sorted(entries, key=lambda entry: (entry.cloud, entry.purpose, entry.outward)))

    def bytes(self, *, cloud: str | None = None, purpose: str | None = None, outward: bool | None = None) -> int:
        """All bytes, or those of a cloud, a purpose, a direction."""
        return sum(
            entry.bytes
            for entry in self
            if cloud in (None, entry.cloud) and purpose in (None, entry.purpose) and outward in (None, entry.outward)
        )
