"""Neighbour: what a peer holds of another one: its newest list, what it has heard itself, and when it last spoke."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catchment.monitor.top_k.shortlist import Shortlist

__all__ = ["ABSENT", "MISSING", "NOTHING", "PRESENT", "Cut", "Heard", "Neighbour", "Nominations"]

U64 = NDArray[np.uint64]

ABSENT, PRESENT, MISSING = "ABSENT", "PRESENT", "MISSING"

Heard = tuple[int, int]
"""A list by the incarnation of its site and its version."""

NOTHING: Heard = (0, 0)

_REMEMBERED = 16
"""How many of a site's lists are remembered by their nominations: as many rounds may acknowledgements be behind."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A moment in a site's stream: after so many events, at that event time."""

    position: int
    time: int


class Nominations:
    """Which items a site nominated in its last few lists."""

    def __init__(self) -> None:
        self._by_list: OrderedDict[Heard, U64] = OrderedDict()

    def remember(self, which: Heard, nominations: U64) -> None:
        self._by_list[which] = nominations
        while len(self._by_list) > _REMEMBERED:
            self._by_list.popitem(last=False)

    def of(self, which: Heard) -> U64 | None:
        return self._by_list.get(which)


@dataclass(slots=True)
class Neighbour:
    """Another peer, as seen from here."""

    state: str = ABSENT
    spoke: int = 0
    """When it last said something new, by our clock."""
    newest: tuple[int, int] = NOTHING
    """The newest round of it, by (incarnation, seq)."""
    held: Heard = NOTHING
    shortlist: Shortlist | None = None
    cut: Cut = field(default_factory=lambda: Cut(0, 0))
    told: tuple[int, int] = NOTHING
    """The round in which it said what it has heard, with the list that is held here."""
    heard: dict[str, Heard] = field(default_factory=dict)
    """The lists whose nominations it looked for when it made the list that is held."""
    acknowledged: Heard = NOTHING
    """The list of ours that it holds, by its newest round."""
    nominations: Nominations = field(default_factory=Nominations)

    def looked_for(self, nominations: dict[str, Nominations]) -> U64:
        """The items whose absence from its list means that the site does not have them."""
        found = list(self._found(nominations))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)

    def _found(self, nominations: dict[str, Nominations]) -> Iterator[U64]:
        for name, which in self.heard.items():
            hashes = nominations[name].of(which) if name in nominations else None
            if hashes is not None:
                yield hashes
