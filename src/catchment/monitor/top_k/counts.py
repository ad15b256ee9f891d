"""LocalCounts: what a site knows of its own stream, each count between two bounds; exact or by a sketch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError, KeyTypeError, TimeError, WeightError
from catchment.sketch.checks import are_ones, as_weights, check_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import BINARY, INTEGER, TEXT, KeyBatch, as_keys, is_utf8
from catchment.window.clock import TIME_LIMIT, as_times, check_times

__all__ = ["COUNT_LIMIT", "Batch", "Counted", "LocalCounts"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

COUNT_LIMIT = 1 << 50
"""No site's total of weights reaches this, so that the sums over thousands of sites fit in 64 bits; that of its window,
where counts are exact and in one."""

_NO_KIND = 255
_NAMES = {INTEGER: "integers", TEXT: "text", BINARY: "bytes"}


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The items that a site can name, with bounds on the count of each, and a bound on that of every other item."""

    keys: KeyBatch
    hashes: U64
    low: I64
    high: I64
    beyond: int
    find: Callable[[U64], I64]
    """The places of the items with these hashes, -1 for those that are not here."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Events that were checked and not yet counted."""

    keys: KeyBatch
    at: I64 | None
    weights: I64 | None
    time: int | None
    """The site's time after them; None while no time was ever told."""


class LocalCounts(ABC):
    """The counts of a site's own events: of the last `window` ticks up to its time, or of all of them.

    A site's time is the newest that it was told, by an event or by `until`. An event is in the window if its time is
    in `(time - window, time]`, whatever the order in which events come.

    Parameters
    ----------
    window
        The length of the window in ticks, any integer unit; None for the whole history.
    """

    _weighs_itself = False
    """Whether `_take` keeps the total weight, which may fall as time goes on."""

    def __init__(self, window: int | None) -> None:
        self.window = window
        self.kind: int | None = None
        self.position = 0
        self._newest: int | None = None
        self._mass = 0

    @property
    def time(self) -> int:
        """The end of the window; 0 while no time was told."""
        return 0 if self._newest is None else self._newest

    def update(self, keys: Any, *, at: Any = None, weights: Any = 1, until: int | None = None) -> None:
        """Count events: all of them or, with an error, none.

        `at` is the time of each, and may be left out where there is no window. `until` is a time that the site has
        reached even if no event says so.
        """
        self._commit(self._checked(keys, at, weights, until))

    def _commit(self, batch: Batch) -> None:
        self._take(batch)
        if len(batch.keys):
            self.kind = batch.keys.kind
        self.position += len(batch.keys)
        if not self._weighs_itself:
            self._mass += len(batch.keys) if batch.weights is None else int(batch.weights.sum())
        self._newest = batch.time

    def _checked(self, keys: Any, at: Any, weights: Any, until: int | None) -> Batch:
        batch = as_keys(keys)
        if len(batch):
            self._check_kind(batch)
        shares = None if are_ones(weights) else as_weights(weights, len(batch))
        total = check_mass("weights", self._mass, np.array([len(batch)]) if shares is None else shares)
        if total >= COUNT_LIMIT:
            raise WeightError(f"a total weight of {total}", f"keep it below 2^50 = {COUNT_LIMIT}, by a coarser unit")
        times = None
        if len(batch) and (at is not None or self.window is not None):
            times = as_times(at, len(batch))
            check_times(times)
        told = [] if self._newest is None else [self._newest]
        if until is not None:
            if not -TIME_LIMIT <= until <= TIME_LIMIT:
                raise TimeError(f"until={until}", f"keep it within 2^60 = {TIME_LIMIT} of zero")
            told.append(int(until))
        if times is not None:
            told.append(int(times.max()))
        return Batch(batch, times, shares, max(told, default=None))

    def _check_kind(self, batch: KeyBatch) -> None:
        if batch.kind not in _NAMES:
            raise KeyTypeError("keys that are hashes only", "give the keys themselves: a top-k names them")
        if self.kind is not None and batch.kind != self.kind:
            raise KeyTypeError(
                f"keys that are {_NAMES[batch.kind]} after keys that are {_NAMES[self.kind]}", "cast them to one type"
            )
        if batch.kind == TEXT and not is_utf8(batch):
            raise KeyTypeError("text that is not UTF-8", "cast the column to binary")

    @abstractmethod
    def _take(self, batch: Batch) -> None:
        """Count what was checked; `position`, `kind` and the time are still those from before."""

    @abstractmethod
    def counted(self) -> Counted:
        """The state of now; it may be changed by the next update."""

    def _write_head(self, writer: Writer) -> None:
        kind = _NO_KIND if self.kind is None else self.kind
        writer.numbers("qq?qB", self.position, self._mass, self._newest is not None, self.time, kind)

    @staticmethod
    def _read_head(reader: Reader) -> dict[str, Any]:
        """What `_write_head` wrote, by the names of the fields that it was in; checked, and not yet taken."""
        position, mass, started, time, kind = reader.numbers("qq?qB")
        sane = position >= 0 and 0 <= mass < COUNT_LIMIT and abs(time) <= TIME_LIMIT and (started or not time)
        if not sane or kind not in (*_NAMES, _NO_KIND):
            raise DamagedBytesError(f"counts at position {position} and time {time}")
        newest = time if started else None
        return {"position": position, "_mass": mass, "_newest": newest, "kind": None if kind == _NO_KIND else kind}

    @abstractmethod
    def to_bytes(self) -> bytes:
        """All of it, to go on from after a restart."""

    @abstractmethod
    def load(self, blob: bytes) -> None:
        """Become what wrote these bytes, with the parameters that this one has; or raise and stay as it was."""
