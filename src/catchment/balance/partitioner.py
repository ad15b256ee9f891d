"""Partitioner: DKG as one object that learns, draws a map, and draws another when that is worth the move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_build import PAIRS, build_map
from catchment.balance.partition_map import PartitionMap
from catchment.balance.partition_report import PartitionReport, describe
from catchment.balance.relearn import Reconsidered, reconsider
from catchment.balance.stored import Stored
from catchment.errors import DamagedBytesError, ParameterError
from catchment.sketch.codec import Reader, Writer

__all__ = ["Partitioner"]

_LONGEST_NOTE = 1000


class Partitioner(Stored):
    """Distribution-aware key grouping: every key to one part, the parts evenly loaded.

    Until `build` is called keys are placed by plain hashing. From then on a key stays where it is until `build` or
    `adapt` give another map; both say what moved, and moving the keys' state is the caller's.

    **Guarantee.** With theta <= 1/parts, no part is expected to be above what full knowledge could do by more than the
    weight of a key that is not heavy and a bucket, as long as the stream stays as it was learnt.

    Parameters
    ----------
    parts
        How many instances, tasks or partitions there are.
    theta, mu, seed
        As in `KeyLearner.for_parts`.
    split
        As in `build_map`, for operators whose state merges.

    Examples
    --------
    >>> partitioner = Partitioner(4)
    >>> partitioner.learn(["hot"] * 100 + [f"key {n}" for n in range(300)])
    >>> chart = partitioner.build()
    >>> partitioner.place(["hot", "hot", "key 7"])[:2].tolist(), chart.loads.tolist()
    ([0, 0], [100, 100, 100, 100])
    """

    family = 42

    def __init__(
        self,
        parts: int,
        *,
        theta: float | None = None,
        mu: int = 64,
        split: float | str | None = None,
        seed: int = 0,
    ) -> None:
        self.learner = KeyLearner.for_parts(parts, theta=theta, mu=mu, seed=seed)
        """What was learnt since the last look at the map."""
        self.learnt = self.learner.empty()
        """What the map was last looked at with."""
        self.split = split
        self.map = build_map(self.learner, parts, split=split)
        self.last_change = ""

    @property
    def parts(self) -> int:
        return self.map.parts

    def learn(self, keys: Any, *, weights: Any = 1) -> None:
        """Take in events: they change nothing until a map is drawn."""
        self.learner.update(keys, weights=weights)

    def absorb(self, learners: Iterable[KeyLearner]) -> None:
        """Take in what was learnt elsewhere, with `partitioner.learner.empty()` at each place."""
        self.learner = KeyLearner.merge([self.learner, *learners])

    def build(self) -> PartitionMap:
        """Draw a map of all that was learnt since the last one, whatever it moves."""
        self.map = build_map(self.learner, self.parts, split=self.split)
        self.last_change = f"drew a map from a load of {self.learner.total:,}"
        self._begin_again()
        return self.map

    def adapt(self, *, horizon: float, key_cost: float, event_cost: float = 1.0) -> Reconsidered:
        """Take another map if it is worth its migration, as `reconsider` says; then learn anew."""
        found = reconsider(self.map, self.learner, horizon=horizon, key_cost=key_cost, event_cost=event_cost)
        self.map = found.map
        self.last_change = str(found)
        self._begin_again()
        return found

    def _begin_again(self) -> None:
        self.learnt, self.learner = self.learner, self.learner.empty()

    def place(self, keys: Any, *, salts: Any = None) -> NDArray[np.int32]:
        """The part of each key."""
        return self.map.place(keys, salts=salts)

    def report(self) -> PartitionReport:
        """What was learnt and done."""
        return describe(self.map, self.learnt, last_change=self.last_change)

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """All that was learnt, and the map: a restart goes on from here."""
        writer = Writer()
        for blob in (self.learner.to_bytes(), self.learnt.to_bytes(), self.map.to_bytes(), self._note()):
            writer.numbers("I", len(blob))
            writer.raw(blob)
        parameters = Writer()
        parameters.numbers("d", 0.0 if self.split is None else -1.0 if self.split == PAIRS else float(self.split))
        return self._seal(parameters.getvalue(), writer.getvalue())

    def _note(self) -> bytes:
        return self.last_change.encode()[:_LONGEST_NOTE]

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> Partitioner:
        """The partitioner that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        (split,) = parameters.numbers("d")
        parameters.finish()
        partitioner = cls.__new__(cls)
        partitioner.split = None if split == 0 else PAIRS if split == -1 else split
        partitioner._read(payload)
        payload.finish()
        return partitioner

    def _read(self, reader: Reader) -> None:
        self.learner = KeyLearner.from_bytes(reader.raw(*reader.numbers("I")))
        self.learnt = KeyLearner.from_bytes(reader.raw(*reader.numbers("I")))
        self.map = PartitionMap.from_bytes(reader.raw(*reader.numbers("I")))
        try:
            self.last_change = bytes(reader.raw(*reader.numbers("I"))).decode()
            build_map(self.learner.empty(), self.map.parts, split=self.split)
        except (UnicodeDecodeError, ParameterError) as problem:
            raise DamagedBytesError(f"a note or a split that cannot be: {problem}") from None
        fits = (self.map.buckets.size, self.map.seed) == (self.learner.buckets, self.learner.seed)
        if not fits or self.learner.parameters != self.learnt.parameters:
            raise DamagedBytesError(f"a map {self.map!r} with {self.learner!r} and {self.learnt!r}")
