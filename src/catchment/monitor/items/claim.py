"""ItemsClaim: the items that may have reached the threshold, with the bounds that the sites' bands give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.answer import Answer
from catchment.monitor.heavy_hitters.names import Key, in_order, plain_key
from catchment.monitor.items.held import Held
from catchment.monitor.items.watch import Items

__all__ = ["ItemCount", "ItemsClaim", "items_of", "leaves_room"]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """An item of the set, and the bounds of its count over all sites; `certain`: it has reached the threshold."""

    key: Key
    answer: Answer
    certain: bool


@dataclass(frozen=True, slots=True)
class ItemsClaim:
    """What the coordinator says about one watch of items, and about which events.

    It holds for the events up to `cut`: by site, how many of its events are in it, and its time. Every item with a
    count of at least `threshold` there is in `items`, heaviest first, and each count is within its bounds. None is
    below (1 - theta) of the threshold, unless sites have left, or are missing, whose bands were made for fewer sites
    than there are now: those are wider. `missing` names the sites that are silent for longer than their lease: what
    they told last is in it, at that cut. `left` names those that have said farewell.
    """

    query: int
    threshold: float
    theta: float
    items: tuple[ItemCount, ...]
    cut: dict[str, tuple[int, int]]
    epoch: int
    state: str
    sites: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(item.key for item in self.items)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, ready for JSON; bytes that are no text as their hex digits."""
        items = [
            {"key": plain_key(item.key), "low": item.answer.low, "high": item.answer.high, "certain": item.certain}
            for item in self.items
        ]
        return {
            "threshold": self.threshold, "theta": self.theta, "items": items,
            "cut": {site: list(cut) for site, cut in self.cut.items()}, "state": self.state,
            "sites": list(self.sites), "missing": list(self.missing), "left": list(self.left),
        }  # fmt: skip


def items_of(watch: Items, held: Mapping[str, Held]) -> tuple[ItemCount, ...]:
    """The set that follows from all sites' bands, each as wide as it was made."""
    hashes, lows, more = [], [], []
    for part in held.values():
        told, sites = part.lows > 0, part.sites or len(held)
        hashes.append(part.hashes[told])
        lows.append(part.lows[told])
        more.append(lows[-1] + watch.widths(lows[-1], sites) - watch.narrowest(sites))
    unique, places = np.unique(np.concatenate(hashes), return_inverse=True)
    low, high = (np.zeros(unique.size, dtype=np.int64) for _ in range(2))
    np.add.at(low, places, np.concatenate(lows))
    np.add.at(high, places, np.concatenate(more))
    high += _untold(watch, held.values(), len(held))
    chosen = np.flatnonzero(high >= watch.threshold)
    names = _names(held.values(), set(unique[chosen].tolist()))
    rank = {key: place for place, key in enumerate(in_order(names.values()))}
    found = [(names[int(unique[place])], int(low[place]), int(high[place])) for place in chosen]
    found.sort(key=lambda one: (-one[1], -one[2], rank[one[0]]))
    return tuple(
        ItemCount(
            key, Answer((least + most) // 2, least, most, confidence=1.0, epsilon=watch.theta),
            least >= watch.threshold,
        )
        for key, least, most in found
    )  # fmt: skip


def _untold(watch: Items, held: Iterable[Held], sites: int) -> int:
    """The most that an item may have of which nobody has told: each has it in the band from 0."""
    return sum(watch.narrowest(part.sites or sites) for part in held)


def leaves_room(watch: Items, held: Iterable[Held], sites: int) -> bool:
    """Whether what nobody has told of is below the threshold for certain.

    With bands for this number of sites it is. Bands that were made for fewer are wider, and too many of them are not.
    """
    return _untold(watch, held, sites) < watch.threshold


def _names(held: Iterable[Held], wanted: set[int]) -> dict[int, Key]:
    names: dict[int, Key] = {}
    for part in held:
        here = np.isin(part.hashes, np.fromiter(wanted, dtype=np.uint64, count=len(wanted))) & (part.lows > 0)
        for place in np.flatnonzero(here).tolist():
            names[int(part.hashes[place])] = part.names[place]
    return names
