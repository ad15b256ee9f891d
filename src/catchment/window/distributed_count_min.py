"""DWCM: one windowed Count-Min of many sites, by sending the whole sketch now and then (thesis, section 3.2.5).

A site sends its sketch whenever `every` items have come since it last did; the coordinator keeps the newest of each
site and answers for all. Both are state machines without clock, socket or randomness: `handle` takes what came and
gives what is to be sent. A message is a number, one higher each time, and the bytes of the sketch, so it does not
matter if some are lost, doubled or out of order: what counts is the newest that arrived.

Rejected: sending only the counters that changed, for the sum at the coordinator would be wrong from the first message
that is lost.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, ParameterError, QueryError
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.keys import as_keys
from catchment.window.clock import ARRIVALS
from catchment.window.windowed_count_min import WindowedCountMin

__all__ = ["CountMinCoordinator", "CountMinSite", "items_between_messages"]

_NUMBER = struct.Struct("<Q")


def items_between_messages(sketch: WindowedCountMin, epsilon: float) -> int:
    """How many items a site takes between two messages: epsilon * M, rounded down, and at least one.

    M is the window. Where it is in ticks, that is right for one item a tick; give the number itself otherwise.

    >>> from catchment.window.simple_count_min import SimpleCountMin
    >>> items_between_messages(SimpleCountMin(arrivals=5000), 0.01)
    50
    """
    return max(1, math.floor(check_fraction("epsilon", epsilon) * sketch.window + 1e-9))


class CountMinSite:
    """One site: its sketch, and the messages that it owes the coordinator.

    **Guarantee.** At any time, fewer than `every` items are in the sketch and not in the last message, whatever the
    sizes of batches: at most window/every messages for each window of items (thesis, Theorem 3.9).

    **What it costs.** The bytes of the sketch for each message, counted in `sent_bytes`.

    Parameters
    ----------
    sketch
        An empty windowed Count-Min of one of the four kinds, the same at all sites.
    every
        Items between two messages; `items_between_messages` gives the thesis's epsilon * M.

    Examples
    --------
    >>> from catchment.window.perfect_count_min import PerfectCountMin
    >>> site = CountMinSite(PerfectCountMin(arrivals=100), every=10)
    >>> len(site.handle(["a"] * 25)), site.pending, site.sent_messages
    (2, 5, 2)

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.5.
    """

    def __init__(self, sketch: WindowedCountMin, *, every: int) -> None:
        self.sketch = sketch
        self.every = check_whole("every", every, 1, 2**60)
        self.pending = 0
        self.sent_messages = self.sent_bytes = 0

    def handle(self, keys: Any, *, at: Any = None) -> list[bytes]:
        """Take in events, and give the messages to send, in order."""
        batch = as_keys(keys)
        stamps = self.sketch._time.read(at, len(batch))  # refused whole before any part of it is taken
        hashes = batch.hashes()
        messages, done = [], 0
        while done < len(batch):
            upto = min(done + self.every - self.pending, len(batch))
            part = slice(done, upto)
            own = None if at is None else stamps.own[part]
            self.sketch._update_hashes(hashes[part], own, np.ones(upto - done, dtype=np.int64))
            self.pending = (self.pending + upto - done) % self.every
            done = upto
            if self.pending == 0:
                messages.append(self.flush())
        return messages

    def flush(self) -> bytes:
        """A message with all there is, for instance before a site goes quiet."""
        self.pending = 0
        self.sent_messages += 1
        message = _NUMBER.pack(self.sent_messages) + self.sketch.to_bytes()
        self.sent_bytes += len(message)
        return message


class CountMinCoordinator:
    """Answers for all sites by the newest sketch of each.

    **Guarantee.** A site has fewer than `every` items that the coordinator does not know of, so `high` is that much
    higher for each site (thesis, Theorem 3.10: at most s * epsilon * M). In windows of time the sketches are merged,
    and the bounds are those of the merged sketch, with its confidence, wider by that. In windows of arrivals each
    site's window is its own last so many items: answers are added, `low` is lower by as much too, since the unknown
    items push others out of the window, and the confidence is 1 - sites * delta, for any of the sites' lower bounds
    may fail.

    **What it costs.** One sketch for each site. What came is counted in `received_messages` and `received_bytes`.

    Parameters
    ----------
    sketch
        An empty sketch like those of the sites.
    sites
        The name of every site. One that has not been heard of yet may hold fewer than `every` items.
    every
        Items between two messages of a site.

    Examples
    --------
    >>> from catchment.window.perfect_count_min import PerfectCountMin
    >>> site = CountMinSite(PerfectCountMin(window=100), every=10)
    >>> coordinator = CountMinCoordinator(PerfectCountMin(window=100), sites=["north", "south"], every=10)
    >>> for message in site.handle(["a"] * 25, at=range(25)):
    ...     coordinator.handle("north", message)
    >>> print(coordinator.estimate("a"), coordinator.received_messages)
    20 in [20, 38] with confidence 0.9 2

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.5.
    """

    def __init__(self, sketch: WindowedCountMin, *, sites: Sequence[str], every: int) -> None:
        if not sites or len(set(sites)) != len(sites):
            raise ParameterError(f"sites={list(sites)!r}", "give each site's name once")
        self.sites = tuple(sites)
        self.every = check_whole("every", every, 1, 2**60)
        self._newest = {site: (0, sketch.copy()) for site in self.sites}
        self.received_messages = self.received_bytes = 0

    def handle(self, site: str, message: bytes) -> None:
        """Take in a message from a site; one that is older than the last is counted and left at that."""
        if site not in self._newest:
            raise ParameterError(f"no site {site!r}", f"there are {', '.join(self.sites)}")
        before, kept = self._newest[site]
        if len(message) < _NUMBER.size:
            raise DamagedBytesError(f"{len(message)} bytes are too few for a message")
        (number,) = _NUMBER.unpack_from(message)
        sketch = type(kept).from_bytes(memoryview(message)[_NUMBER.size :])
        kept._check_fit(kept, sketch)
        self.received_messages += 1
        self.received_bytes += len(message)
        if number > before:
            self._newest[site] = number, sketch

    @property
    def unknown(self) -> int:
        """The most items at all sites together that the coordinator may not know of."""
        return len(self.sites) * (self.every - 1)

    @property
    def unheard(self) -> tuple[str, ...]:
        """The sites that no message has come from."""
        return tuple(site for site, (number, _) in self._newest.items() if number == 0)

    def estimate(self, keys: Any, *, now: int | None = None) -> Answer:
        """How often each key was seen in the window at all sites, those items included that were not sent yet."""
        parts = [sketch for _, sketch in self._newest.values()]
        if parts[0].clock == ARRIVALS:
            if now is not None:
                raise QueryError(f"now={now} with windows of arrivals", "leave it out: each site counts its own")
            return self._added([part.estimate(keys) for part in parts])
        merged = type(parts[0]).merge(parts).estimate(keys, now=now)
        return replace(merged, high=merged.high + self.unknown, sites=self.sites, missing=self.unheard)

    def _added(self, answers: list[Answer]) -> Answer:
        """The sum of answers about each site's own window, which may have moved on by `every` - 1 items."""
        unknown = self.every - 1
        value, low, high = (
            np.array([getattr(answer, name) for answer in answers]) for name in ("value", "low", "high")
        )
        added = Answer(
            np.atleast_1d(value.sum(axis=0)),
            np.atleast_1d(np.maximum(low - unknown, 0).sum(axis=0)),
            np.atleast_1d((high + unknown).sum(axis=0)),
            confidence=max(0.0, 1 - sum(1 - answer.confidence for answer in answers)),
            epsilon=answers[0].epsilon,
            sites=self.sites,
            missing=self.unheard,
        )
        return added if value.ndim > 1 else added[0]
