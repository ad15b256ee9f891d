"""Space Saving: which keys are the heaviest? With the keys themselves, and bounds that never fail."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.errors import DamagedBytesError, ParameterError, QueryError
from catchment.kernel.space_saving import build_table, find_slots, sum_by_hash, update_space_saving
from catchment.sketch.base import Sketch
from catchment.sketch.checks import (
    MASS_LIMIT,
    are_ones,
    as_weights,
    check_choice,
    check_fraction,
    check_mass,
    check_total,
    check_whole,
    read_mass,
)
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.items import ItemStore
from catchment.sketch.keys import as_keys, hash_keys

__all__ = ["SpaceSaving"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

_FIRST_ROOM = 64

NO_FALSE_POSITIVES = "no_false_positives"
NO_FALSE_NEGATIVES = "no_false_negatives"


class SpaceSaving(Sketch):
    """The `capacity` heaviest keys, each with a count that is never too low and a known most it can be too high.

    **Guarantee.** Always, with N the total weight: for a key that is kept, `count - error <= f <= count`; for one
    that is not, `f <= floor`; error and floor are at most `epsilon * N`, epsilon = 1/(capacity + 1). So every key
    with f > epsilon * N is kept. It stays so after any tree of merges.

    *Proof.* Write c for a kept count and F for the floor. (1) c - error is weight that was counted while the key was
    kept. A key that enters with weight w gets c = F + w and error F, and by induction had f <= F before. (2) Claim:
    (capacity + 1) F + sum(c - F) <= N. A hit adds w to both sides. A key that enters when all slots are taken makes
    capacity + 1 values c - F; the smallest, t, is dropped, its count being the new floor F + t: the floor's term
    grows by (capacity + 1) t while each of the capacity + 1 values loses t, and the dropped one is then zero. (3)
    Merging adds counts, with the floor of a part for a key that it lacks, adds errors likewise, and floors; keeps the
    `capacity` largest, and makes the largest count that is dropped the floor: the same step with more than one key
    over, each of which loses at least what the smallest kept one does. (2) then gives F <= N/(capacity + 1).

    Among equal counts the first slot gives way, and bytes keep the order of slots, so the state is a function of the
    events in their order, whatever the batching.
    This is Space Saving with its floor kept apart from the smallest counter, the form in which it equals Misra-Gries
    (Agarwal et al., 2013) and in which merging costs nothing: with the smallest counter as floor, a merge would
    forget how little the absent keys can weigh.

    Two keys are the same if their 64-bit hashes are: never for integers, and for n distinct strings with probability
    at most n^2/2^65 for any pair at all.

    **Where a simpler one wins.** When the distinct keys fit in memory, a group-by is exact.

    Parameters
    ----------
    epsilon
        The largest error as a fraction of the total weight. `delta` does not appear: nothing is random.

    Examples
    --------
    >>> sketch = SpaceSaving(epsilon=0.1)
    >>> sketch.update(["a"] * 5 + ["b"] * 3 + ["c"])
    >>> [(key, answer.value) for key, answer in sketch.top(2)]
    [('a', 5), ('b', 3)]
    >>> sketch.heavy_hitters(phi=0.5).keys
    ('a',)

    References
    ----------
    A. Metwally, D. Agrawal, A. El Abbadi: Efficient computation of frequent and top-k elements, ICDT 2005.
    P. Agarwal, G. Cormode, Z. Huang, J. Phillips, Z. Wei, K. Yi: Mergeable summaries, TODS 38(4), 2013.
    """

    family: ClassVar[int] = 3
    linear = False
    names_keys = True
    measures = {"estimate": "frequency", "total": "total"}
    _layout = {"capacity": "I"}

    capacity: int

    def __init__(self, epsilon: float = 0.001) -> None:
        self._configure(**self.suggest(epsilon))
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float = 0.01) -> dict[str, Any]:
        """The capacity for an error of epsilon; delta is accepted for uniformity and changes nothing.

        >>> SpaceSaving.suggest(0.001)
        {'capacity': 999}
        """
        return {"capacity": max(1, math.ceil(1 / check_fraction("epsilon", epsilon) - 1e-9) - 1)}

    def _configure(self, *, capacity: int) -> None:
        self.capacity = check_whole("capacity", capacity, 1, 2**26)

    def _clear(self) -> None:
        self._used, self._floor, self._total = 0, 0, 0
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._counts, self._errors = np.zeros((2, 0), dtype=np.int64)
        self._items = ItemStore(0)
        self._make_room(_FIRST_ROOM)

    def _make_room(self, slots: int) -> None:
        """Have at least that many slots, up to the capacity: a young sketch is small."""
        before = self._counts.size
        room = min(self.capacity, slots)
        if room <= before and room:
            return
        room = min(self.capacity, max(room, 2 * before))
        self._hashes, self._counts, self._errors = (
            np.concatenate([old, np.zeros(room - before, dtype=old.dtype)])
            for old in (self._hashes, self._counts, self._errors)
        )
        self._items.make_slots(room)
        self._ranks = np.zeros(room, dtype=np.int64)
        self._heap = np.zeros(room, dtype=np.int32)
        self._table = np.full(1 << (2 * room - 1).bit_length(), -1, dtype=np.int32)
        build_table(self._table, self._hashes, self._used)

    @property
    def epsilon(self) -> float:
        return 1 / (self.capacity + 1)

    @property
    def floor(self) -> int:
        """No key that is not kept has a frequency above this."""
        return self._floor

    @property
    def guarantee(self) -> str:
        return f"truth in [count - error, count], error <= {self.epsilon:.3g} * total, always"

    def update(self, keys: Any, *, weights: Any = 1) -> None:
        """Count each key once, or by its weight: integers, not negative."""
        batch = as_keys(keys)
        if are_ones(weights):
            shares, total = np.ones(1, dtype=np.int64), check_total("events", self._total + len(batch))
        else:
            shares = as_weights(weights, len(batch))
            total = check_mass("weights", self._total, shares)
        self._make_room(self._used + len(batch))
        origin = np.full(self._counts.size, -1, dtype=np.int64)
        used, floor = update_space_saving(
            self._hashes, self._counts, self._errors, self._table, self._heap, self._ranks,
            self._used, self.capacity, self._floor, batch.hashes(), shares, origin,
        )  # fmt: skip
        claimed = np.flatnonzero(origin >= 0)
        if claimed.size:
            self._items.put(claimed, batch, origin[claimed])
        self._used, self._floor, self._total = int(used), int(floor), total

    def estimate(self, keys: Any) -> Answer:
        """How often each key was seen: its count, or 0 for a key that is not kept, whose `high` is the floor."""
        hashes, scalar = hash_keys(keys)
        slots = np.empty(hashes.size, dtype=np.int64)
        find_slots(self._table, self._hashes, hashes, slots)
        kept = slots >= 0
        value = np.where(kept, self._counts[slots], 0)
        low = np.where(kept, self._counts[slots] - self._errors[slots], 0)
        high = np.where(kept, value, self._floor)
        answer = self._answer(value, low, high)
        return answer[0] if scalar else answer

    def top(self, k: int) -> Ranking:
        """The k keys with the largest counts; fewer when fewer are kept, and the note says why."""
        check_whole("k", k, 1, 2**31)
        slots = self._ordered_slots()[:k]
        note = ""
        if slots.size < k:
            seen = (
                "seen" if self._floor == 0 else f"kept, being the capacity; build with epsilon below {1 / (k + 1):.2g}"
            )
            note = f"only {slots.size} keys were {seen}"
        return self._ranking(slots, note)

    def heavy_hitters(
        self, phi: float | None = None, *, count: int | None = None, mode: str = NO_FALSE_NEGATIVES
    ) -> Ranking:
        """The keys with frequency at least `phi * N`, or at least `count`.

        `no_false_negatives` returns every such key, and maybe some below; `no_false_positives` returns only such
        keys, and maybe not all. The first needs a threshold above the floor, or raises `QueryError`.
        """
        check_choice("mode", mode, (NO_FALSE_NEGATIVES, NO_FALSE_POSITIVES))
        threshold = self._threshold(phi, count)
        if mode == NO_FALSE_NEGATIVES and threshold <= self._floor:
            raise QueryError(
                f"keys up to a frequency of {self._floor} may be missing here, and the threshold is {threshold:g}",
                f"ask for more, or build with an epsilon below {threshold / max(self._total, 1):.3g}",
            )
        slots = self._ordered_slots()
        sure = self._counts[slots] - (self._errors[slots] if mode == NO_FALSE_POSITIVES else 0)
        return self._ranking(slots[sure >= threshold], "")

    def _threshold(self, phi: float | None, count: int | None) -> float:
        if (phi is None) == (count is None):
            raise ParameterError(f"phi={phi!r} and count={count!r}", "give exactly one of them")
        if count is not None:
            return check_whole("count", count, 1, MASS_LIMIT)
        # At least 1: on an empty sketch nothing is heavy.
        return max(check_fraction("phi", phi if phi is not None else 0.0) * self._total, 1)

    def total(self) -> Answer:
        """The sum of all weights, exactly."""
        return Answer(self._total, self._total, self._total, confidence=1.0, epsilon=0.0)

    def _ordered_slots(self) -> I64:
        """Heaviest first, equal ones by hash."""
        return np.lexsort((self._hashes[: self._used], -self._counts[: self._used]))

    def _ranking(self, slots: I64, note: str) -> Ranking:
        counts = self._counts[slots]
        return Ranking(self._items.get(slots), self._answer(counts, counts - self._errors[slots], counts.copy()), note)

    def _answer(self, value: Any, low: Any, high: Any) -> Answer:
        return Answer(value, low, high, confidence=1.0, epsilon=self.epsilon)

    def _absorb(self, others: list[SpaceSaving]) -> None:
        """Add counts over the union of the keys and keep the largest: all parts at once, so their order is free."""
        total = check_mass("merging", self._total, np.array([other._total for other in others], dtype=np.int64))
        parts = [part for part in (self, *others) if part._total]
        if len(parts) == 1:
            vars(self).update(vars(parts[0].copy()))
        if len(parts) <= 1:
            return
        parts = [copy(part) if part is self else part for part in parts]  # its arrays stay, though it is cleared
        sizes = np.array([part._used for part in parts])
        starts = np.cumsum(sizes) - sizes
        numbers = np.repeat(np.arange(len(parts)), sizes)
        hashes, counts, errors, kinds = (
            np.concatenate(kept)
            for kept in zip(
                *(
                    (p._hashes[: p._used], p._counts[: p._used], p._errors[: p._used], p._items.kinds(p._used))
                    for p in parts
                ),
                strict=True,
            )
        )
        # A part that does not have a key may have dropped it at any count up to its floor.
        floors = np.array([part._floor for part in parts])
        floor, above = int(floors.sum()), floors[numbers]
        union, named = np.empty_like(hashes), np.empty_like(counts)
        sums, wrongs = np.empty_like(counts), np.empty_like(counts)
        table = np.empty(1 << (2 * hashes.size).bit_length(), dtype=np.int32)
        # Parts may name one key differently, as text or as bytes: the first kind wins, whatever their order.
        used = sum_by_hash(table, hashes, kinds, counts - above, errors - above, union, sums, wrongs, named)
        union, sums, wrongs = union[:used], floor + sums[:used], floor + wrongs[:used]
        best, next_ = _heaviest(sums, union, self.capacity)
        self._clear()
        self._make_room(best.size)
        self._used, self._total = best.size, total
        self._floor = max(floor, next_)
        self._hashes[: best.size], self._counts[: best.size] = union[best], sums[best]
        self._errors[: best.size] = wrongs[best]
        sources = numbers[named[best]]
        self._items.take([part._items for part in parts], sources, named[best] - starts[sources])
        build_table(self._table, self._hashes, self._used)

    def _write(self, writer: Writer) -> None:
        slots = np.arange(self._used)
        writer.numbers("qqI", self._total, self._floor, self._used)
        writer.integers(self._counts[slots])
        writer.integers(self._errors[slots])
        self._items.write(writer, slots)

    def _read(self, reader: Reader) -> None:
        total, floor, used = reader.numbers("qqI")
        if used > self.capacity or not 0 <= floor <= read_mass(total):
            raise DamagedBytesError(f"{used} items, floor {floor} of {total}")
        counts = reader.integers(used, np.int64, low=1, high=total)
        errors = reader.integers(used, np.int64, low=0, high=total)
        items = ItemStore.read(reader, used)
        hashes = items.hashes(np.arange(used))
        if np.unique(hashes).size != used or np.any(errors >= counts) or np.any(counts < floor):
            raise DamagedBytesError("an item twice, or a count that cannot be")
        self._clear()
        self._make_room(used)
        self._used, self._floor, self._total = used, floor, total
        self._hashes[:used], self._counts[:used], self._errors[:used] = hashes, counts, errors
        self._items = items
        self._items.make_slots(self._counts.size)
        build_table(self._table, self._hashes, used)


def _heaviest(counts: I64, hashes: U64, most: int) -> tuple[I64, int]:
    """The places of the largest counts, of equal ones those with the smallest hashes, in order; and the next count.

    >>> places, following = _heaviest(np.array([5, 9, 5, 7]), np.array([4, 3, 2, 1], dtype=np.uint64), 3)
    >>> places.tolist(), following
    ([1, 3, 2], 5)
    """
    places = np.arange(counts.size)
    if counts.size > most:  # sort only those that may be among them
        places = np.flatnonzero(counts >= np.partition(counts, counts.size - most - 1)[counts.size - most - 1])
    places = places[np.lexsort((hashes[places], -counts[places]))]
    return places[:most], int(counts[places[most]]) if places.size > most else 0
