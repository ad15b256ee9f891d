"""Patience: how long to wait before the same is said again; twice as long each time, until something is heard."""

from __future__ import annotations

__all__ = ["Patience"]


class Patience:
    """From `first` to `most` milliseconds.

    >>> patience = Patience(100, 500)
    >>> waits = []
    >>> for _ in range(4):
    ...     waits.append(patience.wait)
    ...     patience.lose()
    >>> waits
    [100, 200, 400, 500]
    """

    __slots__ = ("_first", "_most", "wait")

    def __init__(self, first: int, most: int) -> None:
        self._first, self._most = first, max(first, most)
        self.wait = first

    def lose(self) -> None:
        """It was said again, to no avail so far."""
        self.wait = min(2 * self.wait, self._most)

    def regain(self) -> None:
        """Something was heard, or there is something new to say."""
        self.wait = self._first
