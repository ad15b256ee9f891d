"""PartitionMap: which part every key belongs to; heavy keys by name, all others by their bucket."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.balance.key_learner import KeyLearner, spread_hashes
from catchment.balance.stored import Stored
from catchment.balance.unevenness import imbalance
from catchment.errors import DamagedBytesError, InputError, QueryError
from catchment.kernel.partition import SLOT_BITS, build_slots, find_heavy, place_spread
from catchment.sketch.codec import Writer
from catchment.sketch.keys import hash_keys

__all__ = ["MOST_HEAVY", "PartitionMap", "fitting"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

MOST_HEAVY = 1 << (SLOT_BITS - 2)
"""As many keys have a place of their own: a quarter of the slots that two runs of 16 bits can name."""

MOST_PARTS = 1 << 15
MOST_BUCKETS = 1 << 20
_NO_SALTS = np.zeros(0, dtype=np.uint64)


def slots_for(spread: U64) -> I32 | None:
    """A table in which each of these heavy keys stands in one of its two slots, or None if there is none."""
    bits = max(4, (4 * spread.size - 1).bit_length())
    while bits <= SLOT_BITS:
        slots = np.empty(1 << bits, dtype=np.int32)
        if build_slots(spread, slots):
            return slots
        bits += 1
    return None


def fitting(hashes: U64, seed: int) -> int:
    """How many of these heavy keys, from the first on, a map can hold: nearly always all, up to `MOST_HEAVY`."""
    count = min(hashes.size, MOST_HEAVY)
    while slots_for(spread_hashes(hashes[:count], seed)) is None:
        count -= 1
    return count


@dataclass(frozen=True, eq=False)
class PartitionMap(Stored):
    """A function from keys to `parts` parts that any number of places can apply alike; made by `build_map`.

    A heavy key has one part, or with `split` several *pieces*, each with a part: a row's salt then chooses among them.
    The same map gives the same parts here, in a kernel, and on Spark's JVM.

    Examples
    --------
    >>> from catchment.balance.partition_build import build_map
    >>> learner = KeyLearner(theta=0.1, buckets=64)
    >>> learner.update(["a"] * 60 + ["b"] * 30 + [f"rare {n}" for n in range(30)])
    >>> chart = build_map(learner, 2)
    >>> chart.place(["a", "b", "a"]).tolist(), chart.loads.tolist()
    ([0, 1, 0], [60, 60])
    """

    family: ClassVar[int] = 41

    parts: int
    seed: int
    heavy: U64
    """The hashes of the heavy keys."""
    starts: I64
    """Where in `choices` the pieces of each heavy key begin; one more for the end."""
    choices: I32
    """The part of each piece."""
    buckets: I32
    """The part of each bucket."""
    loads: I64
    """What each part would have had of the events that were learnt."""

    @property
    def split(self) -> bool:
        """Whether some key has pieces in several parts, so that its state must be merged."""
        return self.places > 1

    @cached_property
    def places(self) -> int:
        """The most parts that any key's state is spread over."""
        if self.choices.size == self.heavy.size:
            return 1
        return max((np.unique(self.parts_of(number)).size for number in range(self.heavy.size)), default=1)

    def parts_of(self, number: int) -> I32:
        """The parts of the pieces of a heavy key, by its number."""
        return self.choices[self.starts[number] : self.starts[number + 1]]

    @cached_property
    def slots(self) -> I32:
        """The table in which heavy keys are found: each by its number, -1 where there is none."""
        slots = slots_for(spread_hashes(self.heavy, self.seed))
        assert slots is not None  # whoever made this map has seen it
        return slots

    def place(self, keys: Any, *, salts: Any = None) -> I32:
        """The part of each key; `salts` are needed where keys are split: a hash of each row, so that rows spread."""
        return self.place_hashes(hash_keys(keys)[0], salts=salts)

    def place_hashes(self, hashes: U64, *, salts: Any = None) -> I32:
        """The part of each key by its hash, as `hash_keys` and Spark's `xxhash64` give it."""
        if self.split and salts is None:
            raise QueryError(
                f"keys of this map have pieces in up to {self.places} parts",
                "give salts=, a hash of each row, for instance hash_keys(row numbers)[0]",
            )
        chosen = _NO_SALTS if salts is None else np.ascontiguousarray(salts)
        if salts is not None and (chosen.dtype.kind not in "iu" or chosen.shape != hashes.shape):
            raise InputError(
                f"salts of type {chosen.dtype} and shape {chosen.shape}", "give one 64-bit integer for each key"
            )
        out = np.empty(hashes.size, dtype=np.int32)
        place_spread(
            hashes, spread_hashes(hashes, self.seed), chosen.astype(np.uint64, copy=False), self.slots, self.heavy,
            self.starts, self.choices, self.buckets, out,
        )  # fmt: skip
        return out

    def numbers_of(self, hashes: U64) -> I64:
        """The number of each key among the heavy ones, or -1."""
        out = np.empty(hashes.size, dtype=np.int64)
        find_heavy(hashes, spread_hashes(hashes, self.seed), self.slots, self.heavy, out)
        return out

    def expected_loads(self, learner: KeyLearner) -> NDArray[np.float64]:
        """What each part would have of the events that a learner saw, be it newer than this map or not."""
        known = learner.heavy_keys().hashes
        known = np.concatenate([self.heavy, known[self.numbers_of(known) < 0]])
        weights, rest = learner.loads_of(known)
        loads = np.zeros(self.parts)
        if learner.buckets == self.buckets.size and learner.seed == self.seed:
            loads += np.bincount(self.buckets, weights=rest, minlength=self.parts)
        else:  # learnt with other buckets: what is in them is spread over ours, and so over the parts, evenly
            loads += rest.sum() * np.bincount(self.buckets, minlength=self.parts) / self.buckets.size
        pieces = np.diff(self.starts)
        np.add.at(loads, self.choices, np.repeat(weights[: self.heavy.size] / np.maximum(pieces, 1), pieces))
        others = known[self.heavy.size :]
        np.add.at(loads, self.place_hashes(others, salts=others if self.split else None), weights[self.heavy.size :])
        return loads

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.raw(self.heavy.astype("<u8"))
        writer.integers(np.diff(self.starts))
        writer.integers(self.choices)
        writer.integers(self.buckets)
        writer.integers(self.loads)
        parameters = Writer()
        parameters.numbers("IQIII", self.parts, self.seed, self.heavy.size, self.choices.size, self.buckets.size)
        return self._seal(parameters.getvalue(), writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> PartitionMap:
        """The map that gave these bytes; a `BytesError` for any others."""
        parameters, reader = cls._open(blob)
        parts, seed, heavy, choices, buckets = parameters.numbers("IQIII")
        parameters.finish()
        if not (1 <= parts <= MOST_PARTS and seed < 2**63 and heavy <= MOST_HEAVY and 1 <= buckets <= MOST_BUCKETS):
            raise DamagedBytesError(f"a map of {parts} parts, {heavy} heavy keys and {buckets} buckets")
        hashes = np.frombuffer(reader.raw(8 * heavy), dtype="<u8").astype(np.uint64)
        pieces = reader.integers(heavy, np.int64, low=1, high=max(choices, 1))
        if int(pieces.sum()) != choices:
            raise DamagedBytesError(f"{choices} pieces for heavy keys that have {pieces.sum()}")
        read = cls(
            parts, seed, hashes, np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces)]),
            reader.integers(choices, np.int32, low=0, high=parts - 1),
            reader.integers(buckets, np.int32, low=0, high=parts - 1),
            reader.integers(parts, np.int64, low=0, high=2**62),
        )  # fmt: skip
        reader.finish()
        if np.unique(hashes).size != heavy or slots_for(spread_hashes(hashes, seed)) is None:
            raise DamagedBytesError("a heavy key twice, or heavy keys that have no slots")
        return read

    def __hash__(self) -> int:  # type: ignore[override]  # unlike what learns, a map does not change
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return (
            f"PartitionMap({self.parts} parts, {self.heavy.size} heavy keys, {self.buckets.size} buckets, "
            f"imbalance {imbalance(self.loads):.1f} %)"
        )
