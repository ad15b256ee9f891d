"""KeyLearner: how a stream's load lies on its keys; what balanced partitioning learns before it draws a map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.balance.stored import Stored
from catchment.errors import DamagedBytesError, MergeError, ParameterError
from catchment.kernel.hashing import SPARK_SEED, hash_int64s
from catchment.kernel.partition import count_buckets, find_buckets
from catchment.sketch.checks import MASS_LIMIT, are_ones, as_weights, check_fraction, check_mass, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch, as_keys, hash_keys
from catchment.sketch.space_saving import SpaceSaving
from catchment.sketch.ultraloglog import UltraLogLog

__all__ = ["HeavyKeys", "KeyLearner", "spread_hashes"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

_MOST_BUCKETS = 1 << 20
_DISTINCT = {"precision": 10, "delta": 0.05}


def spread_hashes(hashes: U64, seed: int) -> U64:
    """The keys' hashes hashed once more, by the seed: Spark's `xxhash64(seed, hash)`, both as bigint.

    A stream may hold only keys of certain hashes, for instance one part of another partitioning; this makes them even.
    """
    draw, out = np.empty(1, dtype=np.uint64), np.empty(hashes.size, dtype=np.uint64)
    hash_int64s(np.array([seed], dtype=np.uint64).view(np.int64), SPARK_SEED, draw)
    hash_int64s(np.ascontiguousarray(hashes).view(np.int64), draw[0], out)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class HeavyKeys:
    """The heavy keys of a learner, the heaviest first: by name, by hash, and what each weighs."""

    keys: tuple[Any, ...]
    hashes: U64
    loads: I64

    def __len__(self) -> int:
        return len(self.keys)


class KeyLearner(Stored):
    """Heavy keys one by one, all others by the bucket: the learning phase of BPART and DKG.

    **Guarantee.** Every key with more than `theta` of the total weight is among `heavy_keys()`, always; what is said of
    its weight is wrong by at most `theta / 4` of the total. The loads of buckets are exact. It stays so after any tree
    of merges, so a stream may be learnt at many places at once.

    *Proof.* Space Saving with epsilon = theta/2 keeps every key above theta/2 of the total and knows its weight within
    an interval no longer than that; the middle of it is taken, and cut to what its bucket holds.

    **Where a simpler one wins.** Where keys are even and many, plain hashing is as good and learns nothing.

    Parameters
    ----------
    theta
        The share of the total above which a key is heavy: 1/(64 * parts) is a good choice, since what is below is
        moved about in buckets only.
    buckets
        Into how many buckets the other keys fall: 64 for each part are plenty.
    seed
        Chooses the buckets' hash function: the same at all places whose learners are to be merged.

    Examples
    --------
    >>> learner = KeyLearner(theta=0.1, buckets=64)
    >>> learner.update(["a"] * 60 + ["b"] * 30 + [f"rare {n}" for n in range(10)])
    >>> heavy = learner.heavy_keys()
    >>> heavy.keys, heavy.loads.tolist(), learner.total
    (('a', 'b'), [60, 30], 100)

    References
    ----------
    N. Rivetti, L. Querzoni, E. Anceaume, Y. Busnel, B. Sericola: Efficient key grouping for near-optimal load
    balancing in stream processing systems, DEBS 2015.
    """

    family = 40

    def __init__(self, theta: float = 0.001, buckets: int = 1024, *, seed: int = 0) -> None:
        self.theta = check_fraction("theta", theta)
        if self.theta < 1e-6:
            raise ParameterError(f"theta={theta!r}", "give at least 0.000001: lighter keys need no place of their own")
        self.buckets = check_whole("buckets", buckets, 1, _MOST_BUCKETS)
        self.seed = check_whole("seed", seed, 0, 2**63 - 1)
        self._heavy = SpaceSaving(epsilon=self.theta / 2)
        self._distinct = UltraLogLog.sized(**_DISTINCT)
        self._loads = np.zeros(self.buckets, dtype=np.int64)
        self._mass = 0
        self._events = 0

    @classmethod
    def for_parts(cls, parts: int, *, theta: float | None = None, mu: int = 64, seed: int = 0) -> KeyLearner:
        """A learner for a map of so many parts, by the thesis's parameters: `mu` buckets a part, theta 1/(64 parts).

        >>> KeyLearner.for_parts(8)
        KeyLearner(theta=0.00195312, buckets=512, seed=0)
        """
        parts = check_whole("parts", parts, 1, 1 << 15)
        mu = check_whole("mu", mu, 1, _MOST_BUCKETS // parts)
        return cls(1 / (64 * parts) if theta is None else theta, parts * mu, seed=seed)

    @property
    def parameters(self) -> dict[str, Any]:
        """Learners merge when these are equal."""
        return {"theta": self.theta, "buckets": self.buckets, "seed": self.seed}

    @property
    def total(self) -> int:
        """The weight of all events."""
        return self._mass

    @property
    def events(self) -> int:
        """How many there were: what was learnt of a share is as sure as that many tosses of a coin make it."""
        return self._events

    @property
    def bucket_loads(self) -> I64:
        """What each bucket has, heavy keys included: exact."""
        return self._loads.copy()

    def distinct(self) -> Answer:
        """How many different keys there were."""
        return self._distinct.estimate()

    def update(self, keys: Any, *, weights: Any = 1) -> None:
        """Take in keys, each once or by its weight: what an event of it costs, as an integer that is not negative."""
        batch = as_keys(keys)
        ones = are_ones(weights)
        shares = np.ones(1, dtype=np.int64) if ones else as_weights(weights, len(batch))
        mass = self._mass + len(batch) if ones else check_mass("weights", self._mass, shares)
        self._heavy.update(batch, weights=1 if ones else shares)  # refuses what cannot be, before anything is changed
        self._mass, self._events = mass, self._events + len(batch)
        at = 0
        for block in batch.blocks():
            hashes = block.hashes()
            part = shares if ones else shares[at : at + hashes.size]
            if not ones:
                hashes, part = hashes[part > 0], part[part > 0]
            count_buckets(self._loads, spread_hashes(hashes, self.seed), part if part.size else np.ones(1, np.int64))
            self._distinct.update(KeyBatch.of_hashes(hashes))
            at += len(block)

    def buckets_of(self, hashes: U64) -> I32:
        """The bucket of each key, by its hash."""
        out = np.empty(hashes.size, dtype=np.int32)
        find_buckets(spread_hashes(hashes, self.seed), self.buckets, out)
        return out

    def estimate(self, keys: Any) -> Answer:
        """What each key weighs: what Space Saving knows, and no more than its bucket holds."""
        hashes, scalar = hash_keys(keys)
        known = self._heavy.estimate(KeyBatch.of_hashes(hashes))
        high = np.minimum(known.high, self._loads[self.buckets_of(hashes)])
        low = np.minimum(known.low, high)
        kept = np.asarray(known.value) > 0
        answer = Answer(np.where(kept, (low + high) // 2, 0), low, high, confidence=1.0, epsilon=self.theta / 2)
        return answer[0] if scalar else answer

    def heavy_keys(self) -> HeavyKeys:
        """The keys that may have more than theta of the total, the heaviest first."""
        ranking = self._heavy.heavy_hitters(self.theta)
        hashes = _hashes_of(ranking.keys)
        loads = np.asarray(self.estimate(KeyBatch.of_hashes(hashes)).value, dtype=np.int64)
        order = np.lexsort((hashes, -loads))
        return HeavyKeys(tuple(ranking.keys[place] for place in order.tolist()), hashes[order], loads[order])

    def loads_of(self, hashes: U64) -> tuple[I64, I64]:
        """What these keys weigh, and what is left in each bucket without them."""
        loads = np.asarray(self.estimate(KeyBatch.of_hashes(hashes)).value, dtype=np.int64)
        rest = self._loads.copy()
        np.subtract.at(rest, self.buckets_of(hashes), loads)
        return loads, np.maximum(rest, 0)  # two heavy keys in one bucket may both be taken for too much

    # -- together and as bytes --------------------------------------------------------------------------------

    @classmethod
    def merge(cls, learners: Iterable[KeyLearner]) -> KeyLearner:
        """One learner of all their events; the parts stay as they were. `MergeError` says in what they differ."""
        parts = list(learners)
        if not parts:
            raise MergeError("nothing to merge", "give at least one learner")
        for part in parts:
            if not isinstance(part, KeyLearner):
                raise MergeError(f"a {type(part).__name__} among the parts", "give objects of KeyLearner")
            for name, one in parts[0].parameters.items():
                other = part.parameters[name]
                if one != other:
                    raise MergeError(f"{name} differs: {one!r} and {other!r}", f"build all parts with one {name}")
        merged = parts[0].empty()
        merged._heavy = SpaceSaving.merge(part._heavy for part in parts)
        merged._distinct = UltraLogLog.merge(part._distinct for part in parts)
        merged._loads = np.sum([part._loads for part in parts], axis=0, dtype=np.int64)
        merged._mass, merged._events = sum(part._mass for part in parts), sum(part._events for part in parts)
        return merged

    def empty(self) -> KeyLearner:
        """A new learner that can be merged with this one."""
        return KeyLearner(self.theta, self.buckets, seed=self.seed)

    def to_bytes(self) -> bytes:
        writer = Writer()
        for blob in (self._heavy.to_bytes(), self._distinct.to_bytes()):
            writer.numbers("I", len(blob))
            writer.raw(blob)
        writer.numbers("Q", self._events)
        writer.integers(self._loads)
        parameters = Writer()
        parameters.numbers("dIQ", self.theta, self.buckets, self.seed)
        return self._seal(parameters.getvalue(), writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> KeyLearner:
        """The learner that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        theta, buckets, seed = parameters.numbers("dIQ")
        parameters.finish()
        try:
            learner = cls(theta, buckets, seed=seed)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
        learner._read(payload)
        payload.finish()
        return learner

    def _read(self, reader: Reader) -> None:
        heavy = SpaceSaving.from_bytes(reader.raw(*reader.numbers("I")))
        distinct = UltraLogLog.from_bytes(reader.raw(*reader.numbers("I")))
        if heavy.parameters != self._heavy.parameters or distinct.parameters != self._distinct.parameters:
            raise DamagedBytesError(f"{heavy!r} and {distinct!r} in a {self!r}")
        (self._events,) = reader.numbers("Q")
        loads = reader.integers(self.buckets, np.int64, low=0, high=MASS_LIMIT)
        total = int(heavy.total().value)
        # In floating point first, since many loads could wrap around to a sum that looks right.
        if loads.sum(dtype=np.float64) > 2 * MASS_LIMIT or int(loads.sum()) != total:
            raise DamagedBytesError(f"buckets that do not add up to {total}")
        self._heavy, self._distinct, self._loads, self._mass = heavy, distinct, loads, total

    def __repr__(self) -> str:
        return f"KeyLearner(theta={self.theta:g}, buckets={self.buckets}, seed={self.seed})"


def _hashes_of(keys: tuple[Any, ...]) -> U64:
    """The hashes of keys that may be of several types."""
    hashes = np.empty(len(keys), dtype=np.uint64)
    for kind in (int, str, bytes):
        places = [place for place, key in enumerate(keys) if isinstance(key, kind)]
        if places:
            hashes[places] = hash_keys([keys[place] for place in places])[0]
    return hashes
