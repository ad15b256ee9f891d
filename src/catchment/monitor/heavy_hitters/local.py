"""Local: what a site knows of its own events in a watch of heavy hitters, whether of all or of those in a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError
from catchment.monitor.heavy_hitters.names import Key
from catchment.sketch.checks import are_ones, check_total
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch

__all__ = ["Local"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class Local(ABC):
    """Counts of a site's events, and the candidates: the items that may be heavy here."""

    time = 0
    """In windows the end of the newest pane."""

    def __init__(self) -> None:
        self.position = 0

    def check(self, batch: KeyBatch, times: Any, weights: Any, stream: int) -> Any:
        """Refuse what cannot be counted, before anything is changed; what comes back is for `add`."""
        if stream:
            raise InputError(f"events of stream {stream}", "heavy hitters are of stream 0 alone")
        if not are_ones(weights):
            raise InputError("events with weights", "heavy hitters count events: leave weights out, or watch Items")
        batch.spans(np.zeros(0, dtype=np.int64))  # refuses keys that are hashes only: items must be named
        check_total("events", self.position + len(batch))
        return self._timed(batch, times)

    @abstractmethod
    def _timed(self, batch: KeyBatch, times: Any) -> Any:
        """The batch with what is to be known of its times."""

    @abstractmethod
    def add(self, checked: Any) -> None:
        """Count what was checked, and see who is a candidate after it."""

    @abstractmethod
    def advance(self, time: int) -> None:
        """Let time pass without an event."""

    @property
    @abstractmethod
    def total(self) -> int:
        """How many events the counts are of."""

    @property
    @abstractmethod
    def candidates(self) -> Mapping[int, Key]:
        """The candidates' names by their hashes."""

    @abstractmethod
    def counts(self, hashes: U64) -> I64:
        """Upper bounds."""

    @abstractmethod
    def slack(self, sites: int) -> int:
        """What counts may be too high by, so that all of so many sites' hold together."""

    @abstractmethod
    def onsets(self, hashes: U64) -> tuple[int, ...]:
        """For how many panes up to now each item has been heavy; nothing where time is not kept."""

    @abstractmethod
    def write(self, writer: Writer) -> None: ...

    @abstractmethod
    def read(self, reader: Reader) -> None: ...
