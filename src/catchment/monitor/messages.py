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

__all__ = ["Flush", "Order", "Report"]


@dataclass(frozen=True, slots=True)
class Flush(Message):
    """The change of a site's vector since its last flush; with `whole`, all of the vector.

    Its number is that of the report that brings it, and it is `behind` and `older` than the report's position and time.
    `fell` says that an event of negative weight is in it. `cells` are packed differences of all cells, `updates` packed
    keys and weights: one of the two, the smaller.
    """

    whole: int = wire(1, UINT)
    behind: int = wire(2, UINT)
    older: int = wire(3, UINT)
    fell: int = wire(4, UINT)
    cells: bytes = wire(5, BYTES)
    updates: bytes = wire(6, BYTES)


@dataclass(frozen=True, slots=True)
class Report(Message):
    """A site's newest word on one query.

    `position` and `time` say up to where the events are in it; `level` how many quanta the slack has shrunk in this
    step, at worst; `statistic` the small vector that the order asked for; `number` counts the flushes of the site's
    life, and `flush` is the last of them, as long as it is not acknowledged. `urgent`, or a flush, asks for an
    acknowledgement; `watch` is a fingerprint of what is monitored and how.
    """

    kind: ClassVar[int] = 1

    query: int = wire(1, UINT)
    epoch: int = wire(2, UINT)
    round: int = wire(3, UINT)
    step: int = wire(4, UINT)
    incarnation: int = wire(5, UINT)
    seq: int = wire(6, UINT)
    acked: int = wire(7, UINT)
    position: int = wire(8, UINT)
    time: int = wire(9, SINT)
    level: int = wire(10, UINT)
    statistic: tuple[float, ...] = wire(11, DOUBLES)
    flush: Flush | None = part(12, Flush)  # noqa: RUF009
    number: int = wire(13, UINT)
    pending: int = wire(14, UINT)
    urgent: int = wire(15, UINT)
    watch: int = wire(16, UINT)
    leaving: int = wire(17, UINT)


@dataclass(frozen=True, slots=True)
class Order(Message):
    """The coordinator's newest word to one site on one query.

    `stored` is the number of the last flush of that life which is safe here. `want` asks for a statistic (1) or for a
    flush (2). `rule` and `zone` hold for the round, `quantum` and `slack` for the step; all of them are left out once
    the site has them.
    """

    kind: ClassVar[int] = 2

    query: int = wire(1, UINT)
    epoch: int = wire(2, UINT)
    round: int = wire(3, UINT)
    step: int = wire(4, UINT)
    incarnation: int = wire(5, UINT)
    seq: int = wire(6, UINT)
    acked: int = wire(7, UINT)
    stored: int = wire(8, UINT)
    want: int = wire(9, UINT)
    rule: int = wire(10, UINT)
    zone: bytes = wire(11, BYTES)
    quantum: float = wire(12, DOUBLE)
    slack: tuple[float, ...] = wire(13, DOUBLES)
    urgent: int = wire(14, UINT)
