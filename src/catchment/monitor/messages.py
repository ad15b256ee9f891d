"""What a site and its coordinator say to each other about a monitored quantity.

Each side keeps one register for the other, its newest word, with a sequence number, and sends it again until a message
from there acknowledges that number. A register says everything that still matters (a level since the step began, a
whole flush), never an increment, so a message that is lost, doubled or late changes nothing (`research`: increments
broke the bound under every fault; cumulative content under none).

    Report   site → coordinator   where I am, how far I have drifted, and what you asked for
    Order    coordinator → site   the round and step to be in, its zone, and what I ask for

Both name the query, the coordinator's life (epoch), the round (which vectors and which zone), the step in it (which
quantum or slack), the site's life (incarnation) and the sender's sequence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catchment.monitor.wire import BYTES, DOUBLE, DOUBLES, SINT, UINT, Message, part, wire

__all__ = ["WANT_FLUSH", "WANT_STATISTIC", "Flush", "Order", "Report"]

WANT_STATISTIC, WANT_FLUSH = 1, 2
"""What an order asks for."""


@dataclass(frozen=True, slots=True)
class Flush(Message):
    """The change of a site's vector since its last flush; with `whole`, all of the vector; with `partial`, some of it.

    Its number is that of the report that brings it, and it is `behind` and `older` than the report's position and time.
    `fell` says that there has been an event of negative weight, in it or before. `cells` are packed differences of all
    cells, `updates` packed keys and weights: one of the two, the smaller.
    """

    whole: int = wire(1, UINT, "1: all of the vector. 0: the change since the flush before it in this life.")
    behind: int = wire(2, UINT, "How many events the site has taken since, of those in the report's position.")
    older: int = wire(3, UINT, "How many ticks have passed since, of those in the report's time.")
    fell: int = wire(4, UINT, "1: there has been an event of negative weight, ever.")
    cells: bytes = wire(5, BYTES, "The change of every cell, packed.")
    updates: bytes = wire(6, BYTES, "The keys that made the change, hashed, and their weights, packed; or cells.")
    partial: int = wire(7, UINT, "1: only a part of the change, the heaviest keys; the rest is under guard.")

    @property
    def size(self) -> int:
        """The bytes of the change itself."""
        return len(self.cells) + len(self.updates)


@dataclass(frozen=True, slots=True)
class Report(Message):
    """A site's newest word on one query.

    `position` and `time` say up to where the events are in it; `level` how many quanta the slack has shrunk in this
    step, at worst; `statistic` the small vector that the order asked for; `number` counts the flushes of the site's
    life, and `flush` is the last of them, as long as it is not acknowledged. `urgent`, or a flush, asks for an
    acknowledgement; `watch` is a fingerprint of what is monitored and how.
    """

    kind: ClassVar[int] = 1

    query: int = wire(1, UINT, "Which query it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life whose order the site is following; 0: none yet.")
    round: int = wire(3, UINT, "The round of that order.")
    step: int = wire(4, UINT, "The step of that order.")
    incarnation: int = wire(5, UINT, "The site's life.")
    seq: int = wire(6, UINT, "Rises with every report of a life.")
    acked: int = wire(7, UINT, "The newest order that the site has heard.")
    position: int = wire(8, UINT, "How many events are in what it says.")
    time: int = wire(9, SINT, "The site's time there, in ticks.")
    level: int = wire(10, UINT, "How far the slack of this step is used up; 0: all is well.")
    statistic: tuple[float, ...] = wire(11, DOUBLES, "The small vector that was asked for.")
    flush: Flush | None = part(12, Flush, "The last flush, until it is stored.")  # noqa: RUF009
    number: int = wire(13, UINT, "The number of the last flush in this life.")
    pending: int = wire(14, UINT, "How many events came since then.")
    urgent: int = wire(15, UINT, "1: acknowledge this.")
    watch: int = wire(16, UINT, "A fingerprint of what is watched, until an order was heard.")
    leaving: int = wire(17, UINT, "1: the stream is over, and the flush is the last.")
    heard: int = wire(18, UINT, "A later life of the coordinator, heard and not followed yet; 0: none.")


@dataclass(frozen=True, slots=True)
class Order(Message):
    """The coordinator's newest word to one site on one query.

    `stored` is the number of the last flush of that life which is safe here. `want` asks for a statistic (1) or for a
    flush (2). `rule` and `zone` hold for the round, `quantum` and `slack` for the step; all of them are left out once
    the site has them.
    """

    kind: ClassVar[int] = 2

    query: int = wire(1, UINT, "Which query it is about.")
    epoch: int = wire(2, UINT, "The coordinator's life.")
    round: int = wire(3, UINT, "The round, which has one reference and one zone.")
    step: int = wire(4, UINT, "The step in the round.")
    incarnation: int = wire(5, UINT, "The life of the site that it is meant for.")
    seq: int = wire(6, UINT, "Rises with every new order of a life.")
    acked: int = wire(7, UINT, "The newest report that was heard.")
    stored: int = wire(8, UINT, "The last flush of that life that is safe here.")
    want: int = wire(9, UINT, "1: a statistic. 2: a flush.")
    rule: int = wire(10, UINT, "Which rule holds in this round.")
    zone: bytes = wire(11, BYTES, "What the rule needs to know at a site; left out once the site has it.")
    quantum: float = wire(12, DOUBLE, "The unit of the levels, or the budget.")
    slack: tuple[float, ...] = wire(13, DOUBLES, "A vector to add to the site's own.")
    urgent: int = wire(14, UINT, "1: acknowledge this.")
    keeps: int = wire(15, UINT, "The round whose zone holds on, instead of a new one; 0: none.")
    share: float = wire(16, DOUBLE, "With it: the part of that zone's slack that is the sites'.")
