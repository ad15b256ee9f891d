"""What peers of a top-k say to each other: the list of a site, or that the list it sent before still stands.

Both are the same for all peers, so that they are encoded once. There is no centre and so no epoch; `seq` is the
sender's round. `version` is the round in which its list became what it is. `heard` names, for each member in the
order of their names, the list that the sender holds of it by (incarnation, version), 0 for none. It is the
acknowledgement, and it says more: the sender's own list holds its count of whatever those lists nominate, so that
what is not in it is not at that site. `members` is a digest of the names: where it differs from the receiver's,
`heard` cannot be read, and lists are sent again until the two agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from catchment.errors import ParameterError
from catchment.monitor.top_k.counts import COUNT_LIMIT
from catchment.monitor.wire import BYTES, SINT, TEXT, UINT, UINTS, Message, wire
from catchment.window.clock import TIME_LIMIT

__all__ = ["LIFE_LIMIT", "ListMessage", "PulseMessage", "digest_of"]

LIFE_LIMIT = 1 << 62
"""Incarnations and rounds stay below this."""


def digest_of(members: Sequence[str]) -> int:
    """A number of 32 bits for a list of names.

    >>> digest_of(["a", "b"]) == digest_of(["ab"])
    False
    """
    told = b"".join(len(name.encode()).to_bytes(4, "little") + name.encode() for name in members)
    return int.from_bytes(hashlib.blake2b(told, digest_size=4).digest(), "little")


@dataclass(frozen=True, slots=True)
class ListMessage(Message):
    """A site's whole list, as of `position` events and event time `time`; it replaces all before it."""

    kind: ClassVar[int] = 30

    query: str = wire(1, TEXT)
    incarnation: int = wire(2, UINT)
    seq: int = wire(3, UINT)
    version: int = wire(4, UINT)
    members: int = wire(5, UINT)
    heard_incarnations: tuple[int, ...] = wire(6, UINTS)
    heard_versions: tuple[int, ...] = wire(7, UINTS)
    window: int = wire(8, UINT)
    position: int = wire(9, UINT)
    time: int = wire(10, SINT)
    floor: int = wire(11, UINT)
    beyond: int = wire(12, UINT)
    shortlist: bytes = wire(13, BYTES)

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        _check_header(self)
        if self.position >= LIFE_LIMIT or abs(self.time) > TIME_LIMIT or self.floor >= COUNT_LIMIT:
            raise ParameterError(f"a list at {self.position}, {self.time}", "keep positions and times in their limits")


@dataclass(frozen=True, slots=True)
class PulseMessage(Message):
    """The sender lives, and its list is still the one of that version."""

    kind: ClassVar[int] = 31

    query: str = wire(1, TEXT)
    incarnation: int = wire(2, UINT)
    seq: int = wire(3, UINT)
    version: int = wire(4, UINT)
    members: int = wire(5, UINT)
    heard_incarnations: tuple[int, ...] = wire(6, UINTS)
    heard_versions: tuple[int, ...] = wire(7, UINTS)

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        _check_header(self)


def _check_header(message: ListMessage | PulseMessage) -> None:
    lives = (message.incarnation, message.seq, message.version, *message.heard_incarnations, *message.heard_versions)
    if (
        max(lives) >= LIFE_LIMIT
        or not 1 <= message.version <= message.seq
        or message.incarnation < 1
        or len(message.heard_incarnations) != len(message.heard_versions)
    ):
        raise ParameterError(
            f"round {message.seq} of life {message.incarnation} with version {message.version}",
            "lives and rounds count from 1, and what was heard is one pair for each member",
        )
