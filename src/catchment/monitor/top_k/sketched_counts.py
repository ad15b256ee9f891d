"""SketchedCounts: local counts by Space Saving, over the whole history or in panes, in memory that does not grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Ranking
from catchment.errors import DamagedBytesError, MergeError, ParameterError
from catchment.monitor.top_k.counts import Batch, Counted, LocalCounts
from catchment.sketch.base import Sketch
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import as_keys
from catchment.sketch.space_saving import SpaceSaving
from catchment.window.clock import TIME
from catchment.window.panes import Panes

__all__ = ["SketchedCounts"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


class SketchedCounts(LocalCounts):
    """The heaviest items with the bounds that the sketch gives, which never fail; of all others, its floor.

    Parameters
    ----------
    sketch
        An empty `SpaceSaving` for the whole history, or `Panes` of one with a window of time. It is taken over.

    Examples
    --------
    >>> counts = SketchedCounts(Panes(SpaceSaving(epsilon=0.1), window=100, panes=10))
    >>> counts.update(["a", "b", "a"], at=[10, 20, 60])
    >>> counted = counts.counted()
    >>> counted.low.tolist(), counted.high.tolist(), counted.beyond
    ([2, 1], [2, 1], 0)
    """

    def __init__(self, sketch: SpaceSaving | Panes) -> None:
        inner = sketch.prototype if isinstance(sketch, Panes) else sketch
        if not isinstance(inner, SpaceSaving) or (isinstance(sketch, Panes) and sketch.clock != TIME):
            raise ParameterError(
                f"local counts by a {type(inner).__name__}", "give a SpaceSaving, or Panes of one with window="
            )
        super().__init__(sketch.window if isinstance(sketch, Panes) else None)
        self._sketch = sketch
        self._capacity = inner.capacity
        self._counted: Counted | None = None

    def _take(self, batch: Batch) -> None:
        weights = 1 if batch.weights is None else batch.weights
        if len(batch.keys) and isinstance(self._sketch, Panes):
            self._sketch.update(batch.keys, at=batch.at, weights=weights)
        elif len(batch.keys):
            self._sketch.update(batch.keys, weights=weights)
        self._counted = None

    def counted(self) -> Counted:
        if self._counted is None:
            self._counted = self._asked()
        return self._counted

    def _asked(self) -> Counted:
        ranking: Ranking
        if isinstance(self._sketch, Panes):
            ranking = self._sketch.ask("top", self._capacity, now=self.time)
            beyond = self._sketch.ask("estimate", [_stranger(ranking.keys)], now=self.time).high
        else:
            ranking = self._sketch.top(self._capacity)
            beyond = self._sketch.estimate([_stranger(ranking.keys)]).high
        keys = as_keys(list(ranking.keys))
        hashes = keys.hashes()
        order = np.argsort(hashes)
        low, high = (np.asarray(end).astype(np.int64) for end in (ranking.answers.low, ranking.answers.high))

        def find(wanted: U64) -> I64:
            if not hashes.size:
                return np.full(wanted.size, -1, dtype=np.int64)
            places = order[np.minimum(np.searchsorted(hashes, wanted, sorter=order), hashes.size - 1)]
            return np.where(hashes[places] == wanted, places, -1)

        return Counted(keys, hashes, low, high, int(np.asarray(beyond).max(initial=0)), find)

    def to_bytes(self) -> bytes:
        writer = Writer()
        self._write_head(writer)
        writer.raw(self._sketch.to_bytes())
        return writer.getvalue()

    def load(self, blob: bytes) -> None:
        reader = Reader(memoryview(blob))
        head = self._read_head(reader)
        sketch = Sketch.from_bytes(bytes(reader.raw(reader.left)))
        try:
            Sketch._check_fit(self._sketch, sketch)
        except MergeError as problem:
            raise DamagedBytesError(f"another sketch's counts: {problem.problem}", "build the peer as before") from None
        assert isinstance(sketch, SpaceSaving | Panes)
        self._sketch, self._counted = sketch, None
        vars(self).update(head)


def _stranger(keys: tuple[object, ...]) -> str:
    """An item that is none of these: what a sketch says of it, it says of every item that it does not keep."""
    taken = set(keys) | {key.decode(errors="replace") for key in keys if isinstance(key, bytes)}
    number = 0
    while f"no item {number}" in taken:
        number += 1
    return f"no item {number}"
