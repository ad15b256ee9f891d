"""What a source is: batches of events, each with its position; and what becomes of lines that are no events."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BadLine", "BadLines", "Batch", "Source"]

I64 = NDArray[np.int64]
_LOG = logging.getLogger(__name__)
_SHOWN = 200


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Events: their keys (an Arrow array of texts, or int64s), their times in ticks, and the position after the last.

    A position counts events, from the beginning of the source; lines that are no events do not count. A batch without
    events may have a `time`: so far time has gone on, by the clock on the wall, while the source was silent.
    """

    keys: Any
    times: I64 | None
    position: int
    time: int | None = None

    def __len__(self) -> int:
        return len(self.keys)


class Source(Protocol):
    """Where the events of a site come from."""

    bad: BadLines

    @property
    def replayable(self) -> bool:
        """Whether events from any position on can be had again, so that a crash loses none and doubles none."""
        ...

    def start(self, position: int, marks: bytes = b"") -> None:
        """Begin after so many events; `marks` are those of an earlier life, and only make it quicker."""
        ...

    def next(self) -> Batch | None:
        """The next events, waiting for them; None at the end, or once `stop` was called. May run in a thread."""
        ...

    def marks(self) -> bytes:
        """What helps a later life to find its position."""
        ...

    def stop(self) -> None:
        """Make `next` return soon."""
        ...

    def close(self) -> None:
        """Let go of what is open; nothing is asked for any more."""
        ...


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line, or a record, that is no event: its number from 1 on, why, and how it begins."""

    number: int
    reason: str
    text: str


class BadLines:
    """How many lines were no events, by reason, and the first of them."""

    def __init__(self, keep: int = 20) -> None:
        self._keep = keep
        self.count = 0
        self.reasons: Counter[str] = Counter()
        self.first: list[BadLine] = []

    def add(self, reason: str, numbers: I64, text_of: Callable[[int], bytes]) -> None:
        """Count lines; `text_of` gives the content of the n-th of them."""
        if not numbers.size:
            return
        self.count += numbers.size
        self.reasons[reason] += numbers.size
        for place in range(min(numbers.size, self._keep - len(self.first))):
            line = BadLine(int(numbers[place]), reason, text_of(place)[:_SHOWN].decode(errors="replace"))
            self.first.append(line)
            _LOG.warning("line %d is no event (%s): %s", line.number, line.reason, line.text)

    def sum_up(self) -> None:
        """Log how many there were in this life, if more than were logged one by one."""
        found = self.reasons.total()
        if found > len(self.first):
            listed = "; ".join(f"{reason}: {count:,}" for reason, count in self.reasons.most_common())
            _LOG.warning("%d lines were no events (%s)", found, listed)
