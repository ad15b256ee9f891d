"""A trace: what happened in a run, line by line, and one hash over all of it."""

from __future__ import annotations

import hashlib

__all__ = ["Record", "Trace"]

Record = tuple[int, str, str, int, int]
"""Virtual time, what happened, where, a size, a checksum."""

_FOLD = 4096


class Trace:
    """Records of a run; only the last few are kept, unless all are wanted, but each is in the hash.

    Writers append to `records` and call `fold` now and then: hashing many at once costs less for each.

    >>> trace = Trace()
    >>> trace.records.append((17, "deliver", "a → b", 3, 255))
    >>> trace.lines(1)
    ['        17 ms  deliver   a → b  3 bytes 000000ff']
    """

    def __init__(self, *, keep: int | None = 200) -> None:
        self.records: list[Record] = []
        self.keep = keep
        self._hash = hashlib.sha256()
        self._hashed = 0

    @property
    def fold_at(self) -> int:
        return self._hashed + _FOLD

    def fold(self) -> None:
        self._hash.update(self._unhashed())
        if self.keep is not None:
            del self.records[: -self.keep]
        self._hashed = len(self.records)

    def digest(self) -> str:
        whole = self._hash.copy()
        whole.update(self._unhashed())
        return whole.hexdigest()

    def lines(self, last: int | None = None) -> list[str]:
        chosen = self.records if last is None else self.records[-last:]
        return [_line(record) for record in chosen]

    def _unhashed(self) -> bytes:
        # Formatted, not repr: a quarter of the time.
        return "".join(["%d %s %s %d %d\n" % record for record in self.records[self._hashed :]]).encode()  # noqa: UP031


def _line(record: Record) -> str:
    time, what, where, size, checksum = record
    detail = f"  {size} bytes {checksum:08x}" if checksum else f"  {size}" if size else ""
    return f"{time:>10} ms  {what:<9} {where}{detail}"
