"""Traffic: bytes and messages, by direction and purpose, counted where they are encoded."""

from __future__ import annotations

from collections import Counter

__all__ = ["Traffic"]


class Traffic:
    """A book of what one machine has sent.

    >>> book = Traffic()
    >>> book.add("control", 12)
    >>> book.add("data", 800)
    >>> book.bytes(), book.bytes("data"), book.messages()
    (812, 800, 2)
    """

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()

    def add(self, purpose: str, size: int) -> None:
        self._bytes[purpose] += size
        self._messages[purpose] += 1

    def bytes(self, purpose: str | None = None) -> int:
        return sum(self._bytes.values()) if purpose is None else self._bytes[purpose]

    def messages(self, purpose: str | None = None) -> int:
        return sum(self._messages.values()) if purpose is None else self._messages[purpose]

    def to_dict(self) -> dict[str, dict[str, int]]:
        return {name: {"bytes": self._bytes[name], "messages": self._messages[name]} for name in sorted(self._bytes)}
