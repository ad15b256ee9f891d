"""What sites and coordinator say to each other: one register each way, whole every time.

| thesis (Listings 4.2 to 4.5) | here |
|---|---|
| warn, reply | `Report`: a site at one position: all its candidates, and the counts of all that it was asked for |
| request, detection | `Ask`: all items that the coordinator wants counts of, and which of them are heavy |
| (a perfect network) | `Heard`: the newest report that has arrived |

A newer message of a sender replaces an older one, so loss, doubling, delay and disorder cost time and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.names import Key, Names
from catchment.monitor.wire import BYTES, SINT, UINT, UINTS, Message, part, wire

__all__ = ["HeavyAsk", "HeavyHeard", "HeavyReport"]


@dataclass(frozen=True, slots=True)
class HeavyReport(Message):
    """A site at one position.

    `counts` are upper bounds: first of the items of the list that it was `asked` for, in the order of that list, then
    of its `others`: candidates that are not on the list. What is in neither is below the threshold at this site.
    """

    kind: ClassVar[int] = 20
    query: int = wire(1, UINT, "Which question it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life.")
    asked: int = wire(3, UINT, "The version of the list that the counts are of first; 0: none.")
    incarnation: int = wire(4, UINT, "The site's life.")
    seq: int = wire(5, UINT, "Rises with every report of a life.")
    position: int = wire(6, UINT, "How many events are in it.")
    total: int = wire(7, UINT)
    """Events in the history, or in the window."""
    time: int = wire(8, SINT)
    """The window's end; 0 without a window."""
    slack: int = wire(9, UINT)
    """What a count may be too high by, by what the rows hold."""
    others: Names | None = part(10, Names, "Candidates that are not on the list.")  # noqa: RUF009
    counts: tuple[int, ...] = wire(11, UINTS, "Upper bounds: of the list, in its order, then of the others.")
    onsets: tuple[int, ...] = wire(12, UINTS)
    """For each heavy item of the list, the panes for which it has been heavy here without a break; only in windows."""
    sites: int = wire(13, UINT, "The number of sites that the slack is worked out for; 0: it is not known here yet.")
    watch: int = wire(14, UINT, "A fingerprint of what is watched, until a report in this epoch has arrived.")
    leaving: int = wire(15, UINT, "1: the stream is over. All its items are among the others.")

    def named(self) -> tuple[Key, ...]:
        return () if self.others is None else self.others.keys()


@dataclass(frozen=True, slots=True)
class HeavyAsk(Message):
    """All items that the coordinator wants to have counts of; `heavy` has a bit for each, the first the lowest."""

    kind: ClassVar[int] = 21
    query: int = wire(1, UINT, "Which question it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life.")
    version: int = wire(3, UINT, "Rises with every list of a life.")
    incarnation: int = wire(4, UINT, "The site's life.")
    heard: int = wire(5, UINT)
    """The newest report that has arrived, by incarnation and sequence number."""
    items: Names | None = part(6, Names, "The items to count.")  # noqa: RUF009
    heavy: bytes = wire(7, BYTES, "A bit for each item: whether it is heavy.")
    sites: int = wire(8, UINT, "How many sites take part.")

    def named(self) -> tuple[Key, ...]:
        return () if self.items is None else self.items.keys()

    def flags(self) -> tuple[bool, ...]:
        """Which of the items are heavy."""
        count = len(self.named())
        bits = int.from_bytes(self.heavy, "little")
        if bits >> count or self.heavy.endswith(b"\0"):
            raise DamagedBytesError(f"{len(self.heavy)} bytes of flags for {count} items")
        return tuple(bool(bits >> place & 1) for place in range(count))

    @staticmethod
    def packed(flags: tuple[bool, ...]) -> bytes:
        bits = sum(1 << place for place, flag in enumerate(flags) if flag)
        return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


@dataclass(frozen=True, slots=True)
class HeavyHeard(Message):
    """The newest report that has arrived, where there is nothing to ask."""

    kind: ClassVar[int] = 22
    query: int = wire(1, UINT, "Which question it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life.")
    incarnation: int = wire(3, UINT, "The site's life.")
    heard: int = wire(4, UINT, "The newest report that has arrived.")
