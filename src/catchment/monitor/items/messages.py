"""What a site and its coordinator say to each other about items.

    ItemsReport   site → coordinator   up to where my counts are in their bands, and the bands that are new
    ItemsOrder    coordinator → site   how many sites we are, and which bands are safe here

A report is a register: the bands that it brings are said again until they are stored, and only then are there others.
Bands are told one by one, each as it is now (never as a change of the one before), or all of them anew: after a
restart at either side the two agree on nothing, and a whole list is told. A list that is long is told in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.wire import BYTES, SINT, UINT, Message, part, wire

__all__ = ["BandList", "ItemsOrder", "ItemsReport"]


@dataclass(frozen=True, slots=True)
class BandList(Message):
    """Where bands begin, by the numbers of their items; with `whole`, all that there are.

    A name is said once: from then on the item is known by a number. A number that is not in use is that of a new item,
    and `names` has the new items in the order of their numbers. A band that begins at 0 is no band: its number is free.

    A long list is told in parts, one after the other, each a list of its own with its own number; what they say
    together is true of the cut of the last.
    """

    whole: int = wire(1, UINT, "1: all bands of the site. 0: those that have changed since the list before it.")
    lows: bytes = wire(2, BYTES, "Numbers of items and where their bands begin, plus one, packed.")
    names: Names | None = part(3, Names, "The names of the new items.")  # noqa: RUF009
    more: int = wire(4, UINT, "1: it is a part, and the next list goes on with it; nothing follows from it yet.")


@dataclass(frozen=True, slots=True)
class ItemsReport(Message):
    """A site's newest word: with the bands up to list `number`, all its counts at `position` are in their bands."""

    kind: ClassVar[int] = 40

    query: int = wire(1, UINT, "Which query it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life that the site has heard of last; 0: none yet.")
    incarnation: int = wire(3, UINT, "The site's life.")
    seq: int = wire(4, UINT, "Rises with every report of a life.")
    position: int = wire(5, UINT, "How many events are in what it says.")
    time: int = wire(6, SINT, "The site's time there, in ticks.")
    sites: int = wire(7, UINT, "The number of sites that the bands are made for; 0: it is not known here yet.")
    number: int = wire(8, UINT, "The number of the last list in this life.")
    bands: BandList | None = part(9, BandList, "The last list, until it is stored.")  # noqa: RUF009
    watch: int = wire(10, UINT, "A fingerprint of what is watched, with a whole list and before an order was heard.")
    leaving: int = wire(11, UINT, "1: the stream is over.")


@dataclass(frozen=True, slots=True)
class ItemsOrder(Message):
    """The coordinator's newest word to one site."""

    kind: ClassVar[int] = 41

    query: int = wire(1, UINT, "Which query it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life.")
    incarnation: int = wire(3, UINT, "The life of the site that it is meant for.")
    seq: int = wire(4, UINT, "Rises with every order of a life.")
    acked: int = wire(5, UINT, "The newest report that was heard.")
    stored: int = wire(6, UINT, "The last list of that life that is safe here.")
    sites: int = wire(7, UINT, "How many sites take part.")
